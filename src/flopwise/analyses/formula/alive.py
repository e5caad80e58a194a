"""Bytes of activations alive at once, and of states, as terms."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence

from flopwise.analyses.formula.conditions import Conditions
from flopwise.analyses.formula.dim import term as term_of
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.guards import Guards, recording
from flopwise.analyses.formula.terms.bounds import largest
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Term, add_up
from flopwise.graph import Graph
from flopwise.memory.liveness import live_bytes

#: Sums of which the largest is the peak of memory; of more no formula is made.
MOST_SUMS = 8

#: Random sizes at which the largest of these sums is sought.
PEAKS = 200

#: What the inputs and outputs are called that a model keeps between calls.
_STATES = re.compile(r"past|cache|(^|[._])state([._]|$)", re.IGNORECASE)


def alive(sizes: Graph | None) -> tuple[tuple[Term, ...], Conditions]:
    """The bytes of activations alive at each step of an inference, each sum once, and where these sums hold.

    They hold at sizes where tensors share their storage as they do here. () where a size is missing.

    Args:
        sizes: the graph with sizes that carry expressions; None where there is none.
    """
    if sizes is None:
        return (), Conditions(())
    guards = Guards(reason="storage shared")
    with recording(guards):
        sums = tuple(dict.fromkeys(map(term_of, live_bytes(sizes))))
    return sums, Conditions.of(guards.reasons)


def peak_of(
    sums: Sequence[Term],
    domains: Sequence[Domain],
    checked: Sequence[Mapping[str, int]],
    true: Callable[[Mapping[str, int]], int | None],
) -> Term | None:
    """The largest of the sums that are the peak at some of many random sizes.

    None where there is no sum, where so many take turns that no formula is short, or where the result is not the true
    peak at a checked point.

    Args:
        sums: the bytes alive at each step.
        domains: the symbols.
        checked: points at which tensors share their storage otherwise, in the places of the symbols.
        true: the peak at such a point.
    """
    chance = random.Random(0)
    winners: dict[Term, None] = {}
    for _ in range(PEAKS if sums else 0):
        places = {}
        for d in domains:
            low, high = d.place(d.low), None if d.high is None else d.place(d.high)
            size = low + int(10 ** chance.uniform(0, 4)) - 1
            places[d.name] = size if high is None else min(size, high)
        atoms: dict[str, int] = {}
        winners[max(sums, key=lambda term: value(term, places, atoms))] = None
    if not 0 < len(winners) <= MOST_SUMS:
        return None
    peak = functools.reduce(largest, winners)
    return peak if all(value(peak, places) == true(places) for places in checked) else None


def state_of(sizes: Graph | None) -> Term | None:
    """Bytes that the model hands on from call to call: caches of keys and values, states."""
    if sizes is None:
        return None
    shaped = [t for t in sizes.inputs if t.shape]
    states = [t for t in shaped if t.kind == "state"] or [t for t in shaped if _STATES.search(t.name)]
    return add_up(term_of(t.nbytes) for t in states if t.sized)
