"""Attention of com.microsoft, over a cache too, and positions."""

from __future__ import annotations

from dataclasses import dataclass

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, SCALE, SETTING, inputs, scale, zero_point
from flopwise.operators.masks import pairs_within
from flopwise.operators.onnxruntime.quantized import RESCALE
from flopwise.operators.operator import Operator, by, nothing, row_of, unknown

# Positions in ``com.microsoft``: rotation of queries and keys, and biases of scores that hang on the distance.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#: One rotated element: two products and a sum, as in RotaryEmbedding.
ROTATED = Counts(mul=2, add=1)


def rotary_embedding(node: Node) -> Counts:
    """R × (2 mul + 1 add), R the number of rotated elements: numel(X), or only rotary_embedding_dim of each head; scale
    ≠ 1: R mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RotaryEmbedding
    """
    x, part = node.input(0), integer(node, "rotary_embedding_dim", 0)
    rotated: int = x.numel
    if part:
        heads = integer(node, "num_heads", 0) if len(x.dims) == 3 else 1
        if not heads:
            raise ShapeError(f"{node.op} {node.name!r}: rotary_embedding_dim needs the attribute num_heads")
        rotated = product(x.dims[:-1]) * heads * part
    return (ROTATED + Counts(mul=int(node.attrs.get("scale", 1.0) != 1.0))) * rotated


def normalized_rotary(node: Node) -> Counts:
    """n × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt) (RMSNormalization of n = rows × input_width
    elements, rows = B × S × heads), and rows × rotary_embedding_dim × (2 mul + 1 add).

    X is (B, S, heads, stride); input_width 0: all of the last axis.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RMSNormRotary
    """
    x = node.input(0)
    rows, width = product(x.dims[:-1]), integer(node, "input_width", 0) or extent(node, x, -1)
    return (RMS * width + RMS_ROW + ROTATED * integer(node, "rotary_embedding_dim")) * rows


def gemma_rotary_embedding(node: Node) -> Counts:
    """numel(emb) × 2 trig, and 2 mul + 1 add for each element of q and k.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmaRotaryEmbedding
    """
    return Counts(trig=2) * node.input(0).numel + ROTATED * (node.input(1).numel + node.input(3).numel)


def gated_relative_position_bias(node: Node) -> Counts:
    """rows × (d add + d × D mac + D add) (bias, product, bias), rows × D add (sums of either half), rows × 2 sigmoids
    of 1 bit + 1 exp + 1 add + 1 div, rows × (2 mul + 2 add) (the gate), and numel(Y) mul. rows = B × N × S, weight is
    (d, D).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRelativePositionBias
    """
    y, weight = node.output(), node.input(3)
    rows = product(y.dims[:3])
    size, width = extent(node, weight, 0), extent(node, weight, 1)
    once = Counts(mac=size * width, add=size + 2 * width) + SIGMOID * 2 + Counts(mul=2, add=2)
    return once * rows + Counts(mul=y.numel)


POSITIONS: dict[str, Operator] = {
    "com.microsoft::RotaryEmbedding": by(rotary_embedding, shape=shape.alike),
    "com.microsoft::MRotaryEmbedding": by(rotary_embedding, shape=shape.alike),
    "com.microsoft::RMSNormRotary": by(
        normalized_rotary, inputs=inputs(*(DATA,) * 5, SETTING), types="products:norm_rotary"
    ),
    "com.microsoft::GemmaRotaryEmbedding": by(gemma_rotary_embedding, types="movement:rotated"),
    "com.microsoft::GatedRelativePositionBias": by(gated_relative_position_bias, types="movement:gated_bias"),
    "com.microsoft::RelativePositionBias": nothing(
        "copies a row of the table for each distance, which the lengths alone fix", types="movement:position_bias"
    ),
}


# Attention operators of ``com.microsoft``: projections, and then the same attention as ONNX's operator.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


