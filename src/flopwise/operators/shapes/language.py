"""Shapes of operators of language models: attention, recurrent state, tokens."""

from __future__ import annotations

from flopwise.operators.shape import Call, ShapeRule, Type, Types
from flopwise.operators.size import OPEN, Dims, Most, UnresolvedError, larger, smaller

# Shapes of onnxruntime's attention operators, with and without a cache.


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


# Shapes of operators with a recurrent state.


def lstm(call: Call) -> Types:
    """The weights of AttnLSTM are (directions, 4H, H), those of DynamicQuantizeLSTM (directions, H, 4H)."""
    x, recurrence, dtype = call.ranked(0, 3), call.ranked(2, 3), call.dtype(0)
    hidden = call.attribute("hidden_size", 0) or smaller(*recurrence[1:])
    state = call.tensor(dtype, (recurrence[0], x[1], hidden))
    return [call.tensor(dtype, (x[0], recurrence[0], x[1], hidden)), state, state]


def _windowed(call: Call, shape: Dims) -> Dims:
    """The shape of a state, or of as many of them as the attribute state_window keeps."""
    window = call.attribute("state_window", 0)
    return (window, *shape) if window else shape


def causal_convolution(call: Call) -> Types:
    """With input_channels it takes some of the channels, which are the last axis then."""
    x, dtype, channels = call.ranked(0), call.dtype(0), call.attribute("input_channels", 0)
    channels_last, state_last = call.attribute("channels_last", 0), call.attribute("state_channels_last", -1)
    shape = (*x[:-1], channels) if channels else x
    capacity = call.attribute("state_update_capacity", 0)
    update = [call.tensor(dtype, (x[0], capacity, shape[-1]))] if capacity else []
    if call.has(3):
        return [call.tensor(dtype, shape), call.type(3), *update]
    weights = call.ranked(1)
    length = call.attribute("state_length", 0) or (weights[-1] - 1) * call.attribute("dilation", 1)
    if channels_last:
        state = (x[0], *shape[2:], length) if state_last == 0 else (x[0], length, *shape[2:])
    else:
        state = (x[0], length, *x[1:-1]) if state_last == 1 else (*x[:-1], length)
    return [call.tensor(dtype, shape), call.tensor(dtype, _windowed(call, state)), *update]


def packed_causal_convolution(call: Call) -> Types:
    state = call.ranked(4, 3)
    update = call.tensor(call.dtype(0), (state[0], call.attribute("state_update_capacity", 0), state[1]))
    return [call.type(0), call.type(4), update]


