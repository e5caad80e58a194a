"""The arguments that a module is called with: what a caller describes or hands over, or what its configuration says."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.nn.modules.conv import _ConvNd

from flopwise._kinds import described
from flopwise._user_code import on_command_line
from flopwise.errors import InputError
from flopwise.formats.inputs import FORM, VALUE, Dims, InputSpec, input_specs, parse
from flopwise.formats.sources.location import naming
from flopwise.formats.torch.containers import ATOMS, attributes_of, copied, tensors_inside
from flopwise.formats.torch.description import WHOLE, Making, filled, is_shape, literal, position_name
from flopwise.formats.torch.kinds import Args, Kwargs
from flopwise.formats.torch.record.values import DTYPES, shape_of_input
from flopwise.graph import Kind, ProgramTensor, Tensor

#: Parameters of forward() that take the state that an earlier call returned, as the models of transformers call them.
#: The first three are one: since transformers 5.24 it is "cache".
STATES = ("past_key_values", "cache_params", "cache", "state", "mems", "past_buckets_states")


def argument_name(model: nn.Module, name: str) -> str:
    """The name of an argument in reports: the cache of transformers' models has the same one in all its releases."""
    return STATES[0] if name in STATES[:3] and hasattr(getattr(model, "config", None), "model_type") else name


class Arguments(NamedTuple):
    """The arguments of a call, and the graph tensor of each tensor among them."""

    args: Args
    kwargs: Kwargs
    tensors: dict[int, ProgramTensor]
    #: Inputs of which only the shape was given, by id: their elements are made up when they are needed.
    made: frozenset[int]
    #: What may have been meant otherwise, and how to say so; "" where nothing.
    doubt: str = ""
    #: How whole numbers are made up, as in ``filled``, and whether they count as unknown.
    way: int = 0
    strict: bool = False

    @property
    def listed(self) -> tuple[Tensor, ...]:
        """The graph tensors, in order."""
        return tuple(self.tensors.values())

    def copies(
        self, real: bool
    ) -> tuple[Args, Kwargs, dict[int, tuple[TorchTensor, ProgramTensor]], list[TorchTensor]]:
        """Arguments for one run, which may change them; each tensor among them with its graph tensor, by id; and those
        of which only the shape was given.

        Args:
            real: whether the run computes with the tensors, which are copied too, and made up where only the shape is
                known.

        Raises:
            InputError: a tensor without elements was handed over, and the run needs them.
        """
        tensors = {id(t): t for _, t in tensors_inside((self.args, self.kwargs))}
        if real:
            tensors = {key: self._real(tensor) for key, tensor in tensors.items()}
        shapes_alone = {} if real else {key: torch.empty_like(t) for key, t in tensors.items() if key in self.made}
        tensors |= shapes_alone
        args, kwargs = copied((self.args, self.kwargs), tensors)
        named = {id(tensor): (tensor, self.tensors[key]) for key, tensor in tensors.items()}
        return args, kwargs, named, list(shapes_alone.values())

    def cure(self, names: Iterable[str]) -> str:
        """How to give elements in place of those that were made up for inputs of these names."""
        listed = [t for t in self.listed if t.name in names]
        kinds = [(t.dtype or "int64").replace("uint", "u").replace("int", "i") for t in listed]
        shapes = ["x".join(map(str, t.dims)) for t in listed]
        texts = [f"-i {t.name}:{k}:{s}:@{t.name}.npy" for t, k, s in zip(listed, kinds, shapes, strict=True)]
        return f"give {' '.join(texts)}, in Python real tensors"

    def _real(self, tensor: TorchTensor) -> TorchTensor:
        name = self.tensors[id(tensor)].name
        if id(tensor) in self.made:
            return filled(tensor, name, self.way)
        if tensor.is_meta:
            raise InputError(f"input {name!r} is a meta tensor, and the module needs its elements")
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def parameters_of(model: nn.Module, needed: bool = False) -> list[str]:
    """Names of the parameters of forward(); with ``needed`` of those alone that have no default."""
    return [p.name for p in _signature(model) if p.default is p.empty or not needed]