@dataclass(frozen=True, slots=True)
class Heads:
    """The extents of an attention: queries, keys and heads."""

    batch: int
    heads: int
    #: Queries of each member of the batch.
    length: int
    #: Keys that each of them meets.
    total: int
    #: Extent of a query or key in one head, and of a value.
    size: int
    value_size: int

    def counts(self, node: Node, *, masks: int = 0, pairs: int | None = None) -> Counts:
        """Both products, the scale of queries and keys, softmax; and, for each mask, one addition to every score.

        Args:
            node: the attention.
            masks: how many masks are added.
            pairs: the scores that are computed; None: all.
        """
        queries = self.batch * self.heads * self.length
        scores = queries * self.total if pairs is None else pairs
        work = Counts(
            mac=scores * (self.size + self.value_size),
            mul=queries * self.size + self.batch * self.heads * self.total * self.size,
            add=scores * masks,
        )
        if node.attrs.get("softcap", 0.0):
            work += Counts(div=1, tanh=1, mul=1) * scores
        return work + SOFTMAX * scores

    def causal_pairs(self, window: int = 0) -> int:
        """Scores of queries that end with the last key, each with the keys up to its own, or a window of them."""
        queries, keys = self.length, self.total
        if not isinstance(queries, int) or not isinstance(keys, int):
            return self.batch * self.heads * queries * keys
        return self.batch * self.heads * pairs_within(queries, keys, keys - queries, window - 1 if window > 0 else None)


def _projected(inputs: Tensor, weights: Tensor, node: Node, bias: int) -> Counts:
    """The product of the input with weights, and a bias."""
    outputs = product(inputs.dims[:-1]) * extent(node, weights, -1)
    return Counts(mac=outputs * extent(node, weights, 0), add=outputs if node.has_input(bias) else 0)


def how_many(node: Node, *places: int) -> int:
    """The number of these inputs that are given."""
    return sum(node.has_input(place) for place in places)


def _causal(node: Node) -> int:
    return int(bool(node.attrs.get("unidirectional", 0)))


def attention(node: Node) -> Counts:
    """B × S × D × (Dq + Dk + Dv) mac, as many add as there are results when bias is given (projections); then B × N × S
    × T × (dk + dv) mac, the scale of Q and K and softmax as in ONNX's Attention; mask_index, attention_bias and
    unidirectional: 1 add to every score each; do_rotary: 2 mul + 1 add for each element of Q and K. T = past + S, and
    with past_present_share_buffer the length of the buffer, as if it were full.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Attention
    """
    return _self_attention(node, masks=how_many(node, 3, 5), past=4)


def needed_attention(node: Node) -> Counts:
    """As ``attention``; with unidirectional only the scores of a query and the keys up to its own."""
    return _self_attention(node, masks=how_many(node, 3, 5), past=4, needed=True)


def quantized_attention(node: Node) -> Counts:
    """as Attention, with the projections as in MatMulIntegerToFloat: numel(input) and numel(weight) add where their
    zero points are given, numel(weight_scale) mul (product of the scales), and 1 mul for each result.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention
    """
    outputs = product(node.input(0).dims[:-1]) * extent(node, node.input(1), -1)
    shifts = sum(node.input(x).numel for x, zero in ((0, 6), (1, 7)) if node.has_input(zero))
    work = _self_attention(node, masks=how_many(node, 5), past=8)
    return work + Counts(mul=outputs + node.input(4).numel, add=shifts)


