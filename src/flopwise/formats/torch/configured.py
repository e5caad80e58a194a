"""Inputs that follow from the configuration of a Hugging Face model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.readers.inputs import Dims

#: Sizes that are free, and what they are when nobody says.
BATCH, SEQUENCE, TARGET = 1, 128, 128

#: What configurations call the longest text, and the number of frequencies in a spectrum.
_LONGEST = ("max_position_embeddings", "n_positions")
_BINS = ("feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins", "feature_size", "input_dim")


def configured(model: object, names: Sequence[str], sizes: Dims | None = None) -> dict[str, tuple[int, ...]] | None:
    """A shape for each input that a model needs; None for a model without such a configuration.

    Args:
        model: the module.
        names: parameters of its forward().
        sizes: values of "batch", "sequence" and "target" where they are not 1, 128 and 128.
    """
    config = getattr(model, "config", None)
    if not hasattr(config, "model_type"):
        return None
    sizes = sizes or Dims()
    batch, length = sizes.get("batch", BATCH), sizes.get("sequence", _text_length(config))
    main = getattr(model, "main_input_name", "input_ids")
    shapes: dict[str, tuple[int, ...]] = {}
    if "pixel_values" in names and not _in_text(config, "image"):
        shapes["pixel_values"] = (batch, *_image(getattr(config, "vision_config", None) or config))
    if "input_features" in names and not _in_text(config, "audio"):
        shapes["input_features"] = (batch, *_spectrum(config, main == "input_features", length))
    if "input_values" in names and main == "input_values":
        shapes["input_values"] = (batch, *_sound(config, sizes.get("sequence", 16000)))
    needs_text = main == "input_ids" or "text_config" in vars(config) or not shapes
    if "input_ids" in names and needs_text:
        shapes |= {name: (batch, length) for name in ("input_ids", "attention_mask") if name in names}
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
        longest = _number(config, "max_target_positions") or TARGET
        shapes["decoder_input_ids"] = (batch, sizes.get("target", min(TARGET, longest)))
    return shapes or None


def _text_length(config: object) -> int:
    """Tokens of a text: 128, or as many as the model takes at most."""
    parts = (getattr(config, "text_config", None) or config, config)
    limits = [_number(part, *_LONGEST) or 0 for part in parts]  # -1 where there is none
    return min(SEQUENCE, next((limit for limit in limits if limit > 0), SEQUENCE))


def _image(vision: object) -> tuple[int, ...]:
    """Frames of a film, channels, height and width."""
    side: Any = getattr(vision, "image_size", None) or 224
    height, width = (side, side) if isinstance(side, int) else tuple(side)[:2]
    frames = _number(vision, "num_frames")
    return (*((frames,) if frames else ()), _number(vision, "num_channels", "in_channels") or 3, height, width)


def _spectrum(config: object, main: bool, length: int) -> tuple[int, int]:
    """Moments and frequencies of a spectrum, in the order in which the model takes them.

    Args:
        config: the model's configuration.
        main: whether the spectrum is the model's main input.
        length: moments, where the configuration does not say how many.
    """
    sound = getattr(config, "audio_config", None) or getattr(config, "encoder_config", None) or config
    bins = _number(config, *_BINS) or _number(sound, *_BINS) or 80
    steps = _number(sound, "max_source_positions")
    rows = any(hasattr(config, name) for name in _BINS[:2])  # a row of frequencies for each moment
    if steps and not rows and (main or sound is not config):
        return bins, 2 * steps
    return length, bins


def _sound(config: object, samples: int) -> tuple[int, ...]:
    """Samples, channels and samples, or the rows of a spectrum."""
    bins = None if hasattr(config, "conv_kernel") else _number(config, "num_mel_bins")  # else it reads samples
    if bins:
        return _number(config, "max_length") or 1024, bins
    channels = _number(config, "audio_channels") or (1 if hasattr(config, "codebook_size") else None)
    return (samples,) if channels is None else (channels, samples)


def _in_text(config: object, kind: str) -> bool:
    """True if images or sounds take the places of tokens in the text; then text alone is a complete input."""
    return any(_number(config, f"{kind}_token_{word}") is not None for word in ("id", "index"))


def _number(config: object, *names: str) -> int | None:
    """The first of these that the configuration has as a whole number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
