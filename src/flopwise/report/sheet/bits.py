"""Bit operations of products as a column: multiply-adds times the bits of both factors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from flopwise.graph.dtypes import BITS
from flopwise.profiles.precision import QDQ, TIMES, precisions
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

Item: TypeAlias = "Row | Sum"

#: Row, by its identity, -> the bits of one factor times those of the other; None where a type is unknown.
_BITS: WeakKeyDictionary[Profile, dict[int, int | None]] = WeakKeyDictionary()


def bops(item: Item, profile: Profile) -> int | None:
    """Bit operations of a row, or of those of several that have any; None where multiply-adds or types are unknown."""
    if isinstance(item, Sum):
        return sum(count for row in item.rows if (count := bops(row, profile)) is not None)
    if profile not in _BITS:
        types = precisions(profile.graph, profile.rows)
        _BITS[profile] = {id(row): _of_both(text) for row, text in zip(profile.rows, types, strict=True)}
    bits = _BITS[profile].get(id(item))
    return item.macs if not item.macs else None if bits is None else item.macs * bits


def _of_both(precision: str) -> int | None:
    """The bits of both factors multiplied; one type is that of both.

    >>> _of_both("int8 (QDQ)"), _of_both("float16×int4"), _of_both("unknown")
    (64, 64, None)
    """
    widths = [BITS.get(name) for name in precision.removesuffix(QDQ).split(TIMES)]
    if None in widths or len(widths) > 2:
        return None
    return math.prod(width or 0 for width in (widths if len(widths) == 2 else widths * 2))
