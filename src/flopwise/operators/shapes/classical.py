"""Shapes of operators of the standard that onnx infers nothing for: classical machine learning, and gradients."""

from __future__ import annotations

from flopwise.operators.shape import Call, Types


def floats(call: Call) -> Types:
    """The shape of the first input, in floating point."""
    return [call.tensor("float32", call.ranked(0))]


def _rows(call: Call) -> int:
    """How many samples there are: a vector is one."""
    shape = call.ranked(0)
    return shape[0] if len(shape) > 1 else 1


def linear(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), call.attribute("targets", 1)))]


def support_vectors(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), 1))]


def trees(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), call.attribute("n_targets", 1)))]


def tree_classes(call: Call) -> Types:
    words, numbers = (call.attribute(f"classlabels_{kind}", []) for kind in ("strings", "int64s"))
    rows = _rows(call)
    label = call.tensor("string" if words else "int64", [rows])
    return [label, call.tensor("float32", [rows, len(words or numbers)])]


def side_by_side(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), sum(call.attribute("inputdimensions", []))))]


def gradients(call: Call) -> Types:
    return [call.type_of(name.decode()) for name in call.attribute("xs", [])]
