"""Shapes of matrix products, attention and recurrent layers of the standard."""

from __future__ import annotations

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import Dims, MisfitError, broadcast, common, differ, larger, same, written


def times(a: Dims, b: Dims) -> Dims:
    """The shape of A × B, whose inner extents must be the same."""
    if not a or not b:
        raise MisfitError(f"{written(a)} times {written(b)}: a factor is a scalar")
    try:
        same(a[-1], b[0] if len(b) == 1 else b[-2])
    except MisfitError:
        raise MisfitError(f"{written(a)} times {written(b)}: the inner extents differ") from None
    return (*broadcast(a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def matmul(call: Call) -> Types:
    """batch × M × N."""
    return [times(call.shape(0), call.shape(3 if call.op == "QLinearMatMul" else 1))]


def gemm(call: Call) -> Types:
    """M × N."""
    a, b = call.shape(0), call.shape(1)
    if len(a) != 2 or len(b) != 2:
        raise MisfitError(f"{written(a)} times {written(b)}: the factors are not matrices")
    if call.attr("transA", 0):
        a = a[::-1]
    if call.attr("transB", 0):
        b = b[::-1]
    try:
        same(a[1], b[0])
    except MisfitError:
        raise MisfitError(f"{written(a)} times {written(b)}: the inner extents differ") from None
    return [(a[0], b[1])]


def einsum(call: Call) -> Types:
    """The extents of the labels on the right, or of those that occur once."""
    left, arrow, right = str(call.attr("equation")).replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    dots: list[Dims] = []
    for place, operand in enumerate(left.split(",")):
        shape = call.shape(place)
        before, ellipsis, after = operand.partition("...")
        end = len(shape) - len(after)
        if ellipsis:
            dots.append(shape[len(before) : end])
        for label, extent in zip((*before, *after), (*shape[: len(before)], *shape[end:]), strict=True):
            extents[label] = common(extents[label], extent) if label in extents else extent
    hidden = broadcast(*dots) if dots else ()
    if not arrow:
        right = ("..." if dots else "") + "".join(sorted(c for c in set(left) - {",", "."} if left.count(c) == 1))
    before, ellipsis, after = right.partition("...")
    return [(*[extents[c] for c in before], *(hidden if ellipsis else ()), *[extents[c] for c in after])]


def determinant(call: Call) -> Types:
    """One number for each matrix."""
    return [call.shape(0)[:-2]]


def recurrent(call: Call) -> Types:
    """Y: steps × directions × batch × hidden; the states without the steps."""
    x, w, r = call.shape(0), call.shape(1), call.shape(2)
    directions = 2 if call.attr("direction", "forward") == "bidirectional" else 1
    if not len(x) == len(w) == len(r) == 3:
        raise MisfitError(f"{written(x)} with weights {written(w)} and {written(r)}: all have three axes")
    hidden = call.attr("hidden_size") or r[2]
    same(r[0], directions)
    gates = {"LSTM": 4, "GRU": 3}.get(call.op, 1)
    if differ(x[2], w[2]):
        raise MisfitError(f"it takes inputs of {w[2]}, but {written(x)} has {x[2]}")
    if differ(r[1], gates * r[2]) or differ(w[1], r[1]):
        raise MisfitError(f"the weights {written(w)} and {written(r)} are not of {gates} gates")
    if differ(hidden, r[2]):
        raise MisfitError(f"hidden_size is {hidden}, but the weights are {written(r)}")
    first = call.attr("layout", 0)
    batch = x[0] if first else x[1]
    state = (batch, directions, hidden) if first else (directions, batch, hidden)
    for place, what, wanted in (
        (4, "lengths", (batch,)),
        (5, "an initial state", state),
        (6, "an initial state", state),
    ):
        start = call.type(place) if call.has(place) else None
        if start is None or start.shape is None:
            continue
        if len(start.shape) != len(wanted) or any(map(differ, start.shape, wanted)):
            raise MisfitError(f"{what} of {written(start.shape)} where its inputs make it {written(wanted)}")
        for one, other in zip(start.shape, wanted, strict=True):
            same(one, other)
    return [(x[0], x[1], directions, hidden) if first else (x[0], directions, batch, hidden), state, state]


def attention(call: Call) -> Types:
    """As Q with V's width; the keys and values with those of the past before them; the scores.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    q, k, v = call.ranked(0, 3, 4), call.ranked(1, 3, 4), call.ranked(2, 3, 4)
    same(q[0], k[0])
    same(q[0], v[0])
    same(k[-2], v[-2])
    if len(q) == 4:
        heads, steps, groups, new, size, width = q[1], q[2], same(k[1], v[1]), k[2], k[3], v[3]
        output: Dims = (q[0], heads, steps, width)
    else:
        heads, groups = call.attr("q_num_heads"), call.attr("kv_num_heads")
        steps, new, size, width = q[1], k[1], k[2] // groups, v[2] // groups
        output = (q[0], steps, heads * width)
    if call.has(4):
        for place, extent in ((4, size), (5, width)):
            past = call.shape(place)
            for one, other in ((past[0], q[0]), (past[1], groups), (past[3], extent)):
                same(one, other)
    total = call.shape(4)[2] + new if call.has(4) else new
    return [output, (q[0], groups, total, size), (q[0], groups, total, width), (q[0], heads, steps, total)]


def attention_types(call: Call) -> list[str | None]:
    """The past has types of its own."""
    return [call.dtype(0), call.dtype(4 if call.has(4) else 1), call.dtype(5 if call.has(5) else 2), call.dtype(0)]


def linear_attention_types(call: Call) -> list[str | None]:
    """The state has a type of its own."""
    return [call.dtype(0), call.dtype(3 if call.has(3) else 0)]


def linear_attention(call: Call) -> Types:
    """As Q with V's width; the state of each head."""
    q, k, v, heads = call.shape(0), call.shape(1), call.shape(2), call.attr("kv_num_heads")
    size = v[2] // heads
    return [(q[0], q[1], larger(call.attr("q_num_heads"), heads) * size), (q[0], heads, k[2] // heads, size)]


def flex_attention(call: Call) -> Types:
    """As Q with V's width."""
    return [(*call.shape(0)[:-1], call.shape(2)[-1])]


def causal_conv(call: Call) -> Types:
    """As X; the last elements, which the next ones need."""
    x, w = call.shape(0), call.shape(1)
    same(x[1], w[0])
    return [x, call.shape(3) if call.has(3) else (*x[:-1], w[-1] - 1)]
