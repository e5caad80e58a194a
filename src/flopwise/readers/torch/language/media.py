"""Images and sound before a language model's prompt: what its own processor makes of them, and their encoder."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import in_words
from flopwise.formats.sources.text import JsonObject, json_object
from flopwise.formats.torch.containers import tensors_inside
from flopwise.formats.torch.kinds import Kwargs, Model
from flopwise.formats.torch.libraries import imported
from flopwise.formats.torch.read import graph_and_result
from flopwise.graph import Graph
from flopwise.readers.torch.language.config import offline, silent

#: Pixels of an image that is made to be resized.
MOST_PIXELS = 1 << 26

#: What parameters that mark valid frames of sound are called.
_MASKS = ("input_features_mask", "feature_attention_mask")


@dataclass(frozen=True)
class Encoded:
    """The tokens that an encoder makes of an image or of sound."""

    graph: Graph
    #: Tokens of the language model that it stands for.
    tokens: int
    notes: tuple[str, ...] = ()


class _Encoder(nn.Module):
    """The encoder and projector of a model, by the method that its own ``forward()`` calls."""

    def __init__(self, model: object, method: str) -> None:
        super().__init__()
        self.model = model
        self.method = method

    def forward(self, **inputs: object) -> object:
        """The features in the language model's width."""
        result = getattr(self.model, self.method)(**inputs)
        return getattr(result, "pooler_output", result)


def encoded_image(module: object, model: object, width: int, height: int) -> Encoded:
    """The encoder of an image of a size, as the model's own image processor cuts it.

    Args:
        module: a model of transformers.
        model: the path of its configuration, beside which a ``preprocessor_config.json`` may lie; or the module.
        width: pixels.
        height: pixels.

    Raises:
        InputError: the model takes no images, or the image is larger than the limit.
        ModelError: its processor or encoder fails.
    """
    name = type(module).__name__
    if not hasattr(module, "get_image_features"):
        raise InputError(f"{name}: takes no images among its tokens")
    if width * height > MOST_PIXELS:
        raise InputError(
            f"an image of {width:,} × {height:,} has more than the {MOST_PIXELS:,} pixels that are resized"
        )
    processor, settings, notes = _image_processor(module, model)
    takes = inspect.signature(module.get_image_features).parameters
    try:
        from PIL import Image

        with silent(), offline():
            arguments = processor(images=[Image.new("RGB", (width, height))], **{**settings, "return_tensors": "pt"})
    except ImportError as error:
        why = in_words(error, 200)
        raise ModelError(
            f"{name}: images need Pillow, some torchvision: pip install 'flopwise[images]' ({why})"
        ) from error
    except Exception as error:
        why = in_words(error, 300)
        raise ModelError(f"{name}: {type(processor).__name__} fails at {width} × {height}: {why}") from error
    inputs = {
        key: _handed(value) for key, value in arguments.items() if key in takes and isinstance(value, torch.Tensor)
    }
    return _encoded(module, "get_image_features", inputs, notes)


def _image_processor(module: Model, model: object) -> tuple[Any, Kwargs, tuple[str, ...]]:
    """The image processor of a model, what else its processor of text and images asks of it, and a note on its rule.

    Raises:
        InputError: transformers knows none for models of this type.
    """
    transformers = imported("transformers")
    automatic = "transformers.models.auto"
    image_processors = import_module(f"{automatic}.image_processing_auto").IMAGE_PROCESSOR_MAPPING_NAMES
    processors = import_module(f"{automatic}.processing_auto").PROCESSOR_MAPPING_NAMES
    kind = module.config.model_type
    stated = _stated(model)
    named = str(stated.get("image_processor_type", "")).removesuffix("Fast").removesuffix("Pil")
    choices: Any = image_processors.get(kind) or {}
    names = [f"{named}Pil", named] if named else [choices.get("pil"), choices.get("torchvision")]
    maker = next((one for one in (getattr(transformers, str(name), None) for name in names) if one is not None), None)
    if not isinstance(maker, type):
        raise InputError(f"{type(module).__name__}: transformers has no image processor for {kind}")
    joint = getattr(transformers, str(processors.get(kind)), None)
    settings = dict(getattr(joint, "images_kwargs", {}) or {})
    with silent():
        processor: Any = maker.from_dict(dict(stated)) if stated else maker()  # type: ignore[attr-defined]
    if stated:
        return processor, settings, ()
    settings.update(_size_of_encoder(module.config, processor))
    why = f"images are cut by the defaults of {maker.__name__}: there is no preprocessor_config.json"
    return processor, settings, (why,)


def _stated(model: object) -> JsonObject:
    """The image processor's settings beside a configuration; empty where there are none."""
    if not isinstance(model, (str, os.PathLike)):
        return {}
    name = os.fsdecode(model)
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    joint = json_object(os.path.join(folder, "processor_config.json")).get("image_processor")
    return json_object(os.path.join(folder, "preprocessor_config.json")) or (joint if isinstance(joint, dict) else {})


