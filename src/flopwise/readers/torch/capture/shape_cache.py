"""Results of operations that were asked for before with tensors of the same shapes: made anew without asking PyTorch.

A network repeats its layers, and working out the shape of a convolution takes PyTorch much longer than making a meta
tensor of a known shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor as TorchTensor

#: Operators whose only result is a new tensor, of a shape that follows from those of their arguments.
_PLAIN = [
    *(f"{name}{rank}d" for name in ("conv", "conv_transpose", "max_pool", "avg_pool") for rank in (1, 2, 3)),
    *(f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3)),
    "linear",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "einsum",
    "batch_norm",
    "instance_norm",
    "layer_norm",
    "group_norm",
    "rms_norm",
    "softmax",
    "log_softmax",
    "scaled_dot_product_attention",
    "relu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "relu6",
    "elu",
    "leaky_relu",
    "softplus",
    "mish",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "pow",
    "neg",
    "cos",
    "sin",
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "mean",
    "sum",
    "embedding",
    "upsample_nearest2d",
    "upsample_bilinear2d",
    "prelu",
    "cat",
]
PLAIN = frozenset(f"aten.{name}" for name in _PLAIN)

#: Operators that write their result over their argument, whatever it is.
OVER = frozenset(
    f"aten.{name}_" for name in ("relu", "hardtanh", "hardswish", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "exp")
)

#: Results that are kept; then all are forgotten.
_MOST = 1 << 15

_Made: TypeAlias = "tuple[torch.Size, tuple[int, ...], torch.dtype]"
_KNOWN: dict[Any, _Made] = {}


def key_of(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the shape of a result depends on; None where it is not known to depend on shapes alone."""
    parts: list[Any] = [name]
    for arg in (*args, *kwargs.items()) if kwargs else args:
        kind = arg.__class__
        if kind is tuple and kwargs and len(arg) == 2 and isinstance(arg[1], TorchTensor):
            parts.append(arg[0])
            arg = arg[1]
        if isinstance(arg, TorchTensor):
            parts.append((arg.shape, arg.stride(), arg.dtype))
        elif kind is list or kind is tuple:
            parts.append(key_of("", arg, {}))
        else:
            parts.append((kind, arg))
    return tuple(parts)


def again(key: Any) -> TorchTensor | None:
    """A result like the one that was made before; None when there was none."""
    try:
        made = _KNOWN.get(key)
    except TypeError:  # an argument that no dictionary takes
        return None
    if made is None:
        return None
    return torch.empty_strided(made[0], made[1], dtype=made[2], device="meta")


def keep(key: Any, result: Any) -> None:
    """Remember the shape of a result."""
    if type(result) is not TorchTensor or result._base is not None or not result.is_meta:
        return
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    try:
        _KNOWN[key] = (result.shape, result.stride(), result.dtype)
    except TypeError:
        return
