"""Shapes of onnxruntime's operators with a recurrent state, and of those on tokens."""

from __future__ import annotations

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.shapes.onnxruntime.node import FLOAT, INT32, INT64, Place, Rule, UnresolvedError, make

_Types = list["TypeProto | None"]


def _lstm(place: Place) -> _Types:
    """The weights of AttnLSTM are (directions, 4H, H), those of DynamicQuantizeLSTM (directions, H, 4H)."""
    x, recurrence, code = place.ranked(0, 3), place.ranked(2, 3), place.code(0)
    hidden = place.attribute("hidden_size", 0) or min(recurrence[1:])
    state = make(code, (recurrence[0], x[1], hidden))
    return [make(code, (x[0], recurrence[0], x[1], hidden)), state, state]


def _windowed(place: Place, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a state, or of as many of them as the attribute state_window keeps."""
    window = place.attribute("state_window", 0)
    return (window, *shape) if window else shape


def _causal_convolution(place: Place) -> _Types:
    if place.name(3):
        return [place.type(0), place.type(3)]
    x, weights = place.ranked(0), place.ranked(1)
    kept = (weights[-1] - 1) * place.attribute("dilation", 1)
    state = (x[0], kept, *x[2:]) if place.attribute("channels_last", 0) else (*x[:-1], kept)
    return [place.type(0), make(place.code(0), _windowed(place, state))]


def _packed_causal_convolution(place: Place) -> _Types:
    state = place.ranked(4, 3)
    update = make(place.code(0), (state[0], place.attribute("state_update_capacity", 0), state[1]))
    return [place.type(0), place.type(4), update]


def _linear_attention(place: Place) -> _Types:
    query, key, value = (place.ranked(i, 3) for i in range(3))
    queries, keys = place.positive("q_num_heads"), place.positive("kv_num_heads")
    size = value[2] // keys
    output = make(place.code(0), (query[0], query[1], max(queries, keys) * size))
    state = make(place.code(0), _windowed(place, (query[0], keys, key[2] // keys, size)))
    return [output, place.type(3) if place.name(3) else state]


def _gated_delta_net(place: Place) -> _Types:
    query = place.ranked(0)
    state = place.ranked(6, 4) if place.name(6) else None
    if not place.name(1):
        if state is None:
            raise UnresolvedError
        return [make(place.code(0), (*query[:-1], *state[1:3])), place.type(6)]
    value = place.ranked(2, len(query))
    output = make(place.code(0), (*query[:-2], max(query[-2], value[-2]), value[-1]))
    if state is None:
        batch = place.ranked(3, 1)[0] - 1 if place.name(3) else query[0]
        return [output, make(FLOAT, (batch, value[-2], value[-1], query[-1]))]
    capacity = place.attribute("state_update_capacity", 0)
    each = state[1] + query[-2] * query[-1] + state[1] * state[2]
    return [output, place.type(6), make(FLOAT, (state[0], capacity * each))]


def _gates(place: Place) -> _Types:
    return [place.type(0), place.type(3)]


def _mixed(place: Place) -> _Types:
    """The branches are an axis of their own, or num_branches of them lie side by side."""
    x, branches = place.ranked(0), place.attribute("num_branches", 0)
    return [make(place.code(0), (*x[:-1], x[-1] // branches) if branches else (*x[:-2], x[-1]))]


def _engram(place: Place) -> _Types:
    return [place.type(0)] * 2


def _hashes(place: Place) -> _Types:
    ids, code = place.ranked(0), place.code(0)
    reach = place.positive("max_ngram_size") - 1
    heads = reach * place.positive("n_head_per_ngram")
    hashed = make(code, (*ids, heads))
    if place.node.op_type == "NGramHashMapping":
        return [hashed, make(code, (ids[0], reach))]
    batch = place.ranked(3, 1)[0] - 1
    update = make(code, (batch, place.attribute("state_update_capacity", 0), reach))
    return [hashed, make(code, (batch, reach)), make(place.code(3), (batch, reach)), update]


def _hash(place: Place) -> _Types:
    code = onnx.TensorProto.UINT32 if place.attribute("positive", 1) else INT32
    return [make(code, place.ranked(0))]


def _words(place: Place) -> _Types:
    filters = place.attribute("embedding_size", 0) or place.ranked(1)[0]
    return [make(place.code(1), (*place.ranked(0)[:-1], filters))]


def _repeated(place: Place) -> _Types:
    return [place.type(1)]


def _unique(place: Place) -> _Types:
    """How many elements differ is data."""
    return [None, make(INT64, place.ranked(0, 1)), None]


def _bifurcation(place: Place) -> _Types:
    """How many tokens agree is data."""
    return [None, place.type(2)]


def _generated(beams: bool) -> Rule:
    """The rule of a search: the longest sequences of which one can be told."""

    def rule(place: Place) -> _Types:
        batch, longest = place.ranked(0)[0], place.number(1)
        if longest is None:
            raise UnresolvedError
        if not beams:
            return [make(INT32, (batch, longest))]
        kept = place.number(4)
        if kept is None:
            raise UnresolvedError
        return [make(INT32, (batch, kept, longest)), make(FLOAT, (batch, kept))]

    return rule


RULES: dict[str, Rule] = {
    **dict.fromkeys(("AttnLSTM", "DynamicQuantizeLSTM"), _lstm),
    "CausalConvWithState": _causal_convolution,
    "VarlenCausalConvWithState": _packed_causal_convolution,
    "LinearAttention": _linear_attention,
    "LinearAttentionGate": _gates,
    "GatedDeltaNet": _gated_delta_net,
    "HyperConnectionPreMix": _mixed,
    "EngramGate": _engram,
    **dict.fromkeys(("NGramHashMapping", "VarlenNGramHashMapping"), _hashes),
    "NGramRepeatBlock": _repeated,
    "MurmurHash3": _hash,
    "WordConvEmbedding": _words,
    "Unique": _unique,
    "BifurcationDetector": _bifurcation,
    **dict.fromkeys(("BeamSearch", "WhisperBeamSearch"), _generated(beams=True)),
    **dict.fromkeys(("GreedySearch", "Sampling"), _generated(beams=False)),
}
