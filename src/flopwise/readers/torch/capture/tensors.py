"""Tensors of PyTorch's: how their types are called here, and what holds for them whatever a program does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

#: How PyTorch's element types are called here.
DTYPES: dict[torch.dtype, str] = {
    d: str(d).removeprefix("torch.").replace("float8_e", "float8e").replace("float4_e2m1fn_x2", "float4e2m1")
    for d in vars(torch).values()
    if isinstance(d, torch.dtype)
}
DTYPES.update(
    {
        getattr(torch, name): ours
        for name, ours in (("quint8", "uint8"), ("qint8", "int8"), ("qint32", "int32"))
        if hasattr(torch, name)
    }
)


def flat(things: Sequence[Any]) -> Iterator[TorchTensor]:
    """The tensors among some results, nested ones in a row."""
    for thing in things:
        if isinstance(thing, TorchTensor):
            yield thing
        elif isinstance(thing, (tuple, list)):
            yield from flat(thing)


def in_order(tensor: TorchTensor) -> bool:
    """Whether the elements lie in row-major order, one after the other."""
    return tensor.layout is torch.strided and tensor.is_contiguous()


def like_meta(tensor: TorchTensor) -> TorchTensor:
    """A meta tensor of the same shape, strides and type."""
    try:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors have no strides
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
