"""Shapes of what moves, picks or makes data, and of layouts with the channels last or in blocks."""

from __future__ import annotations

import math

from flopwise.operators.shape import ACTIVATION, Call, ShapeRule, Types
from flopwise.operators.size import Dims, Most, UnresolvedError, axis_of

# Shapes of what moves, picks or makes data.


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


# Shapes of convolutions and pooling with the channels last, or in blocks.


def channels_first(shape: Dims) -> Dims:
    return (shape[0], shape[-1], *shape[1:-1])


def channels_last(shape: Dims) -> Dims:
    return (shape[0], *shape[2:], shape[1])


def _windowed(op: str, weights: int | None = None, like: int = 0) -> ShapeRule:
    """The rule of a convolution or pooling that keeps channels last; a QLinear one does where channels_last says so.

    Args:
        op: the standard operator.
        weights: place of the weights, None for a pooling.
        like: place of the input that has the element type of the result.
    """

    def rule(call: Call) -> Types:
        last = bool(call.attribute("channels_last", int(not call.op.startswith("QLinear"))))
        x = call.ranked(0)
        if len(x) < 3:
            raise UnresolvedError
        types = [call.tensor("float32", channels_first(x) if last else x)]
        if weights is not None:
            types.append(call.tensor("float32", call.ranked(weights, len(x))))
        shape = call.ask(op, types, without=("channels_last", *ACTIVATION))
        if shape is None:
            return []
        return [call.tensor(call.dtype(like), channels_last(shape) if last else shape)]

    return rule


def blocked_conv(call: Call) -> Types:
    """W says how many channels there are, those included that fill a block up."""
    x = call.ranked(0)
    types = [call.tensor("float32", (x[0], _channels(call), *x[2:])), call.tensor("float32", call.ranked(1))]
    return [call.tensor(call.dtype(0), call.ask("Conv", types, without=ACTIVATION))]


def into_blocks(call: Call) -> Types:
    """Size of a block: no operator says it; the weights of the convolutions show it."""
    x = call.ranked(0, 4)
    first = channels_first(x) if call.attribute("channels_last", 0) else x
    convolutions = list(call.others("Conv"))
    filled = [_channels(conv) for conv in convolutions if call.feeds(conv)]
    if not filled:
        block = math.gcd(*(conv.ranked(1)[0] for conv in convolutions)) or 1
        filled = [-(-first[1] // min(block, _LARGEST_BLOCK)) * min(block, _LARGEST_BLOCK)]
    return [call.tensor(call.dtype(0), (first[0], filled[0], *first[2:]))]


#: Channels of a block: 8 or 16, by the processor that the model was optimised for.
_LARGEST_BLOCK = 16


def _channels(call: Call) -> int:
    """The channels that a convolution takes."""
    return int(call.ranked(1)[1] * call.attribute("group", 1))


def out_of_blocks(call: Call) -> Types:
    x = call.ranked(0, 4)
    shape = (x[0], call.positive("channels"), *x[2:])
    return [call.tensor(call.dtype(0), channels_last(shape) if call.attribute("channels_last", 0) else shape)]


def enlarged(call: Call) -> Types:
    x, scales = call.ranked(0), call.attribute("scales", [])
    if len(scales) != len(x):
        raise UnresolvedError
    return [call.tensor(call.dtype(0), (d * n for d, n in zip(x, scales, strict=True)))]


conv = _windowed("Conv", 1)
qlinear_conv = _windowed("Conv", 3, like=7)
average_pool = _windowed("AveragePool")
max_pool = _windowed("MaxPool")
lp_pool = _windowed("LpPool")
global_average_pool = _windowed("GlobalAveragePool")
global_max_pool = _windowed("GlobalMaxPool")
global_lp_pool = _windowed("GlobalLpPool")
