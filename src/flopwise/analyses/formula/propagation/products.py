"""Shapes of matrix products, attention and recurrent layers."""

from __future__ import annotations

from flopwise.analyses.formula.propagation.broadcasting import broadcast, same
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError


def product(a: Shape, b: Shape) -> Shape:
    """The shape of A × B, whose inner extents must be the same."""
    if not a or not b:
        raise UnknownError
    same(a[-1], b[0] if len(b) == 1 else b[-2])
    batch = broadcast(a[:-2], b[:-2])
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def matmul(site: Site) -> list[Shape | None]:
    """batch × M × N."""
    return [product(site.shape(0), site.shape(3 if site.node.op == "QLinearMatMul" else 1))]


def gemm(site: Site) -> list[Shape | None]:
    """M × N."""
    a, b = site.shape(0), site.shape(1)
    if site.attr("transA", 0):
        a = a[::-1]
    if site.attr("transB", 0):
        b = b[::-1]
    same(a[1], b[0])
    return [(a[0], b[1])]


def einsum(site: Site) -> list[Shape | None]:
    """The extents of the labels on the right, or of those that occur once."""
    equation = site.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    extents: dict[str, int] = {}
    dots: list[Shape] = []
    for index, operand in enumerate(left.split(",")):
        shape = site.shape(index)
        before, ellipsis, after = operand.partition("...")
        if ellipsis:
            dots.append(shape[len(before) : len(shape) - len(after)])
        labels = zip((*before, *after), (*shape[: len(before)], *shape[len(shape) - len(after) :]), strict=True)
        for label, extent in labels:
            extents[label] = broadcast((extents[label],), (extent,))[0] if label in extents else extent
    hidden = broadcast(*dots) if dots else ()
    if not arrow:
        right = ("..." if dots else "") + "".join(sorted(c for c in set(left) - {",", "."} if left.count(c) == 1))
    before, ellipsis, after = right.partition("...")
    return [(*(extents[c] for c in before), *(hidden if ellipsis else ()), *(extents[c] for c in after))]


def recurrent(site: Site) -> list[Shape | None]:
    """Y: steps × directions × batch × hidden; the states without the steps."""
    x, r = site.shape(0), site.shape(2)
    same(r[0], 2 if site.attr("direction", "forward") == "bidirectional" else 1)
    same(x[2], site.shape(1)[2])
    hidden = site.attr("hidden_size") or r[-1]
    if site.attr("layout", 0):
        return [(x[0], x[1], r[0], hidden), *[(x[0], r[0], hidden)] * 2]
    return [(x[0], r[0], x[1], hidden), *[(r[0], x[1], hidden)] * 2]


def attention(site: Site) -> list[Shape | None]:
    """As Q with V's width; the keys and values with those of the past before them; the scores.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    q, k, v = site.shape(0), site.shape(1), site.shape(2)
    same(q[0], k[0])
    same(q[0], v[0])
    same(k[-2], v[-2])
    if len(q) == 4:
        same(k[1], v[1])
    if len(q) == 4:
        heads, steps, groups, new, size, width = q[1], q[2], k[1], k[2], k[3], v[3]
        output: Shape = (q[0], heads, steps, width)
    else:
        heads, groups = site.attr("q_num_heads"), site.attr("kv_num_heads")
        steps, new, size, width = q[1], k[1], k[2] // groups, v[2] // groups
        output = (q[0], steps, heads * width)
    if site.has(4):
        for place, extent in ((4, size), (5, width)):
            past = site.shape(place)
            for one, other in ((past[0], q[0]), (past[1], groups), (past[3], extent)):
                same(one, other)
    total = site.shape(4)[2] + new if site.has(4) else new
    return [output, (q[0], groups, total, size), (q[0], groups, total, width), (q[0], heads, steps, total)]


def linear_attention(site: Site) -> list[Shape | None]:
    """As Q with V's width; the state of each head."""
    q, k, v, heads = site.shape(0), site.shape(1), site.shape(2), site.attr("kv_num_heads")
    queries = site.attr("q_num_heads")
    size = v[2] // heads
    return [(q[0], q[1], max(queries, heads) * size), (q[0], heads, k[2] // heads, size)]


def flex_attention(site: Site) -> list[Shape | None]:
    """As Q with V's width."""
    return [(*site.shape(0)[:-1], site.shape(2)[-1])]


def causal_conv(site: Site) -> list[Shape | None]:
    """As X; the last elements, which the next ones need."""
    x, w = site.shape(0), site.shape(1)
    same(x[1], w[0])
    return [x, site.shape(3) if site.has(3) else (*x[:-1], w[-1] - 1)]


def rotary(site: Site) -> list[Shape | None]:
    """As X."""
    return [site.shape(0)]


RULES = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), matmul),
    "Gemm": gemm,
    "Einsum": einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "Attention": attention,
    "LinearAttention": linear_attention,
    "ai.onnx.preview::FlexAttention": flex_attention,
    "CausalConvWithState": causal_conv,
    "RotaryEmbedding": rotary,
}
