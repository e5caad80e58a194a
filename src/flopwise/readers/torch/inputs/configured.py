"""Inputs that follow from the configuration of a Hugging Face model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Sizes that are free, and what they are when nobody says.
BATCH, SEQUENCE, TARGET = 1, 128, 128

#: What configurations call the longest text, and the number of frequencies in a spectrum.
_LONGEST = ("max_position_embeddings", "n_positions")
_BINS = ("feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins", "feature_size", "input_dim")


def configured(
    model: Any, names: Sequence[str], sizes: dict[str, int] | None = None
) -> dict[str, tuple[int, ...]] | None:
    """A shape for each input that a model needs; None for a model without such a configuration.

    Args:
        model: the module.
        names: parameters of its forward().
        sizes: values of "batch", "sequence" and "target" where they are not 1, 128 and 128.
    """
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "model_type"):
        return None
    sizes = sizes or {}
    batch = sizes.get("batch", BATCH)
    text = getattr(config, "text_config", None) or config
    limits = [_number(part, *_LONGEST) or 0 for part in (text, config)]  # -1 where there is none
    length = sizes.get("sequence", min(SEQUENCE, next((limit for limit in limits if limit > 0), SEQUENCE)))
    sound = getattr(config, "audio_config", None) or getattr(config, "encoder_config", None) or config
    main = getattr(model, "main_input_name", "input_ids")
    vision = getattr(config, "vision_config", None) or config
    shapes: dict[str, tuple[int, ...]] = {}
    if "pixel_values" in names and not _in_text(config, "image"):
        side: Any = getattr(vision, "image_size", None) or 224
        height, width = (side, side) if isinstance(side, int) else tuple(side)[:2]
        frames = (_number(vision, "num_frames") or 0,) if _number(vision, "num_frames") else ()
        shapes["pixel_values"] = (batch, *frames, _number(vision, "num_channels", "in_channels") or 3, height, width)
    if "input_features" in names and not _in_text(config, "audio"):
        bins = _number(config, *_BINS) or _number(sound, *_BINS) or 80
        steps = _number(sound, "max_source_positions")
        rows = any(hasattr(config, name) for name in _BINS[:2])  # a row of frequencies for each moment
        if steps and not rows and (main == "input_features" or sound is not config):
            shapes["input_features"] = (batch, bins, 2 * steps)
        else:
            shapes["input_features"] = (batch, length, bins)
    if "input_values" in names and main == "input_values":
        banks = None if hasattr(config, "conv_kernel") else _number(config, "num_mel_bins")  # else it reads samples
        samples = sizes.get("sequence", 16000)
        channels = _number(config, "audio_channels") or (1 if hasattr(config, "codebook_size") else None)
        shapes["input_values"] = (
            (batch, _number(config, "max_length") or 1024, banks)
            if banks
            else (batch, samples)
            if channels is None
            else (batch, channels, samples)
        )
    needs_text = main == "input_ids" or "text_config" in vars(config) or not shapes
    if "input_ids" in names and needs_text:
        shapes["input_ids"] = (batch, length)
        if "attention_mask" in names:
            shapes["attention_mask"] = (batch, length)
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
        shapes["decoder_input_ids"] = (
            batch,
            sizes.get("target", min(TARGET, _number(config, "max_target_positions") or TARGET)),
        )
    return shapes or None


def _in_text(config: Any, kind: str) -> bool:
    """Whether images or sounds take the places of tokens in the text; then text alone is a complete input."""
    return any(_number(config, f"{kind}_token_{word}") is not None for word in ("id", "index"))


def _number(config: Any, *names: str) -> int | None:
    """The first of these that the configuration has as a whole number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
