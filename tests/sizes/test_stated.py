"""Sizes that the data decide and that the file alone states: they are used, said, and not exact."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto
from tests.formats.models import ints, model, node, value, weight

import flopwise


def net(*nodes: onnx.NodeProto, stated: dict[str, tuple[int, ...]], sizes: int = 1) -> onnx.ModelProto:
    """A model that takes ``x`` and sizes, and states shapes of other tensors."""
    made = model([*nodes], {"x": (4, 8)}, [weight("w", 8, 3), ints("zero", 0), ints("one", 1)])
    made.graph.input.append(value("n", (sizes,), TensorProto.INT64))
    made.graph.value_info.extend(value(name, shape) for name, shape in stated.items())
    return made


SLICE = node("Slice", "x zero n", "s"), node("MatMul", "s w", "y")
EXPAND = node("Expand", "x n", "s"), node("MatMul", "s w", "y")
RESHAPE = node("Reshape", "x n", "s"), node("MatMul", "s w", "y")
CASES = {
    "slice": (SLICE, 1, (2, 8), 2 * 8 * 3),
    "expand": (EXPAND, 3, (5, 4, 8), 5 * 4 * 8 * 3),
    "reshape": (RESHAPE, 2, (4, 8), 4 * 8 * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_used_and_said(name: str) -> None:
    nodes, sizes, shape, macs = CASES[name]
    profile = flopwise.profile(net(*nodes, stated={"s": shape}, sizes=sizes))
    coverage = profile.to_dict()["coverage"]
    assert profile.total("macs") == macs
    assert (coverage["stated"], coverage["exact"], profile.stated) == (["s"], False, ("s",))
    assert any(note.startswith("stated: the data decide how large 1 tensor is") for note in profile.notes)


def test_what_the_user_gives_is_exact() -> None:
    profile = flopwise.profile(net(*SLICE, stated={"s": (2, 8)}), {"n": numpy.array([3])})
    assert (profile.total("macs"), profile.stated, profile.exact) == (3 * 8 * 3, (), True)


def test_what_follows_from_operators_is_exact() -> None:
    certain = [node("Slice", "x zero one", "s"), node("MatMul", "s w", "y")]
    profile = flopwise.profile(net(*certain, stated={"s": (1, 8), "y": (1, 3)}))
    assert (profile.stated, profile.exact) == ((), True)


def test_an_operator_that_nobody_knows_is_no_matter_of_data() -> None:
    nodes = [node("Mystery", "x", "s", domain="acme"), node("MatMul", "s w", "y")]
    made = model(nodes, {"x": (4, 8)}, [weight("w", 8, 3)], domains={"acme": 1}, values=[value("s", (2, 8))])
    counted: Any = flopwise.profile(made, rules={"acme::Mystery": lambda one: flopwise.Counts(add=1)})
    assert (counted.stated, counted.exact) == ((), True)


def test_the_number_of_what_is_not_zero() -> None:
    nodes = [node("NonZero", "x", "p"), node("Transpose", "p", "y")]
    counted = flopwise.profile(model(nodes, {"x": (4, 8)}, values=[value("p", (2, 7), TensorProto.INT64)]))
    assert (counted.stated, counted.exact) == (("p",), False)
