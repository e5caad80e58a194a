"""The shape of a row in the operator tables: a rule, its formula in words, and what kind of claim it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from flopwise.graph import Node
from flopwise.operators.counts import Counts

#: What one application of an operator executes, from the shapes of its inputs and outputs and its attributes.
#: Raises ShapeError when a shape it needs is unresolved.
Rule: TypeAlias = Callable[[Node], Counts]

#: ``exact``: the number of operations of the plain definition. ``bound``: an upper bound, because the work depends on
#: the data. ``nothing``: moves, selects or converts data and computes nothing, for the reason that the formula gives.
Claim: TypeAlias = Literal["exact", "bound", "nothing"]


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One row of an operator table."""

    rule: Rule
    #: The count in the operator's own letters; for ``nothing`` the reason.
    formula: str
    claim: Claim = "exact"


def words(counts: Counts) -> str:
    """The classes that are not zero, as a formula shows them.

    >>> words(Counts(mul=1, add=2))
    '(2 add + 1 mul)'
    >>> words(Counts(exp=1))
    '1 exp'
    """
    terms = [f"{n} {name}" for name, n in counts.items() if n]
    return f"({' + '.join(terms)})" if len(terms) > 1 else "".join(terms)


def each(note: str = "", /, **classes: int) -> Operator:
    """A row for a pointwise operator: the given operations for each element of output 0, and a remark if one is due.

    >>> each(mul=1, add=2).formula
    'numel(Y) × (2 add + 1 mul)'
    """
    once = Counts(**classes)
    formula = f"numel(Y) × {words(once)}"
    return Operator(lambda node: once * node.output().numel, f"{formula}: {note}" if note else formula)


def nothing(reason: str) -> Operator:
    """A row for an operator that computes nothing, with the reason."""
    return Operator(lambda node: Counts(), reason, "nothing")


def by(rule: Rule, claim: Claim = "exact") -> Operator:
    """A row for a rule function; the first paragraph of its docstring is the formula."""
    first = (rule.__doc__ or "").strip().split("\n\n")[0]
    return Operator(rule, " ".join(first.split()), claim)
