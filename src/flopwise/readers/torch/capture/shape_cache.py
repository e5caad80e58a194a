"""Results of operations that were asked for before with tensors of the same shapes: made anew without asking PyTorch.

A network repeats its layers, and working out the shape of a convolution takes PyTorch much longer than making a meta
tensor of a known shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Kwargs

#: Operators whose results are new tensors, of shapes that follow from those of their arguments.
_NAMES = """
    linear matmul mm bmm addmm baddbmm einsum batch_norm instance_norm layer_norm group_norm rms_norm softmax
    log_softmax scaled_dot_product_attention relu gelu silu sigmoid tanh hardswish hardsigmoid hardtanh relu6 elu
    leaky_relu softplus mish exp log sqrt rsqrt pow neg cos sin abs add sub mul div mean sum embedding
    upsample_nearest2d upsample_bilinear2d prelu cat lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
"""
PLAIN = frozenset(
    f"aten.{name}"
    for name in (
        *_NAMES.split(),
        *(f"{name}{rank}d" for name in ("conv", "conv_transpose", "max_pool", "avg_pool") for rank in (1, 2, 3)),
        *(f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3)),
    )
)

#: Operators that write their result over their argument, whatever it is.
OVER = frozenset(
    f"aten.{name}_" for name in ("relu", "hardtanh", "hardswish", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "exp")
)

#: Layers of which one call runs all steps, which are alike.
RECURRENT = frozenset(f"aten.{name}" for name in ("gru", "lstm", "rnn_tanh", "rnn_relu"))

#: Results that are kept; then all are forgotten.
_MOST = 1 << 15


class _Made(NamedTuple):
    """The shape, strides and element type of a result."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype

    def again(self) -> TorchTensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")


_KNOWN: dict[object, _Made | tuple[_Made, ...]] = {}


def key_of(name: str, args: Sequence[Any], kwargs: Kwargs) -> object:
    """A key of the operator with the shapes, strides and types of its tensors, and its other arguments."""
    parts: list[object] = [name, len(args)]
    for arg in (*args, *kwargs, *kwargs.values()) if kwargs else args:
        kind = arg.__class__
        if isinstance(arg, TorchTensor):
            parts.append((arg.shape, arg.stride(), arg.dtype))
        elif kind is list or kind is tuple:
            parts.append(key_of("", arg, {}))
        else:
            parts.append((kind, arg))
    return tuple(parts)


def again(key: object) -> Any:
    """Results like those that were made before; None when there were none."""
    try:
        results = _KNOWN.get(key)
    except TypeError:  # an argument that no dictionary takes
        return None
    if results is None:
        return None
    return results.again() if isinstance(results, _Made) else tuple([one.again() for one in results])


def keep(key: object, result: object) -> None:
    """Remember the shapes of what an operator gave: a tensor, or several."""
    several = result if type(result) is tuple else (result,)
    if any(type(one) is not TorchTensor or one._base is not None or not one.is_meta for one in several):
        return
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    results = tuple([_Made(one.shape, one.stride(), one.dtype) for one in several])
    try:
        _KNOWN[key] = results if type(result) is tuple else results[0]
    except TypeError:
        return
