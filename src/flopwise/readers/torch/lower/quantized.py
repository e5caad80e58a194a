"""Operators of PyTorch's quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, tensors


def _layer(op: str, dynamic: bool, relu: bool = False) -> Callable[..., Lowered]:
    """A quantized layer: its weight was packed, and is handed over by name.

    A ReLU on integers is one of the bounds of their range.
    """
    attrs = {"dynamic": int(dynamic), "relu": int(dynamic and relu)}

    def lowered(input: Tensor, *packed: Any, weight: Tensor, bias: Tensor | None = None, **more: Any) -> Lowered:
        return Lowered(f"quantized::{op}", (input, weight, bias), dict(attrs))

    return lowered


def _several(op: str) -> Callable[..., Lowered]:
    """An operator of one or more tensors; the scale and the zero point of the result follow."""

    def lowered(input: Any, *rest: Any, **more: Any) -> Lowered:
        return Lowered(f"quantized::{op}", tensors(input, *rest))

    return lowered


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{f"quantized.linear{relu}": _layer("linear", False) for relu in ("", "_relu")},
    **{f"quantized.linear{relu}_dynamic": _layer("linear", True, bool(relu)) for relu in ("", "_relu")},
    **{f"quantized.linear{relu}_dynamic_fp16": _layer("linear_fp16", True, bool(relu)) for relu in ("", "_relu")},
    **{
        f"quantized.conv{rank}d{relu}{dynamic}": _layer("conv", bool(dynamic), bool(relu))
        for rank in (1, 2, 3)
        for relu in ("", "_relu")
        for dynamic in ("", "_dynamic")
    },
    **{f"quantized.{op}{relu}": _several(op) for op in ("add", "mul", "cat") for relu in ("", "_relu")},
    **{f"quantized.{op}": _several(op) for op in ("hardswish", "leaky_relu")},
}
