"""Shapes of operators of the standard that onnx infers nothing for: classical machine learning, gradients, and the
experimental operators of early versions, of which onnx itself knows nothing any more.
"""

from __future__ import annotations

import math

from flopwise.operators.shape import Call, Types, UnresolvedError


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


def cropped(call: Call) -> Types:
    """X is (N, C, H, W); border is left, top, right, bottom, and scale the height and width that stay."""
    x = call.ranked(0, 4)
    left, top, right, bottom = [*call.attribute("border", []), 0, 0, 0, 0][:4]
    size = call.attribute("scale", [])
    height, width = size if len(size) == 2 else (x[2] - top - bottom, x[3] - left - right)
    return [call.tensor(call.dtype(0), (*x[:2], height, width))]


def constant_filled(call: Call) -> Types:
    return [call.tensor(call.type_attribute("dtype", "float32"), _filled(call))]


def filled(call: Call) -> Types:
    return [call.tensor("float32" if call.attribute("input_as_shape", 0) else call.dtype(0), _filled(call))]


def _filled(call: Call) -> tuple[int, ...]:
    """As an attribute says, or like an input or as its elements say, and some extents more."""
    shape = call.attribute("shape", [])
    if shape or not call.has(0):
        return tuple(shape)
    more = tuple(call.attribute("extra_shape", []))
    if not call.attribute("input_as_shape", 0):
        return (*call.ranked(0), *more)
    value = call.value(0)
    if value is None:
        raise UnresolvedError
    return (*map(int, value.ravel()), *more)


def sliced(call: Call) -> Types:
    """Starts, ends and axes are inputs, as they are of Slice since version 10."""
    values = [call.value(place) if call.has(place) else None for place in range(1, 4)]
    if values[0] is None or values[1] is None or (call.has(3) and values[2] is None):
        raise UnresolvedError
    types = [call.tensor("float32", call.ranked(0)), *(call.type(place) for place in range(1, 4))]
    return [call.tensor(call.dtype(0), call.ask("Slice", types, only=(), values=[None, *values]))]


def fully_connected(call: Call) -> Types:
    """X of any rank is a matrix, split before an axis; W is (outputs, inputs)."""
    x, axis = call.ranked(0), call.attribute("axis", 1)
    outputs = math.prod(call.ranked(1)[: call.attribute("axis_w", 1)])
    return [call.tensor(call.dtype(0), (math.prod(x[:axis]), outputs))]
