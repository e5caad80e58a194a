"""Shapes of matrix products, attention and recurrent layers."""

from __future__ import annotations

from flopwise.analyses.formula.dim import larger
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
    return [product(site.shape(0), site.shape(1))]


def qlinear_matmul(site: Site) -> list[Shape | None]:
    """As of a product of inputs 0 and 3."""
    return [product(site.shape(0), site.shape(3))]


def fused_matmul(site: Site) -> list[Shape | None]:
    """As of a product of factors that may be transposed."""
    sides: list[Shape] = []
    for index, side in enumerate("AB"):
        shape = site.shape(index)
        if len(shape) > 1 and site.attr(f"transBatch{side}", 0):
            shape = (*shape[1:-1], shape[0], shape[-1])
        if len(shape) > 1 and site.attr(f"trans{side}", 0):
            shape = (*shape[:-2], shape[-1], shape[-2])
        sides.append(shape)
    return [product(*sides)]


def gemm(site: Site) -> list[Shape | None]:
    """M × N."""
    a, b = site.shape(0), site.shape(3 if site.node.op == "com.microsoft::QGemm" else 1)
    if site.attr("transA", 0):
        a = a[::-1]
    if site.attr("transB", 0):
        b = b[::-1]
    same(a[1], b[0])
    return [(a[0], b[1])]


def columns(site: Site) -> list[Shape | None]:
    """A's rows and as many columns as the attribute N says."""
    return [(*site.shape(0)[:-1], site.attr("N"))]


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
    return [site.shape(1 if site.node.op == "com.microsoft::GemmaRotaryEmbedding" else 0)]


def projected_attention(site: Site) -> list[Shape | None]:
    """onnxruntime's Attention with projections: batch × steps × width of V; the cache with the new keys."""
    x, w, heads = site.shape(0), site.shape(1), site.attr("num_heads")
    past = 8 if site.node.op.endswith("QAttention") else 4
    sizes = site.attr("qkv_hidden_sizes") or [w[-1] // 3] * 3
    total = x[1]
    if site.has(past):
        total = site.shape(past)[3] if site.attr("past_present_share_buffer", 0) else site.shape(past)[3] + total
    return [(x[0], x[1], sizes[2]), (2, x[0], heads, total, sizes[0] // heads)]


def multi_head_attention(site: Site) -> list[Shape | None]:
    """onnxruntime's MultiHeadAttention: batch × steps × width of V; keys and values with those of the past."""
    query, heads = site.shape(0), site.attr("num_heads")
    size = width = query[4] if len(query) == 5 else query[2] // heads
    total = query[1]
    if len(query) == 3 and not site.has(1):
        size = width = query[2] // 3 // heads
    elif len(query) == 3:
        key = site.shape(1)
        total = key[2] if len(key) == 4 else key[1]
        if site.has(2):
            value = site.shape(2)
            width = value[3] if len(value) == 4 else value[2] // heads
    if site.has(6):
        kept = site.shape(6)[2]
        total = kept if site.has(8) else kept + total
    scores = (query[0], heads, query[1], total)
    return [(query[0], query[1], heads * width), *((query[0], heads, total, s) for s in (size, width)), scores]


def grouped_attention(site: Site) -> list[Shape | None]:
    """onnxruntime's GroupQueryAttention: batch × steps × width; a cache for all tokens, or a buffer that is longer."""
    query, heads, groups = site.shape(0), site.attr("num_heads"), site.attr("kv_num_heads")
    size = query[2] // (heads if site.has(1) else heads + 2 * groups)
    output: Shape = (query[0], query[1], heads * size)
    try:
        (total,) = site.whole(6)
    except UnknownError:
        return [output]
    if not site.has(3):
        new = site.shape(1)[1] if site.has(1) and len(site.shape(1)) == 3 else query[1]
        return [output, *[(query[0], groups, larger(total, new), size)] * 2]
    past = site.shape(3)
    return [output, *[(*past[:2], larger(past[2], total), past[3])] * 2]


RULES = {
    **dict.fromkeys(
        ("MatMul", "MatMulInteger", "com.microsoft::GemmFastGelu", "com.microsoft::MatMulIntegerToFloat"), matmul
    ),
    **dict.fromkeys(("com.microsoft::DynamicQuantizeMatMul", "com.microsoft::MatMulInteger16"), matmul),
    "QLinearMatMul": qlinear_matmul,
    **dict.fromkeys(("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul"), fused_matmul),
    **dict.fromkeys(("Gemm", "com.microsoft::FusedGemm", "com.microsoft::QGemm"), gemm),
    **dict.fromkeys(("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4"), columns),
    "Einsum": einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN", "com.microsoft::DynamicQuantizeLSTM"), recurrent),
    "Attention": attention,
    "LinearAttention": linear_attention,
    "ai.onnx.preview::FlexAttention": flex_attention,
    "CausalConvWithState": causal_conv,
    **dict.fromkeys(
        ("RotaryEmbedding", "com.microsoft::RotaryEmbedding", "com.microsoft::GemmaRotaryEmbedding"), rotary
    ),
    **dict.fromkeys(("com.microsoft::Attention", "com.microsoft::QAttention"), projected_attention),
    "com.microsoft::MultiHeadAttention": multi_head_attention,
    "com.microsoft::GroupQueryAttention": grouped_attention,
}
