"""Attention operators of ``com.microsoft``: projections, and then the same attention as ONNX's operator.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from dataclasses import dataclass

from flopwise.counts import Counts
from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.ops.attention import SOFTMAX
from flopwise.ops.extents import extent, product, required
from flopwise.ops.operator import Operator, by

#: One rotated element: two products and a sum, as in RotaryEmbedding.
_ROTATED = Counts(mul=2, add=1)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The extents of an attention: queries that meet keys, in heads."""

    batch: int
    heads: int
    #: Queries of each member of the batch.
    length: int
    #: Keys that each of them meets.
    total: int
    #: Extent of a query or key in one head, and of a value.
    size: int
    value_size: int

    def counts(self, node: Node, *, masks: int = 0) -> Counts:
        """Both products, the scale of queries and keys, softmax; and, for each mask, one addition to every score."""
        queries = self.batch * self.heads * self.length
        scores = queries * self.total
        work = Counts(
            mac=scores * (self.size + self.value_size),
            mul=queries * self.size + self.batch * self.heads * self.total * self.size,
            add=scores * masks,
        )
        if node.attrs.get("softcap", 0.0):
            work += Counts(div=1, tanh=1, mul=1) * scores
        return work + SOFTMAX * scores


def _projected(inputs: Tensor, weights: Tensor, node: Node, bias: int) -> Counts:
    """The product of the input with weights, and a bias."""
    made = product(inputs.dims[:-1]) * extent(node, weights, -1)
    return Counts(mac=made * extent(node, weights, 0), add=made if node.has_input(bias) else 0)


def _given(node: Node, *places: int) -> int:
    """How many of these inputs are given."""
    return sum(node.has_input(place) for place in places)


def attention(node: Node) -> Counts:
    """at most B × S × D × (Dq + Dk + Dv) mac and as many of the outputs add (projections and bias), then B × N × S ×
    T × (dk + dv) mac, the scale of Q and K, softmax; each mask or bias 1 add to every score (mask_index,
    attention_bias, unidirectional). T = past + S; with past_present_share_buffer T is the length of the buffer, an
    upper bound.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Attention
    """
    return _self_attention(node, weights=1, bias=2, masks=_given(node, 3, 5), past=4)


def quantized_attention(node: Node) -> Counts:
    """at most as Attention, with the products of integers; zero points: numel(input) and numel(weight) add; scales: 1
    mul for each projected element.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention
    """
    made = product(node.input(0).dims[:-1]) * extent(node, node.input(1), -1)
    shifts = sum(node.input(x).numel for x, zero in ((0, 6), (1, 7)) if node.has_input(zero))
    work = _self_attention(node, weights=1, bias=2, masks=_given(node, 5), past=8)
    return work + Counts(mul=made, add=shifts)


