"""The operators of each thread, one inside the other, and which of them time is given to."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import LABEL, Operator


class Thread:
    """The operators of one thread, by their start."""

    def __init__(self, name: str, operators: Sequence[Operator]) -> None:
        self.name = name
        self.operators = sorted(operators, key=lambda o: (o.start, -o.end))
        self._starts = [o.start for o in self.operators]
        _nest(self.operators)
        #: Whether it runs backward passes only.
        self.gradients = any(o.outer is None and names.is_gradient(o.name) for o in self.operators) and not any(
            o.annotation for o in self.operators
        )

    @property
    def units(self) -> list[Operator]:
        """The operators that time is given to."""
        return [o for o in self.operators if o.unit is o]

    def between(self, start: int, end: int) -> list[Operator]:
        """The operators that start in a span of time."""
        return self.operators[bisect.bisect_left(self._starts, start) : bisect.bisect_left(self._starts, end)]

    def innermost(self, instant: int) -> Operator | None:
        """The innermost operator that is open at an instant."""
        place = bisect.bisect_right(self._starts, instant) - 1
        operator = self.operators[place] if place >= 0 else None
        while operator is not None and operator.end < instant:
            operator = operator.outer
        return operator


def threads_of(operators: Sequence[Operator]) -> dict[str, Thread]:
    """The threads by their names."""
    by_name: defaultdict[str, list[Operator]] = defaultdict(list)
    for operator in operators:
        by_name[operator.thread].append(operator)
    return {name: Thread(name, each) for name, each in by_name.items()}


def _nest(operators: Sequence[Operator]) -> None:
    """Set what stands around each operator, and from the outside in which of them are units."""
    stack: list[Operator] = []
    for operator in operators:
        while stack and stack[-1].end <= operator.start:
            stack.pop()
        if stack:
            operator.outer = stack[-1]
            if not operator.annotation:
                operator.outer.leaf = False
        stack.append(operator)
    for operator in operators:
        outer = operator.outer
        if outer is not None:
            operator.context, operator.label = outer.context, outer.label
        if operator.annotation:
            operator.context = names.context_of(operator.name) or operator.context
            if operator.name.startswith(LABEL):
                operator.label = operator.name
        if outer is not None and outer.unit is not None:
            operator.unit = outer.unit
        elif not operator.annotation and (operator.leaf or names.is_unit(operator.name)):
            operator.unit = operator