def _signature(model: nn.Module) -> list[inspect.Parameter]:
    """The parameters of forward() that take one argument each."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def settle(
    model: nn.Module, inputs: object, dims: Mapping[str, int] | None, batch_size: int | None, source: str = ""
) -> Arguments:
    """The arguments of the call that is counted.

    Args:
        model: the module.
        inputs: a tensor, a shape, an object of the program's own, a sequence of them (positional arguments), a mapping
            (keyword arguments), a pair of a sequence and a mapping, or texts of the form ``name:dtype:shape[:data]``;
            see ``Making.call``. None: made from the configuration of a Hugging Face model, or of the image that timm
            or torchvision states.
        dims: values of names that stand for sizes in shapes.
        batch_size: the first dimension of every input.
        source: where the model comes from, for messages.

    Raises:
        InputError: nothing was given where something is needed, or it is none of these; a size applies to no input.
    """
    names = parameters_of(model)
    sizes = Dims(dims)
    making = Making(model, sizes, batch_size)
    if inputs is None:
        inputs = _unasked(model, names, sizes, source)
    texts = [inputs] if isinstance(inputs, str) else inputs
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(text, str) for text in texts):
        spelt = [making.text(text, names, position) for position, text in enumerate(texts)]
        args, kwargs = tuple([value for name, value in spelt if name is None]), {n: v for n, v in spelt if n}
        # Named arguments are positional ones where they are the first: some tools and hooks see no others.
        first = list(itertools.takewhile(kwargs.__contains__, names[len(args) :]))
        args = (*args, *[kwargs.pop(name) for name in first])
    else:
        positional, named = call_of(inputs)
        places = [position_name(names, i) for i in range(len(positional))]
        if twice := next(filter(named.__contains__, places), None):
            raise InputError(f"input {twice!r} is given twice")
        made = making.call([*zip(places, positional, strict=True), *named.items()], _signature(model))
        args, kwargs = tuple([made[name] for name in places]), {name: made[name] for name in named}
    with naming(source or type(model).__name__):
        sizes.check()
    if batch_size is not None and not making.batched:
        raise InputError(
            f"{source or type(model).__name__}: the batch size {batch_size} applies to none of the inputs, which are "
            "tensors; give shapes in their place"
        )
    tensors: dict[int, ProgramTensor] = {}
    for argument, value in (*((position_name(names, i), value) for i, value in enumerate(args)), *kwargs.items()):
        for name, tensor in tensors_inside(value, argument_name(model, argument)):
            kind: Kind = "state" if argument in STATES else "input"
            shape = shape_of_input(name, tensor)
            ours = ProgramTensor(name, shape, DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)
            tensors.setdefault(id(tensor), ours)
    return Arguments(args, kwargs, tensors, frozenset(making.made), making.doubt)


def _unasked(model: nn.Module, names: Sequence[str], sizes: Dims, source: str) -> Mapping[str, object] | list[object]:
    """The inputs of a module for which nothing is given: of its configuration, or the image that its library states.

    Raises:
        InputError: neither says, and it needs some.
    """
    shapes = configured(model, names, sizes)
    if shapes is not None:
        return shapes
    if image := _image(source, model):
        return [(sizes.get("batch", 1), *image)]
    if parameters_of(model, needed=True):
        raise InputError(_missing(model))
    return {}


def _image(source: str, model: nn.Module) -> tuple[int, ...] | None:
    """Channels, height and width of the image that the library of a model states for it."""
    from flopwise.formats.torch.libraries import stated_image  # which modules do without

    return stated_image(source, model)


def call_of(inputs: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments by position and by name that inputs stand for: a sequence, a mapping or a pair of them; else the
    only one.

    Raises:
        InputError: it is a number or an object that holds nothing.
    """
    if isinstance(inputs, Mapping):
        return (), inputs
    if type(inputs) is tuple and len(inputs) == 2 and isinstance(inputs[1], Mapping):
        first, named = inputs
        if type(first) is list or (type(first) is tuple and not is_shape(first)):
            return first, named
    if type(inputs) in (list, tuple) and not is_shape(inputs):
        return inputs, {}
    held = isinstance(inputs, (tuple, list, numpy.ndarray)) or any(tensors_inside(inputs)) or any(attributes_of(inputs))
    if isinstance(inputs, ATOMS) or not held:
        raise InputError(
            f"cannot understand inputs={described(inputs)}; give shapes, tensors, or {FORM}; flopwise.Value(...) hands "
            "anything over as it is"
        )
    return (inputs,), {}


