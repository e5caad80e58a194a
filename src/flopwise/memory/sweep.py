"""Offsets in the order of time, as an allocator hands them out: n log n, however many buffers are alive at once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from flopwise.memory.liveness import Buffer

#: The name of this order in a plan.
TIME = "time"


def sweep(buffers: Sequence[Buffer], alignment: int) -> list[int]:
    """The offset of each buffer in bytes.

    Step by step, what is no longer alive is given back, and what comes to be takes the smallest gap that it fits in,
    the largest buffer first.
    """
    arena = _Arena(alignment)
    offsets = [0] * len(buffers)
    starts = sorted(
        (i for i, b in enumerate(buffers) if b.nbytes), key=lambda i: (buffers[i].first, -buffers[i].nbytes)
    )
    ends = iter(sorted(starts, key=lambda i: buffers[i].last))
    ending = next(ends, None)
    for index in starts:
        while ending is not None and buffers[ending].last < buffers[index].first:
            arena.give_back(offsets[ending], buffers[ending].nbytes)
            ending = next(ends, None)
        offsets[index] = arena.take(buffers[index].nbytes)
    return offsets


class _Arena:
    """A block of memory that grows at its end; gaps that touch each other are one."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._end = 0
        #: (length, start) of each gap, the smallest first; and the gaps by their start and by their end.
        self._gaps: list[tuple[int, int]] = []
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def take(self, nbytes: int) -> int:
        """The offset of so many bytes: in the smallest gap that holds them, else at the end."""
        length = self._aligned(nbytes)
        at = bisect_left(self._gaps, (length, 0))
        if at < len(self._gaps):
            room, start = self._gaps[at]
            self._remove(start, start + room)
            if room > length:
                self._add(start + length, start + room)
            return start
        start = self._ends.get(self._end, self._end)
        if start < self._end:  # the last gap reaches the end, and grows
            self._remove(start, self._end)
        self._end = start + length
        return start

    def give_back(self, start: int, nbytes: int) -> None:
        """Make a gap of a buffer that is no longer alive, and join it with its neighbours."""
        end = start + self._aligned(nbytes)
        if start in self._ends:
            before = self._ends[start]
            self._remove(before, start)
            start = before
        if end in self._starts:
            after = self._starts[end]
            self._remove(end, after)
            end = after
        self._add(start, end)

    def _aligned(self, nbytes: int) -> int:
        return -(-nbytes // self._alignment) * self._alignment

    def _add(self, start: int, end: int) -> None:
        insort(self._gaps, (end - start, start))
        self._starts[start], self._ends[end] = end, start

    def _remove(self, start: int, end: int) -> None:
        del self._gaps[bisect_left(self._gaps, (end - start, start))], self._starts[start], self._ends[end]
