"""Bytes in which a language model's weights are stored, where its configuration or the files beside it say so.

A model that transformers builds from a configuration has its weights in one plain type. A published one may store them
in 8 or 4 bits with scales; the logical parameters stay the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from torch import nn

from flopwise.errors import InputError, ModelError
from flopwise.readers.source.text import JsonObject
from flopwise.readers.torch.language.schemes import schemes_of
from flopwise.readers.weights import formats as weights
from flopwise.readers.weights.tensor import StoredTensors

#: Bytes of a scale in half and in single precision.
_HALF, _SINGLE = 2, 4

#: How a pointer of Git LFS begins (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Widths:
    """Storage of a model's weights."""

    #: Bytes of each element, scales and zero points among them, by the name of the parameter.
    elements: Mapping[str, Fraction] = field(default_factory=dict)
    #: The element types that they are stored in, by the name of the parameter, where these are numbers that a device
    #: can multiply and not places in a table of them.
    types: Mapping[str, str] = field(default_factory=dict)
    #: What a reader should know.
    notes: tuple[str, ...] = ()


def stored_widths(module: nn.Module, model: object = None) -> Widths:
    """Storage of the weights: as the files beside the configuration say, else as ``quantization_config`` says.

    Args:
        module: the model that transformers built.
        model: the path that it was built from.

    Raises:
        InputError: a setting of the quantisation is none that its method has.
        ModelError: a file of weights is damaged.
    """
    name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    if name.lower().endswith(".gguf"):
        stored = _of_files(module, name)
        return replace(stored, notes=(*stored.notes, *_differences(module, name)))
    folder = os.path.dirname(name) if os.path.isfile(name) else name
    settings = getattr(module.config, "quantization_config", None)
    if settings is not None and not isinstance(settings, Mapping) and not hasattr(settings, "to_dict"):
        raise InputError(f"quantization_config is {type(settings).__name__}; an object of settings is expected")
    stated = settings if settings is None or isinstance(settings, Mapping) else settings.to_dict()
    if folder and os.path.isdir(folder) and any(f.endswith(".safetensors") for f in os.listdir(folder)):
        stored = _of_files(module, folder)
        return stored if stated is None else replace(stored, types=widths_of_settings(module, stated).types)
    return Widths() if stated is None else widths_of_settings(module, stated)


def _of_files(module: nn.Module, path: str) -> Widths:
    """The stored bytes of the files, in the share in which the parameters have them.

    A parameter with a tensor of its name and size has that tensor's width; the others share what is left.

    Raises:
        ModelError: a file is damaged.
    """
    try:
        file = _in_folder(path) if os.path.isdir(path) else path
    except ModelError as error:  # shards without an index
        return Widths(notes=(f"stored widths are not known: {error}",))
    with open(file, "rb") as head:
        if head.read(len(_LFS)) == _LFS:  # what a checkout without Git LFS has in place of the weights
            pointer = f"stored widths are not known: {os.path.basename(file)} is a Git LFS pointer, not weights"
            return Widths(notes=(pointer,))
    with _stored_tensors(file) as stored:
        total = sum(tensor.nbytes for tensor in stored.tensors)
        by_name = {tensor.name: tensor for tensor in stored.tensors}
    widths: dict[str, Fraction] = {}
    types: dict[str, str] = {}
    unmatched: dict[str, int] = {}
    left = total
    for name, parameter in module.named_parameters():
        tensor = by_name.get(name)
        if tensor is not None and tensor.numel == parameter.numel():
            widths[name] = Fraction(tensor.nbytes, max(tensor.numel, 1))
            types[name] = tensor.dtype
            left -= tensor.nbytes
        else:
            unmatched[name] = parameter.numel()
    share = Fraction(max(left, 0), max(sum(unmatched.values()), 1))
    widths.update(dict.fromkeys(unmatched, share))
    if not types:  # a GGUF file has names of its own: most of its elements are of one type
        by_type: dict[str, int] = {}
        for tensor in by_name.values():
            by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.numel
        narrow = min(by_type, key=lambda dtype: -by_type[dtype], default="")
        types.update(dict.fromkeys(unmatched, narrow) if narrow else {})
    note = f"weights as stored in {os.path.basename(path.rstrip('/'))}: {total:,} bytes"
    return Widths(widths, types, (note,))


