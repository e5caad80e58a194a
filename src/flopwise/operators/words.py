"""The words in which a row of the operator tables says what it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from flopwise.operators.counts import Counts

#: A text, or what makes it: most runs show no formula.
Note: TypeAlias = "str | Callable[[], str]"


def words(counts: Counts) -> str:
    """The classes that are not zero, as a formula shows them.

    >>> words(Counts(mul=1, add=2))
    '(2 add + 1 mul)'
    >>> words(Counts(exp=1))
    '1 exp'
    """
    terms = [f"{n} {name}" for name, n in counts.items() if n]
    return f"({' + '.join(terms)})" if len(terms) > 1 else "".join(terms)


def text(note: Note) -> str:
    """The text of a note."""
    return note if isinstance(note, str) else note()


def first_paragraph(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())
