"""What p-norms take, for the operators that have one."""

from __future__ import annotations

from flopwise.operators.counts import Counts


def norm(p: float) -> tuple[Counts, Counts]:
    """What a p-norm takes for each element and for each result.

    Args:
        p: 0 counts the elements that are not 0.

    >>> norm(1.0)[0].add
    1
    """
    if p == 2:
        return Counts(mul=1, add=1), Counts(sqrt=1)
    if p == 1:
        return Counts(bit=1, add=1), Counts()
    if p == 0:
        return Counts(cmp=1, add=1), Counts()
    if abs(p) == float("inf"):
        return Counts(bit=1, cmp=1), Counts()
    return Counts(bit=1, pow=1, add=1), Counts(pow=1)
