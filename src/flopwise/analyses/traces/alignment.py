"""Two sequences brought side by side: the pairs, in the order of both, that gain most together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

#: Of long sequences only pairs so near to the diagonal are looked at.
BAND = 500


def aligned(gain: Callable[[int, int], int], many: int, others: int) -> list[int | None]:
    """For each position of one sequence that of its partner in the other; None where it has none.

    This is an edit distance: what has no partner was added or left out, which costs nothing.

    >>> same = lambda text, other: aligned(lambda i, j: int(text[i] == other[j]), len(text), len(other))
    >>> same("abxd", "abcd")
    [0, 1, None, 3]

    Args:
        gain: of two positions what it is worth to pair them; 0 or less: they are no pair.
        many: length of the one sequence.
        others: length of the other.
    """
    best = [0] * (others + 1)
    steps: list[tuple[int, bytearray]] = []
    for i in range(many):
        centre = i * others // many
        first, last = max(0, centre - BAND), min(others, centre + BAND + 1)
        row, step = best[:], bytearray(last - first)
        for j in range(first, last):
            worth = gain(i, j)
            paired = best[j] + worth if worth > 0 else -1
            if paired >= max(row[j], best[j + 1]):
                row[j + 1], step[j - first] = paired, 2
            elif row[j] > best[j + 1]:
                row[j + 1], step[j - first] = row[j], 1
        row[last + 1 :] = [row[last]] * (others - last)
        best = row
        steps.append((first, step))
    partners: list[int | None] = [None] * many
    j = others
    for i in reversed(range(many)):
        first, step = steps[i]
        j = min(j, first + len(step))
        while j > first and step[j - 1 - first] == 1:
            j -= 1
        if j > first and step[j - 1 - first] == 2:
            j -= 1
            partners[i] = j
    return partners


def in_order(places: Sequence[int]) -> list[int]:
    """Positions of the longest rising part of a sequence.

    >>> in_order([3, 0, 1, 9, 2])
    [1, 2, 4]
    """
    ends: list[int] = []
    tails: list[int] = []
    before: list[int | None] = []
    for position, place in enumerate(places):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else None)
        ends[length:] = [position, *ends[length + 1 :]]
        tails[length:] = [place, *tails[length + 1 :]]
    chain: list[int] = []
    position_or_none = ends[-1] if ends else None
    while position_or_none is not None:
        chain.append(position_or_none)
        position_or_none = before[position_or_none]
    return chain[::-1]
