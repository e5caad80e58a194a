"""Shapes of operators with a recurrent state."""

from __future__ import annotations

from flopwise.operators.shape import Call, Type, Types
from flopwise.operators.size import Dims, UnresolvedError, smaller


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
