"""A language model by its configuration alone: where the configuration comes from, and the graph of a call."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from flopwise._limits import within_limit
from flopwise.errors import InputError, ModelError
from flopwise.formats.inputs import Declared, input_specs
from flopwise.formats.language.config import decoder_of, kind_of
from flopwise.formats.language.gguf import widths_of_gguf
from flopwise.formats.language.graph import decoder_graph
from flopwise.formats.language.lora import beside, layers_of, lora_of
from flopwise.formats.language.operators import Learning
from flopwise.formats.language.parts import Attention, Decoder, Layer
from flopwise.formats.language.settings import MissingSizeError
from flopwise.formats.language.source import GGUF, HUB, LIBRARY, content_of, content_on_hub, is_language_model
from flopwise.formats.language.stored import (
    BESIDE,
    Weights,
    Widths,
    cache_type_of,
    element_type,
    named_widths,
    quantisation_of,
    stored_widths,
)
from flopwise.formats.options import TorchOptions
from flopwise.formats.sources.location import in_words, naming
from flopwise.graph import Graph, StoredTensor
from flopwise.graph.dtypes import BITS

#: Tokens of a call where nobody says.
USUAL_TOKENS = 128


#: Names of repositories whose weights are stored in fewer bits.
_STORED_SMALL = re.compile(r"fp4|fp8|int4|int8|awq|w4a|w8a", re.IGNORECASE)


class Language(NamedTuple):
    """A language model by its configuration."""

    decoder: Decoder
    #: How its weights are stored, and the element type that a quantisation states for the cache ("fp8").
    widths: Widths
    cache: str | None
    notes: tuple[str, ...]
    content: Mapping[str, Any] = {}


def language(model: str | os.PathLike[str], dtype: str | None = None, weights: str | None = None) -> Language:
    """A model by its configuration.

    Args:
        model: path of a ``config.json``, of the folder that holds one, or of a GGUF file; ``hf:org/name``.
        dtype: the element type that it multiplies; None: the configuration's.
        weights: how its weights are stored, by the name of a quantisation; None: as the files or the configuration say.

    Raises:
        UnknownTypeError: the table has no architecture for its type.
        ModelError: it cannot be read, or a size is missing or cannot be right.
        InputError: a setting of its quantisation, or ``weights``, is none that there is.
    """
    name = os.fsdecode(model)
    content = content_of(name)
    if name.startswith(HUB) and _STORED_SMALL.search(name) and quantisation_of(name, content) is None:
        with suppress(ModelError):  # ModelOpt's settings may stand beside the configuration
            stated = content_on_hub(name, BESIDE).get("quantization")
            content = {**content, "quantization_config": {**stated, "quant_method": "modelopt"}} if stated else content
    with naming(name):
        kind, notes = element_type(content, dtype)
        decoder = sizes_of(name, content, kind)
        within_limit("language_modules", len(decoder.layers), f"{name}: has", "layers")
        if weights is not None:
            widths = named_widths(weights_of(decoder), weights)
        elif name.lower().endswith(GGUF):
            widths = widths_of_gguf(weights_of(decoder), name)
        else:
            widths = stored_widths(lambda: weights_of(decoder), name, content)
        cache = cache_type_of(quantisation_of(name, content))
    if cache is not None:
        notes = (*notes, f"the cache is stored in {cache}, as the configuration's quantisation says")
    notes = (*decoder.notes, *notes)
    return Language(by_storage(decoder._replace(notes=()), widths), widths, cache, notes, content)


def in_table(model: object, trust_code: bool = False) -> bool:
    """True for a configuration of a type that the table has an architecture for.

    Raises:
        ModelError: it is a configuration, and cannot be read.
    """
    if trust_code or not is_language_model(model):
        return False
    name = os.fsdecode(model)  # type: ignore[arg-type] # a path
    if name.startswith(LIBRARY) or kind_of(content := content_of(name)) is None:
        return False
    try:
        sizes_of(name, content)
    except MissingSizeError:
        return not transformers_installed()
    except ModelError:
        return True  # which says what is wrong
    return True


def defaults_of(model: object) -> tuple[str, ...]:
    """A note for a configuration that leaves a size of its architecture to transformers' defaults."""
    if not is_language_model(model) or (name := os.fsdecode(model)).startswith(LIBRARY):  # type: ignore[arg-type]
        return ()
    try:
        if kind_of(content := content_of(name)) is not None:
            sizes_of(name, content)
    except MissingSizeError as error:
        return (f"{error}: what the configuration does not say are transformers' defaults",)
    except ModelError:
        pass
    return ()


def sizes_of(name: str, content: Mapping[str, Any], dtype: str = "bfloat16") -> Decoder:
    """The sizes of a model; see ``config.decoder_of``.

    Raises:
        ModelError: as there, or settings are of a kind that nothing can be made of.
    """
    try:
        decoder = decoder_of(name, content, dtype)
        for layer in {*decoder.layers, *(decoder.encoder.layers if decoder.encoder is not None else ())}:
            _check_numbers(layer)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(f"{name}: its settings do not fit together ({in_words(error)})") from error
    return decoder


