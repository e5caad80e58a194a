"""Trips of a while loop whose condition counts steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

from flopwise.formats.jax.jaxpr import Atom, Jaxpr, JaxprEqn, is_literal

#: Comparison -> the same with its sides exchanged.
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}


class Trips(NamedTuple):
    """Trips of a loop; None where they are unknown."""

    number: int | None
    #: Whether it may end before.
    bound: bool = False


def trips_of(params: Mapping[str, Any], operands: Sequence[int | None]) -> Trips:
    """The trips of a while loop.

    A condition that compares what the body steps by a constant with a constant says them. Where other conditions must
    hold as well, they are a bound.

    Args:
        params: those of its equation.
        operands: the integers among what it takes; None for what is not known.
    """
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    outer, inner = params["cond_nconsts"], params["body_nconsts"]
    made = {out: eqn for eqn in condition.eqns for out in eqn.outvars}
    loop = _Loop(condition, body, outer, inner, operands)
    parts = list(_conjuncts(condition.outvars[0], made))
    steps = [trips for part in parts if (trips := loop.trips(None if is_literal(part) else made.get(part))) is not None]
    if not steps:
        return Trips(None)
    return Trips(min(steps), bound=len(steps) < len(parts))


def _conjuncts(atom: Atom, made: Mapping[Atom, JaxprEqn]) -> list[Atom]:
    """The conditions that must hold together."""
    eqn = None if is_literal(atom) else made.get(atom)
    if eqn is not None and eqn.primitive.name == "and":
        return [part for side in eqn.invars for part in _conjuncts(side, made)]
    if eqn is not None and eqn.primitive.name == "convert_element_type":
        return _conjuncts(eqn.invars[0], made)
    return [atom]


class _Loop(NamedTuple):
    """A while loop: what its condition and its body take, and the integers outside that are known."""

    condition: Jaxpr
    body: Jaxpr
    outer: int
    inner: int
    operands: Sequence[int | None]

    def trips(self, comparison: JaxprEqn | None) -> int | None:
        """The trips that a comparison allows; None where it does not say."""
        if comparison is None or comparison.primitive.name not in _MIRRORED:
            return None
        kind = comparison.primitive.name
        left, right = comparison.invars
        for counter, limit, relation in ((left, right, kind), (right, left, _MIRRORED[kind])):
            place, end = self.carried(counter), self.constant(limit)
            if place is None or end is None:
                continue
            start, step = self.operands[self.outer + self.inner + place], self.step(place)
            if start is None or not step:
                continue
            distance = end - start
            if relation == "ne" and distance % step == 0 and distance // step >= 0:
                return distance // step
            if relation == "ne" or (relation in ("lt", "le")) != (step > 0):
                continue
            size, reach = abs(step), distance if step > 0 else -distance
            return max(0, reach // size + 1 if relation in ("le", "ge") else -(-reach // size))
        return None

    def carried(self, atom: Atom) -> int | None:
        """The place among what is carried from trip to trip; None for anything else."""
        places = [place for place, var in enumerate(self.condition.invars[self.outer :]) if var is atom]
        return places[0] if places else None

    def constant(self, atom: Atom) -> int | None:
        """An integer that does not change from trip to trip."""
        if is_literal(atom):
            return integer(atom.val)
        outside = [place for place, var in enumerate(self.condition.invars[: self.outer]) if var is atom]
        if outside:
            return self.operands[outside[0]]
        place = self.carried(atom)
        if place is not None and self.body.outvars[place] is self.body.invars[self.inner + place]:
            return self.operands[self.outer + self.inner + place]
        return None

    def step(self, place: int) -> int | None:
        """The number that a trip adds to an integer that is carried."""
        result, before = self.body.outvars[place], self.body.invars[self.inner + place]
        eqn = next((eqn for eqn in self.body.eqns if any(out is result for out in eqn.outvars)), None)
        if eqn is None or eqn.primitive.name not in ("add", "sub"):
            return None
        left, right = eqn.invars
        if left is before and is_literal(right):
            step = integer(right.val)
            return step if step is None or eqn.primitive.name == "add" else -step
        if right is before and is_literal(left) and eqn.primitive.name == "add":
            return integer(left.val)
        return None


def integer(value: object) -> int | None:
    """The integer that a constant without axes is; None for anything else."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, bool) or getattr(value, "shape", ()) != () or (dtype is not None and dtype.kind not in "iu"):
        return None
    try:
        return value.__index__() if isinstance(value, SupportsIndex) else None
    except (TypeError, ValueError):
        return None
