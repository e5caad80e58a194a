"""How often the body of a Loop runs: its trip count, and a condition that counts up to a size; what a Scan takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flopwise.analyses.formula.dim import Dim, larger, smaller
from flopwise.analyses.formula.facts import Flow
from flopwise.analyses.formula.propagation.site import Site, UnknownError, Value, whole
from flopwise.graph import Node, Tensor

#: Operators that hand on a single number as it is.
_HANDED_ON = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}

#: Comparison -> whether its inputs change places to make it "less", and what equality adds.
_COMPARED = {"Less": (False, 0), "LessOrEqual": (False, 1), "Greater": (True, 0), "GreaterOrEqual": (True, 1)}


class Scan(NamedTuple):
    """How a Scan takes its inputs: the states first, then what it goes through along these axes."""

    #: Whether it is of the first version, with the lengths of sequences before all inputs, and a batch.
    old: bool
    states: int
    axes: Sequence[int]

    @classmethod
    def of(cls, site: Site) -> Scan:
        old, through = site.node.version < 9, site.attr("num_scan_inputs", 0)
        return cls(old, len(site.node.inputs) - old - through, site.attr("scan_input_axes") or [0] * through)


@dataclass(frozen=True, slots=True)
class Turns:
    """A Loop and what flows through its body."""

    site: Site
    flow: Flow
    #: The operators of the body, by the names of what they make.
    makers: Mapping[str, Node]
    #: The elements of tensors from outside.
    value: Callable[[Tensor], Value | None]
    #: The elements of small tensors at the hint, by name.
    hints: Mapping[str, object]

    @classmethod
    def of(
        cls,
        site: Site,
        flow: Flow,
        body: Sequence[Node],
        value: Callable[[Tensor], Value | None],
        hints: Mapping[str, object],
    ) -> Turns:
        return cls(site, flow, {t.name: node for node in body for t in node.known_outputs}, value, hints)

    def count(self) -> int:
        """How often the body runs, at most where data decide.

        Raises:
            UnknownError: nothing says so.
        """
        most = _number(self.site.value(0)) if self.site.has(0) else None
        if self.site.has(1) and self.site.values[1] is not None and not _number(self.site.value(1)):
            return 0
        ends = self.ends(*self.flow.gives[0])
        if most is None and ends is None:
            raise UnknownError
        return larger(ends if most is None else most if ends is None else smaller(most, ends), 0)  # type: ignore[arg-type]

    def ends(self, *names: str) -> int | None:
        """After how many turns a condition of the body ends it; None where it never does, or where data decide.

        Raises:
            UnknownError: it is computed in a way that is not followed.
        """
        maker = next((self.makers[name] for name in names if name in self.makers), None)
        if maker is None:  # the condition that was true before, or a constant
            held = None if names[0] in self.flow.takes[1] else self.hints.get(names[0])
            return 1 if held is not None and not bool(held) else None
        if maker.op in _HANDED_ON:
            return self.ends(maker.input(0).name)
        if maker.op == "And":
            both = [self.ends(t.name) for t in maker.known_inputs]
            limits = [limit for limit in both if limit is not None]
            return smaller(*limits) if len(limits) == 2 else next(iter(limits), None)
        computed = any(name in self.hints for name in names)
        if maker.op not in _COMPARED or not computed:
            if computed:
                raise UnknownError
            return None
        swapped, more = _COMPARED[maker.op]
        left, right = map(self.line, reversed(maker.known_inputs) if swapped else maker.known_inputs)
        start, step = right[0] - left[0] + more, left[1] - right[1]
        if type(step) is Dim or step < 0:
            raise UnknownError
        if step == 0:
            return None if start > 0 else 1
        return larger(-(-start // step), 0) + 1

    def line(self, tensor: Tensor) -> tuple[int, int]:
        """What a number is in the first turn, and how much more in each further one.

        Raises:
            UnknownError: it does not grow so.
        """
        name = tensor.name
        if name in self.flow.takes[0]:
            return 0, 1
        for place, names in enumerate(self.flow.takes[2:], 2):
            if name in names:
                return _number(self.site.value(place)), self.growth(name, self.flow.gives[place - 1])
        maker = self.makers.get(name)
        if maker is None:
            return _number(self.value(tensor)), 0
        if maker.op in _HANDED_ON:
            return self.line(maker.input(0))
        if maker.op not in ("Add", "Sub"):
            raise UnknownError
        one, two = map(self.line, maker.known_inputs)
        sign = 1 if maker.op == "Add" else -1
        return one[0] + sign * two[0], one[1] + sign * two[1]

    def growth(self, name: str, names: Sequence[str]) -> int:
        """How much more a number that is handed from turn to turn is after one.

        Raises:
            UnknownError: something else is done with it than adding a number that stays the same.
        """
        if name in names:
            return 0
        maker = next((self.makers[n] for n in names if n in self.makers), None)
        if maker is not None and maker.op in _HANDED_ON:
            return self.growth(name, [maker.input(0).name])
        if maker is None or maker.op not in ("Add", "Sub"):
            raise UnknownError
        one, two = maker.known_inputs
        if maker.op == "Add" and two.name == name:
            one, two = two, one
        step, more = self.line(two) if one.name == name and two.name != name else (0, 1)
        if more:
            raise UnknownError
        return step if maker.op == "Add" else -step


def _number(value: Value | None) -> int:
    """The one element of a tensor, a whole number.

    Raises:
        UnknownError: it has several, or it is not known.
    """
    if value is None or value.size != 1:
        raise UnknownError
    return whole(value.ravel().tolist()[0])
