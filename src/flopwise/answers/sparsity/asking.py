"""The query for sparsity in weights: blocks, N:M patterns, and the thresholds of the search for blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from flopwise.errors import InputError

#: Order of the reduction of a convolution: channel before kernel position as it is stored, or position before channel.
Order: TypeAlias = Literal["stored", "channels-last"]

#: No block has more rows or columns, and no group more elements.
MOST = 1 << 20


class Block(NamedTuple):
    """A block of a weight seen as a matrix: rows are outputs, columns are what an output sums over."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"


class Pattern(NamedTuple):
    """At most ``kept`` of each ``group`` neighbours along the reduction differ from zero (2:4)."""

    kept: int
    group: int

    def __str__(self) -> str:
        return f"{self.kept}:{self.group}"


@dataclass(frozen=True, slots=True)
class SparsityQuery:
    """The blocks and patterns to look for, and the thresholds of the search for blocks."""

    blocks: tuple[Block, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    #: The search for blocks takes tensors with more elements than this ...
    min_size: int = 4096
    #: ... of which more than this share is zero, ...
    min_ratio: float = 0.4
    #: ... and a block whose share of zero blocks is less than this below the share of zeros.
    tolerance: float = 0.1
    #: Ranks of the tensors that are searched; None: every rank from 2 on.
    ranks: frozenset[int] | None = field(default=None)
    order: Order = "stored"

    def searches(self, rank: int, elements: int) -> bool:
        """True where a tensor of this rank and size is searched once enough of it is zero."""
        return elements > self.min_size and (rank >= 2 if self.ranks is None else rank in self.ranks)


def sparsity_query(
    blocks: str | Iterable[str | Sequence[int]] = (),
    patterns: str | Iterable[str | Sequence[int]] = (),
    min_size: int = 4096,
    min_ratio: float = 0.4,
    tolerance: float = 0.1,
    ranks: Iterable[int] | None = None,
    order: Order = "stored",
) -> SparsityQuery:
    """A checked query.

    Raises:
        InputError: a block, a pattern or a threshold makes no sense.
    """
    for name, share in (("ratio", min_ratio), ("tolerance", tolerance)):
        if not 0 <= share <= 1:
            raise InputError(f"the {name} {share!r} is not a share between 0 and 1")
    if min_size < 0:
        raise InputError(f"the minimum size {min_size} is below 0")
    counts = None if ranks is None else frozenset(ranks)
    if counts is not None and (not counts or not all(isinstance(rank, int) and rank >= 2 for rank in counts)):
        raise InputError("the search for blocks takes ranks of 2 or more")
    return SparsityQuery(
        tuple(dict.fromkeys(block(b) for b in _parts(blocks))),
        tuple(dict.fromkeys(pattern(p) for p in _parts(patterns))),
        min_size,
        min_ratio,
        tolerance,
        counts,
        order,
    )


def block(text: str | Sequence[int]) -> Block:
    """A block from its text or its two extents.

    Raises:
        InputError: it is none.

    >>> block("4x1")
    Block(rows=4, columns=1)
    """
    extents = _numbers(text, "x")
    if extents is None or len(extents) != 2 or min(extents) < 1:
        raise InputError(f"{_shown(text)} is not a block of rows and columns, such as 4x1")
    if max(extents) > MOST:
        raise InputError(f"the block {_shown(text)} is larger than {MOST} rows or columns")
    return Block(*extents)


def pattern(text: str | Sequence[int]) -> Pattern:
    """A pattern from its text or its two numbers.

    Raises:
        InputError: it is none.

    >>> pattern("2:4")
    Pattern(kept=2, group=4)
    """
    numbers = _numbers(text, ":")
    if numbers is None or len(numbers) != 2 or not 0 <= numbers[0] < numbers[1]:
        raise InputError(f"{_shown(text)} is not a pattern: N of M elements with N below M, such as 2:4")
    if numbers[1] > MOST:
        raise InputError(f"the pattern {_shown(text)} has groups of more than {MOST} elements")
    return Pattern(*numbers)


def _parts(texts: str | Iterable[str | Sequence[int]]) -> list[str | Sequence[int]]:
    """The members of a list, or of a text with commas between them."""
    members: list[str | Sequence[int]] = []
    for part in [texts] if isinstance(texts, str) else texts:
        members += [text.strip() for text in part.split(",") if text.strip()] if isinstance(part, str) else [part]
    return members


def _numbers(text: str | Sequence[int], between: str) -> list[int] | None:
    if isinstance(text, str):
        parts = text.strip().lower().replace("×", "x").split(between)
        return [int(p) for p in parts] if all(re.fullmatch("[0-9]{1,9}", p) for p in parts) else None
    return list(text) if all(isinstance(n, int) and not isinstance(n, bool) for n in text) else None


def _shown(text: str | Sequence[int]) -> str:
    return repr(text if isinstance(text, str) else tuple(text))
