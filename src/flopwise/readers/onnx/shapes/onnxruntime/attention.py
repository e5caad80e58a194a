"""Shapes of onnxruntime's attention operators, with and without a cache."""

from __future__ import annotations

from onnx import TypeProto

from flopwise.readers.onnx.shapes.onnxruntime.node import INT32, Place, Rule, Shape, UnresolvedError, make

_Types = list["TypeProto | None"]


def _sizes(place: Place, weights: Shape) -> list[int]:
    """Width of Q, K and V."""
    sizes = list(place.attribute("qkv_hidden_sizes", [])) or [weights[-1] // 3] * 3
    if len(sizes) != 3:
        raise UnresolvedError
    return sizes


def _projected(past: int, like: int = 0) -> Rule:
    """The rule of an attention with projections.

    Args:
        past: place of the cache.
        like: place of the input that has the element type of the result.
    """

    def rule(place: Place) -> _Types:
        x, heads = place.ranked(0, 3), place.positive("num_heads")
        sizes, code = _sizes(place, place.ranked(1, 2)), place.code(like)
        total = x[1]
        if place.name(past):
            kept = place.ranked(past, 5)[3]
            total = kept if place.attribute("past_present_share_buffer", 0) else kept + total
        return [make(code, (x[0], x[1], sizes[2])), make(code, (2, x[0], heads, total, sizes[0] // heads))]

    return rule


def _packed_projected(place: Place) -> _Types:
    x = place.ranked(0, 2)
    return [make(place.code(0), (x[0], _sizes(place, place.ranked(1, 2))[2]))]


def _packed_heads(place: Place) -> _Types:
    """Q, K and V of tokens without padding: each by itself, or tokens × N × 3 × d."""
    query = place.ranked(0, 2, 4)
    if len(query) == 4:
        return [make(place.code(0), (query[0], query[1] * query[3]))]
    return [make(place.code(0), (query[0], place.ranked(2, 2)[1]))]


def _given_heads(past: int, shared: str) -> Rule:
    """The rule of an attention of given Q, K and V.

    Args:
        past: place of the cached keys.
        shared: attribute that says that the cache has room for the new keys; "" where an input after the cache does.
    """

    def rule(place: Place) -> _Types:
        query, heads, code = place.ranked(0, 3, 5), place.positive("num_heads"), place.code(0)
        if len(query) == 5:  # B × S × N × 3 × d
            size = value_size = query[4]
            total = query[1]
        elif not place.name(1):  # B × S × (D + D + D): nothing tells a narrower V from it
            size = value_size = query[2] // 3 // heads
            total = query[1]
        else:
            size = query[2] // heads
            total, value_size = _keys(place, size, heads)
        if place.name(past):
            kept = place.ranked(past, 4)[2]
            grows = not (place.attribute(shared, 0) if shared else place.name(past + 2))
            total = kept + total if grows else kept
        present = [make(code, (query[0], heads, total, s)) for s in (size, value_size)]
        scores = make(code, (query[0], heads, query[1], total))
        return [make(code, (query[0], query[1], heads * value_size)), *present, scores]

    return rule


def _keys(place: Place, size: int, heads: int) -> tuple[int, int]:
    """How many keys there are, and the extent of a value in one head."""
    key = place.ranked(1, 3, 4, 5)
    total = key[2] if len(key) == 4 else key[1]
    if not place.name(2):
        return total, size
    value = place.ranked(2, 3, 4)
    return total, value[3] if len(value) == 4 else value[2] // heads


def _size(place: Place, width: int) -> int:
    """Extent of a query in one head; without keys the query holds keys and values too."""
    heads, groups = place.positive("num_heads"), place.positive("kv_num_heads")
    return width // (heads if place.name(1) else heads + 2 * groups)


def _grouped(place: Place) -> _Types:
    """A cache of which no total length is known may be a buffer that stays, or grow by the new keys: nobody knows."""
    query, heads, groups = place.ranked(0, 3), place.positive("num_heads"), place.positive("kv_num_heads")
    size, code = _size(place, query[2]), place.code(0)
    output = make(code, (query[0], query[1], heads * size))
    total = place.number(6)
    if not place.name(3):
        new = place.ranked(1)[1] if place.name(1) and len(place.ranked(1)) == 3 else query[1]
        length = new if total is None else max(total, new)
        return [output, *[make(code, (query[0], groups, length, size))] * 2]
    past = place.ranked(3, 4)
    if place.attribute("sliding_window_cache", 0):
        return [output, place.type(3), place.type(4)]
    if total is None:
        return [output]
    length = max(past[2], total)
    return [output, *(make(place.code(i), (*past[:2], length, past[3])) for i in (3, 4))]


def _in_place(past: int) -> Rule:
    """The rule of an attention that writes into its cache."""

    def rule(place: Place) -> _Types:
        query = place.ranked(0, 2, 3)
        size = place.attribute("v_head_size", 0) or _size(place, query[-1])
        output = make(place.code(0), (*query[:-1], place.positive("num_heads") * size))
        return [output, place.type(past), place.type(past + 1)]

    return rule


def _dynamic_sparse(place: Place) -> _Types:
    """The main cache grows like that of GroupQueryAttention."""
    query = place.ranked(0, 3)
    size, code, groups = _size(place, query[2]), place.code(0), place.positive("kv_num_heads")
    output = make(code, (query[0], query[1], place.positive("num_heads") * size))
    total = place.number(10)
    if total is None:
        return [output]
    length = max(total, place.ranked(3, 4)[2]) if place.name(3) else total
    return [output, *[make(code, (query[0], groups, length, size))] * 2]


def _indices(place: Place) -> _Types:
    """What a selector of sparse attention gives: as many entries for each query as its attributes allow."""
    shape = place.ranked(0, 2, 3)
    if place.attribute("policy_mode", b"") == b"qsa":
        entries = place.positive("token_budget") + place.positive("compress_ratio") - 1
    else:
        entries = place.positive("index_topk")
    selected = make(INT32, (*shape[:-1], entries))
    if place.node.op_type == "SparseAttentionIndexer":
        return [selected]
    states = [place.type(i) for i in (12, 13, 14, 15)]
    return [selected, make(INT32, shape[:-1]), *states]


RULES: dict[str, Rule] = {
    "Attention": _projected(past=4),
    "DecoderMaskedSelfAttention": _projected(past=4),
    "QAttention": _projected(past=8, like=3),
    "PackedAttention": _packed_projected,
    "PackedMultiHeadAttention": _packed_heads,
    "MultiHeadAttention": _given_heads(6, ""),
    "DecoderMaskedMultiHeadAttention": _given_heads(5, "past_present_share_buffer"),
    "GroupQueryAttention": _grouped,
    "SparseAttention": _in_place(3),
    "PagedAttention": _in_place(3),
    "SparsePagedAttention": _in_place(3),
    "DynamicSparseAttention": _dynamic_sparse,
    "SparseAttentionIndexer": _indices,
    "PackedSparseAttentionIndexer": _indices,
}