def linear_attention(call: Call) -> Types:
    query, key, value = (call.ranked(i, 3) for i in range(3))
    queries, keys = call.positive("q_num_heads"), call.positive("kv_num_heads")
    size = value[2] // keys
    output = call.tensor(call.dtype(0), (query[0], query[1], max(queries, keys) * size))
    state = call.tensor(call.dtype(0), _windowed(call, (query[0], keys, key[2] // keys, size)))
    return [output, call.type(3) if call.has(3) else state]


def gated_delta_net(call: Call) -> Types:
    query = call.ranked(0)
    state = call.ranked(6, 4) if call.has(6) else None
    if not call.has(1):
        if state is None:
            raise UnresolvedError
        output = call.tensor(call.dtype(0), (*query[:-1], *state[1:3]))
        return [output, call.type(6), _transitions(call, state, (query[-1] - state[1] * state[2]) // 2, len(query) + 1)]
    value = call.ranked(2, len(query))
    output = call.tensor(call.dtype(0), (*query[:-2], max(query[-2], value[-2]), value[-1]))
    if state is None:
        batch = call.ranked(3, 1)[0] - 1 if call.has(3) else query[0]
        return [output, call.tensor("float32", (batch, value[-2], value[-1], query[-1]))]
    return [output, call.type(6), _transitions(call, state, query[-2] * query[-1], len(query))]


def _transitions(call: Call, state: Dims, keys: int, rank: int) -> Type | None:
    """The updates of a state that are kept: decays, keys and values of each.

    Args:
        call: the application.
        state: extents of the state.
        keys: extent of the keys of all heads.
        rank: how many axes the decays have where each element of a key has its own.
    """
    capacity = call.attribute("state_update_capacity", 0)
    decays = state[1] * (state[3] if call.has(4) and len(call.shape(4)) == rank else 1)
    return call.tensor("float32", (state[0], capacity * (decays + keys + state[1] * state[2])))


def mamba(call: Call) -> Types:
    """The result, snapshots of both states, the convolution, and what is read of the state."""
    rows, inner = call.ranked(0, 2)[0], call.ranked(8, 1)[0]
    channels = call.ranked(3)[0]
    states = [call.tensor(call.dtype(0), (rows, n)) for n in (inner, channels)]
    return [states[0], call.type(1), call.type(2), states[1], call.tensor("float32", (rows, inner))]


def written(call: Call) -> Types:
    """The allocation that is written into."""
    return [call.type(2)]


def gates(call: Call) -> Types:
    return [call.type(0), call.type(3)]


def mixed(call: Call) -> Types:
    """The branches are an axis of their own, or num_branches of them lie side by side."""
    x, branches = call.ranked(0), call.attribute("num_branches", 0)
    return [call.tensor(call.dtype(0), (*x[:-1], x[-1] // branches) if branches else (*x[:-2], x[-1]))]


def mixed_by_rank(call: Call) -> Types:
    """One stream, a gate for each branch, and all branches."""
    x, branches, dtype = call.ranked(0), call.positive("num_branches"), call.dtype(0)
    return [*(call.tensor(dtype, (*x[:-1], n)) for n in (x[-1] // branches, branches)), call.type(0)]


# Shapes of operators on tokens.


def hashes(call: Call) -> Types:
    ids, dtype = call.ranked(0), call.dtype(0)
    reach = call.positive("max_ngram_size") - 1
    heads = reach * call.positive("n_head_per_ngram")
    hashed = call.tensor(dtype, (*ids, heads))
    if call.op == "NGramHashMapping":
        return [hashed, call.tensor(dtype, (ids[0], reach))]
    batch = call.ranked(3, 1)[0] - 1
    update = call.tensor(dtype, (batch, call.attribute("state_update_capacity", 0), reach))
    return [hashed, call.tensor(dtype, (batch, reach)), call.tensor(call.dtype(3), (batch, reach)), update]


def murmur_hash(call: Call) -> Types:
    dtype = "uint32" if call.attribute("positive", 1) else "int32"
    return [call.tensor(dtype, call.ranked(0))]


def words(call: Call) -> Types:
    filters = call.attribute("embedding_size", 0) or call.ranked(1)[0]
    return [call.tensor(call.dtype(1), (*call.ranked(0)[:-1], filters))]


def repeated(call: Call) -> Types:
    return [call.type(1)]


def unique(call: Call) -> Types:
    """At most every element of a vector."""
    elements = call.ranked(0, 1)[0]
    most = (Most(elements, 1 if type(elements) is int and elements else 0),)
    return [call.tensor(call.dtype(0), most), call.tensor("int64", (elements,)), call.tensor("int64", most)]


def tokenized(call: Call) -> Types:
    """The longest list of tokens is data."""
    return [call.tensor("string", (*call.ranked(0, 1, 2), OPEN))]


def committed(call: Call) -> Types:
    """A length for each request; the states keep their shape."""
    tokens = call.ranked(0, 1, 2)
    return [call.tensor("int32", (tokens[0] if len(tokens) == 2 else 1,)), call.type(3), call.type(4)]


def bifurcation(call: Call) -> Types:
    """At most all source tokens and those that are predicted."""
    predicted = call.ranked(3, 1)[0] if call.has(3) else 0
    return [call.tensor("int64", (Most(call.ranked(1, 1)[0] + predicted),)), call.type(2)]


def _generated(beams: bool) -> ShapeRule:
    """The rule of a search: the longest sequences that can be known."""

    def rule(call: Call) -> Types:
        batch, longest = call.ranked(0)[0], call.number(1)
        if longest is None:
            raise UnresolvedError
        if not beams:
            return [call.tensor("int32", (batch, longest))]
        sequences = call.number(4)
        if sequences is None:
            raise UnresolvedError
        return [call.tensor("int32", (batch, sequences, longest)), call.tensor("float32", (batch, sequences))]

    return rule


beams = _generated(beams=True)
sequences = _generated(beams=False)
