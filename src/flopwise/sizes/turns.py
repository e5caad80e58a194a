"""After how many iterations a condition that counts up to a size ends a Loop.

Where all numbers are certain, iterations are followed one by one; a size with an expression says it for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flopwise.operators.size import UnresolvedError, is_certain, larger, smaller
from flopwise.sizes.control import scalar
from flopwise.sizes.facts import Fact
from flopwise.sizes.program import Graph, Node
from flopwise.sizes.scope import Scope

#: Operators that hand on a single number as it is.
_HANDED_ON = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}

#: Comparison -> whether its inputs change places to make it "less", and what equality adds.
_COMPARED = {"Less": (False, 0), "LessOrEqual": (False, 1), "Greater": (True, 0), "GreaterOrEqual": (True, 1)}


def ending(body: Graph, start: Sequence[Fact], most: int | None, scope: Scope) -> int | None:
    """Trips of a Loop as an expression; None where they follow no size with one.

    Args:
        body: its first input is the number of the iteration, its first output whether there is another one.
        start: what the first iteration is handed.
        most: the trip count; None for a loop that the condition alone ends.
        scope: the facts about the body.
    """
    try:
        ends = _Body(body, start, scope).ends(body.outputs[0].name)
    except (UnresolvedError, LookupError):
        return None
    limits = [limit for limit in (most, ends) if limit is not None]
    if ends is None or all(type(limit) is int for limit in limits) or not all(map(is_certain, limits)):
        return None
    return larger(smaller(*limits) if len(limits) > 1 else limits[0], 0)


@dataclass(slots=True)
class _Body:
    """The body of a Loop and what flows through it."""

    graph: Graph
    start: Sequence[Fact]
    scope: Scope

    def maker(self, name: str) -> Node | None:
        """The operator of the body that makes a tensor."""
        return next((node for node in self.graph.nodes if name in node.outputs), None)

    def ends(self, name: str) -> int | None:
        """After how many iterations a condition ends the loop; None where it never does.

        Raises:
            UnresolvedError: it is computed in a way that is not followed.
        """
        maker = self.maker(name)
        if maker is None:  # the condition that was true before, or one from outside
            held = True if name == self.graph.inputs[1].name else scalar(self.scope.of(name))
            if held is None:
                raise UnresolvedError
            return None if held else 1
        if maker.op in _HANDED_ON:
            return self.ends(maker.inputs[0])
        if maker.op == "And":
            limits = [limit for limit in map(self.ends, maker.inputs) if limit is not None]
            return smaller(*limits) if len(limits) == 2 else next(iter(limits), None)
        if maker.op not in _COMPARED:
            raise UnresolvedError
        swapped, more = _COMPARED[maker.op]
        left, right = map(self.line, maker.inputs[::-1] if swapped else maker.inputs)
        before, step = right[0] - left[0] + more, left[1] - right[1]
        if type(step) is not int or step < 0:
            raise UnresolvedError
        if step == 0:
            return None if before > 0 else 1
        return larger(-(-before // step), 0) + 1

    def line(self, name: str) -> tuple[int, int]:
        """The value of a number in the first iteration, and its growth in each further one.

        Raises:
            UnresolvedError: it does not grow so.
        """
        inputs = [value.name for value in self.graph.inputs]
        if name == inputs[0]:
            return 0, 1
        if name in inputs[2:]:
            place = inputs.index(name) - 2
            return _number(self.start[place]), self.growth(name, self.graph.outputs[place + 1].name)
        maker = self.maker(name)
        if maker is None:
            return _number(self.scope.of(name)), 0
        if maker.op in _HANDED_ON:
            return self.line(maker.inputs[0])
        if maker.op not in ("Add", "Sub"):
            return _number(self.scope.of(name)), 0
        one, two = map(self.line, maker.inputs)
        sign = 1 if maker.op == "Add" else -1
        return one[0] + sign * two[0], one[1] + sign * two[1]

    def growth(self, name: str, result: str) -> int:
        """The growth in one iteration of a number that is handed from iteration to iteration.

        Raises:
            UnresolvedError: something else is done with it than adding a number that stays the same.
        """
        if name == result:
            return 0
        maker = self.maker(result)
        if maker is not None and maker.op in _HANDED_ON:
            return self.growth(name, maker.inputs[0])
        if maker is None or maker.op not in ("Add", "Sub"):
            raise UnresolvedError
        one, two = maker.inputs
        if maker.op == "Add" and two == name:
            one, two = two, one
        step, more = self.line(two) if one == name and two != name else (0, 1)
        if more:
            raise UnresolvedError
        return step if maker.op == "Add" else -step


def _number(fact: Fact) -> int:
    """The one element of a tensor, a whole number.

    Raises:
        UnresolvedError: it has several, or it is not known.
    """
    number = scalar(fact)
    if not isinstance(number, int):
        raise UnresolvedError
    return number