def _in_folder(folder: str) -> str:
    """The index of a folder's shards, or its only file with weights.

    Raises:
        ModelError: there are several files and no index.
    """
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    for format in (weights.SAFETENSORS_INDEX, weights.SAFETENSORS):
        files = [name for name in names if name.lower().endswith(format.endings)]
        if len(files) == 1:
            return os.path.join(folder, files[0])
        if files:
            ending = format.endings[0]
            raise ModelError(f"{folder}: holds {len(files)} files ending in {ending} and no index; give one of them")
    raise ModelError(f"{folder}: no file with weights in this directory")


def _stored_tensors(path: str) -> StoredTensors:
    """The tensors of a file of weights, or of an index."""
    kinds = (weights.GGUF, weights.SAFETENSORS_INDEX, weights.SAFETENSORS)
    format = next(format for format in kinds if path.lower().endswith(format.endings))
    return format.stored(path, None, None, None, format.options())  # type: ignore[misc] # formats of tensors have it


#: Tensors of GGUF files that are computed from the header.
_COMPUTED = ("rope_freqs", "rope_factors")


def _differences(module: nn.Module, path: str) -> Iterator[str]:
    """A note where a GGUF file holds another number of elements than the model that its header describes."""
    with _stored_tensors(path) as stored:
        held = {t.name: t.numel for t in stored.tensors if not t.name.startswith(_COMPUTED)}
    parameters = sum(p.numel() for p in module.parameters())
    if sum(held.values()) == parameters:
        return
    names = _names(module)
    first = next((f"{name} is missing" for name in names if name not in held), "") or next(
        (f"{name} has no place in the model" for name in held if names and name not in names), ""
    )
    yield (
        f"{os.path.basename(path)} holds {sum(held.values()):,} weights, and the model that its header describes has "
        f"{parameters:,}: counts are those of the model{', ' if first else ''}{first}"
    )


def _names(module: nn.Module) -> list[str]:
    """The names of the parameters in a GGUF file by transformers' mapping; empty where it has none."""
    try:
        from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

        return list(get_gguf_hf_weights_map(module, TensorProcessor()))  # type: ignore[no-untyped-call]
    except Exception:  # the mapping raises whatever it likes about an architecture that it does not have
        return []


def widths_of_settings(module: nn.Module, settings: Mapping[str, object]) -> Widths:
    """The widths that a quantisation's settings stand for."""
    method = str(settings.get("quant_method", "")).lower().replace("-", "_")
    rule = _METHODS.get(method)
    schemes = schemes_of(method, settings) if rule is None else None
    if rule is None and schemes is None and (bits := stated_bits(method, settings)) is not None:
        rule = _stated(bits)
    if rule is None and schemes is None:
        note = (
            f"quantization_config names {method or 'no method'!r}, whose widths are not known: counted as plain "
            "weights, the most that must fit"
        )
        return Widths(notes=(note,))
    skipped = _skipped(module, method, settings)
    taken = [
        (name, shape)
        for name, shape in _matrices(module)
        if not _matches(name.removesuffix(".weight"), skipped) and "embed" not in name
    ]
    widths = {name: rule(shape, settings) for name, shape in taken} if rule is not None else {}
    types = dict.fromkeys(widths, _type(method, settings))
    for name, shape in taken if schemes is not None else ():
        if (scheme := schemes.of(name)) is not None:  # type: ignore[union-attr]
            widths[name] = _stored(shape, scheme.bits, scheme.group)
            types[name] = number_type(scheme.bits, scheme.floating)
    note = f"quantised ({method}): {len(widths)} weights are stored in fewer bits, with their scales; "
    return Widths(
        widths,
        {name: dtype for name, dtype in types.items() if dtype},
        (note + "the program here multiplies them in plain numbers, as after dequantisation",),
    )


