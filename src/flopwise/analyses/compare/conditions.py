"""Differences that make a comparison fail: ``macs>+1%,params>0``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from flopwise.analyses.compare.comparison import OF_MODEL, Comparison
from flopwise.analyses.quantities import ALIASES, FIGURES, quantity
from flopwise.errors import InputError, did_you_mean

#: Signs of conditions.
SIGNS: dict[str, Callable[[Fraction | float, Fraction], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

_FORM = re.compile(
    r"\s*(?P<figure>\w+)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<minus>[+-]?)\s*(?P<limit>[^%+-]+?)\s*(?P<share>%?)\s*"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A difference from the first model that makes a comparison fail."""

    text: str
    figure: str
    sign: str
    #: In the figure's unit, or in per cent of what the first model has.
    limit: Fraction
    percent: bool

    def holds(self, first: int, other: int) -> bool:
        """True where the figures of the first and of another model differ as the condition says."""
        more: Fraction | float = Fraction(other - first)
        if self.percent and more:
            more = 100 * more / first if first else math.copysign(math.inf, more)
        return SIGNS[self.sign](more, self.limit)


def conditions(text: str) -> list[Condition]:
    """The conditions of a text such as ``macs>+1%,params>0``: differences to the first model.

    Raises:
        InputError: the text is not of that form, or names an unknown figure.

    >>> [(c.figure, c.sign, c.limit, c.percent) for c in conditions("macs>+1%, params>25 k")]
    [('macs', '>', Fraction(1, 1), True), ('params', '>', Fraction(25000, 1), False)]
    """
    parts = [_condition(part) for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{text!r} contains no condition; write for example macs>+1%,params>0")
    return parts


def _condition(text: str) -> Condition:
    parts = _FORM.fullmatch(text)
    if parts is None:
        raise InputError(
            f"cannot understand {text.strip()!r}; write a figure, a sign and a limit: macs>+1% or params>0"
        )
    figure = ALIASES.get(parts["figure"].lower(), parts["figure"].lower())
    if figure not in (*FIGURES, *OF_MODEL):
        figures = (*FIGURES, *OF_MODEL)
        hint = did_you_mean(figure, [*figures, *ALIASES], " ")
        raise InputError(f"unknown figure {parts['figure']!r};{hint} known: {', '.join(figures)}")
    try:
        limit = quantity(parts["limit"], bytes_="bytes" in figure)
    except InputError as error:
        raise InputError(f"{text.strip()!r}: {error}") from None
    signed = -limit if parts["minus"] == "-" else limit
    return Condition(text.strip(), figure, parts["sign"], signed, bool(parts["share"]))


@dataclass(frozen=True, slots=True)
class Break:
    """A condition that holds for a model: what the first model has, and what it has; None where it may hold."""

    condition: Condition
    label: str
    first: int | None
    other: int | None


def broken(comparison: Comparison, conditions: list[Condition]) -> Iterator[Break]:
    """The conditions that hold or may hold, for each model but the first."""
    for condition in conditions:
        first, *others = comparison.subtracted(condition.figure)
        units = [p.convention.unit for p in comparison.profiles]
        comparable = [condition.figure != "count" or unit == units[0] for unit in units[1:]]
        for label, other, alike in zip(comparison.labels[1:], others, comparable, strict=True):
            if not alike:
                raise InputError(f"{condition.text}: {label} counts in a different unit from {comparison.labels[0]}")
            if first is None or other is None or condition.holds(first, other):
                yield Break(condition, label, first, other)
