"""Shapes of operators on tokens."""

from __future__ import annotations

from flopwise.operators.shape import Call, ShapeRule, Types
from flopwise.operators.size import OPEN, Most, UnresolvedError


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
