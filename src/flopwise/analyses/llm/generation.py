"""Sums over many steps whose costs are straight lines in the length of the context, with few kinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from operator import sub


def summed(cost: Callable[[int], tuple[int, ...]], first: int, last: int) -> tuple[int, ...]:
    """The sum of ``cost(n)`` for n from ``first`` to ``last``, both included.

    Costs of a step are straight lines in the context's length, with a kink where a window is full. Where the middle of
    a stretch lies on the line between its ends, the stretch is summed as a line, in whole numbers; else it is halved.

    Args:
        cost: several costs of a step, all at once.
        first: the first length.
        last: the last one.

    >>> summed(lambda n: (3 * n + 1, min(n, 10)), 1, 20)
    (650, 155)
    """
    sums: dict[int, tuple[int, ...]] = {}

    def cost_at(length: int) -> tuple[int, ...]:
        if length not in sums:
            sums[length] = cost(length)
        return sums[length]

    def stretch(start: int, end: int) -> list[int]:
        low, high, steps = cost_at(start), cost_at(end), end - start
        if steps <= 1:
            return [a + (b if steps else 0) for a, b in zip(low, high, strict=True)]
        middle = (start + end) // 2
        centre = cost_at(middle)
        straight = all((c - a) * steps == (b - a) * (middle - start) for a, b, c in zip(low, high, centre, strict=True))
        if straight:
            return [(a + b) * (steps + 1) // 2 for a, b in zip(low, high, strict=True)]
        left, right = stretch(start, middle), stretch(middle + 1, end)
        return [a + b for a, b in zip(left, right, strict=True)]

    return tuple(stretch(first, last)) if last >= first else tuple(0 for _ in cost_at(first))


def shares(rows: Sequence[tuple[int, ...]]) -> dict[int, Fraction]:
    """The places of a few rows, and weights by which they add up to the sum of all: of costs, too, that follow from the
    rows along straight lines.

    >>> shares([(1, 5), (1, 6), (1, 7), (1, 8)])
    {0: Fraction(-2, 1), 1: Fraction(6, 1)}
    """
    basis: list[tuple[int, list[Fraction], dict[int, Fraction]]] = []  # pivot, reduced row, as a sum of rows

    def reduced(row: Sequence[Fraction], made: dict[int, Fraction]) -> tuple[list[Fraction], dict[int, Fraction]]:
        left = list(row)
        for pivot, other, parts in basis:
            if factor := left[pivot]:
                left = [a - factor * b for a, b in zip(left, other, strict=True)]
                for place, part in parts.items():
                    made[place] = made.get(place, Fraction(0)) - factor * part
        return left, made

    kinks: dict[tuple[int, ...], int] = {}  # the first place of each slope
    for place, (row, after) in enumerate(pairwise(rows)):
        kinks.setdefault(tuple(map(sub, after, row)), place)
    for place in dict.fromkeys(end for start in (0, *kinks.values()) for end in (start, min(start + 1, len(rows) - 1))):
        row = rows[place]
        left, made = reduced([Fraction(n) for n in row], {place: Fraction(1)})
        pivot = next((n for n, value in enumerate(left) if value), None)
        if pivot is not None:
            scale = left[pivot]
            basis.append((pivot, [a / scale for a in left], {n: part / scale for n, part in made.items()}))
        if len(basis) == len(row):
            break
    _, made = reduced([Fraction(sum(column)) for column in zip(*rows, strict=True)], {})
    return {place: -part for place, part in made.items() if part}
