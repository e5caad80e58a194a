"""Shapes of what moves, picks or makes data."""

from __future__ import annotations

import math

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import Most, UnresolvedError, axis_of


def concatenated(call: Call) -> Types:
    shapes = [call.ranked(i) for i in range(2, call.inputs, 3)]
    axis = call.attribute("axis", 0)
    if not shapes or len({len(s) for s in shapes}) > 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        raise UnresolvedError
    dims = list(shapes[0])
    dims[axis] = sum(s[axis] for s in shapes)
    return [call.tensor(call.dtype(2), dims)]


def expanded(call: Call) -> Types:
    dims, axis = list(call.ranked(0)), call.number(1)
    dims.insert(axis_of(axis, len(dims) + 1), 1)
    return [call.tensor(call.dtype(0), dims)]


def looked_up(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (*call.ranked(1), *call.ranked(0)[1:]))]


def gathered(call: Call) -> Types:
    """Several elements share a byte of the table, along its last axis."""
    data, indices = call.ranked(0), call.ranked(1)
    axis, packed = call.attribute("gather_axis", 0), 8 // call.attribute("bits", 4) if call.dtype(0) == "uint8" else 1
    dims = [*data[:-1], data[-1] * packed]
    if not -len(dims) <= axis < len(dims):
        raise UnresolvedError
    axis %= len(dims)
    return [call.tensor(call.dtype(2), (*dims[:axis], *indices, *dims[axis + 1 :]))]


def gathered_packed(call: Call) -> Types:
    return [call.tensor(call.type_attribute("output_dtype", "bfloat16"), (*call.ranked(1), call.positive("K")))]


def unfolded(call: Call) -> Types:
    dims, axis = list(call.ranked(0)), call.attribute("dim", -1)
    size, step = call.positive("size"), call.attribute("step", 1)
    if not -len(dims) <= axis < len(dims) or step < 1 or dims[axis] < size:
        raise UnresolvedError
    dims[axis] = (dims[axis] - size) // step + 1
    return [call.tensor(call.dtype(0), (*dims, size))]


def cropped(call: Call) -> Types:
    size = call.wholes(3)
    if len(size) != 2:
        raise UnresolvedError
    return [call.tensor(call.dtype(0), (call.ranked(1, 2)[0], call.ranked(0, 4)[1], *size))]


def position_bias(call: Call) -> Types:
    query, key = call.number(1), call.number(2)
    if query is None or key is None:
        raise UnresolvedError
    return [call.tensor(call.dtype(0), (1, call.ranked(0, 2)[1], query, key))]


def gated_bias(call: Call) -> Types:
    relative = call.ranked(2, 4)
    batch = call.shape(6)[0] if call.has(6) else call.ranked(0, 3)[0]
    return [call.tensor(call.dtype(0), (batch, *relative[1:]))]


def rotated(call: Call) -> Types:
    return [call.type(1), call.type(3)]


def without_padding(call: Call) -> Types:
    """At most all tokens, where none is padding."""
    x = call.ranked(0, 3)
    tokens = call.tensor(call.dtype(0), (Most(x[0] * x[1]), x[2]))
    return [tokens, call.tensor("int32", x[:2]), call.tensor("int32", (x[0] + 1,)), call.tensor("int32", (1,))]


def restored(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (*call.ranked(1, 2), call.ranked(0)[-1]))]


def padded(call: Call) -> Types:
    """Pad, whose paddings may have two axes."""
    pads = call.wholes(1)
    types = [call.type(0), call.tensor("int64", (len(pads),))]
    return [call.tensor(call.dtype(0), call.ask("Pad", types, values=[None, pads]))]


def range_(call: Call) -> Types:
    """Range, whose bounds may be vectors of one number, and whose step is 1 when it is left out."""
    start, limit, step = (_number(call, place) if call.has(place) else 1.0 for place in range(3))
    return [call.tensor(call.dtype(0), [math.ceil(max((limit - start) / step, 0.0))])]


def _number(call: Call, place: int) -> float:
    elements = call.elements(place)
    if len(elements) != 1 or elements[0] is None:
        raise UnresolvedError
    return float(elements[0])
