"""Tensors that a program makes of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flopwise  # noqa: E402


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        (lambda x: x + x.new_tensor([1.0, 2.0, 3.0]), []),
        (lambda x: x + x.new_tensor(data=[1.0, 2.0, 3.0]), []),
        (lambda x: x + x.new_zeros(size=(2, 3)), ["aten.new_zeros"]),
        (lambda x: x + x.new_full((2, 3), 2.0), ["aten.new_full"]),
        (lambda x: x + torch.zeros_like(x), ["aten.zeros_like"]),
        (lambda x: x + torch.full_like(x, 2.0), ["aten.full_like"]),
        (lambda x: x + torch.zeros(size=(2, 3)), ["aten.zeros"]),
        (lambda x: x + torch.ones(2, 3), ["aten.ones"]),
    ],
)
def test_their_elements_and_sizes_are_known(program: Callable[[Any], Any], kinds: list[str]) -> None:
    profile = flopwise.profile(program, (2, 3))
    assert profile.total("flops") == 6
    assert [output.shape for output in profile.graph.outputs] == [(2, 3)]
    assert [row.node.origin for row in profile.rows] == [*kinds, "aten.add"]
    assert not any("ran on real tensors" in note for note in profile.notes)
