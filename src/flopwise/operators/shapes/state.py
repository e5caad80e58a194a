"""Shapes of operators with a recurrent state."""

from __future__ import annotations

from flopwise.operators.shape import Call, Types, UnresolvedError


def lstm(call: Call) -> Types:
    """The weights of AttnLSTM are (directions, 4H, H), those of DynamicQuantizeLSTM (directions, H, 4H)."""
    x, recurrence, dtype = call.ranked(0, 3), call.ranked(2, 3), call.dtype(0)
    hidden = call.attribute("hidden_size", 0) or min(recurrence[1:])
    state = call.tensor(dtype, (recurrence[0], x[1], hidden))
    return [call.tensor(dtype, (x[0], recurrence[0], x[1], hidden)), state, state]


def _windowed(call: Call, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a state, or of as many of them as the attribute state_window keeps."""
    window = call.attribute("state_window", 0)
    return (window, *shape) if window else shape


def causal_convolution(call: Call) -> Types:
    if call.has(3):
        return [call.type(0), call.type(3)]
    x, weights = call.ranked(0), call.ranked(1)
    kept = (weights[-1] - 1) * call.attribute("dilation", 1)
    state = (x[0], kept, *x[2:]) if call.attribute("channels_last", 0) else (*x[:-1], kept)
    return [call.type(0), call.tensor(call.dtype(0), _windowed(call, state))]


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
        return [call.tensor(call.dtype(0), (*query[:-1], *state[1:3])), call.type(6)]
    value = call.ranked(2, len(query))
    output = call.tensor(call.dtype(0), (*query[:-2], max(query[-2], value[-2]), value[-1]))
    if state is None:
        batch = call.ranked(3, 1)[0] - 1 if call.has(3) else query[0]
        return [output, call.tensor("float32", (batch, value[-2], value[-1], query[-1]))]
    capacity = call.attribute("state_update_capacity", 0)
    each = state[1] + query[-2] * query[-1] + state[1] * state[2]
    return [output, call.type(6), call.tensor("float32", (state[0], capacity * each))]


def gates(call: Call) -> Types:
    return [call.type(0), call.type(3)]


def mixed(call: Call) -> Types:
    """The branches are an axis of their own, or num_branches of them lie side by side."""
    x, branches = call.ranked(0), call.attribute("num_branches", 0)
    return [call.tensor(call.dtype(0), (*x[:-1], x[-1] // branches) if branches else (*x[:-2], x[-1]))]
