"""Sums over many steps whose costs are straight lines in the length of the context, with few kinks."""

from __future__ import annotations

from collections.abc import Callable


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
