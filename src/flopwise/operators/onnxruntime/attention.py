"""Attention operators of ``com.microsoft``: projections, and then the same attention as ONNX's operator.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from dataclasses import dataclass

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import SOFTMAX, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, SCALE, inputs, scale, zero_point
from flopwise.operators.masks import pairs_within
from flopwise.operators.onnxruntime.positions import ROTATED
from flopwise.operators.onnxruntime.quantized import RESCALE
from flopwise.operators.operator import Operator, by, row_of


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
        attention, inputs=inputs(FACTOR, FACTOR), needed=needed_attention, types="attention:attention"
    ),
    "com.microsoft::DecoderMaskedSelfAttention": row_of(
        attention,
        "at most as Attention for one new token; with past_present_share_buffer T is the length of the buffer",
        "bound",
        inputs=inputs(FACTOR, FACTOR),
        types="attention:attention",
    ),
    "com.microsoft::QAttention": by(
        quantized_attention,
        inputs=inputs(FACTOR, FACTOR, DATA, scale(0), scale(1), DATA, zero_point(0), zero_point(1)),
        types="attention:quantized_attention",
    ),
    "com.microsoft::PackedAttention": by(
        packed_attention, "bound", inputs=inputs(FACTOR, FACTOR), types="attention:packed_projected"
    ),
    "com.microsoft::PackedMultiHeadAttention": by(
        packed_multi_head_attention, "bound", inputs=inputs(FACTOR, FACTOR, FACTOR), types="attention:packed_heads"
    ),
    "com.microsoft::MultiHeadAttention": by(
        multi_head_attention,
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        needed=needed_multi_head_attention,
        types="attention:multi_head_attention",
    ),
    "com.microsoft::DecoderMaskedMultiHeadAttention": by(
        decoder_masked_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR),
        types="attention:decoder_masked_attention",
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
