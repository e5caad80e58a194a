"""Shapes of operators on tokens."""

from __future__ import annotations

from flopwise.operators.shape import Call, ShapeRule, Types, UnresolvedError


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
    """How many elements differ is data."""
    return [None, call.tensor("int64", call.ranked(0, 1)), None]


def committed(call: Call) -> Types:
    """A length for each request; the states keep their shape."""
    tokens = call.ranked(0, 1, 2)
    return [call.tensor("int32", (tokens[0] if len(tokens) == 2 else 1,)), call.type(3), call.type(4)]


def bifurcation(call: Call) -> Types:
    """How many tokens agree is data."""
    return [None, call.type(2)]


def _generated(beams: bool) -> ShapeRule:
    """The rule of a search: the longest sequences that can be known."""

    def rule(call: Call) -> Types:
        batch, longest = call.ranked(0)[0], call.number(1)
        if longest is None:
            raise UnresolvedError
        if not beams:
            return [call.tensor("int32", (batch, longest))]
        kept = call.number(4)
        if kept is None:
            raise UnresolvedError
        return [call.tensor("int32", (batch, kept, longest)), call.tensor("float32", (batch, kept))]

    return rule


beams = _generated(beams=True)
sequences = _generated(beams=False)
