"""Graphs that compute with shapes, beside what onnxruntime makes of them."""

from __future__ import annotations

import pytest
from tests.sizes.arithmetic import Arithmetic, compared


@pytest.mark.parametrize("seed", range(12))
def test_every_shape_is_the_one_that_comes_out(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    right, elements, wrong = compared(Arithmetic(seed).model(60))
    assert not wrong
    assert right > 60
    assert elements > 30


def test_many_operators_change_nothing() -> None:
    pytest.importorskip("onnxruntime")
    assert not compared(Arithmetic(99).model(120, padding=1000))[2]
