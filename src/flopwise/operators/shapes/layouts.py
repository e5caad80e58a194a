"""Shapes of convolutions and pooling with the channels last, or in blocks."""

from __future__ import annotations

import math

from flopwise.operators.shape import ACTIVATION, Call, ShapeRule, Types
from flopwise.operators.size import Dims, UnresolvedError


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
