"""After how many iterations a condition that counts up to a number ends a loop.

Where all numbers are certain, iterations can be followed one by one; a size with an expression says it for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.operators.size import UnresolvedError, larger, smaller

#: Operators that hand on a single number as it is.
_HANDED_ON = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}

#: Comparison -> whether its inputs change places to make it "less", and what equality adds.
_COMPARED = {"Less": (False, 0), "LessOrEqual": (False, 1), "Greater": (True, 0), "GreaterOrEqual": (True, 1)}


class Carried(NamedTuple):
    """A number that is handed from iteration to iteration."""

    #: Its value in the first one; None where that is not known.
    start: Any
    #: Its name in the body, and that of the result that it is in the next iteration.
    name: str
    after: str


class Counting(NamedTuple):
    """A condition and a body as far as they count."""

    #: Name of a result -> its operator, and the names of the inputs of that.
    makers: Mapping[str, tuple[str, Sequence[str]]]
    #: The names of numbers that are carried, as the condition and the body have them.
    carried: Mapping[str, Carried]
    #: The value of a number, or a flag, that is the same in all iterations; None where it is not known.
    number: Callable[[str], Any]
    #: The input that is the number of the iteration; "" where there is none.
    iteration: str = ""
    #: Iterations before the condition is looked at.
    before: int = 0

    def ends(self, name: str) -> tuple[int | None, bool]:
        """After how many iterations a condition ends the loop, None where it never does; if others may end it earlier.

        Raises:
            UnresolvedError: it is computed in a way that is not followed.
        """
        op, inputs = self.makers.get(name, ("", ()))
        if op in _HANDED_ON:
            return self.ends(inputs[0])
        if op in ("And", "BitwiseAnd"):
            return self._first_of(inputs)
        if not op:
            held = self.number(name)
            if held is None:
                raise UnresolvedError
            return None if held else self.before, False
        if op not in _COMPARED and op != "aten::ne":
            raise UnresolvedError
        swapped, more = _COMPARED.get(op, (False, 0))
        left, right = map(self.line, inputs[::-1] if swapped else inputs)
        distance, step = right[0] - left[0] + more, left[1] - right[1]
        if type(step) is not int or (step < 0 and op in _COMPARED):
            raise UnresolvedError
        if op == "aten::ne":
            if step == 0 or distance % step or distance // step < 0:
                raise UnresolvedError
            return distance // step + self.before, False
        if step == 0:
            return None if distance > 0 else self.before, False
        return larger(-(-distance // step), 0) + self.before, False

    def _first_of(self, names: Sequence[str]) -> tuple[int | None, bool]:
        """The first end of conditions that must all hold; those that are not followed may end the loop earlier."""
        limits, more = list[int](), 0
        for name in names:
            try:
                limit, open_ = self.ends(name)
            except UnresolvedError:
                more += 1
                continue
            more += open_
            limits += [] if limit is None else [limit]
        if more and not limits:
            raise UnresolvedError
        return (smaller(*limits) if len(limits) == 2 else next(iter(limits), None)), more > 0

    def line(self, name: str) -> tuple[int, int]:
        """The value of a number in the first iteration, and its growth in each further one.

        Raises:
            UnresolvedError: it does not grow so.
        """
        if name == self.iteration:
            return 0, 1
        if name in self.carried:
            start, own, after = self.carried[name]
            return _whole(start), self._growth(own, after)
        op, inputs = self.makers.get(name, ("", ()))
        if op in _HANDED_ON:
            return self.line(inputs[0])
        if op not in ("Add", "Sub"):
            return _whole(self.number(name)), 0
        one, two = map(self.line, inputs)
        sign = 1 if op == "Add" else -1
        return one[0] + sign * two[0], one[1] + sign * two[1]

    def _growth(self, name: str, result: str) -> int:
        """The growth in one iteration of a number that is carried.

        Raises:
            UnresolvedError: something else is done with it than adding a number that stays the same.
        """
        if name == result:
            return 0
        op, inputs = self.makers.get(result, ("", ()))
        if op in _HANDED_ON:
            return self._growth(name, inputs[0])
        if op not in ("Add", "Sub"):
            raise UnresolvedError
        one, two = inputs
        if op == "Add" and two == name:
            one, two = two, one
        step, more = self.line(two) if one == name and two != name else (0, 1)
        if more:
            raise UnresolvedError
        return step if op == "Add" else -step


def _whole(number: object) -> int:
    """A whole number of any kind.

    Raises:
        UnresolvedError: it is none, or not known.
    """
    if not isinstance(number, int):
        raise UnresolvedError
    return number
