"""Shapes that are combined: broadcasting, and extents that must be the same."""

from __future__ import annotations

from flopwise.analyses.formula.dim import Dim, require, term
from flopwise.analyses.formula.propagation.site import Shape, UnknownError


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, aligned at the last axis; that paired extents are the same becomes a condition.

    Raises:
        UnknownError: they do not fit at the hint.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(common(extents) for extents in zip(*padded, strict=True))


def common(extents: tuple[int, ...]) -> int:
    """What a pair of extents becomes: the one that is not 1.

    Raises:
        UnknownError: they do not fit at the hint.
    """
    chosen: int = 1
    for extent in extents:
        if type(extent) is int and extent == 1:
            continue
        if type(chosen) is int and chosen == 1:
            chosen = extent
        elif extent is not chosen:
            chosen = same(chosen, extent)
    return chosen


def simpler(one: int, other: int) -> bool:
    """Whether the expression of a size is simpler than that of another one."""
    if type(one) is not Dim or type(other) is not Dim:
        return type(one) is int and type(other) is Dim
    return len(str(one.expression)) < len(str(other.expression))


def same(one: int, other: int) -> int:
    """An extent that must be another one as well, or 1 at the hint; the condition is recorded.

    Raises:
        UnknownError: they differ at the hint.
    """
    apart = term(one) - term(other)
    if isinstance(apart, int) and apart == 0:
        return one
    if int(one) == int(other):
        require(apart, "==")
        return other if simpler(other, one) else one
    for extent, wide in ((one, other), (other, one)):
        if int(extent) == 1:
            require(term(extent) - 1, "==")
            return wide
    raise UnknownError