def _missing(model: nn.Module) -> str:
    """The line that names every input that is needed, as the command line or Python takes it."""
    names = parameters_of(model, needed=True)
    dtype, shape = _first(model)
    words = f"{type(model).__name__} needs the shape of {'its input' if len(names) == 1 else 'its inputs'} "
    words += ", ".join(map(repr, names))
    if on_command_line():
        sized = f"{dtype}:{'x'.join(map(str, shape))}" if shape else "DTYPE:SHAPE"
        texts = [f"-i {name}:{'DTYPE:SHAPE' if position else sized}" for position, name in enumerate(names)]
        open_ = "DTYPE" in " ".join(texts)
        return f"{words}: give {' '.join(texts)}{' (DTYPE:SHAPE as f32:1x3x224x224)' if open_ else ''}"
    value = f"torch.empty({shape}, dtype=torch.int64)" if dtype == "i64" else str(shape or "SHAPE")
    pairs = [f"{name!r}: {'SHAPE' if position else value}" for position, name in enumerate(names)]
    return f"{words}: give inputs={{{', '.join(pairs)}}}"


def _first(model: nn.Module) -> tuple[str, tuple[int, ...]]:
    """Element type and shape that suit the first layer with weights; the shape is () where that is not plain."""
    for module in model.modules():
        if next(module.children(), None) is not None or next(module.parameters(recurse=False), None) is None:
            continue
        if isinstance(module, nn.Linear) and module.in_features:
            return "f32", (1, module.in_features)
        if isinstance(module, nn.Embedding):
            return "i64", (1, 128)
        if isinstance(module, _ConvNd) and module.in_channels:
            return "f32", (1, module.in_channels, *(224,) * len(module.kernel_size))
        break
    return "", ()


def open_specs(model: nn.Module, inputs: object, source: str = "") -> tuple[list[InputSpec], Kwargs]:
    """The inputs of a module whose sizes may be open, each with its element type, and its other arguments by name.

    Without a description those of a Hugging Face model with "batch" and "sequence" open, or a batch of the image that
    its library states.

    Args:
        model: the module.
        inputs: as in ``settle``, with names for open sizes.
        source: where the model comes from.

    Raises:
        InputError: nothing is given where something is needed, or it is none of these.
    """
    floats = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    parameters = _signature(model)
    names = [p.name for p in parameters]
    specs: list[InputSpec] = []
    others: Kwargs = {}
    if inputs is None:
        specs = _unasked_specs(model, names, source)
    elif isinstance(inputs, str) or (isinstance(inputs, list) and all(isinstance(text, str) for text in inputs)):
        for position, text in enumerate([inputs] if isinstance(inputs, str) else inputs):
            own = next((name for name in names if text.startswith(f"{name}:")), None)
            name = own or (names[position] if position < len(names) else "x")
            value = text.removeprefix(f"{name}:")
            if value.startswith(VALUE):
                others[name] = literal(name, value.removeprefix(VALUE))
            else:
                specs.append(parse(text, names if own else [name]))
    else:
        making = Making(model, Dims(), None, symbols=True)
        positional, named = call_of(inputs)
        arguments = [*((position_name(names, i), v) for i, v in enumerate(positional)), *named.items()]
        _, shapes, *_ = making.forms(arguments, parameters)
        for name, value in arguments:
            if name in shapes:
                specs += input_specs({name: value}, [name])
            else:
                others[name] = making.one(name, value, shapes=isinstance(value, numpy.ndarray))
    listed = next((s.name for s in specs if s.items is not None), None)
    if listed is not None:
        raise InputError(
            f"input {listed!r} is a list of tensors, whose sizes cannot be symbols; wrap the module so that"
            f" its inputs are tensors, or give flopwise.Value(...) where it is a value"
        )
    return [
        replace(spec, dtype=spec.dtype or ("int64" if spec.name in WHOLE else DTYPES[floats])) for spec in specs
    ], others


def _unasked_specs(model: nn.Module, names: Sequence[str], source: str) -> list[InputSpec]:
    """The inputs with open sizes of a module for which nothing is given.

    Raises:
        InputError: neither its configuration nor its library says what they are.
    """
    shapes = configured(model, names)
    if shapes is None:
        first = names[0] if names else "x"
        if image := _image(source, model):
            return [InputSpec(first, ("batch", *image))]
        raise InputError(f"the inputs are needed, with names for open sizes: -i {first}:f32:batchx3x224x224")
    from_config = configured(model, names, Dims({"batch": 1 << 20, "sequence": 1 << 21, "target": 1 << 22})) or {}
    words = {1 << 20: "batch", 1 << 21: "sequence", 1 << 22: "target"}
    return [InputSpec(name, tuple([words.get(d, d) for d in from_config[name]])) for name in shapes]


# Inputs that follow from the configuration of a Hugging Face model.


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
        shapes["pixel_values"] = (batch, *_image_of(getattr(config, "vision_config", None) or config))
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


def _image_of(vision: object) -> tuple[int, ...]:
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
