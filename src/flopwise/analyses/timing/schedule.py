"""What a graph of nodes takes at least: one after the other, along its longest path, and with several workers."""

from __future__ import annotations

from collections.abc import Sequence


def critical_path(times: Sequence[float], needs: Sequence[Sequence[int]]) -> float:
    """The longest chain of nodes that wait for each other.

    Args:
        times: of each node, in an order in which they can run.
        needs: for each node the positions of the nodes that it waits for.

    >>> critical_path([1, 5, 2, 1], [[], [0], [0], [1, 2]])
    7
    """
    ends: list[float] = []
    for time, before in zip(times, needs, strict=True):
        ends.append(time + max((ends[place] for place in before), default=0))
    return max(ends, default=0)


def with_workers(times: Sequence[float], needs: Sequence[Sequence[int]], workers: int) -> float:
    """What so many workers that share a device take at least: the longest chain, or their share of the sum."""
    return max(critical_path(times, needs), sum(times) / workers)
