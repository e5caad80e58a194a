"""The sizes that a symbol may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flopwise.analyses.formula.terms import Term
from flopwise.errors import InputError
from flopwise.operators.size import Dims


@dataclass(frozen=True, slots=True)
class Domain:
    """The sizes that a symbol may have: ``offset`` plus a multiple of ``step``, from ``low`` to ``high``."""

    name: str
    step: int = 1
    offset: int = 0
    low: int = 1
    #: None where no bound was met.
    high: int | None = None

    def size(self, place: int) -> int:
        """The size at a place on the symbol's scale, where neighbouring sizes are 1 apart."""
        return self.step * place + self.offset

    def place(self, size: int) -> int:
        """The inverse of ``size``."""
        return (size - self.offset) // self.step

    def conditions(self) -> Iterator[str]:
        """The sizes that the symbol may have, where not every size is allowed."""
        if self.low == self.high:
            yield f"{self.name} = {self.low}"
            return
        if self.step > 1 and self.offset:
            yield f"{self.name} = {self.offset} + a multiple of {self.step}"
        elif self.step > 1:
            yield f"{self.name} divisible by {self.step}"
        if self.low > max(self.offset or self.step, 1):
            yield f"{self.name} >= {self.low}"
        if self.high is not None:
            yield f"{self.name} <= {self.high}"

    def holds(self, size: int) -> bool:
        """True if the symbol may have that size: it is within the bounds and on a step."""
        return size >= self.low and (self.high is None or size <= self.high) and (size - self.offset) % self.step == 0


def edge(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """The last place where a condition holds on the way from one where it does to one, on either side, where not."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


# Points: a size for each symbol.


#: Symbol -> size.
Point: TypeAlias = "Mapping[str, int]"

#: Shapes of inputs by name, in sizes that may carry expressions.
Sizes: TypeAlias = "Mapping[str, Dims]"

#: Name, element type and shape of an input, in the sizes of the symbols.
OpenShape: TypeAlias = "tuple[str, str | None, tuple[Term, ...]]"


# Figures at one point, and a point without any.


class OutsideError(InputError):
    """A point at which the formulas do not hold."""

    def __init__(self, message: str, point: Mapping[str, int]) -> None:
        super().__init__(message)
        self.point = point


class Values(dict[str, "int | None"]):
    """Figures at one point by name; those in ``lower_bounds`` are at least as large as they say."""

    def __init__(self, figures: Mapping[str, int | None], lower_bounds: Sequence[str] = ()) -> None:
        super().__init__(figures)
        self.lower_bounds = tuple(lower_bounds)
