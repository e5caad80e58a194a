"""Tensors of PyTorch's: their types, tensors inside others, and what sparse, nested and packed ones hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.errors import InputError
from flopwise.formats.inputs import dtype_of
from flopwise.graph import Tensor

#: How PyTorch's element types are called here.
DTYPES: dict[torch.dtype, str] = {d: dtype_of(str(d)) for d in vars(torch).values() if isinstance(d, torch.dtype)}


def flat(things: Sequence[object]) -> Iterator[TorchTensor]:
    """The tensors among some results, nested ones in a row."""
    for thing in things:
        if isinstance(thing, TorchTensor):
            yield thing
        elif isinstance(thing, (tuple, list)):
            yield from flat(thing)


def in_order(tensor: TorchTensor) -> bool:
    """True if the elements are stored in row-major order without gaps."""
    return tensor.layout is torch.strided and tensor.is_contiguous()


def like_meta(tensor: TorchTensor) -> TorchTensor:
    """A meta tensor of the same shape, strides and type."""
    try:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors have no strides
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


#: Operators whose first matrix may be sparse.
SPARSE = frozenset(f"aten.{name}" for name in ("_sparse_mm", "smm", "sspaddmm", "_sparse_sparse_matmul"))


def shape_of(tensor: TorchTensor) -> tuple[int, ...] | None:
    """The shape of a tensor; of a nested one with one ragged axis that of its elements in a row; None for other nested
    ones.
    """
    if not tensor.is_nested:
        return tuple(tensor.shape)
    values = elements_in_a_row(tensor)
    return None if values is None else tuple(values.shape)


def shape_of_input(name: str, tensor: TorchTensor) -> tuple[int, ...]:
    """The shape of an input, as ``shape_of`` has it.

    Raises:
        InputError: it is a nested tensor that has none.
    """
    shape = shape_of(tensor)
    if shape is None:
        raise InputError(
            f"input {name!r} is a nested tensor of the layout torch.strided, which has no shape; make it with "
            "layout=torch.jagged, or pad it with torch.nested.to_padded_tensor"
        )
    return shape


def elements_in_a_row(tensor: TorchTensor) -> TorchTensor | None:
    """The elements of a nested tensor with one ragged axis, which is a view of them; None for any other tensor."""
    values: Any = getattr(tensor, "_values", None) if tensor.is_nested else None
    return values if isinstance(values, TorchTensor) and tensor.dim() == values.dim() + 1 else None


def stored_elements(args: Sequence[object]) -> dict[str, int]:
    """The number of stored elements of the sparse matrix among some arguments, under "nnz"."""
    for arg in args:
        if isinstance(arg, TorchTensor) and arg.layout is not torch.strided and not arg.is_meta:
            return {"nnz": arg._nnz()}
    return {}


def unpacked(packed: object) -> tuple[TorchTensor, TorchTensor | None] | None:
    """The weight and the bias of a packed layer; None for anything else."""
    if not isinstance(packed, torch.ScriptObject):
        return None
    for name in ("linear_unpack", "linear_unpack_fp16", "conv1d_unpack", "conv2d_unpack", "conv3d_unpack"):
        unpack: Any = getattr(torch.ops.quantized, name)
        try:
            weight, bias = unpack(packed)
        except (RuntimeError, TypeError):
            continue
        return weight, bias
    return None


def packed_tensors(args: Sequence[object], module: str) -> dict[str, Tensor]:
    """The weight and the bias in the packed form of a quantized layer, by name; nothing where there is none.

    Args:
        args: the arguments of an operator.
        module: the path of the layer.
    """
    for packed in args:
        tensors = unpacked(packed)
        if tensors is not None:
            prefix = f"{module}." if module else ""
            return {
                name: Tensor(prefix + name, tuple(t.shape), DTYPES.get(t.dtype), "weight")
                for name, t in zip(("weight", "bias"), tensors, strict=False)
                if t is not None
            }
    return {}
