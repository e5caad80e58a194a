"""Streams stored elements through the loops, on all cores, in constant memory.

Of elements of one or two bytes it is counted how often each bit pattern occurs, which gives all figures exactly.
"""

from __future__ import annotations

import functools
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TypeVar

import numpy as np

from flopwise.analyses.weights.portable import Moments, Ruler, merge
from flopwise.graph.stored import Array, Stored

T = TypeVar("T")

#: Elements that one thread takes at a time.
CHUNK = 1 << 20

#: Elements that are kept between two passes where they cannot be mapped (64 MiB of float32).
KEPT = 1 << 24

#: Up to so many elements searching for the bin of each takes less than what lets it be computed.
SOME = 256

#: Up to so many elements of two bytes have a table of the bit patterns that occur, not of all 65,536.
SPARSE = 1 << 12

#: With fewer elements than this, loading the compiled loops takes longer than they save.
FEW = 1 << 23


def loops(elements: int) -> ModuleType:
    """The compiled loops where numba is installed and the elements are worth them, else those in numpy.

    numba takes its settings from a file in the current folder, among them the place of compiled code that it loads.
    Where there is such a file, the loops in numpy do.
    """
    from flopwise.analyses.weights import portable

    worth = elements >= FEW and not os.path.lexists(".numba_config.yaml")
    return (_compiled() if worth else None) or portable


@functools.cache
def _compiled() -> ModuleType | None:
    try:
        import_module("numba")
    except ImportError:  # it is not there, or refuses a NumPy newer than itself, as each release of numba does
        return None
    return import_module("flopwise.analyses.weights.compiled")


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """The results of the first pass over a tensor, with what makes a second one cheap or needless."""

    moments: Moments
    #: Counts of the bit patterns and their values, where elements have 16 bits or less.
    table: tuple[Array, Array] | None = None
    #: Elements that need not be read again.
    kept: list[Array] = field(default_factory=list)


class Engine:
    """Passes over stored tensors.

    Args:
        loops: ``compiled`` or ``portable``.
        threads: where parts of a tensor run; None for this thread.
        ahead: how many parts may wait for a thread.
    """

    def __init__(self, loops: ModuleType, threads: Executor | None = None, ahead: int = 8) -> None:
        self._loops = loops
        self._threads = threads
        self._ahead = ahead

    def scan(self, source: Stored, factor: float = 1.0, room: int = KEPT) -> Scanned:
        """The statistics of all elements times ``factor``; of what cannot be mapped, ``room`` elements are kept."""
        raw = _flat(source.raw())
        blocks = source.blocks() if raw is None else _parts(raw)
        keep = raw is None and math.prod(source.shape) <= room
        short_blocks: list[Array] = []
        tables: dict[str, Array] = {}
        parts: list[Moments] = []
        brain = raw is not None and source.dtype == "bfloat16" and raw.dtype == np.uint16
        if raw is not None and raw.dtype.itemsize == 2 and raw.size <= SPARSE:
            patterns, times = np.unique(raw.view(np.uint16), return_counts=True)
            return _scan_table(times, values_of("bfloat16" if brain else raw.dtype.name)[patterns], factor)
        for block, result in self._map_blocks(functools.partial(self._part, brain=brain, factor=factor), blocks):
            if isinstance(result, Moments):
                parts.append(result)
                if keep:
                    short_blocks.append(block)
            else:
                name, counts = result
                tables[name] = tables[name] + counts if name in tables else counts
        if not tables:
            return Scanned(merge(parts), None, short_blocks)
        ((name, counts),) = tables.items()
        return _scan_table(counts, values_of(name), factor)

    def bins(self, source: Stored, scanned: Scanned, ruler: Ruler) -> Array:
        """The number of finite elements in each bin; ``ruler`` measures the elements of ``scanned``, factor one."""
        if scanned.table is not None:
            return bins_of_table(*scanned.table, ruler)
        moments = scanned.moments
        counts = np.zeros(ruler.bins, np.int64)
        if not moments.count:
            return counts
        if moments.low == moments.high:  # all are one value
            counts[ruler.place(np.array([moments.low]))] = moments.count
            return counts
        raw = _flat(source.raw())
        blocks = scanned.kept or (source.blocks() if raw is None else _parts(raw))
        finite = not moments.nan and not moments.infinite
        for _, part in self._map_blocks(functools.partial(self._bins, ruler=ruler, finite=finite), blocks):
            counts += part
        return counts

    def _part(self, block: Array, brain: bool, factor: float) -> Moments | tuple[str, Array]:
        """The moments of a block; of elements of 16 bits or less the counts of their bit patterns."""
        if block.dtype.itemsize <= 2:
            kind = "bfloat16" if brain else block.dtype.name
            bits = np.uint8 if block.dtype.itemsize == 1 else np.uint16
            return kind, self._loops.codes(block.view(bits), 256 if bits is np.uint8 else 65536)
        moments: Moments = self._loops.scan(_floats(block), factor)
        return moments

    def _bins(self, block: Array, ruler: Ruler, finite: bool) -> Array:
        """The number of elements of a block in each bin."""
        block = _floats(block)
        if block.size > SOME:
            wide = block if ruler.fits(block.dtype) else block.astype(np.float64, copy=False)
            if ruler.fits(wide.dtype):
                counts: Array = self._loops.bins(wide, ruler, finite)
                return counts
        return np.bincount(ruler.place(block if finite else block[np.isfinite(block)]), minlength=ruler.bins)

    def _map_blocks(self, work: Callable[[Array], T], blocks: Iterable[Array]) -> Iterator[tuple[Array, T]]:
        """Each block and what ``work`` gives for it, in order, with a bounded number under way."""
        if self._threads is None:
            yield from ((block, work(block)) for block in blocks)
            return
        waiting: deque[tuple[Array, Future[T]]] = deque()
        for block in blocks:
            waiting.append((block, self._threads.submit(work, block)))
            if len(waiting) >= self._ahead:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _flat(raw: object) -> Array | None:
    """A mapping as numpy's loops like it; None for none, and for complex numbers."""
    return None if raw is None else np.asarray(raw).reshape(-1)


