"""Attention in its forms and rotary position embedding, as the function bodies in the ONNX schema define them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flopwise.errors import ShapeError
from flopwise.graph import Node, Shape
from flopwise.operators import gradient, shape
from flopwise.operators.counts import SOFTMAX, Counts
from flopwise.operators.extents import broadcast, extent, product, required
from flopwise.operators.inputs import FACTOR, inputs
from flopwise.operators.masks import ABSORBED, pairs_left
from flopwise.operators.operator import Operator, by


def attention(node: Node) -> Counts:
    """numel(Q) × T mac (QKᵀ) + numel(Y) × T mac (AV) + numel(Q) mul and B × Hq × T × d mul (Q and K scaled) + scores
    × (1 cmp + 2 add + 1 exp + 1 div) (softmax), scores = B × Hq × S × T, T = past + new keys. Softcap: scores × (1
    div + 1 tanh + 1 mul). Any mask, is_causal too: scores × 1 add; a mask that is an input also numel(mask) + rows
    cmp, to find the rows with nothing to attend to. All scores count, those too that a mask leaves out; what it
    leaves is counted apart, as needed.

    With 4-D inputs Q is (B, Hq, S, d); with 3-D inputs (B, S, Hq × d). Keys and values of grouped heads are repeated
    for each query head. Masks that follow from shapes and attributes alone are constants, as is the scale.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    return _attention(node, needed=False)


def needed_attention(node: Node) -> Counts:
    """As ``attention``, with the scores that the masks let through (q × k pairs) in place of all scores."""
    return _attention(node, needed=True)


def _attention(node: Node, *, needed: bool) -> Counts:
    """Counts of an Attention over all query-key pairs, or only over those that its masks let through if ``needed``."""
    query, key = node.input(0), node.input(1)
    length = extent(node, query, -2)
    heads: int
    if len(query.dims) == 3:
        batch, heads = extent(node, query, 0), node.attrs.get("q_num_heads", 1)
        hidden = extent(node, query, 2)
    else:
        batch, heads = product(query.dims[:-3]), extent(node, query, -3)
        hidden = heads * extent(node, query, -1)
    total = extent(node, key, -2)
    if node.has_input(4):
        total += extent(node, node.input(4), -2)
    scores = batch * heads * length * total
    products = (query.numel + node.output().numel) * total
    if needed:
        pairs = pairs_left(node, batch, heads, length, total)
        products, scores = products * pairs // scores if scores else products, pairs
    keys = 0 if node.attrs.get(ABSORBED) else batch * hidden * total  # latents are no keys that a head scales
    counts = Counts(mac=products, mul=query.numel + keys)
    if node.attrs.get("softcap", 0.0):
        counts += Counts(div=1, tanh=1, mul=1) * scores
    return counts + _mask(node, batch, length, total, scores) + SOFTMAX * scores


class _Mask(NamedTuple):
    """One of the masks that are summed, then added to the scores."""

    shape: Shape
    #: Whether it depends on an input; one that does not is a constant, and adding constants is folded.
    varies: bool
    #: Counts of computing it.
    work: Counts = Counts()


def _mask(node: Node, batch: int, length: int, total: int, scores: int) -> Counts:
    """Counts of summing the masks, adding them to the scores, and finding rows that are masked out entirely."""
    masks = list(_masks(node, batch, length, total))
    if not masks:
        return Counts()
    counts = Counts(add=scores)
    shape: Shape = () if node.has_input(3) else (length, total)
    varies = False
    for position, mask in enumerate(masks):
        shape = broadcast(shape, mask.shape)
        counts += mask.work
        if position and (varies or mask.varies):
            counts += Counts(add=product(shape))
        varies = varies or mask.varies
    if varies:
        counts += Counts(cmp=product(shape) + product(shape[:-1]))
    return counts


