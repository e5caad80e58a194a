"""The critical path of a step, as far as the times of its events alone tell it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from flopwise.analyses.traces.trace import Moment


def critical_path(timeline: Sequence[Moment]) -> list[int]:
    """The positions of the events on the critical path, in the order of time.

    Traces name no dependencies. The path goes back from the event that ends last, each time to the one that ended last
    before the event began, on whatever lane; what lies between two events of the path is waiting.

    >>> lanes = [("a", 0, 10), ("b", 2, 12), ("a", 10, 20), ("b", 13, 15)]
    >>> critical_path([Moment("", "", "", lane, start, end, None) for lane, start, end in lanes])
    [0, 2]
    """
    order = sorted(range(len(timeline)), key=lambda place: (timeline[place].end_ns, timeline[place].start_ns))
    ends = [timeline[place].end_ns for place in order]
    path: list[int] = []
    at = len(order) - 1
    while at >= 0:
        path.append(order[at])
        at = min(bisect_right(ends, timeline[order[at]].start_ns), at) - 1
    return path[::-1]
