"""Small applications of quantised operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.operators.arrays import Input, reference
from tests.operators.case import Case, case

_RANDOM = np.random.default_rng(7)


def bytes_(*shape: int, dtype: Any = np.uint8) -> Input:
    """Whole numbers over all of an 8-bit type."""
    kind = np.iinfo(dtype)
    return Input(_RANDOM.integers(kind.min, kind.max + 1, size=shape, dtype=dtype))


def scale(*shape: int) -> Input:
    return Input(_RANDOM.uniform(0.01, 0.05, size=shape).astype(np.float32))


def zero(*shape: int, dtype: Any = np.uint8) -> Input:
    """Zero points that differ, unless there is one."""
    return Input(_RANDOM.integers(1, 100, size=shape).astype(dtype))


def real(*shape: int) -> Input:
    return Input(_RANDOM.normal(size=shape).astype(np.float32))


def conversion_cases() -> Iterator[Case]:
    signed = {"dtype": np.int8}
    yield case("QuantizeLinear", real(2, 3), scale())
    yield case("QuantizeLinear", real(2, 3), scale(), zero())
    yield Case("QuantizeLinear", (real(2, 3), scale(), zero(**signed)), told={"to": "int8"})
    yield case("QuantizeLinear", real(2, 3, 4), scale(3), zero(3))
    yield case("QuantizeLinear", real(2, 3, 4), scale(4), zero(4), axis=-1)
    yield case("QuantizeLinear", real(2, 6), scale(2, 3), zero(2, 3), axis=1, block_size=2)
    yield Case("QuantizeLinear", (real(2, 3), scale(), zero(dtype=np.int16)), told={"to": "int16"})
    yield case("QuantizeLinear", real(2, 3), scale(), zero(), version=10)
    yield case("DequantizeLinear", bytes_(2, 3), scale())
    yield case("DequantizeLinear", bytes_(2, 3, **signed), scale(), zero(**signed))
    yield case("DequantizeLinear", bytes_(2, 3, 4), scale(3), zero(3), axis=1)
    yield case("DequantizeLinear", bytes_(5, 4), scale(3, 4), zero(3, 4), axis=0, block_size=2)
    yield case("DequantizeLinear", Input(np.array([3, -70000], np.int32)), scale())
    yield case("DynamicQuantizeLinear", real(3, 4), outputs=3)
    yield case("DynamicQuantizeLinear", Input(np.abs(real(7).array)), outputs=3)


def product_cases() -> Iterator[Case]:
    signed = {"dtype": np.int8}
    x, w = bytes_(1, 2, 4, 5), bytes_(4, 2, 3, 2, **signed)
    yield case("ConvInteger", x, w)
    yield case("ConvInteger", x, w, zero())
    yield case("ConvInteger", x, w, zero(), zero(**signed), pads=[1, 0, 1, 1], strides=[2, 1])
    yield case("ConvInteger", x, bytes_(4, 1, 2, 2), zero(), zero(4), group=2)
    yield case("ConvInteger", bytes_(1, 2, 3, 4, 3), bytes_(2, 2, 2, 2, 2), zero())
    yield case("ConvInteger", bytes_(1, 2, 5), bytes_(3, 2, 2))
    yield case("MatMulInteger", bytes_(3, 4), bytes_(4, 5, **signed))
    yield case("MatMulInteger", bytes_(3, 4), bytes_(4, 5), zero())
    yield case("MatMulInteger", bytes_(3, 4), bytes_(4, 5, **signed), zero(), zero(5, **signed))
    yield case("MatMulInteger", bytes_(2, 1, 3, 4), bytes_(5, 4, 2), zero(), zero())
    rows, columns = bytes_(3, 4), bytes_(4, 5)
    zeros = zero(3)
    # onnx's reference implementation takes the zero points of rows for those of columns.
    sums = reference("MatMulInteger", [rows, columns, Input(zeros.array[:, np.newaxis])])
    yield Case("MatMulInteger", (rows, columns, zeros), expected=lambda *_: sums)

    def layer(x: Input, w: Input, *more: Input, scales: tuple[int, ...] = ()) -> tuple[Input, ...]:
        kind = {"dtype": w.array.dtype}
        y_scale = Input(np.float32(1.5 * x.array[0].size / 20))
        return x, scale(), zero(), w, scale(*scales), zero(*scales, **kind), y_scale, zero(), *more

    bias = Input(np.array([5000, -7000, 0, 900], np.int32))
    yield case("QLinearConv", *layer(x, w))
    yield case("QLinearConv", *layer(x, w, bias), pads=[1, 1, 1, 0], strides=[1, 2])
    yield case("QLinearConv", *layer(x, w, bias, scales=(4,)))
    yield case("QLinearConv", *layer(x, bytes_(4, 1, 2, 2), scales=(4,)), group=2)
    yield case("QLinearMatMul", *layer(bytes_(3, 4), bytes_(4, 5)))
    yield case("QLinearMatMul", *layer(bytes_(3, 4), bytes_(4, 5), scales=(5,)))
    yield case("QLinearMatMul", *layer(bytes_(2, 1, 3, 4), bytes_(5, 4, 2)))
    a, _, _, *rest = layer(bytes_(3, 4), bytes_(4, 5), scales=(5,))
    by_row = scale(3), zero(3)
    quantized = reference("QLinearMatMul", [a, *(Input(p.array[:, np.newaxis]) for p in by_row), *rest])
    yield Case("QLinearMatMul", (a, *by_row, *rest), expected=lambda *_: quantized)


def domain_cases() -> Iterator[Case]:
    """Operators that QONNX defines in numpy, written here once more for right values."""
    x, step, start, bits = real(2, 3, 4), positive_number(0.5), Input(np.array([1.0])), Input(np.array([4.0]), False)
    coarse, fewer = Input(np.array([1.0]), False), Input(np.array([3.0]), False)

    def quant(x: Any, scale: Any, zero: Any, bits: Any) -> list[Any]:
        del bits
        return [(np.round(np.clip(x / scale + zero, -8, 7)) - zero) * scale]

    def trunc(x: Any, scale: Any, zero: Any, *others: Any) -> list[Any]:
        return [np.round(np.clip(np.round(x / scale + zero) / 2, -4, 3)) - zero / 2]

    def reached(v: Any, thresholds: Any) -> list[Any]:
        return [(v[..., None] >= thresholds[None, :, None, :]).sum(-1) * 2.0 - 3.0]

    for domain in ("onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general"):
        yield Case(f"{domain}::Quant", (x, step, start, bits), expected=quant)
        yield Case(f"{domain}::Trunc", (x, step, start, bits, coarse, start, fewer), expected=trunc)
        yield Case(f"{domain}::BipolarQuant", (x, step), expected=lambda x, s: [np.where(x >= 0, s, -s)])
        if domain != "onnx.brevitas":
            attrs = {"out_scale": 2.0, "out_bias": -3.0}
            yield Case(f"{domain}::MultiThreshold", (x, real(3, 7)), attrs, expected=reached)
            yield Case(
                f"{domain}::MultiThreshold",
                (x, real(1, 5)),
                expected=lambda v, t: [(v[..., None] >= t[0]).sum(-1).astype(float)],
            )
    yield Case("qonnx.custom_op.general::IntQuant", (x, step, start, bits), expected=quant)


def positive_number(value: float) -> Input:
    return Input(np.array([value]))


FAMILIES = (conversion_cases, product_cases, domain_cases)