def _masks(node: Node, batch: int, length: int, total: int) -> Iterator[_Mask]:
    """The masks that the node has: input mask, causal mask, sliding window, padding of the cache.

    The number of valid keys is an input (nonpad_kv_seqlen); with it, causal mask and window differ between samples.
    """
    padded = node.has_input(6)
    constant = _Mask((length, total), varies=False)
    shape, positions = (batch, 1, length, total), batch * length * total
    offsets = Counts(add=batch + batch * length)
    if node.has_input(3):
        yield _Mask((*node.input(3).dims[:-1], total), varies=True)
    if node.attrs.get("is_causal", 0):
        yield _Mask(shape, True, offsets + Counts(cmp=positions)) if padded else constant
    left, right = (int(node.attrs.get(f"{side}_window_size", -1) >= 0) for side in ("left", "right"))
    if left or right:
        distances = Counts(add=1, cmp=left + right, bit=right + left * right) * positions
        yield _Mask(shape, True, offsets + distances) if padded else constant
    if padded:
        yield _Mask((batch, 1, 1, total), True, Counts(cmp=batch * total))


def flex_attention(node: Node) -> Counts:
    """numel(Q) × T mac (QKᵀ) + numel(Y) × T mac (AV) + numel(Q) mul and B × Hq × T × d mul (Q and K scaled) + B × Hq ×
    S × T × (1 cmp + 2 add + 1 exp + 1 div) (softmax): an Attention without masks.

    What a graph in score_mod or prob_mod does to the scores is not known.

    https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html

    Raises:
        ShapeError: there is such a graph.
    """
    graphs = [name for name in ("score_mod", "prob_mod") if name in node.attrs]
    if graphs:
        raise ShapeError(f"{node.op} {node.name!r}: the graph in its attribute {graphs[0]} is not analysed")
    return attention(node)


def linear_attention(node: Node) -> Counts:
    """S × (1 mac + 1 add) (k ⊗ v added to the state), S = B × T × Hkv × dk × dv; numel(Q) × dv mac + numel(Y) mul (read
    and scaled). Update rules gated and gated_delta: S mul + numel(decay) exp; delta and gated_delta: S mac + numel(V) ×
    (1 add + 1 mul).

    All T steps count, the first one with its state of zeros too.

    https://onnx.ai/onnx/operators/onnx__LinearAttention.html
    """
    query, key, value = node.input(0), node.input(1), node.input(2)
    size = extent(node, value, -1) // required(node, "kv_num_heads")
    state = key.numel * size
    counts = Counts(mac=state + query.numel * size, add=state, mul=node.output().numel)
    update = node.attrs.get("update_rule", "gated_delta")
    if update not in UPDATES:
        raise ShapeError(f"{node.op} {node.name!r}: unknown update_rule {update!r}")
    if "gated" in update:
        counts += Counts(mul=state, exp=node.input(4).numel)
    if "delta" in update:
        counts += Counts(mac=state) + Counts(add=1, mul=1) * value.numel
    return counts


#: How LinearAttention can update its state.
UPDATES = ("linear", "gated", "delta", "gated_delta")


def rotary_embedding(node: Node) -> Counts:
    """R × (2 mul + 1 add), R the number of rotated elements: numel(X), or only rotary_embedding_dim of each head.

    Each pair (a, b) becomes (a cos − b sin, a sin + b cos).

    https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
    """
    x = node.input(0)
    rotated = x.numel
    partial = node.attrs.get("rotary_embedding_dim", 0)
    if partial:
        heads = node.attrs.get("num_heads", 0) if len(x.dims) == 3 else 1
        if not heads:
            raise ShapeError(f"RotaryEmbedding {node.name!r}: a 3-D input needs the attribute num_heads")
        rotated = product(x.dims[:-1]) * heads * partial
    return Counts(mul=2, add=1) * rotated


OPERATORS: dict[str, Operator] = {
    "Attention": by(
        attention,
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        gradient=gradient.by("linear:attention", "linear:keeps", again="linear:recomputed"),
        needed=needed_attention,
        shape="algebra:attention",
        dtype=shape.dtypes("algebra:attention_types"),
    ),
    "LinearAttention": by(
        linear_attention,
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        gradient=gradient.by("linear:linear_attention", "linear:keeps_states", again="linear:states_again"),
        shape="algebra:linear_attention",
        dtype=shape.dtypes("algebra:linear_attention_types"),
    ),
    "ai.onnx.preview::FlexAttention": by(
        flex_attention, inputs=inputs(FACTOR, FACTOR, FACTOR), shape="algebra:flex_attention"
    ),
    "RotaryEmbedding": by(
        rotary_embedding, gradient=gradient.by("linear:rotary", gradient.inputs_at(1, 2)), shape=shape.alike
    ),
}