def _parts(raw: Array) -> Iterator[Array]:
    for start in range(0, raw.size, CHUNK):
        yield raw[start : start + CHUNK]


def _floats(block: Array) -> Array:
    """The elements in a type that the loops take, aligned."""
    if block.dtype.char in "fd":
        return block if block.flags.aligned and block.flags.c_contiguous else block.copy()
    return block.astype(np.float64)


@functools.cache
def values_of(dtype: str) -> Array:
    """The value of each bit pattern of a numpy type of one or two bytes, or of bfloat16, as float64."""
    if dtype == "bfloat16":
        with np.errstate(invalid="ignore"):
            wide: Array = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
            return wide
    if dtype == "bool":
        truth: Array = (np.arange(256) != 0).astype(np.float64)
        return truth
    kind = np.dtype(dtype)
    patterns = np.arange(1 << 8 * kind.itemsize, dtype=np.uint8 if kind.itemsize == 1 else np.uint16)
    with np.errstate(invalid="ignore"):
        return patterns.view(kind).astype(np.float64)


def _scan_table(counts: Array, values: Array, factor: float) -> Scanned:
    """The scan of elements of which ``counts[i]`` have the value ``values[i]``, times a factor."""
    if factor != 1.0:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # NaN, and patterns that do not occur
            values = values * factor
    return Scanned(moments_of_table(counts, values), (counts, values))


def moments_of_table(counts: Array, values: Array) -> Moments:
    """The statistics of elements of which ``counts[i]`` have the value ``values[i]``."""
    nan = int(counts[np.isnan(values)].sum())
    infinite = int(counts[np.isinf(values)].sum())
    there = (counts > 0) & np.isfinite(values)
    some, value = counts[there], values[there]
    if not some.size:
        return Moments(nan=nan, infinite=infinite)
    count = int(some.sum())
    total = math.fsum(some * value)
    away = value - total / count
    drift = math.fsum(some * away)
    return Moments(
        count,
        nan,
        infinite,
        int(some[value == 0].sum()),
        float(value.min()) + 0.0,
        float(value.max()) + 0.0,
        total,
        0.0,
        math.fsum(some * np.abs(value)),
        math.fsum(some * away * away) - drift * drift / count,
        total / count,
        drift / count,
    )


def bins_of_table(counts: Array, values: Array, ruler: Ruler) -> Array:
    """The number of these elements in each bin."""
    there = (counts > 0) & np.isfinite(values)
    per_bin = np.zeros(ruler.bins, np.int64)
    np.add.at(per_bin, ruler.place(values[there]), counts[there])
    return per_bin
