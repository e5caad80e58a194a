"""Quantised operators by their formulas: operands less their zero points; sums through scale, rounding and range."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.operators.oracle.linear import conv, matmul
from tests.operators.oracle.number import larger, nearest, plain, pointwise, smaller

#: Bounds of the output's type.
RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint4": (0, 15), "int4": (-8, 7), "int16": (-32768, 32767)}


def spread(parameter: Any, shape: tuple[int, ...], axis: int, block_size: int) -> Any:
    """A scale or zero point for each element: one for all, one for each place on an axis, or one for each block."""
    if parameter is None or parameter.ndim == 0 or parameter.size == 1:
        return parameter
    if not block_size:
        return parameter.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    blocks = np.repeat(parameter, block_size, axis)
    return blocks[tuple(slice(0, n) for n in shape)]


def saturate(x: Any, to: str) -> Any:
    low, high = RANGES[to]
    return pointwise(lambda v: smaller(high, larger(low, v)), x)


def quantize(x: Any, scale: Any, zero: Any = None, *, to: str = "uint8", axis: int = 1, block_size: int = 0) -> Any:
    y = pointwise(nearest, x / spread(scale, x.shape, axis, block_size))
    if zero is not None:
        y = y + spread(zero, x.shape, axis, block_size)
    return saturate(y, to)


def dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0) -> Any:
    if zero is not None:
        x = x - spread(zero, x.shape, axis, block_size)
    return x * spread(scale, x.shape, axis, block_size)


def dynamic_quantize(x: Any) -> tuple[Any, Any, Any]:
    least: Any = np.inf
    most: Any = -np.inf
    for number in x.flat:
        least, most = smaller(plain(least), number), larger(plain(most), number)
    least, most = smaller(0.0, least), larger(0.0, most)
    scale = (most - least) / 255.0
    zero = nearest(smaller(255.0, larger(0.0, 0.0 - least / scale)))
    return quantize(x, np.array(scale, object), np.array(zero, object)), np.array(scale), np.array(zero)


def shifted(x: Any, zero: Any, axis: int = 0) -> Any:
    return x if zero is None else x - spread(zero, x.shape, axis, 0)


def ratios(left: Any, right: Any, result: Any) -> Any:
    return pointwise(lambda a, b, y: a * b / y, left, right, result)


def requantize(sums: Any, factors: Any, zero: Any, to: str) -> Any:
    return saturate(pointwise(nearest, sums * factors) + zero, to)


def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **attrs: Any) -> Any:
    return conv(shifted(x, x_zero), shifted(w, w_zero), **attrs)


def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1))


def qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    b: Any = None,
    *,
    to: str = "uint8",
    **attrs: Any,
) -> Any:
    sums = conv(shifted(x, x_zero), shifted(w, w_zero), b, **attrs)
    per_feature = ratios(x_scale, w_scale, y_scale).reshape(-1, *[1] * (x.ndim - 2))
    return requantize(sums, per_feature, y_zero, to)


def qlinear_matmul(
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    y_scale: Any,
    y_zero: Any,
    *,
    to: str = "uint8",
) -> Any:
    sums = matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1))
    rows = a_scale[:, np.newaxis] if a_scale.ndim == 1 else a_scale
    return requantize(sums, ratios(rows, b_scale, y_scale), y_zero, to)


DEFINITIONS = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "ConvInteger": conv_integer,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
}
