"""The steps of a large trace that are kept: memory does not grow with their number."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

#: What begins the names of the profiler's marks of steps; "#" and the number of the step follow.
MARK = "ProfilerStep"


class _Mark(NamedTuple):
    number: int
    start: int
    end: int


class Selection:
    """The steps that are kept: those whose numbers are multiples of a power of two."""

    def __init__(self) -> None:
        #: One of so many steps is kept.
        self.stride = 1
        self._marks: list[_Mark] = []
        self._starts, self._ends = array("q"), array("q")

    def add(self, name: str, start: int, end: int) -> None:
        """Record the mark of a step."""
        number = name.rpartition("#")[2]
        if number.isdecimal():
            self._marks.append(_Mark(int(number), start, end))

    def keeps(self, name: str) -> bool:
        """True for a step that is kept, by the name of its mark."""
        return self.stride == 1 or self._is_kept(int(name.rpartition("#")[2]))

    def coarsen(self) -> bool:
        """Keep half as many steps; False where fewer than three would be left."""
        self.stride *= 2
        if len({mark.number for mark in self._marks if self._is_kept(mark.number)}) < 3:
            self.stride //= 2
            return False
        return True

    def bound(self) -> None:
        """Find the spans of time in which only steps that are not kept are open."""
        kept, dropped = 0, 0
        begin: int | None = None
        self._starts, self._ends = array("q"), array("q")
        for instant, change, keeps in sorted(
            (instant, change, self._is_kept(mark.number))
            for mark in self._marks
            for instant, change in ((mark.start, 1), (mark.end, -1))
        ):
            kept, dropped = kept + keeps * change, dropped + (not keeps) * change
            if dropped and not kept and begin is None:
                begin = instant
            elif begin is not None and (kept or not dropped):
                self._starts.append(begin)
                self._ends.append(instant)
                begin = None

    def dropped(self, start: int, end: int) -> int:
        """The position of the span of dropped steps that an event lies in; -1 for one to keep."""
        place = bisect_right(self._starts, start) - 1
        return place if place >= 0 and end <= self._ends[place] else -1

    def _is_kept(self, number: int) -> bool:
        return number % self.stride == 0


class Numbers:
    """A set of whole numbers, as bits in pages: the driver numbers its calls in a row."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, number: int) -> None:
        """Record a number."""
        page = self._pages.get(number >> 12)
        if page is None:
            page = self._pages[number >> 12] = bytearray(512)
        page[number >> 3 & 511] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        page = self._pages.get(number >> 12)
        return page is not None and bool(page[number >> 3 & 511] >> (number & 7) & 1)