def _type(method: str, settings: Mapping[str, object]) -> str:
    """The element type of the weights that a method takes; "" for places in a table of numbers, as bitsandbytes' four
    bits are."""
    if method in _TYPES:
        return _TYPES[method]
    if method.startswith("bitsandbytes"):
        return "" if settings.get("load_in_4bit") or settings.get("_load_in_4bit") else "int8"
    if method in ("gptq", "awq"):
        return number_type(_number(settings, ("bits", "w_bit"), 4, (2, 3, 4, 8)))
    words = str(settings.get("weights" if method == "quanto" else "quant_type"))
    return number_type(stated_bits(method, settings) or 16, words.startswith(("float", "fp")))


def number_type(bits: int, floating: bool = False) -> str:
    """The element type of so many bits; "" for more than 8.

    >>> number_type(4), number_type(5), number_type(8, floating=True)
    ('int4', 'int8', 'float8e4m3fn')
    """
    floats, integers = {4: "float4e2m1", 6: "float6e2m3"}, {2: "int2", 3: "int3", 4: "int4"}
    names = {**floats, 8: "float8e4m3fn"} if floating else {**integers, 8: "int8"}
    return next((name for most, name in names.items() if bits <= most), "")


def _matrices(module: nn.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The weights that quantisers take: those of linear layers, and stacks of experts."""
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            linear = isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
            if (linear and name == "weight") or parameter.dim() == 3:
                yield (f"{path}.{name}" if path else name), tuple(parameter.shape)


def _fp8(shape: Sequence[int], settings: Mapping[str, object]) -> Fraction:
    """One byte, and a scale in single precision for each block of 128 × 128 or as the settings say."""
    block = settings.get("weight_block_size")
    if not block:
        return Fraction(1)
    if not (isinstance(block, list) and len(block) == 2 and all(type(size) is int and size > 0 for size in block)):
        raise InputError(f"quantization_config: weight_block_size is {str(block)[:50]}; two sizes are expected")
    rows, columns = (-(-size // by) for size, by in zip(shape[-2:], block, strict=True))
    return 1 + Fraction(rows * columns * _SINGLE, shape[-2] * shape[-1])


def _mxfp4(shape: Sequence[int], settings: Mapping[str, object]) -> Fraction:
    """Half a byte, and one byte of scale for each 32 elements (OCP Microscaling Formats, version 1.0)."""
    return Fraction(1, 2) + Fraction(1, 32)


def _grouped(shape: Sequence[int], settings: Mapping[str, object]) -> Fraction:
    """The bits of an element; for each group a scale in half precision and a zero point of as many bits."""
    bits = Fraction(_number(settings, ("bits", "w_bit"), 4, (2, 3, 4, 8)), 8)
    group = _number(settings, ("group_size", "q_group_size"), 128, None)
    return bits + (_HALF + bits) / (group if group > 0 else shape[-1])


def _number(settings: Mapping[str, object], keys: Sequence[str], default: int, choices: Sequence[int] | None) -> int:
    """The whole number under the first key that is there.

    Raises:
        InputError: it is none of the choices; without those, it is neither -1 nor at least 1.
    """
    key = next((key for key in keys if settings.get(key) is not None), None)
    if key is None:
        return default
    value = settings[key]
    if type(value) is not int or (value not in choices if choices else value < 1 and value != -1):
        expected = ", ".join(map(str, choices)) if choices else "-1 or a number of at least 1"
        raise InputError(f"quantization_config: {key} is {value!r}; expected: {expected}")
    return value


def _stated(bits: int) -> Callable[[Sequence[int], JsonObject], Fraction]:
    """So many bits, and a scale in half precision for each group, else for each row."""

    def rule(shape: Sequence[int], settings: JsonObject) -> Fraction:
        return _stored(shape, bits, _number(_weights(settings), ("group_size",), -1, None))

    return rule


def _stored(shape: Sequence[int], bits: int, group: int) -> Fraction:
    return Fraction(bits, 8) + Fraction(_HALF, group if group > 0 else shape[-1])


def _weights(settings: Mapping[str, object]) -> Mapping[str, object]:
    """The settings of the weights, where a method has them inside others."""
    inner: Any = settings
    for keys in (("quant_config", "quant_type_kwargs"), ("weight_quant_params", "weights")):
        inner = next((inner[key] for key in keys if isinstance(inner.get(key), Mapping)), inner)
    return inner  # type: ignore[no-any-return]


def stated_bits(method: str, settings: Mapping[str, object]) -> int | None:
    """The bits of a weight that a method's settings say plainly; None where they do not.

    >>> stated_bits("quanto", {"weights": "int4"}), stated_bits("torchao", {"quant_type": "int8_weight_only"})
    (4, 8)
    """
    if method in _FIXED:
        return _FIXED[method]
    inner = _weights(settings)
    for key in ("num_bits", "nbits"):
        if inner.get(key) is not None:
            return _number(inner, (key,), 8, (1, 2, 3, 4, 5, 6, 7, 8))
    words = settings.get("weights" if method == "quanto" else "quant_type")
    stated = re.match(r"(?:u?int|float|fp)([248])(?!\d)", words) if isinstance(words, str) else None
    return int(stated[1]) if stated else None


def _skipped(module: nn.Module, method: str, settings: Mapping[str, object]) -> list[str]:
    """The modules that transformers' quantiser of a method leaves as they are.

    That is what the settings name; the output layer, what is tied and what comes last where they name nothing, and with
    AWQ always (``add_default_skips``). GPTQ takes the layers alone.
    """
    key = next((key for key in ("modules_to_not_convert", "llm_int8_skip_modules", "ignore") if settings.get(key)), "")
    named = settings.get(key)
    if named is not None and not isinstance(named, (list, tuple)):
        raise InputError(f"quantization_config: {key} is {named!r}; a list of names is expected")
    names = [str(name) for name in named or ()]
    if names and method not in ("awq", "gptq"):
        return names
    head = getattr(module, "get_output_embeddings", lambda: None)()
    tied = getattr(module, "all_tied_weights_keys", None) or {}
    last = [name for name, _ in module.named_parameters()][-1:]
    default = [path for path, part in module.named_modules() if head is not None and part is head]
    return [*names, *default, "lm_head", *(n.removesuffix(".weight") for n in (*tied, *tied.values(), *last))]


def _matches(path: str, names: Sequence[str]) -> bool:
    """True if a module is one of those named: by its path from the start, in which ``*`` is anything, or by its end."""
    for name in names:
        plain = name.removeprefix("re:").removeprefix("^").removesuffix("$").replace("\\.", ".")
        parts = [re.escape(part.rstrip(".")) for part in plain.split("*")]
        if path.endswith(plain) or re.match(r".*".join(parts) + r"(?=\.|$)", path):
            return True
    return False


def _gptq(shape: Sequence[int], settings: Mapping[str, object]) -> Fraction:
    """As for every group-wise quantisation, and the group of each input in four bytes."""
    return _grouped(shape, settings) + Fraction(_SINGLE, shape[-2])


def _bitsandbytes(shape: Sequence[int], settings: Mapping[str, object]) -> Fraction:
    """In 4 bits a scale for each 64 elements, itself in 8 bits where quantised twice; in 8 bits one for each row."""
    if not (settings.get("load_in_4bit") or settings.get("_load_in_4bit")):
        return 1 + Fraction(_SINGLE, shape[-1])
    twice = settings.get("bnb_4bit_use_double_quant")
    scale = 1 + Fraction(_SINGLE, 256) if twice else Fraction(_SINGLE)
    return Fraction(1, 2) + scale / 64


#: ``quant_method`` -> bits of a weight, where a method has one width alone.
_FIXED = {"eetq": 8, "bitnet": 2}

#: ``quant_method`` -> the element type of its weights, where a method has one alone.
_TYPES = {"fp8": "float8e4m3fn", "fbgemm_fp8": "float8e4m3fn", "mxfp4": "float4e2m1"}

#: ``quant_method`` -> bytes of an element of a weight of this shape.
_METHODS: dict[str, Callable[[Sequence[int], JsonObject], Fraction]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "mxfp4": _mxfp4,
    "gptq": _gptq,
    "awq": _grouped,
    "bitsandbytes": _bitsandbytes,
    "bitsandbytes_4bit": _bitsandbytes,
    "bitsandbytes_8bit": _bitsandbytes,
}
