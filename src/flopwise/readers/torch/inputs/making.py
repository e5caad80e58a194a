"""Tensors made from what a caller says of them: a shape, a text, an array."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy
import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.errors import InputError
from flopwise.readers.inputs import FORM, VALUE, InputSpec, Value, is_dtype, parse
from flopwise.readers.torch.capture.tensors import DTYPES
from flopwise.readers.torch.inputs.dims import Dims

_BY_NAME = {name: dtype for dtype, name in reversed(DTYPES.items())}

#: Parameters of forward() that hold whole numbers: positions in a table, and flags of what is padding.
_WHOLE = """
    input_ids decoder_input_ids token_type_ids position_ids attention_mask decoder_attention_mask labels ids tokens
    input_tokens pixel_attention_mask bbox idx indices token_ids
"""
WHOLE = frozenset(_WHOLE.split())


def is_shape(value: object) -> TypeGuard[Sequence[int | str]]:
    """True if a value is a sequence of sizes, one at least, some of them perhaps by name."""
    if not isinstance(value, (tuple, list)) or not value:
        return False
    return all(isinstance(v, (int, str, numpy.integer)) and not isinstance(v, bool) for v in value)


def position_name(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else f"input{position}"


class Making:
    """Tensors made from the caller's description."""

    def __init__(self, model: nn.Module, dims: Dims, batch: int | None) -> None:
        self._dims = dims
        self._batch = batch
        self._dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        if self._dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            self._dtype = torch.float32
        self.made: set[int] = set()
        #: Whether an input has taken the batch size.
        self.batched = False

    def one(self, name: str, value: object) -> object:
        """The argument that a value stands for."""
        if isinstance(value, TorchTensor):
            return value
        if isinstance(value, Value):
            return value.value
        if isinstance(value, InputSpec):
            return self._from(value)
        if isinstance(value, numpy.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, str) and value.startswith(VALUE):
            return _literal(name, value.removeprefix(VALUE))
        if isinstance(value, str):
            return self._from(parse(value if value.startswith(f"{name}:") else f"{name}:{value}", [name]))
        if is_shape(value):
            return self._tensor(name, tuple(value), None)
        if type(value) is dict:  # a mapping of another kind is an object of the program's own
            return {key: self.one(key, part) for key, part in value.items()}
        if isinstance(value, (list, tuple)) and value:
            return type(value)([self.one(name, part) for part in value])
        return value

    def text(self, text: str, names: Sequence[str], position: int) -> tuple[str | None, object]:
        """The name that a text gives, None when it gives none, and the argument."""
        named = next((name for name in names if text.startswith(f"{name}:{VALUE}")), None)
        if named is not None:
            return named, _literal(named, text.removeprefix(f"{named}:{VALUE}"))
        if text.startswith(VALUE):
            return None, _literal(position_name(names, position), text.removeprefix(VALUE))
        if any(text.startswith(f"{name}:") for name in names):
            spec = parse(text, names)
            return spec.name, self._from(spec)
        head = text.partition(":")[0]
        if (
            head != text
            and head.isidentifier()
            and names
            and not (is_dtype(head) or ("x" in head and head.replace("x", "").isdigit()))
        ):
            raise InputError(
                f"no input is named as in {text!r}; the inputs are {', '.join(map(repr, names))}; write {FORM}"
            )
        spec = parse(text, [position_name(names, position)])
        return None, self._from(spec)

    def _from(self, spec: InputSpec) -> object:
        if spec.value is not None:
            dtype = _BY_NAME.get(spec.dtype or "")
            tensor = torch.as_tensor(numpy.asarray(spec.value))
            return tensor.to(dtype or (self._dtype if tensor.is_floating_point() else tensor.dtype))
        return self._tensor(spec.name, spec.shape, spec.dtype)

    def _tensor(self, name: str, shape: Sequence[int | str], dtype: str | None) -> TorchTensor:
        sizes = [self._size(d, name) for d in shape]
        if self._batch is not None and sizes:
            sizes[0], self.batched = self._batch, True
        if any(size < 0 for size in sizes):
            raise InputError(f"input {name!r}: {'x'.join(map(str, sizes))} has a negative size")
        if dtype is not None and dtype not in _BY_NAME:
            raise InputError(f"input {name!r}: PyTorch has no element type {dtype}")
        kind = _BY_NAME[dtype] if dtype else torch.int64 if name in WHOLE else self._dtype
        if math.prod(sizes) * kind.itemsize >= 1 << 63:
            raise InputError(f"input {name!r}: {'x'.join(map(str, sizes))} has more bytes than PyTorch can count")
        with torch.device("meta"):
            tensor = torch.empty(sizes, dtype=kind)
        self.made.add(id(tensor))
        return tensor

    def _size(self, dim: int | str, name: str) -> int:
        if not isinstance(dim, str):
            return int(dim)
        size = self._dims.find(dim)
        if size is None:
            raise InputError(f"input {name!r}: {dim!r} has no value; give --dim {dim}=NUMBER")
        return size


def _literal(name: str, text: str) -> object:
    """The value that a text spells as Python does; nothing is evaluated.

    Raises:
        InputError: it is no number, text, list, tuple, dict, set, True, False or None.
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InputError(
            f"input {name!r}: {text[:100]!r} is no value; write it as in Python, for example {name}:value:[(1, 8, 8)]"
        ) from None


def filled(tensor: TorchTensor, name: str) -> TorchTensor:
    """Elements for an input of which only the shape is known: ones for masks, zeros for whole numbers, else chance."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        chance = torch.Generator().manual_seed(0)
        return torch.rand(tensor.shape, dtype=torch.float32, generator=chance).to(tensor.dtype)
    return torch.full(tensor.shape, int("mask" in name), dtype=tensor.dtype)