def _check_numbers(part: Any) -> None:
    """Refuse a part of a layer with sizes that are no whole numbers from 0 on.

    Raises:
        TypeError: there is one.
    """
    for key, value in zip(part._fields, part, strict=True):
        numbers = "int" in str(part.__annotations__[key])
        for one in _flat(value):
            if hasattr(one, "_fields"):
                _check_numbers(one)
            elif numbers and one is not None and not (isinstance(one, int) and one >= 0):
                raise TypeError(f"{key} is {one!r}; a number is expected")


def _flat(value: object) -> Iterator[object]:
    """The entries of tuples in tuples, parts in one piece."""
    if type(value) is tuple:
        for one in value:
            yield from _flat(one)
    else:
        yield value


def transformers_installed() -> bool:
    """True where transformers can build what the table does not have, with its defaults for sizes that are missing."""
    from importlib.util import find_spec

    return find_spec("torch") is not None and find_spec("transformers") is not None


# The weights of a model, and its layers by their storage.


def weights_of(decoder: Decoder) -> Weights:
    """The weights of all layers, from a graph in which layers that are alike stand once."""
    graph = decoder_graph(decoder, encoded=1 if decoder.encoder is not None else 0, every=False)
    alike = {
        side: _alike(stack) for side, stack in (("model", decoder), ("encoder", decoder.encoder)) if stack is not None
    }
    shapes: dict[str, tuple[int, ...]] = {}
    products: list[str] = []
    for node in graph.nodes:
        for place, tensor in enumerate(node.inputs):
            if tensor is None or tensor.kind != "weight" or tensor.name in shapes:
                continue
            product = node.op in ("Gemm", "MatMul", "aten::_grouped_mm") and place == 1 and len(tensor.dims) > 1
            for name in _names(alike, tensor.name):
                shapes[name] = tuple(int(size) for size in tensor.dims)
                if product:
                    products.append(name)
    mixers = (mixer for layer in decoder.layers for mixer in layer.mixers)
    shared = max((mixer.heads // mixer.groups for mixer in mixers if isinstance(mixer, Attention)), default=1)
    experts = max((getattr(part, "experts", 0) for layer in decoder.layers for part in layer.networks), default=0)
    plain = ("lm_head", "model.embed_tokens")
    return Weights(shapes, products, plain, len(decoder.layers), shared, experts, decoder.tied)


_LAYER = re.compile(r"^(model|encoder)\.layers\.(\d+)\.")


def _alike(decoder: Decoder) -> dict[int, list[int]]:
    """The numbers of the layers that are alike, by the first of them."""
    numbers: dict[Layer, list[int]] = {}
    for number, layer in enumerate(decoder.layers):
        numbers.setdefault(layer, []).append(number)
    return {own[0]: own for own in numbers.values()}


def _names(alike: Mapping[str, Mapping[int, Sequence[int]]], name: str) -> Iterator[str]:
    """The names of the weights that one in the first of layers that are alike stands for."""
    match = _LAYER.match(name)
    if match is None:
        yield name
        return
    first = int(match[2])
    for number in alike[match[1]].get(first, (first,)):
        yield f"{match[1]}.layers.{number}.{name[match.end() :]}"


def by_storage(decoder: Decoder, widths: Widths) -> Decoder:
    """A model whose layers differ where their storage does."""
    if not widths.elements:
        return decoder
    own: dict[int, list[object]] = {}
    for name, width in widths.elements.items():
        match = _LAYER.match(name)
        if match is not None and match[1] == "model":
            stored = name[match.end() :], width, widths.types.get(name)
            own.setdefault(int(match[2]), []).append(stored)
    labels: dict[object, int] = {}
    layers: list[Layer] = []
    for number, layer in enumerate(decoder.layers):
        key = frozenset(own.get(number, ()))
        layers.append(layer._replace(storage=labels.setdefault(key, len(labels))))
    return decoder._replace(layers=tuple(layers))


#: The weights that a head which predicts a token more shares with its model.
SHARED = ("model.embed_tokens.weight", "lm_head.weight")


def head_of(model: Language) -> Language:
    """The head of a model that predicts a token more (MTP), as a model of one layer.

    A head norms the embedding of the last token and the model's own result for the position before it, projects both
    into one, and goes through a layer like the model's last; embedding and scores are those of the model. Source:
    DeepSeek-V3, https://arxiv.org/abs/2412.19437, section 2.2. GLM-4.5, Qwen3-Next and others have the same.

    Raises:
        InputError: its configuration names none.
    """
    decoder = model.decoder
    if not decoder.heads:
        raise InputError(
            f"draft mtp: {decoder.name} has no heads that predict a token more (num_nextn_predict_layers of its "
            "configuration)"
        )
    last = f"model.layers.{len(decoder.layers) - 1}."

    def own(stored: Mapping[str, Any]) -> dict[str, Any]:
        outside = {name: one for name, one in stored.items() if _LAYER.match(name) is None}
        inside = {name: one for name, one in stored.items() if name.startswith(last)}
        return {**outside, **{f"model.layers.0.{name.removeprefix(last)}": one for name, one in inside.items()}}

    widths = replace(model.widths, elements=own(model.widths.elements), types=own(model.widths.types))
    head = decoder._replace(layers=decoder.layers[-1:], joined=True)
    return model._replace(decoder=head, widths=widths)


def can_learn(decoder: Decoder) -> bool:
    """True for a model that predicts tokens alone; encoders, and those with decoders, learn as their programs do."""
    return decoder.encoder is None and decoder.predicts


def linear_layers(weights: Weights) -> list[str]:
    """The paths of linear layers, which routers and stacks of experts are not."""
    paths = [name.removesuffix(".weight") for name in weights.products if name.endswith(".weight")]
    return [path for path in paths if not path.endswith(".gate")]


def windows_of(decoder: Decoder) -> list[int]:
    """The lengths of the windows that the state keeps, in tokens."""
    mixers = (mixer for layer in decoder.layers for mixer in layer.mixers if isinstance(mixer, Attention))
    return sorted({reach for mixer in mixers if (reach := mixer.window or mixer.chunk)})


def inputs_of(decoder: Decoder) -> list[Declared]:
    """The inputs of a call without a cache, open sizes by name; an encoder of sound reads one length of frames."""
    tokens, encoder = Declared("input_ids", "int64", ("batch", "tokens")), decoder.encoder
    if encoder is None:
        return [tokens]
    if encoder.sound:
        frames = None if encoder.longest is None else 2 * encoder.longest
        tokens = Declared("input_features", encoder.dtype, ("batch", encoder.sound, frames))
    return [tokens, Declared("decoder_input_ids", "int64", ("batch", "decoder_tokens"))]


def call_of(
    decoder: Decoder, batch: int, new: int, past: int = 0, encoded: int = 0, learning: Learning | None = None
) -> Graph:
    """The graph of a call, every layer with operators of its own; an encoder reads so many tokens, or what it must."""
    encoder = decoder.encoder
    if encoder is not None and not encoded:
        encoded, new = (past, new) if past else (new, 1)  # the decoder starts with one token
    if encoder is not None and encoder.sound and encoder.longest:
        encoded = encoder.longest
    return decoder_graph(decoder, batch, new, past, encoded=encoded, learning=learning)


def read_configuration(model: Any, inputs: Any, batch_size: Any, options: TorchOptions) -> Graph:
    """The graph of a configuration, every layer with operators of its own.

    Raises:
        InputError: inputs are not two numbers, or are given beside past and new tokens.
    """
    for name in (options.past, options.new):
        if isinstance(name, str):
            raise InputError(f"{name}: has no value; give a number, or ask for a formula")
    own = language(model)
    decoder, batch, past = own.decoder, batch_size or 1, int(options.past or 0)
    asked = options.past is not None or options.new is not None
    new = int(options.new) if options.new is not None else USUAL_TOKENS if options.past is None else 1
    encoded = 0
    if inputs is not None and asked:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    names, labels = [one.name for one in inputs_of(decoder)], False
    if isinstance(inputs, Mapping):
        labels = inputs.get("labels") is not None
        inputs = {name: shape for name, shape in inputs.items() if name in names}
    for spec in () if inputs is None else input_specs(inputs, names):
        sizes = [size for size in spec.shape if isinstance(size, int)]
        if spec.name == "input_features" and len(sizes) == 3:
            sizes = [sizes[0], sizes[2] // 2]
        if len(sizes) != len(spec.shape) and len(sizes) != 2:
            raise InputError(f"{spec.name}: batch and tokens are expected, such as {spec.name}:int64:1x128")
        if spec.name == names[-1]:
            batch, new = sizes
        else:
            batch, encoded = sizes
    notes, learning = own.notes, None
    if options.lora is not None:
        lora = lora_of(options.lora)
        paths = layers_of(lora, decoder.name, linear_layers(weights_of(decoder)), ["lm_head"])
        learning, notes = Learning(loss=labels, rank=lora.rank, adapted=frozenset(paths)), (beside(paths), *notes)
    elif labels or options.grad:
        learning = Learning(loss=labels)
    graph = call_of(decoder, batch, new, past, encoded, learning)
    if decoder.longest is not None and past + new > decoder.longest:
        more = f"{past + new:,} tokens are more than the {decoder.longest:,} that the model was made for"
        notes = (more, *notes)
    return replace(graph, weights=dict(_stored(own)), warnings=notes)


def _stored(own: Language) -> Iterator[tuple[str, StoredTensor]]:
    """The stored tensors of a model, as its checkpoint has them."""
    for weight, shape in weights_of(own.decoder).shapes.items():
        width = own.widths.elements.get(weight, Fraction(BITS[own.decoder.dtype], 8))
        dtype = own.widths.types.get(weight, own.decoder.dtype)
        yield weight, StoredTensor(weight, shape, dtype, round(math.prod(shape) * width))