def _self_attention(node: Node, masks: int, past: int, needed: bool = False) -> Counts:
    x, w = node.input(0), node.input(1)
    heads, sizes = integer(node, "num_heads"), _sizes(node, w)
    batch, length = product(x.dims[:-2]), extent(node, x, -2)
    total = length
    if node.has_input(past):
        shared = node.attrs.get("past_present_share_buffer", 0)
        total = extent(node, node.input(past), 3) + (0 if shared else length)
    shape = Heads(batch, heads, length, total, sizes[0] // heads, sizes[2] // heads)
    work = _projected(x, w, node, 2)
    if node.attrs.get("do_rotary", 0):
        part = integer(node, "rotary_embedding_dim", 0) or sizes[0] // heads
        work += ROTATED * (batch * length * 2 * heads * part)
    causal = _causal(node)
    return work + shape.counts(node, masks=masks + causal, pairs=shape.causal_pairs() if needed and causal else None)


def _sizes(node: Node, weights: Tensor) -> list[int]:
    """Width of Q, K and V."""
    sizes: list[int] = node.attrs.get("qkv_hidden_sizes") or [extent(node, weights, -1) // 3] * 3
    if len(sizes) != 3:
        raise ShapeError(f"{node.op} {node.name!r}: qkv_hidden_sizes has {len(sizes)} numbers, not 3")
    return sizes


def packed_attention(node: Node) -> Counts:
    """at most tokens × D × (Dq + Dk + Dv) mac and as many add as there are results (projections), B × N × S² × (dk +
    dv) mac, scale and softmax; attention_bias: 1 add to every score. B × S is the shape of token_offset, as if no token
    were padding.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedAttention
    """
    x, w, heads = node.input(0), node.input(1), integer(node, "num_heads")
    sizes = _sizes(node, w)
    batch, length = (extent(node, node.input(3), axis) for axis in (0, 1))
    shape = Heads(batch, heads, length, length, sizes[0] // heads, sizes[2] // heads)
    return _projected(x, w, node, 2) + shape.counts(node, masks=how_many(node, 5))


def packed_multi_head_attention(node: Node) -> Counts:
    """at most B × N × S² × (dk + dv) mac, scale and softmax; bias: 1 add for each element of Q, K and V;
    attention_bias: 1 add to every score. B × S is the shape of token_offset, as if no token were padding.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedMultiHeadAttention
    """
    query, heads = node.input(0), integer(node, "num_heads")
    batch, length = (extent(node, node.input(4), axis) for axis in (0, 1))
    packed = len(query.dims) == 4
    size = extent(node, query, -1) if packed else extent(node, query, -1) // heads
    value_size = size if packed else extent(node, node.input(2), -1) // heads
    biased = sum(node.input(i).numel for i in range(3) if node.has_input(i)) if node.has_input(3) else 0
    shape = Heads(batch, heads, length, length, size, value_size)
    return shape.counts(node, masks=how_many(node, 6)) + Counts(add=biased)


def multi_head_attention(node: Node) -> Counts:
    """B × N × S × T × (dk + dv) mac, the scale of Q and K and softmax as in ONNX's Attention; bias: 1 add for each
    element of Q, K and V that is not yet in heads; key_padding_mask, attention_bias and unidirectional: 1 add to every
    score each. T = past + keys, and with past_sequence_length the length of the buffer, as if it were full.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention
    """
    return _given_heads(node, bias=3, masks=how_many(node, 4, 5), past=6, shared=node.has_input(8))


def needed_multi_head_attention(node: Node) -> Counts:
    """As ``multi_head_attention``; with unidirectional only the scores of a query and the keys up to its own."""
    return _given_heads(node, bias=3, masks=how_many(node, 4, 5), past=6, shared=node.has_input(8), needed=True)


def decoder_masked_attention(node: Node) -> Counts:
    """at most as MultiHeadAttention for one new query; with past_present_share_buffer T is the length of the buffer.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedMultiHeadAttention
    """
    shared = bool(node.attrs.get("past_present_share_buffer", 0))
    return _given_heads(node, bias=10, masks=how_many(node, 3, 4), past=5, shared=shared)


def _given_heads(node: Node, bias: int, masks: int, past: int, shared: bool, needed: bool = False) -> Counts:
    query, heads = node.input(0), integer(node, "num_heads")
    batch, length = extent(node, query, 0), extent(node, query, 1)
    if len(query.dims) == 5:  # B × S × N × 3 × d
        size = value_size = extent(node, query, -1)
        total, biased = length, query.numel
    elif not node.has_input(1):  # B × S × (Dk + Dk + Dv)
        width = extent(node, node.output(), -1)
        size, value_size = (extent(node, query, -1) - width) // 2 // heads, width // heads
        total, biased = length, query.numel
    else:
        size = extent(node, query, -1) // heads
        total, value_size = _keys(node, node.input(1), size, heads)
        flat = [node.input(i) for i in range(3) if node.has_input(i) and len(node.input(i).dims) != 4]
        biased = sum(t.numel for t in flat)
    if node.has_input(past):
        total = extent(node, node.input(past), 2) + (0 if shared else total)
    shape = Heads(batch, heads, length, total, size, value_size)
    causal = _causal(node)
    work = shape.counts(node, masks=masks + causal, pairs=shape.causal_pairs() if needed and causal else None)
    return work + Counts(add=biased if node.has_input(bias) else 0)


def _keys(node: Node, key: Tensor, size: int, heads: int) -> tuple[int, int]:
    """The number of keys, and the extent of a value: keys are B × T × D, B × N × T × d, or packed with values."""
    if len(key.dims) == 4:
        return extent(node, key, 2), extent(node, node.input(2), -1) if node.has_input(2) else size
    if len(key.dims) == 5:
        return extent(node, key, 1), size
    return extent(node, key, 1), extent(node, node.input(2), -1) // heads if node.has_input(2) else size


def decoder_attention(node: Node) -> Counts:
    """at most S × B × D² mac (Q), T × B × 2D² mac (K and V) and 1 add for each result; then B × N × S × T' × 2d mac,
    scale and softmax, and 1 add to every score for key_padding_mask. T' = T, or S and the length of key_cache when it
    is given.

    query is (S, B, D), key (T, B, D). Which of key and cache are used is data.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderAttention
    """
    query, key, heads = node.input(0), node.input(1), integer(node, "num_heads")
    length, batch, width = (extent(node, query, axis) for axis in range(3))
    total = extent(node, key, 0)
    outputs = length * batch * width + total * batch * 2 * width
    keys = length + extent(node, node.input(6), 2) if node.has_input(6) else total
    shape = Heads(batch, heads, length, keys, width // heads, width // heads)
    return Counts(mac=outputs * width, add=outputs) + shape.counts(node, masks=how_many(node, 5))


def longformer_attention(node: Node) -> Counts:
    """at most twice B × S × D × 3D mac and as many add as there are results (projections for local and for global
    attention), B × N × S × T × 2d mac, scale and softmax, and 1 add to every score for the mask. T = 2W + 1 + S, W =
    window, as if every token attended globally.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LongformerAttention
    """
    x = node.input(0)
    return _projected(x, node.input(1), node, 2) + _projected(x, node.input(4), node, 5) + _longformer(node)


def _longformer(node: Node) -> Counts:
    heads, window = integer(node, "num_heads"), integer(node, "window")
    batch, length, width = (extent(node, node.input(0), axis) for axis in range(3))
    return Heads(batch, heads, length, 2 * window + 1 + length, width // heads, width // heads).counts(node, masks=1)


def ordered_longformer_attention(node: Node) -> Counts:
    """at most as LongformerAttention, and 1 mul + 3 cmp for each result of a projection and each element of Y, which
    are rescaled to int8.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedLongformerAttention
    """
    x, weights = node.input(0), (node.input(2), node.input(8))
    outputs = product(x.dims[:-1]) * sum(extent(node, w, -1) for w in weights)
    work = _projected(x, weights[0], node, 4) + _projected(x, weights[1], node, 10) + _longformer(node)
    return work + RESCALE * (outputs + node.output().numel)


def ordered_attention(node: Node) -> Counts:
    """B × S × D × (Dq + Dk + Dv) mac and as many add as there are results (projections), then as Attention; 1 mul + 3
    cmp for each element of Q, K, V, the scores, the probabilities and Y, which are rescaled to int8.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedAttention
    """
    x, heads = node.input(0), integer(node, "num_heads")
    batch, length = extent(node, x, 0), extent(node, x, 1)
    work, outputs = Counts(), 0
    for weight, bias in ((5, 11), (6, 12), (7, 13)):
        work += _projected(x, node.input(weight), node, bias)
        outputs += batch * length * extent(node, node.input(weight), -1)
    size, value_size = (extent(node, node.input(i), -1) // heads for i in (5, 7))
    scores = batch * heads * length * length
    shape = Heads(batch, heads, length, length, size, value_size)
    masks = how_many(node, 17, 19) + _causal(node)
    rescaled: Counts = RESCALE * (outputs + 2 * scores + node.output().numel)
    return work + shape.counts(node, masks=masks) + rescaled


OPERATORS: dict[str, Operator] = {
    "com.microsoft::Attention": by(
        attention, inputs=inputs(FACTOR, FACTOR), needed=needed_attention, types="language:attention"
    ),
    "com.microsoft::DecoderMaskedSelfAttention": row_of(
        attention,
        "at most as Attention for one new token; with past_present_share_buffer T is the length of the buffer",
        "bound",
        inputs=inputs(FACTOR, FACTOR),
        types="language:attention",
    ),
    "com.microsoft::QAttention": by(
        quantized_attention,
        inputs=inputs(FACTOR, FACTOR, DATA, scale(0), scale(1), DATA, zero_point(0), zero_point(1)),
        types="language:quantized_attention",
    ),
    "com.microsoft::PackedAttention": by(
        packed_attention, "bound", inputs=inputs(FACTOR, FACTOR), types="language:packed_projected"
    ),
    "com.microsoft::PackedMultiHeadAttention": by(
        packed_multi_head_attention, "bound", inputs=inputs(FACTOR, FACTOR, FACTOR), types="language:packed_heads"
    ),
    "com.microsoft::MultiHeadAttention": by(
        multi_head_attention,
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        needed=needed_multi_head_attention,
        types="language:multi_head_attention",
    ),
    "com.microsoft::DecoderMaskedMultiHeadAttention": by(
        decoder_masked_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        types="language:decoder_masked_attention",
    ),
    "com.microsoft::DecoderAttention": by(decoder_attention, "bound", shape=shape.alike),
    "com.microsoft::LongformerAttention": by(
        longformer_attention, "bound", inputs=inputs(FACTOR, FACTOR), shape=shape.alike
    ),
    "com.microsoft::QOrderedAttention": by(
        ordered_attention,
        inputs=inputs(FACTOR, *(SCALE,) * 4, FACTOR, DATA, DATA, *(SCALE,) * 3, *(DATA,) * 3, *(SCALE,) * 3),
        shape=shape.alike,
    ),
    "com.microsoft::QOrderedLongformerAttention": by(
        ordered_longformer_attention,
        "bound",
        inputs=inputs(FACTOR, SCALE, FACTOR, SCALE, DATA, SCALE, SCALE, DATA, DATA, SCALE, DATA, SCALE, DATA, SCALE),
        shape=shape.alike,
    ),
}


# Attention of ``com.microsoft`` over a cache of keys and values whose filling is data: upper bounds.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#: One more score in the softmax of a row, without a value: maximum, difference, exponential, sum.
_SINK = Counts(cmp=1, add=2, exp=1)


def _size(node: Node) -> int:
    """Extent of a query in one head; without keys the query holds keys and values too."""
    heads: int = integer(node, "num_heads")
    groups: int = integer(node, "kv_num_heads")
    width = extent(node, node.input(0), -1)
    return width // (heads if node.has_input(1) else heads + 2 * groups)


def _options_work(node: Node, queries: int, keys: int, size: int, *, sink: int, norm: int) -> Counts:
    """Counts of the node's options: rotation and norm of queries and new keys, a sink of the softmax.

    Args:
        node: the node.
        queries: rows of all query heads.
        keys: rows of all new key heads.
        size: extent of a row.
        sink: place of the input that adds a score to each row; -1 when there is none.
        norm: place of the weights that normalise queries; -1 when there is none.
    """
    work = Counts()
    rows = queries + keys
    if node.attrs.get("do_rotary", 0):
        work += ROTATED * (rows * size)
    if norm >= 0 and node.has_input(norm):
        work += RMS * (rows * size) + RMS_ROW * rows
    if (sink >= 0 and node.has_input(sink)) or node.attrs.get("smooth_softmax", 0):
        work += _SINK * queries
    return work


def _stored(node: Node, read: int, new: int) -> Counts:
    """The scale of each element of a quantised cache that is read, and rounding of what is written to it.

    Args:
        node: the node.
        read: elements of all keys that are read; there are as many values.
        new: elements of the new keys; there are as many values.
    """
    caches: int = sum(node.attrs.get(f"{which}_quant_type", "NONE") != "NONE" for which in "kv")
    return (Counts(mul=read) + RESCALE * new) * caches


def grouped_attention(node: Node) -> Counts:
    """at most B × N × S × T × 2d mac, the scale of Q and K and softmax as in ONNX's Attention, T the length of
    present_key, or past + new keys where it is unknown; softcap: scores × (1 div + 1 tanh + 1 mul);
    attention_bias, and causal: 1 add to every score each; do_rotary: 2 mul + 1 add for each element of Q and the
    new K; q_norm_weight: both as in RMSNormalization; head_sink or smooth_softmax: B × N × S × (1 cmp + 2 add + 1
    exp); a quantised cache: 1 mul for each element, 1 mul + 3 cmp for each new one.

    All scores count, those too that the causal mask or a local window leaves out; what they leave is counted apart, as
    needed.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
    """
    masks = how_many(node, 10) + int(bool(node.attrs.get("causal", 1)))
    return _grouped(node, masks, sink=11, norm=14)


def needed_grouped_attention(node: Node) -> Counts:
    """As ``grouped_attention``, with only the scores of a query and the keys up to its own, or of its local window."""
    masks = how_many(node, 10) + int(bool(node.attrs.get("causal", 1)))
    return _grouped(node, masks, sink=11, norm=14, needed=True)


def sparse_attention(node: Node) -> Counts:
    """at most as GroupQueryAttention over the whole cache, as if no block were left out.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention
    """
    return _grouped(node, 1, sink=-1, norm=-1)


def _grouped(node: Node, masks: int, sink: int, norm: int, needed: bool = False) -> Counts:
    query, heads, groups, size = node.input(0), integer(node, "num_heads"), integer(node, "kv_num_heads"), _size(node)
    batch, length = extent(node, query, 0), extent(node, query, 1)
    new = length
    if node.has_input(1):
        new = 0 if len(node.input(1).dims) == 4 else extent(node, node.input(1), 1)
    present = node.outputs[1] if len(node.outputs) > 1 else None
    if present is not None and present.shape is not None:
        total = extent(node, present, 2)
    else:
        total = new + (extent(node, node.input(3), 2) if node.has_input(3) else 0)
    shape = Heads(batch, heads, length, total, size, size)
    queries, keys = batch * heads * length, batch * groups * new
    causal = needed and bool(node.attrs.get("causal", 1))
    pairs = shape.causal_pairs(integer(node, "local_window_size", 0)) if causal else None
    work = shape.counts(node, masks=masks, pairs=pairs) + _options_work(node, queries, keys, size, sink=sink, norm=norm)
    return work + _stored(node, batch * groups * total * size, keys * size)


def paged_attention(node: Node) -> Counts:
    """at most tokens × N × T × (d + dv) mac, softmax, the scale of Q and of T keys of each sequence, T = blocks of a
    sequence × extent of a block; the rest as in GroupQueryAttention, norms, sinks and quantised caches included.

    query is (tokens, N × d), block_table (B, blocks).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PagedAttention
    """
    table = node.input(7)
    total = extent(node, table, 1) * extent(node, node.input(3), 1)
    return _packed(node, total, sequences=extent(node, table, 0), sink=11, norm=12)


def sparse_paged_attention(node: Node) -> Counts:
    """at most as PagedAttention on T = the selected entries of each token, and local_window_size more in the mode
    local_plus_selected.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparsePagedAttention
    """
    return _packed(node, _selected(node, 9), sequences=extent(node, node.input(0), 0), sink=16, norm=17)


def _packed(node: Node, total: int, sequences: int, sink: int, norm: int) -> Counts:
    heads, groups, size = integer(node, "num_heads"), integer(node, "kv_num_heads"), _size(node)
    tokens = extent(node, node.input(0), 0)
    value_size = integer(node, "v_head_size", 0) or size
    work = Heads(1, heads, tokens, total, size, value_size).counts(
        node, masks=int(bool(node.attrs.get("is_causal", 1)))
    )
    work += Counts(mul=(sequences - 1) * heads * total * size)
    work += _options_work(node, tokens * heads, tokens * groups, size, sink=sink, norm=norm)
    return work + _stored(node, sequences * groups * total * size, tokens * groups * size)


def dynamic_sparse_attention(node: Node) -> Counts:
    """at most as GroupQueryAttention on T = the selected entries of each token, and local_window_size more in the mode
    local_plus_selected; key_scale and value_scale: 1 mul for each element that a token reads of the main cache, 1 div +
    3 cmp for each new one.

    The main cache holds the selected entries, or those of the window in the mode local_plus_selected.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicSparseAttention
    """
    query, heads, groups, size = node.input(0), integer(node, "num_heads"), integer(node, "kv_num_heads"), _size(node)
    tokens = extent(node, query, 0) * extent(node, query, 1)
    shape = Heads(tokens, heads, 1, _selected(node, 7), size, size)
    work = shape.counts(node, masks=1) + _options_work(node, tokens * heads, tokens * groups, size, sink=16, norm=14)
    caches = int(node.has_input(18)) + int(node.has_input(19))
    both = node.attrs.get("attention_mode", "selected_only") == "local_plus_selected"
    read = max(integer(node, "local_window_size", 0), 0) if both else extent(node, node.input(7), -1)
    return work + (Counts(mul=read) + Counts(div=1, cmp=3)) * (tokens * groups * size * caches)


def _selected(node: Node, place: int) -> int:
    """The number of keys that a token attends to, at most."""
    window: int = integer(node, "local_window_size", 0)
    both = node.attrs.get("attention_mode", "selected_only") == "local_plus_selected"
    return extent(node, node.input(place), -1) + (max(window, 0) if both else 0)


def merged_selections(node: Node) -> Counts:
    """at most N × n × (n − 1) / 2 cmp: each of the n = C + A entries of a query is compared with those before it; in
    the mode append_range A is max_output_entries, since a longer range never fits.

    base_indices is (R, C), additional_indices (N, A).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedSparseAttentionIndexerMerge
    """
    added = extent(node, node.input(5), -1) if node.has_input(5) else integer(node, "max_output_entries")
    entries = extent(node, node.input(0), -1) + added
    return Counts(cmp=extent(node, node.input(2), 0) * (entries * (entries - 1) // 2))


_INDEXER = "scores blocks of keys whose number is data: how far the sequence has come, and what was kept of it"

CACHE: dict[str, Operator] = {
    "com.microsoft::GroupQueryAttention": by(
        grouped_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 9, SCALE, SCALE),
        needed=needed_grouped_attention,
        types="language:grouped",
    ),
    "com.microsoft::SparseAttention": by(
        sparse_attention, "bound", inputs=inputs(FACTOR, FACTOR, FACTOR), types="language:in_place"
    ),
    "com.microsoft::PagedAttention": by(
        paged_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 11, SCALE, SCALE),
        types="language:in_place",
    ),
    "com.microsoft::SparsePagedAttention": by(
        sparse_paged_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 16, SCALE, SCALE),
        types="language:in_place",
    ),
    "com.microsoft::DynamicSparseAttention": by(
        dynamic_sparse_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 15, SCALE, SCALE),
        types="language:dynamic_sparse",
    ),
    "com.microsoft::SparseAttentionIndexer": unknown(_INDEXER, types="language:indices"),
    "com.microsoft::PackedSparseAttentionIndexer": unknown(_INDEXER, types="language:indices"),
    "com.microsoft::PackedSparseAttentionIndexerMerge": by(merged_selections, "bound", types="language:merged_indices"),
}
