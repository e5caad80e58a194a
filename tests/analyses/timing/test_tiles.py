"""Padding and waves of products on GPUs, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from tests.analyses.advice.planted import Network

import flopwise
from flopwise.analyses.timing.catalog import find
from flopwise.analyses.timing.quantities import Product, padding_share, product_of, wave_share
from flopwise.report.commands.bound import bound_report
from flopwise.report.report import as_text

A100 = find("a100-sxm-80gb")


@pytest.mark.parametrize(
    ("product", "idle"),
    [
        (Product(1, 2560, 2048, 1024), 1 - 160 / 216),  # 10 x 16 tiles on 108 multiprocessors
        (Product(1, 256, 128, 64), 1 - 1 / 108),
        (Product(12, 2304, 128, 64), 0.0),  # 12 x 9 tiles: one full wave
    ],
)
def test_waves(product: Product, idle: float) -> None:
    assert wave_share(product, A100) == pytest.approx(idle)
    assert wave_share(product, find("mi300x")) is None


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 4), ("float16", 8), ("int8", 16)])
def test_padding(dtype: str, unit: int) -> None:
    assert padding_share(Product(1, 7, 4 * unit, unit + 1), dtype, A100) == pytest.approx(1 - (unit + 1) / (2 * unit))
    assert padding_share(Product(1, 7, unit, unit), dtype, A100) == 0
    assert padding_share(Product(1, 7, unit, unit + 1), dtype, find("epyc-7742")) is None


def test_products() -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (2, 6, 10, 10)), "m": (TensorProto.FLOAT, (3, 5, 7))})
    net.add("Conv", f"x {net.weight('w', 9, 6, 3, 3)}", "c")
    net.add("Conv", f"x {net.weight('g', 6, 1, 3, 3)}", "d", group=6)
    net.add("MatMul", f"m {net.weight('v', 7, 11)}", "e")
    net.add("Transpose", "m", "t", perm=[0, 2, 1])
    net.add("MatMul", "m t", "y")
    products = {row.name: product_of(row.node) for row in flopwise.profile(net.model()).rows}
    assert products == {
        "c": Product(1, 2 * 64, 9, 6),
        "e": Product(1, 15, 11, 7),
        "y": Product(3, 5, 5, 7),
        "d": None,
        "t": None,
    }


def test_columns() -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (2560, 1022))})
    net.add("MatMul", f"x {net.weight('w', 1022, 2048)}", "y")
    bound = flopwise.bound(net.model(), device="a100-sxm-80gb")
    text = as_text(bound_report(bound, columns=["name", "padding", "waves"]), "csv")
    figures = [float(cell) for cell in text.splitlines()[1].split(",")[1:]]
    np.testing.assert_allclose(figures, [100 * (1 - 1022 / 1024), 100 * (1 - 160 / 216)], rtol=1e-3)
