"""Shapes of onnxruntime's attention operators, with and without a cache."""

from __future__ import annotations

from flopwise.operators.shape import Call, ShapeRule, Types
from flopwise.operators.size import Dims, UnresolvedError, larger


def _sizes(call: Call, weights: Dims) -> list[int]:
    """Width of Q, K and V."""
    sizes = list(call.attribute("qkv_hidden_sizes", [])) or [weights[-1] // 3] * 3
    if len(sizes) != 3:
        raise UnresolvedError
    return sizes


def _projected(past: int, like: int = 0) -> ShapeRule:
    """The rule of an attention with projections.

    Args:
        past: call of the cache.
        like: call of the input that has the element type of the result.
    """

    def rule(call: Call) -> Types:
        x, heads = call.ranked(0, 3), call.positive("num_heads")
        sizes, dtype = _sizes(call, call.ranked(1, 2)), call.dtype(like)
        total = x[1]
        if call.has(past):
            past_length = call.ranked(past, 5)[3]
            total = past_length if call.attribute("past_present_share_buffer", 0) else past_length + total
        return [
            call.tensor(dtype, (x[0], x[1], sizes[2])),
            call.tensor(dtype, (2, x[0], heads, total, sizes[0] // heads)),
        ]

    return rule


def packed_projected(call: Call) -> Types:
    x = call.ranked(0, 2)
    return [call.tensor(call.dtype(0), (x[0], _sizes(call, call.ranked(1, 2))[2]))]


def packed_heads(call: Call) -> Types:
    """Q, K and V of tokens without padding: each by itself, or tokens × N × 3 × d."""
    query = call.ranked(0, 2, 4)
    if len(query) == 4:
        return [call.tensor(call.dtype(0), (query[0], query[1] * query[3]))]
    return [call.tensor(call.dtype(0), (query[0], call.ranked(2, 2)[1]))]


def _given_heads(past: int, shared: str) -> ShapeRule:
    """The rule of an attention of given Q, K and V.

    Args:
        past: call of the cached keys.
        shared: attribute that says that the cache has room for the new keys; "" where an input after the cache does.
    """

    def rule(call: Call) -> Types:
        query, heads, dtype = call.ranked(0, 3, 5), call.positive("num_heads"), call.dtype(0)
        if len(query) == 5:  # B × S × N × 3 × d
            size = value_size = query[4]
            total = query[1]
        elif not call.has(1):  # B × S × (D + D + D): nothing tells a narrower V from it
            size = value_size = query[2] // 3 // heads
            total = query[1]
        else:
            size = query[2] // heads
            total, value_size = _keys(call, size, heads)
        if call.has(past):
            past_length = call.ranked(past, 4)[2]
            grows = not (call.attribute(shared, 0) if shared else call.has(past + 2))
            total = past_length + total if grows else past_length
        present = [call.tensor(dtype, (query[0], heads, total, s)) for s in (size, value_size)]
        scores = call.tensor(dtype, (query[0], heads, query[1], total))
        return [call.tensor(dtype, (query[0], query[1], heads * value_size)), *present, scores]

    return rule


def _keys(call: Call, size: int, heads: int) -> tuple[int, int]:
    """Number of keys, and the extent of a value in one head."""
    key = call.ranked(1, 3, 4, 5)
    total = key[2] if len(key) == 4 else key[1]
    if not call.has(2):
        return total, size
    value = call.ranked(2, 3, 4)
    return total, value[3] if len(value) == 4 else value[2] // heads


def _size(call: Call, width: int) -> int:
    """Extent of a query in one head; without keys the query holds keys and values too."""
    heads, groups = call.positive("num_heads"), call.positive("kv_num_heads")
    return width // (heads if call.has(1) else heads + 2 * groups)


def grouped(call: Call) -> Types:
    """A cache of which no total length is known may be a buffer that stays, or grow by the new keys: it is unknown."""
    query, heads, groups = call.ranked(0, 3), call.positive("num_heads"), call.positive("kv_num_heads")
    size, dtype = _size(call, query[2]), call.dtype(0)
    output = call.tensor(dtype, (query[0], query[1], heads * size))
    total = call.number(6)
    if not call.has(3):
        new = call.ranked(1)[1] if call.has(1) and len(call.ranked(1)) == 3 else query[1]
        length = new if total is None else larger(total, new)
        return [output, *[call.tensor(dtype, (query[0], groups, length, size))] * 2]
    past = call.ranked(3, 4)
    if call.attribute("sliding_window_cache", 0):
        return [output, call.type(3), call.type(4)]
    if total is None:
        return [output]
    length = larger(past[2], total)
    return [output, *(call.tensor(call.dtype(i), (*past[:2], length, past[3])) for i in (3, 4))]


def _in_place(past: int) -> ShapeRule:
    """The rule of an attention that writes into its cache."""

    def rule(call: Call) -> Types:
        query = call.ranked(0, 2, 3)
        size = call.attribute("v_head_size", 0) or _size(call, query[-1])
        output = call.tensor(call.dtype(0), (*query[:-1], call.positive("num_heads") * size))
        return [output, call.type(past), call.type(past + 1)]

    return rule


def dynamic_sparse(call: Call) -> Types:
    """The main cache grows like that of GroupQueryAttention."""
    query = call.ranked(0, 3)
    size, dtype, groups = _size(call, query[2]), call.dtype(0), call.positive("kv_num_heads")
    output_dtype = "bfloat16" if call.attribute("output_bf16", 0) else dtype
    output = call.tensor(output_dtype, (query[0], query[1], call.positive("num_heads") * size))
    total, status = call.number(10), call.tensor("int32", (1,))
    if total is None:
        return [output, None, None, status]
    length = larger(total, call.ranked(3, 4)[2]) if call.has(3) else total
    present = call.tensor(call.dtype(3) if call.has(3) else dtype, (query[0], groups, length, size))
    return [output, present, present, status]


def indices(call: Call) -> Types:
    """The indices that a selector of sparse attention gives: as many for each query as its attributes allow."""
    shape = call.ranked(0, 2, 3)
    if call.attribute("policy_mode", "") == "qsa":
        entries = call.positive("token_budget") + call.positive("compress_ratio") - 1
    else:
        entries = call.positive("index_topk")
    selected = call.tensor("int32", (*shape[:-1], entries))
    if call.op == "SparseAttentionIndexer":
        return [selected]
    states, queries = [call.type(i) for i in (12, 13, 14, 15)], call.tensor("int32", shape[:-1])
    keys = call.ranked(12, 3)
    update = call.tensor(call.dtype(0), (keys[0], call.attribute("state_update_capacity", 0), keys[2]))
    return [selected, queries, *states, update, queries, call.tensor("int32", keys[:1])]


def merged_indices(call: Call) -> Types:
    """As many entries for each query as may be selected, how many of them are, and a status."""
    queries = call.ranked(2, 1)
    number = call.tensor("int32", queries)
    return [call.tensor("int32", (*queries, call.positive("max_output_entries"))), number, number]


attention = _projected(past=4)
quantized_attention = _projected(past=8, like=3)
multi_head_attention = _given_heads(6, "")
decoder_masked_attention = _given_heads(5, "past_present_share_buffer")
in_place = _in_place(3)
