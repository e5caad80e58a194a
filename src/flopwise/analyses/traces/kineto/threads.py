"""The operators of each thread, one inside the other, and which of them time is given to."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Sequence

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import LABEL, Calls, Kind, Operator, Records


class Thread:
    """The operators of one thread, by their start; each is made when it is asked for."""

    def __init__(self, name: str, calls: Calls, kinds: Sequence[Kind]) -> None:
        calls.sort()
        self.name, self.calls, self._kinds = name, calls, kinds
        outers, leaves = _nested(calls, kinds)
        self._outers = outers
        #: For each operator the position of that around it, or its own, that time is given to; -1 for none.
        self._units = array("i")
        units = [not kind.annotation and names.is_unit(kind.name) for kind in kinds]
        custom = [not kind.annotation and names.is_custom(kind.name) for kind in kinds]
        holds = _holding(calls, outers, [names.computes(kind.name) for kind in kinds]) if any(custom) else leaves
        for place, (kind, outer, leaf) in enumerate(zip(calls.kinds, outers, leaves, strict=True)):
            around = self._units[outer] if outer >= 0 else -1
            own = leaf and not kinds[kind].annotation
            if around < 0 and (units[kind] or own or (custom[kind] and not holds[place])):
                around = place
            self._units.append(around)
        #: Whether it runs backward passes only.
        outermost = {kind for kind, outer in zip(calls.kinds, outers, strict=True) if outer < 0}
        self.gradients = any(names.is_gradient(kinds[kind].name) for kind in outermost) and not any(
            kinds[kind].annotation for kind in set(calls.kinds)
        )
        self._made: dict[int, Operator] = {}

    @property
    def units(self) -> list[int]:
        """The positions of the operators that time is given to."""
        return [place for place, unit in enumerate(self._units) if unit == place]

    @property
    def unit_time(self) -> int:
        """The time of these, in nanoseconds."""
        return sum(self.calls.ends[place] - self.calls.starts[place] for place in self.units)

    def forget(self) -> None:
        """Let go of the operators that were asked for."""
        self._made.clear()

    def between(self, start: int, end: int) -> list[Operator]:
        """The operators that start in a span of time."""
        first, last = (bisect.bisect_left(self.calls.starts, instant) for instant in (start, end))
        return [self._made.get(place) or self._operator(place) for place in range(first, last)]

    def innermost(self, instant: int) -> Operator | None:
        """The innermost operator that is open at an instant."""
        place = bisect.bisect_right(self.calls.starts, instant) - 1
        while place >= 0 and self.calls.ends[place] < instant:
            place = self._outers[place]
        return self._operator(place) if place >= 0 else None

    def _operator(self, place: int) -> Operator:
        """An operator, and those around it; the same one until it is forgotten."""
        chain: list[int] = []
        while place >= 0 and place not in self._made:
            chain.append(place)
            place = self._outers[place]
        operator = self._made.get(place)
        for each in reversed(chain):
            operator = self._made[each] = self._inside(each, operator)
        assert operator is not None
        return operator

    def _inside(self, place: int, outer: Operator | None) -> Operator:
        calls = self.calls
        kind, sequence = self._kinds[calls.kinds[place]], calls.sequences[place]
        operator = Operator(
            kind.name,
            self.name,
            calls.starts[place],
            calls.ends[place],
            kind.arguments,
            sequence if sequence >= 0 else None,
            kind.annotation,
            outer,
        )
        if outer is not None:
            operator.unit, operator.context, operator.label = outer.unit, outer.context, outer.label
            operator.gradient = outer.gradient or names.is_compiled_gradient(outer.name)
        if kind.annotation:
            operator.context = names.context_of(kind.name) or operator.context
            if kind.name.startswith(LABEL):
                operator.label = kind.name
        if self._units[place] == place:
            operator.unit = operator
        return operator


def threads_of(records: Records) -> dict[str, Thread]:
    """The threads by their names."""
    return {name: Thread(name, calls, records.kinds) for name, calls in records.calls.items()}


def _holding(calls: Calls, outers: Sequence[int], kinds: Sequence[bool]) -> bytearray:
    """For each call whether one of these kinds is inside it."""
    holds = bytearray(len(calls.kinds))
    for place in reversed(range(len(calls.kinds))):
        if outers[place] >= 0 and (holds[place] or kinds[calls.kinds[place]]):
            holds[outers[place]] = 1
    return holds


def _nested(calls: Calls, kinds: Sequence[Kind]) -> tuple[array[int], bytearray]:
    """For each call the position of the one around it, -1 for none, and whether no operator is inside."""
    outers, leaves = array("i"), bytearray(b"\1" * len(calls.kinds))
    stack: list[int] = []
    for place, (start, kind) in enumerate(zip(calls.starts, calls.kinds, strict=True)):
        while stack and calls.ends[stack[-1]] <= start:
            stack.pop()
        outers.append(stack[-1] if stack else -1)
        for around in reversed(stack if not kinds[kind].annotation else ()):
            leaves[around] = 0
            if not kinds[calls.kinds[around]].annotation:
                break
        stack.append(place)
    return outers, leaves