def _size_of_encoder(config: object, processor: object) -> Kwargs:
    """The sizes of images and patches that an encoder takes, in place of a processor's defaults."""
    vision = getattr(config, "vision_config", None)
    patches = {}
    for key in ("patch_size", "temporal_patch_size", "merge_size"):
        value = getattr(vision, "spatial_merge_size" if key == "merge_size" else key, None)
        if hasattr(processor, key) and isinstance(value, int):
            patches[key] = value
    size = getattr(vision, "image_size", None)
    size = size[0] if isinstance(size, (list, tuple)) else size
    return {**patches, **(_size_of_image(size, processor) if isinstance(size, int) else {})}


def _size_of_image(size: int, processor: Any) -> Kwargs:
    """The settings of a processor for square images of one size, or for the longer side of any."""
    own = {key: value for key, value in dict(processor.size or {}).items() if value is not None}
    square = {"height": size, "width": size}
    crop = {"crop_size": square} if getattr(processor, "crop_size", None) else {}
    if own.keys() == {"shortest_edge"}:
        return {"size": {"shortest_edge": size}, **crop}
    return {"size": square, **crop} if own.keys() == {"height", "width"} else {}


def encoded_sound(module: Model, model: object, seconds: float) -> Encoded:
    """The encoder of so many seconds of sound in a language model, in windows of its encoder's length.

    Args:
        module: a model of transformers.
        model: the path of its configuration, or the module.
        seconds: of sound.

    Raises:
        InputError: the model takes no sound in windows.
        ModelError: its encoder fails.
    """
    config = getattr(module.config, "audio_config", None)
    positions, bands = (getattr(config, key, None) for key in ("max_source_positions", "num_mel_bins"))
    if not hasattr(module, "get_audio_features") or not isinstance(positions, int) or not isinstance(bands, int):
        raise InputError(f"{type(module).__name__}: has no encoder of sound in windows of one length")
    frames = math.ceil(seconds * frames_per_second(model))
    length = 2 * positions
    windows = -(-frames // length)
    inputs: dict[str, object] = {"input_features": (windows, bands, length)}
    for name in _MASKS:
        if name in inspect.signature(module.get_audio_features).parameters:
            valid = torch.arange(windows * length).reshape(windows, length) < frames
            inputs[name] = valid.to(torch.int64)
    notes = (f"{seconds:g} s of sound are {windows:,} windows of {length:,} frames",)
    return _encoded(module, "get_audio_features", inputs, notes)


@dataclass(frozen=True)
class Sound:
    """The input of an encoder in front of a decoder, for sound."""

    #: The length of its windows; None where it reads as much as there is.
    seconds: float | None
    #: Frames or samples of a second, and what they are called.
    per_second: int
    what: str


#: Bands of plain mel frames, of which none are joined.
_BANDS = (80, 128)


def sound_of_encoder(module: Model, model: object) -> Sound:
    """The input of the encoder of a model with a decoder, for sound.

    Raises:
        InputError: it reads none, or frames of an unknown length.
    """
    from flopwise.readers.torch.language.state import encoder_inputs

    short, longer = (encoder_inputs(module, length, 1) for length in (16, 48))
    if "input_values" in short:
        return Sound(None, int(_stated(model).get("sampling_rate", 16000)), "samples")
    shape = short.get("input_features", ())
    if len(shape) != 3 or not any(bands in shape[1:] for bands in _BANDS):
        raise InputError(f"{type(module).__name__}: reads no sound whose frames are known")
    rate = frames_per_second(model)
    return Sound(max(shape[1:]) / rate if short == longer else None, rate, "frames")


def frames_per_second(model: object) -> int:
    """Frames of a second of sound, by the feature extractor's settings beside a configuration; else those of Whisper:
    16,000 samples a second, a frame for each 160."""
    stated = _stated(model)
    rate, hop = stated.get("sampling_rate", 16000), stated.get("hop_length", 160)
    return int(rate) // int(hop)


def _encoded(module: Model, method: str, inputs: Mapping[str, object], notes: tuple[str, ...]) -> Encoded:
    """The run of an encoder."""

    def rows(features: object) -> int:
        return sum(math.prod(map(int, tensor.shape[:-1])) for _, tensor in tensors_inside(features))

    graph, tokens = graph_and_result(_Encoder(module, method).eval(), dict(inputs), rows)
    return Encoded(graph, tokens, notes)


def _handed(value: torch.Tensor) -> torch.Tensor:
    """A tensor for the reader: whole numbers as they are, others without memory."""
    return torch.empty(value.shape, dtype=value.dtype, device="meta") if value.is_floating_point() else value
