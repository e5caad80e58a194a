"""Bytes in which a language model's weights are stored, where its configuration or the files beside it say so.

A model that transformers builds from a configuration has its weights in one plain type. A published one may store them
in 8 or 4 bits with scales; the logical parameters stay the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from torch import nn

from flopwise.errors import ModelError

#: Bytes of a scale in half and in single precision.
_HALF, _SINGLE = 2, 4


#: How a pointer of Git LFS begins (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Widths:
    """How the weights of a model are stored."""

    #: Bytes of each element, scales and zero points among them, by the name of the parameter.
    elements: Mapping[str, Fraction] = field(default_factory=dict)
    #: What a reader should know.
    notes: tuple[str, ...] = ()


def stored_widths(module: nn.Module, model: object = None) -> Widths:
    """How the weights are stored: as the files beside the configuration say, else as ``quantization_config`` says.

    Args:
        module: the model that transformers built.
        model: the path that it was built from.
    """
    name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    if name.lower().endswith(".gguf"):
        return _of_files(module, name)
    folder = os.path.dirname(name) if os.path.isfile(name) else name
    if folder and os.path.isdir(folder) and any(f.endswith(".safetensors") for f in os.listdir(folder)):
        return _of_files(module, folder)
    settings = getattr(module.config, "quantization_config", None)
    if settings is None:
        return Widths()
    return _of_settings(module, settings if isinstance(settings, Mapping) else settings.to_dict())


def _of_files(module: nn.Module, path: str) -> Widths:
    """The stored bytes of the files, in the share in which the parameters have them.

    A parameter with a tensor of its name and size has that tensor's width; the others share what is left.

    Raises:
        ModelError: a file is damaged.
    """
    from flopwise.readers.formats import in_folder, open_stored

    try:
        file = in_folder(path) if os.path.isdir(path) else path
    except ModelError as error:  # shards without an index
        return Widths(notes=(f"stored widths are not known: {error}",))
    if _is_pointer(file):
        return Widths(
            notes=(f"stored widths are not known: {os.path.basename(file)} is a Git LFS pointer, not weights",)
        )
    opened = open_stored(file)
    with opened as stored:
        total = sum(tensor.nbytes for tensor in stored.tensors)
        by_name = {tensor.name: tensor for tensor in stored.tensors}
    widths: dict[str, Fraction] = {}
    rest: dict[str, int] = {}
    left = total
    for name, parameter in module.named_parameters():
        tensor = by_name.get(name)
        if tensor is not None and tensor.numel == parameter.numel():
            widths[name] = Fraction(tensor.nbytes, max(tensor.numel, 1))
            left -= tensor.nbytes
        else:
            rest[name] = parameter.numel()
    share = Fraction(max(left, 0), max(sum(rest.values()), 1))
    widths.update(dict.fromkeys(rest, share))
    return Widths(widths, (f"weights as stored in {os.path.basename(path.rstrip('/'))}: {total:,} bytes",))


def _is_pointer(path: str) -> bool:
    """Whether a file is what a checkout without Git LFS has in place of the weights."""
    with open(path, "rb") as file:
        return file.read(len(_LFS)) == _LFS


def _of_settings(module: nn.Module, settings: Mapping[str, Any]) -> Widths:
    """The widths that a quantisation's settings stand for."""
    method = str(settings.get("quant_method", "")).lower().replace("-", "_")
    rule = _METHODS.get(method)
    if rule is None:
        note = (
            f"quantization_config names {method or 'no method'!r}, whose widths are not known: counted as plain weights"
        )
        return Widths(notes=(note,))
    skipped = [str(name) for name in settings.get("modules_to_not_convert") or settings.get("ignore") or ("lm_head",)]
    widths = {
        name: rule(shape, settings)
        for name, shape in _matrices(module)
        if not any(part in name for part in skipped) and "embed" not in name
    }
    note = f"quantised ({method}): {len(widths)} weights are stored in fewer bits, with their scales; "
    return Widths(widths, (note + "the program here multiplies them in plain numbers, as after dequantisation",))


def _matrices(module: nn.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The weights that quantisers take: those of linear layers, and stacks of experts."""
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            linear = isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
            if (linear and name == "weight") or parameter.dim() == 3:
                yield (f"{path}.{name}" if path else name), tuple(parameter.shape)


def _fp8(shape: Sequence[int], settings: Mapping[str, Any]) -> Fraction:
    """One byte, and a scale in single precision for each block of 128 × 128 or as the settings say."""
    block = settings.get("weight_block_size")
    if not block:
        return Fraction(1)
    rows, columns = (-(-size // by) for size, by in zip(shape[-2:], block, strict=True))
    return 1 + Fraction(rows * columns * _SINGLE, shape[-2] * shape[-1])


def _mxfp4(shape: Sequence[int], settings: Mapping[str, Any]) -> Fraction:
    """Half a byte, and one byte of scale for each 32 elements (OCP Microscaling Formats, version 1.0)."""
    return Fraction(1, 2) + Fraction(1, 32)


def _grouped(shape: Sequence[int], settings: Mapping[str, Any]) -> Fraction:
    """The bits of an element; for each group a scale in half precision and a zero point of as many bits."""
    bits = Fraction(int(settings.get("bits") or settings.get("w_bit") or 4), 8)
    group = int(settings.get("group_size") or settings.get("q_group_size") or 128)
    return bits + (_HALF + bits) / (group if group > 0 else shape[-1])


def _gptq(shape: Sequence[int], settings: Mapping[str, Any]) -> Fraction:
    """As for every group-wise quantisation, and the group of each input in four bytes."""
    return _grouped(shape, settings) + Fraction(_SINGLE, shape[-2])


def _bitsandbytes(shape: Sequence[int], settings: Mapping[str, Any]) -> Fraction:
    """In 4 bits a scale for each 64 elements, itself in 8 bits where quantised twice; in 8 bits one for each row."""
    if not (settings.get("load_in_4bit") or settings.get("_load_in_4bit")):
        return 1 + Fraction(_SINGLE, shape[-1])
    twice = settings.get("bnb_4bit_use_double_quant")
    scale = 1 + Fraction(_SINGLE, 256) if twice else Fraction(_SINGLE)
    return Fraction(1, 2) + scale / 64


#: ``quant_method`` -> bytes of an element of a weight of this shape.
_METHODS: dict[str, Callable[[Sequence[int], Mapping[str, Any]], Fraction]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "mxfp4": _mxfp4,
    "gptq": _gptq,
    "awq": _grouped,
    "bitsandbytes": _bitsandbytes,
    "bitsandbytes_4bit": _bitsandbytes,
    "bitsandbytes_8bit": _bitsandbytes,
}
