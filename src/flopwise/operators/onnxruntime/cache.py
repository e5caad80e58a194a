"""Attention of ``com.microsoft`` over a cache of keys and values whose filling is data: upper bounds.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators.counts import RMS, RMS_ROW, Counts
from flopwise.operators.extents import extent, integer
from flopwise.operators.inputs import DATA, FACTOR, SCALE, inputs
from flopwise.operators.onnxruntime.attention import Heads, how_many
from flopwise.operators.onnxruntime.positions import ROTATED
from flopwise.operators.onnxruntime.quantized import RESCALE
from flopwise.operators.operator import Operator, by, unknown

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

OPERATORS: dict[str, Operator] = {
    "com.microsoft::GroupQueryAttention": by(
        grouped_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 9, SCALE, SCALE),
        needed=needed_grouped_attention,
        types="attention:grouped",
    ),
    "com.microsoft::SparseAttention": by(
        sparse_attention, "bound", inputs=inputs(FACTOR, FACTOR, FACTOR), types="attention:in_place"
    ),
    "com.microsoft::PagedAttention": by(
        paged_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 11, SCALE, SCALE),
        types="attention:in_place",
    ),
    "com.microsoft::SparsePagedAttention": by(
        sparse_paged_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 16, SCALE, SCALE),
        types="attention:in_place",
    ),
    "com.microsoft::DynamicSparseAttention": by(
        dynamic_sparse_attention,
        "bound",
        inputs=inputs(FACTOR, FACTOR, FACTOR, *(DATA,) * 15, SCALE, SCALE),
        types="attention:dynamic_sparse",
    ),
    "com.microsoft::SparseAttentionIndexer": unknown(_INDEXER, types="attention:indices"),
    "com.microsoft::PackedSparseAttentionIndexer": unknown(_INDEXER, types="attention:indices"),
    "com.microsoft::PackedSparseAttentionIndexerMerge": by(
        merged_selections, "bound", types="attention:merged_indices"
    ),
}
