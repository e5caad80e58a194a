"""Operators of PyTorch that move data, as operators of ONNX: what adds while it moves, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flopwise  # noqa: E402

PLACES = torch.tensor([0, 2, 2])


@pytest.mark.parametrize(
    ("program", "adds"),
    [
        (lambda x: x.index_put((PLACES,), torch.ones(3, 5), accumulate=True), 15),
        (lambda x: x.index_put((PLACES,), torch.ones(3, 5)), 0),
        (lambda x: x.scatter_add(0, torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5)), 15),
        (lambda x: x.scatter(0, torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5)), 0),
        (lambda x: x.index_add(0, PLACES, torch.ones(3, 5)), 15),
        (lambda x: x.index_copy(0, PLACES, torch.ones(3, 5)), 0),
    ],
)
def test_what_is_added_in_place_counts(program: Callable[[Any], Any], adds: int) -> None:
    assert flopwise.profile(program, (4, 5)).total("flops") == adds