def _self_attention(node: Node, weights: int, bias: int, masks: int, past: int) -> Counts:
    x, w = node.input(0), node.input(weights)
    heads = required(node, "num_heads")
    sizes = node.attrs.get("qkv_hidden_sizes") or [extent(node, w, -1) // 3] * 3
    if len(sizes) != 3:
        raise ShapeError(f"{node.op} {node.name!r}: qkv_hidden_sizes has {len(sizes)} numbers, not 3")
    length = extent(node, x, -2)
    batch = product(x.dims[:-2])
    total = length
    if node.has_input(past):
        shared = node.attrs.get("past_present_share_buffer", 0)
        total = extent(node, node.input(past), 3) + (0 if shared else length)
    shape = _Heads(batch, heads, length, total, sizes[0] // heads, sizes[2] // heads)
    work = _projected(x, w, node, bias)
    if node.attrs.get("do_rotary", 0):
        work += _ROTATED * (batch * length * (sizes[0] + sizes[1]))
    return work + shape.counts(node, masks=masks + int(bool(node.attrs.get("unidirectional", 0))))


def packed_attention(node: Node) -> Counts:
    """as Attention on the tokens that are there: tokens × D × (Dq + Dk + Dv) mac and a bias; at most B × N × S² × (dk +
    dv) mac and softmax, for sequences as long as the longest.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedAttention
    """
    x, w, heads = node.input(0), node.input(1), required(node, "num_heads")
    sizes = node.attrs.get("qkv_hidden_sizes") or [extent(node, w, -1) // 3] * 3
    batch, length = (extent(node, node.input(3), axis) for axis in (0, 1))
    shape = _Heads(batch, heads, length, length, sizes[0] // heads, sizes[-1] // heads)
    return _projected(x, w, node, 2) + shape.counts(node, masks=_given(node, 5))


def packed_multi_head_attention(node: Node) -> Counts:
    """at most B × N × S² × (dk + dv) mac, scale and softmax, for sequences as long as the longest; bias: 1 add for each
    element of Q, K and V.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedMultiHeadAttention
    """
    query, heads = node.input(0), required(node, "num_heads")
    batch, length = (extent(node, node.input(4), axis) for axis in (0, 1))
    packed = len(query.dims) == 4
    size = extent(node, query, -1) if packed else extent(node, query, -1) // heads
    value_size = size if packed else extent(node, node.input(2), -1) // heads
    biased = sum(t.numel for t in node.known_inputs[: 1 if packed else 3]) if node.has_input(3) else 0
    shape = _Heads(batch, heads, length, length, size, value_size)
    return shape.counts(node, masks=_given(node, 6)) + Counts(add=biased)


def multi_head_attention(node: Node) -> Counts:
    """B × N × S × T × (dk + dv) mac, the scale of Q and K, softmax; bias: 1 add for each element of Q, K and V; each
    mask or bias of the scores (key_padding_mask, attention_bias, unidirectional): 1 add to every score. T = past +
    keys.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention
    """
    return _given_heads(node, bias=3, masks=_given(node, 4, 5), past=6)


def decoder_masked_attention(node: Node) -> Counts:
    """at most as MultiHeadAttention for one new query; with past_present_share_buffer T is the length of the buffer,
    an upper bound.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedMultiHeadAttention
    """
    return _given_heads(node, bias=10, masks=_given(node, 3, 4), past=5)


def _given_heads(node: Node, bias: int, masks: int, past: int) -> Counts:
    query, heads = node.input(0), required(node, "num_heads")
    batch, length = extent(node, query, 0), extent(node, query, 1)
    packed = len(query.dims) == 5
    biased = query.numel
    if packed:  # B × S × N × 3 × d
        size = value_size = extent(node, query, -1)
        total = length
    else:
        size = extent(node, query, -1) // heads
        key = node.input(1) if node.has_input(1) else query
        total, value_size = _keys(node, key, size, heads)
        biased += sum(node.input(i).numel for i in (1, 2) if node.has_input(i) and len(node.input(i).dims) == 3)
    if node.has_input(past):
        shared = node.attrs.get("past_present_share_buffer", 0)
        total = extent(node, node.input(past), 2) + (0 if shared else total)
    shape = _Heads(batch, heads, length, total, size, value_size)
    masks += int(bool(node.attrs.get("unidirectional", 0)))
    return shape.counts(node, masks=masks) + Counts(add=biased if node.has_input(bias) else 0)


def _keys(node: Node, key: Tensor, size: int, heads: int) -> tuple[int, int]:
    """How many keys there are, and the extent of a value: keys are B × T × D, B × N × T × d, or packed with values."""
    if len(key.dims) == 4:
        return extent(node, key, 2), extent(node, node.input(2), -1) if node.has_input(2) else size
    if len(key.dims) == 5:
        return extent(node, key, 1), size
    return extent(node, key, 1), extent(node, node.input(2), -1) // heads if node.has_input(2) else size


def grouped_attention(node: Node) -> Counts:
    """at most B × N × S × T × 2d mac, the scale of Q and K, softmax, and softcap if it is set; do_rotary: (2 mul + 1
    add) for each element of Q and the new keys; norms of Q and K: as RMSNormalization; attention_bias, and the causal
    frontier: 1 add to every score; head_sink or smooth_softmax: 1 add for each row. T is the length of present_key,
    an upper bound.

    A causal mask and a local window are not subtracted.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
    """
    return _grouped(node, past=3, bias=_given(node, 10), sink=11, norm=14)


def sparse_attention(node: Node) -> Counts:
    """as GroupQueryAttention over all keys: at most, because the layout of blocks is data.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention
    """
    return _grouped(node, past=3, bias=0, sink=None, norm=None)


def _grouped(node: Node, past: int, bias: int, sink: int | None, norm: int | None) -> Counts:
    query, heads, groups = node.input(0), required(node, "num_heads"), required(node, "kv_num_heads")
    batch, length = extent(node, query, 0), extent(node, query, 1)
    packed = not node.has_input(1)
    size = extent(node, query, -1) // (heads + 2 * groups if packed else heads)
    new = length if packed or len(node.input(1).dims) == 4 else extent(node, node.input(1), 1)
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        total = extent(node, node.output(1), 2)
    else:
        total = new + (extent(node, node.input(past), 2) if node.has_input(past) else 0)
    work = _Heads(batch, heads, length, total, size, size).counts(node, masks=bias + 1)
    queries, keys = batch * heads * length, batch * groups * new
    if node.attrs.get("do_rotary", 0):
        work += _ROTATED * ((queries + keys) * size)
    if norm is not None and node.has_input(norm):
        rows = queries + keys
        work += Counts(mul=2, add=1, div=1) * (rows * size) + Counts(div=1, add=1, sqrt=1) * rows
    if sink is not None and (node.has_input(sink) or node.attrs.get("smooth_softmax", 0)):
        work += Counts(add=queries)
    return work


def paged_attention(node: Node) -> Counts:
    """at most tokens × N × T × 2d mac, scale and softmax, T = blocks of a sequence × extent of a block; do_rotary: (2
    mul + 1 add) for each element of Q and the new keys; softcap if it is set.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PagedAttention
    """
    query, heads, groups = node.input(0), required(node, "num_heads"), required(node, "kv_num_heads")
    tokens = extent(node, query, 0)
    packed = not node.has_input(1)
    size = extent(node, query, -1) // (heads + 2 * groups if packed else heads)
    total = extent(node, node.input(7), 1) * extent(node, node.input(3), 1)
    work = _Heads(1, heads, tokens, total, size, size).counts(node, masks=1)
    if node.attrs.get("do_rotary", 0):
        work += _ROTATED * (tokens * (heads + groups) * size)
    return work


def decoder_attention(node: Node) -> Counts:
    """at most S × B × D² mac and a bias (Q), T × B × 2D² mac and a bias (K and V), then B × N × S × T × 2d mac, scale
    and softmax, and 1 add to every score for the padding mask. T is the longer of the new keys and the cache.

    query is (S, B, D). Which inputs hold is data, so this is an upper bound.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderAttention
    """
    query, key, heads = node.input(0), node.input(1), required(node, "num_heads")
    length, batch, width = (extent(node, query, axis) for axis in range(3))
    total = extent(node, key, 0)
    made = length * batch * width + total * batch * 2 * width
    work = Counts(mac=made * width, add=made)
    keys = total
    if node.has_input(6):
        keys = length + extent(node, node.input(6), 2)
    return work + _Heads(batch, heads, length, keys, width // heads, width // heads).counts(node, masks=1)


def longformer_attention(node: Node) -> Counts:
    """B × S × D × 3D mac and a bias, for local and again for global attention; B × N × S × (2W + S) × 2d mac, scale and
    softmax, W = window: at most, as if every token attended globally too.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LongformerAttention
    """
    x, heads, window = node.input(0), required(node, "num_heads"), required(node, "window")
    batch, length, width = (extent(node, x, axis) for axis in range(3))
    work = _projected(x, node.input(1), node, 2) + _projected(x, node.input(4), node, 5)
    shape = _Heads(batch, heads, length, 2 * window + length, width // heads, width // heads)
    return work + shape.counts(node, masks=1)


def ordered_attention(node: Node) -> Counts:
    """B × S × D × (Dq + Dk + Dv) mac and the biases, then as Attention; each result of a product is scaled to int8: 1
    mul + 3 cmp for each element of Q, K, V, the scores, the probabilities and the output.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedAttention
    """
    x, heads = node.input(0), required(node, "num_heads")
    batch, length = extent(node, x, 0), extent(node, x, 1)
    work, made = Counts(), 0
    for weight, bias in ((5, 11), (6, 12), (7, 13)):
        work += _projected(x, node.input(weight), node, bias)
        made += batch * length * extent(node, node.input(weight), -1)
    size, value_size = (extent(node, node.input(i), -1) // heads for i in (5, 7))
    scores = batch * heads * length * length
    shape = _Heads(batch, heads, length, length, size, value_size)
    masks = _given(node, 17, 19) + int(bool(node.attrs.get("unidirectional", 0)))
    rescaled: Counts = Counts(mul=1, cmp=3) * (made + 2 * scores + node.output().numel)
    return work + shape.counts(node, masks=masks) + rescaled


def rotary_embedding(node: Node) -> Counts:
    """R × (2 mul + 1 add), R the number of rotated elements: numel(X), or only rotary_embedding_dim of each head;
    scale ≠ 1 is folded into the tables.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RotaryEmbedding
    """
    x, part = node.input(0), node.attrs.get("rotary_embedding_dim", 0)
    rotated: int = x.numel
    if part:
        heads = node.attrs.get("num_heads", 0)
        size = extent(node, x, -1) if len(x.dims) == 4 or not heads else extent(node, x, -1) // heads
        rotated = x.numel // size * part
    return _ROTATED * rotated


def gemma_rotary_embedding(node: Node) -> Counts:
    """numel(emb) × 2 trig, and 2 mul + 1 add for each element of q and k.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmaRotaryEmbedding
    """
    return Counts(trig=2) * node.input(0).numel + _ROTATED * (node.input(1).numel + node.input(3).numel)


def gated_relative_position_bias(node: Node) -> Counts:
    """numel(query) add (bias); rows × d × D mac and rows × D add (product and bias), rows = B × N × S; rows × (D − 2)
    add (two sums); 2 sigmoids, 2 mul and 2 add for each row; numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRelativePositionBias
    """
    y, weight = node.output(), node.input(3)
    rows = product(y.dims[:3])
    size, width = extent(node, weight, 0), extent(node, weight, 1)
    once = Counts(mac=size * width, add=width + width) + Counts(bit=1, exp=1, add=1, div=1) * 2 + Counts(mul=2, add=2)
    return once * rows + Counts(add=rows * size, mul=y.numel)


OPERATORS: dict[str, Operator] = {
    "com.microsoft::Attention": by(attention, "bound"),
    "com.microsoft::DecoderMaskedSelfAttention": by(attention, "bound"),
    "com.microsoft::QAttention": by(quantized_attention, "bound"),
    "com.microsoft::PackedAttention": by(packed_attention, "bound"),
    "com.microsoft::PackedMultiHeadAttention": by(packed_multi_head_attention, "bound"),
    "com.microsoft::MultiHeadAttention": by(multi_head_attention),
    "com.microsoft::DecoderMaskedMultiHeadAttention": by(decoder_masked_attention, "bound"),
    "com.microsoft::GroupQueryAttention": by(grouped_attention, "bound"),
    "com.microsoft::SparseAttention": by(sparse_attention, "bound"),
    "com.microsoft::PagedAttention": by(paged_attention, "bound"),
    "com.microsoft::DecoderAttention": by(decoder_attention, "bound"),
    "com.microsoft::LongformerAttention": by(longformer_attention, "bound"),
    "com.microsoft::QOrderedAttention": by(ordered_attention),
    "com.microsoft::RotaryEmbedding": by(rotary_embedding),
    "com.microsoft::GemmaRotaryEmbedding": by(gemma_rotary_embedding),
    "com.microsoft::GatedRelativePositionBias": by(gated_relative_position_bias),
}
