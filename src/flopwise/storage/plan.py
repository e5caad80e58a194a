"""A place for each activation in one block of memory, so that nothing that is alive at once overlaps.

Where too many are alive at once for several orders to be tried, offsets come in the order of time, as an allocator
hands them out: n log n.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flopwise.errors import InputError
from flopwise.storage.liveness import Buffer, Liveness

#: Offsets are multiples of so many bytes unless the caller says otherwise: a cache line.
ALIGNMENT = 64

#: The largest alignment that makes sense: a huge page.
MOST = 1 << 21

#: Orders in which buffers are placed, the first ones first: name -> sort key.
ORDERS: dict[str, Callable[[Buffer], object]] = {
    "size": lambda b: (-b.nbytes, b.first),
    "start": lambda b: (b.first, -b.nbytes),
    "lifetime": lambda b: (b.first - b.last, -b.nbytes),
    "area": lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
    "end": lambda b: (-b.last, -b.nbytes),
}


#: How often an order is changed in the hope of a smaller block.
ROUNDS = 12

#: So many pairs of buffers that are alive at once are looked at for all changes of an order. Where there are more,
#: which would take minutes, buffers are placed in the order of time alone.
PAIRS = 5_000_000

#: Looking at a pair takes as long as finding out of so many that they are not alive at once.
FILTERED = 50


class Place(NamedTuple):
    """A buffer and its offset in bytes."""

    buffer: Buffer
    offset: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.buffer.nbytes


class Plan(NamedTuple):
    """Offsets for all buffers, in the order in which they come to be."""

    places: tuple[Place, ...]
    #: Bytes of the whole block.
    size: int
    #: Bytes alive at once, at most: no plan is smaller.
    bound: int
    alignment: int
    #: Which of ORDERS gave the smallest block, or "time".
    order: str


def plan_arena(lives: Liveness, alignment: int = ALIGNMENT) -> Plan | None:
    """A place for each activation in one block of memory; None when a size is missing.

    Each buffer takes the smallest gap that it fits in among those that are alive with it, or the end of them (best
    fit). Several orders are tried; in each, what lies on top is placed earlier in the next round. The smallest block is
    kept. Where too many are alive at once for that, they are placed in the order of time (``sweep``).

    Args:
        lives: what is alive when.
        alignment: offsets are multiples of this many bytes.

    Raises:
        InputError: the alignment is not a power of two, or too large.
    """
    if alignment < 1 or alignment > MOST or alignment & (alignment - 1):
        raise InputError(f"an alignment of {alignment} bytes is not a power of two up to {MOST}")
    bound = lives.peak
    pairs = _pairs(lives)
    if bound is None:
        return None
    buffers = lives.buffers
    if pairs > PAIRS:
        return _plan(buffers, sweep(buffers, alignment), bound, alignment, TIME)
    rounds = max(1, min(ROUNDS, PAIRS // ((1 + pairs + len(buffers) ** 2 // FILTERED) * len(ORDERS))))
    beside = _neighbours(lives)
    best: tuple[int, list[int], str] | None = None
    for name, key in ORDERS.items():
        order = sorted((i for i, b in enumerate(buffers) if b.nbytes), key=lambda i, key=key: key(buffers[i]))  # type: ignore[misc]
        for _ in range(rounds):
            offsets = _place(buffers, beside, order, alignment)
            size = _size(buffers, offsets)
            if best is None or size < best[0]:
                best = size, offsets, name
            if size == bound:
                break
            top = next(at for at, i in enumerate(order) if offsets[i] + buffers[i].nbytes == size)
            order.insert(top // 2, order.pop(top))
        if best is not None and best[0] == bound:
            break
    assert best is not None
    _, offsets, name = best
    return _plan(buffers, offsets, bound, alignment, name)


def _plan(buffers: Sequence[Buffer], offsets: Sequence[int], bound: int, alignment: int, order: str) -> Plan:
    places = tuple(Place(b, o) for b, o in zip(buffers, offsets, strict=True))
    return Plan(places, _size(buffers, offsets), bound, alignment, order)


def _size(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    return max((offset + b.nbytes for b, offset in zip(buffers, offsets, strict=True) if b.nbytes), default=0)


def _pairs(lives: Liveness) -> int:
    """The number of pairs of buffers that are alive at once."""
    steps = len(lives.steps)
    begin, end = [0] * (steps + 1), [0] * (steps + 1)
    for buffer in lives.buffers:
        begin[buffer.first] += 1
        end[buffer.last + 1] += 1
    alive = pairs = 0
    for step in range(steps):
        alive -= end[step]
        pairs += begin[step] * alive + begin[step] * (begin[step] - 1) // 2
        alive += begin[step]
    return pairs


def _neighbours(lives: Liveness) -> list[list[int]]:
    """For each buffer those that are alive at some time with it."""
    begin: list[list[int]] = [[] for _ in lives.steps]
    for index, buffer in enumerate(lives.buffers):
        begin[buffer.first].append(index)
    beside: list[list[int]] = [[] for _ in lives.buffers]
    alive: list[int] = []
    for step, starting in enumerate(begin):
        alive = [index for index in alive if lives.buffers[index].last >= step]
        for index in starting:
            beside[index] += alive
            for other in alive:
                beside[other].append(index)
            alive.append(index)
    return beside


def _place(
    buffers: Sequence[Buffer], beside: Sequence[Sequence[int]], order: Sequence[int], alignment: int
) -> list[int]:
    """The offset of each buffer, placed one after the other in an order."""
    places = [-1] * len(buffers)
    for index in order:
        placed = [i for i in beside[index] if places[i] >= 0]
        places[index] = _best_fit(placed, buffers, places, buffers[index].nbytes, alignment)
    return [max(offset, 0) for offset in places]


def _best_fit(
    beside: Sequence[int], buffers: Sequence[Buffer], offsets: Sequence[int], nbytes: int, alignment: int
) -> int:
    """The start of the smallest gap between the buffers alive at the same time that holds the bytes."""
    spans = sorted((offsets[i], offsets[i] + buffers[i].nbytes) for i in beside)
    best, least, free = -1, -1, 0
    for start, end in spans:
        room = start - free
        if room >= nbytes and (least < 0 or room < least):
            best, least = free, room
        free = max(free, -(-end // alignment) * alignment)
    return best if best >= 0 else free


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
        """The offset for ``nbytes`` bytes: in the smallest gap that holds them, else at the end."""
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
