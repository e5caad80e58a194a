"""One streaming pass over stored tensors, on all cores: zeros, zero blocks, N:M groups and zero channels.

A tensor comes in bands of whole lines that are as high as the blocks need. Bands are counted in threads (numpy lets go
of the interpreter) and added up in their order; what is in memory is a few bands, whatever the tensor's size.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from flopwise.answers.sparsity.asking import Block, Pattern, SparsityQuery
from flopwise.answers.sparsity.views import View, ZeroPoint, zero_flags
from flopwise.errors import ModelError
from flopwise.graph.stored import Array, Stored

# Counting in a band of lines of a matrix: zero blocks, N:M groups, lines of zeros.
#
# A band is an array of 0 and 1 (uint8), 1 where an element is zero; its first axis runs along the stream.


#: Length of a group -> the unsigned integer that holds it, one byte for each element.
_WORDS = {2: numpy.uint16, 4: numpy.uint32, 8: numpy.uint64}

#: Longer groups are summed along an axis of their own, shorter ones slice by slice.
_SLICES = 32


class Zero(NamedTuple):
    """Zero blocks of a band, and the elements in them."""

    blocks: int
    elements: int


def zero_blocks(band: Array, high: int, wide: int) -> Zero:
    """The blocks of ``high`` lines × ``wide`` elements that are zero; blocks at the edges have what is there."""
    flags = together(together(band, high, 0), wide, 1)
    whole_lines, whole_columns = band.shape[0] // high, band.shape[1] // wide
    below, beside = band.shape[0] % high, band.shape[1] % wide
    inside = int(numpy.count_nonzero(flags[:whole_lines, :whole_columns]))
    right = int(numpy.count_nonzero(flags[:whole_lines, whole_columns:])) if beside else 0
    bottom = int(numpy.count_nonzero(flags[whole_lines:, :whole_columns])) if below else 0
    corner = int(numpy.count_nonzero(flags[whole_lines:, whole_columns:])) if below and beside else 0
    elements = inside * high * wide + right * high * beside + bottom * below * wide + corner * below * beside
    return Zero(inside + right + bottom + corner, elements)


def together(band: Array, size: int, axis: int) -> Array:
    """1 where all of ``size`` neighbours along an axis are 1; the last group may be smaller."""
    if size == 1:
        return band
    groups_inside, remainder = divmod(band.shape[axis], size)
    if not groups_inside:
        return band.min(axis=axis, keepdims=True) if remainder else band
    if axis == 0:
        groups = band[: groups_inside * size].reshape(groups_inside, size, band.shape[1])
        both = groups[:, 0] & groups[:, 1]
        for i in range(2, size):
            both &= groups[:, i]
    else:
        both = _in_lines(band[:, : groups_inside * size], size)
    if not remainder:
        return both
    last = band[groups_inside * size :] if axis == 0 else band[:, groups_inside * size :]
    return numpy.concatenate([both, last.min(axis=axis, keepdims=True)], axis=axis)


def _in_lines(band: Array, size: int) -> Any:
    """1 where all of a group in a line are 1; the lines hold whole groups."""
    word = _WORDS.get(size)
    if word is not None and band.flags.c_contiguous:
        ones = numpy.frombuffer(bytes([1] * size), word)[0]
        return (band.view(word) == ones).view(numpy.uint8)
    groups = band.reshape(band.shape[0], -1, size)
    if size > _SLICES:
        return groups.min(axis=2)
    both = groups[:, :, 0] & groups[:, :, 1]
    for i in range(2, size):
        both &= groups[:, :, i]
    return both


def groups_held(band: Array, nonzero: int, size: int, axis: int) -> int:
    """The number of groups of ``size`` neighbours along an axis with at most ``nonzero`` elements other than zero.

    A smaller group at the end holds under the same condition.
    """
    groups_inside, remainder = divmod(band.shape[axis], size)
    holding = 0
    if groups_inside:
        inside = band[: groups_inside * size] if axis == 0 else band[:, : groups_inside * size]
        holding = int(numpy.count_nonzero(_sums(inside, size, axis) >= size - nonzero))
    if remainder:
        last = band[groups_inside * size :] if axis == 0 else band[:, groups_inside * size :]
        holding += int(numpy.count_nonzero(last.sum(axis=axis, dtype=numpy.int64) >= remainder - nonzero))
    return holding


def _sums(band: Array, size: int, axis: int) -> Any:
    """The number of ones in each group."""
    word = _WORDS.get(size)
    if axis == 1 and word is not None and band.flags.c_contiguous:
        ones = numpy.frombuffer(bytes([1] * size), word)[0]
        return (band.view(word) * ones) >> word(8 * (size - 1))  # the highest byte of the product is the sum of all
    groups = band.reshape(-1, size, band.shape[1]) if axis == 0 else band.reshape(band.shape[0], -1, size)
    if size > _SLICES:
        return groups.sum(axis=axis + 1, dtype=numpy.int64)
    slices = numpy.moveaxis(groups, axis + 1, 0)
    total = slices[0].copy()
    for part in slices[1:]:
        total += part
    return total


# The search for blocks: how far zeros come in rows, columns or squares of 2, 4, 8 ... along a tensor's first two axes.
#
# The rule and its thresholds are those of onnx-tool 1.0.1 (``onnx_tool/tensor.py``, ``search_sparse_blocksize``): a
# size is taken while the share of zero blocks stays above the share of zeros less a tolerance. Kernel positions stay
# apart, sizes divide the axis, and a square is tried last. Counts of all sizes come from one pass: blocks of a size are
# pairs of blocks of half the size.


class FoundBlock(NamedTuple):
    """The block that the search ends with: extents along the axes as they are stored, and the share of zero blocks."""

    first: int
    second: int
    ratio: float


class Part(NamedTuple):
    """The share of a band: zero blocks by size (position i: 2ⁱ⁺¹), and its lines for the sizes that reach beyond it."""

    columns: list[int]
    rows: list[int]
    squares: list[int]
    rows_left: Any
    squares_left: Any


def halvings(number: int) -> int:
    """The exponent of 2 in a number; 0 for 0."""
    return (number & -number).bit_length() - 1 if number else 0


def part(band: Array, view: View, inside: int) -> Part:
    """The zero blocks of a band of units as they are stored.

    Args:
        band: 0 and 1 (uint8) for each element, 1 for a zero: (units, elements of a unit).
        view: the tensor's.
        inside: sizes along the first axis up to 2 to the power of this stay within bands.
    """
    deep = halvings(view.second)

    def columns_joined(flags: Array, level: int) -> Array:
        return _pair_columns(flags, view.second >> level, view.inner)

    columns, _ = _halved(band, deep, columns_joined)
    rows, lines = _halved(band, inside, lambda flags, level: together(flags, 2, 0))
    both = min(inside, deep)
    squares, square = _halved(band, both, lambda flags, level: columns_joined(together(flags, 2, 0), level))
    return Part(columns, rows, squares, lines, square)


def _halved(band: Array, levels: int, join: Callable[[Any, int], Any]) -> tuple[list[int], object]:
    """Zero blocks of each size, until none are left, and the flags of the largest; None where there are none."""
    counts: list[int] = []
    for level in range(levels):
        band = join(band, level)
        counts.append(int(numpy.count_nonzero(band)))
        if not counts[-1]:
            return counts, None
    return counts, band if band.any() else None


def _pair_columns(band: Array, second: int, inner: int) -> Array:
    """1 where both of two neighbours along the second axis are 1: (lines, second · inner) -> (lines, half of it)."""
    if inner == 1:
        return together(band, 2, 1)
    pairs = band.reshape(band.shape[0], second // 2, 2, inner)
    return (pairs[:, :, 0] & pairs[:, :, 1]).reshape(band.shape[0], -1)


class Search:
    """The counts of all sizes, from parts in the order of storage."""

    def __init__(self, view: View, inside: int) -> None:
        self._view = view
        self._inside = inside
        across, along = halvings(view.units), halvings(view.second)
        self._columns = [0] * along
        self._rows = _Stack(across, inside, view, squares=False)
        self._squares = _Stack(min(across, along), min(inside, along), view, squares=True)

    def add(self, part: Part | None, units: int) -> None:
        """Take in the part of the next ``units`` units; None: they hold no zero."""
        part = part or Part([], [], [], None, None)
        for level, count in enumerate(part.columns):
            self._columns[level] += count
        self._rows.add(part.rows, part.rows_left, units >> self._rows.inside)
        self._squares.add(part.squares, part.squares_left, units >> self._squares.inside)

    def result(self, elements: int, zeros: int, tolerance: float) -> FoundBlock:
        """The block to report: the largest that holds along an axis, or the square of both."""
        ratio = zeros / elements
        least = ratio - tolerance
        along = [count * 2 ** (i + 1) / elements for i, count in enumerate(self._columns)]
        across = [count * 2 ** (i + 1) / elements for i, count in enumerate(self._rows.counts)]
        wide, high = _run(along, least), _run(across, least)
        if wide == high and wide:
            square = self._squares.counts[wide - 1] * 4**wide / elements
            if square > least:
                return FoundBlock(2**wide, 2**wide, square)
        best = FoundBlock(1, 1, ratio)
        if wide > high or (wide == high and wide and along[wide - 1] >= across[high - 1]):
            best = FoundBlock(1, 2**wide, along[wide - 1])
        elif high:
            best = FoundBlock(2**high, 1, across[high - 1])
        return best


def _run(ratios: list[float], least: float) -> int:
    """The number of sizes in a row, from the smallest, whose ratio is above the least."""
    return next((i for i, ratio in enumerate(ratios) if not ratio > least), len(ratios))


class _Stack:
    """Adds pairs of lines up to pairs of pairs, as a binary counter carries; at most one line of each size waits."""

    def __init__(self, levels: int, inside: int, view: View, squares: bool) -> None:
        self.counts = [0] * levels
        self.inside = min(inside, levels)
        self._view = view
        self._squares = squares
        #: For each size: "" when none waits; None for a line without zeros.
        self._waiting: list[Any] = [""] * (levels + 1)

    def add(self, counts: Sequence[int], lines: Array, how_many: int) -> None:
        for level, count in enumerate(counts):
            self.counts[level] += count
        if self.inside == len(self.counts):
            return
        for i in range(how_many):
            self._carry(None if lines is None else lines[i : i + 1])

    def _carry(self, line: Any) -> None:
        """Join a line of blocks with the one that waits for it, size by size, as a binary counter carries."""
        level = self.inside
        while level < len(self.counts):
            if isinstance(self._waiting[level], str):
                self._waiting[level] = line
                return
            line, self._waiting[level] = self._both(self._waiting[level], line, level), ""
            if line is not None:
                self.counts[level] += int(numpy.count_nonzero(line))
            level += 1

    def _both(self, one: object, other: Any, level: int) -> object:
        """The zero blocks of twice the size that two neighbouring lines make; None where there are none."""
        if one is None or other is None:
            return None
        both = one & other
        if self._squares:
            both = _pair_columns(both, self._view.second >> level, self._view.inner)
        return both if both.any() else None


#: Elements of a band: the flags of one fit into a core's cache.
BAND = 1 << 19

#: Bands that wait for each thread.
AHEAD = 3


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A stored tensor to be measured, and how its elements are to be taken."""

    stored: Stored
    view: View
    #: None when it is unknown what stands for zero; then ``reason`` says why.
    zero: ZeroPoint | None
    reason: str = ""
    layer: str = ""
    op: str = ""
    #: What is assumed about its rows and columns ("" when the operator says it).
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class ZeroBlocks:
    """The blocks of one shape in a tensor."""

    block: Block
    blocks: int
    #: How many of ``blocks`` are smaller, because they lie at an edge that the block does not divide.
    at_edges: int
    zero: int
    #: Elements in the zero blocks.
    elements: int

    @property
    def ratio(self) -> float:
        """Share of zero blocks."""
        return self.zero / self.blocks if self.blocks else 0.0


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of an N:M pattern in a tensor."""

    pattern: Pattern
    groups: int
    holding: int
    #: Elements that the pattern keeps of all.
    kept: int

    @property
    def ratio(self) -> float:
        """Share of the groups in which at most N elements differ from zero."""
        return self.holding / self.groups if self.groups else 0.0

    @property
    def holds(self) -> bool:
        """True where every group holds."""
        return self.holding == self.groups


@dataclass(frozen=True, slots=True)
class Measured:
    """The zeros of one stored tensor. Where it is unknown what stands for zero, its figures are None."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layer: str
    op: str
    elements: int
    #: How many matrices of how many rows (outputs) and columns (reduction).
    matrices: int
    rows: int
    columns: int
    #: What stands for zero: "0", another number, "per axis", "per block" or "unknown".
    zero_point: str
    zeros: int | None
    #: What the search found; None when it did not look.
    found: FoundBlock | None = None
    blocks: tuple[ZeroBlocks, ...] = ()
    patterns: tuple[Groups, ...] = ()
    #: Whole outputs (filters, rows) and inputs (channels, columns) of zeros, and how many there are.
    outputs: int = 0
    zero_outputs: int | None = None
    inputs: int = 0
    zero_inputs: int | None = None
    note: str = ""
    #: Whether the first axis as it is stored is the reduction: MatMul (K, N), ConvTranspose.
    flipped: bool = False

    @property
    def block(self) -> Block | None:
        """The block that the search found, as rows (outputs) and columns (inputs); None when it did not look."""
        if self.found is None:
            return None
        first, second = self.found.first, self.found.second
        return Block(second, first) if self.flipped else Block(first, second)

    @property
    def ratio(self) -> float | None:
        """Share of zeros; 0 for no elements."""
        return None if self.zeros is None else self.zeros / self.elements if self.elements else 0.0


@dataclass(slots=True)
class _Counted:
    """The counts of one band."""

    zeros: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)
    holding: list[int] = field(default_factory=list)
    #: Lines, or units where those are inputs, that are zero.
    whole: int = 0
    #: For each section that the band touches: its number, and 1 for each element of a line that is zero in all lines.
    across: list[tuple[int, Any]] = field(default_factory=list)
    part: Part | None = None


def measure(
    weights: Iterable[Weight],
    query: SparsityQuery,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> list[Measured]:
    """The zeros of stored tensors, each read once.

    Args:
        weights: the tensors.
        query: what to look for.
        threads: how many threads count; None: one for each core.
        progress: called with what is being done.

    Raises:
        ModelError: a tensor cannot be read, or holds fewer elements than its shape says.
    """
    weights = list(weights)
    elements_of_all = sum(math.prod(w.stored.shape) for w in weights) or 1
    tallies = [_Tally(weight, query) for weight in weights]
    threads = threads or _cores()
    waiting: deque[tuple[_Tally, int, Future[_Counted]]] = deque()
    done, shown = 0, -1

    def settle(most: int) -> None:
        while len(waiting) > most:
            tally, elements, future = waiting.popleft()
            tally.add(future.result(), elements)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for tally in tallies:
                if not tally.counts:
                    continue
                for start, elements, bits in tally.bands():
                    waiting.append((tally, elements.size, pool.submit(tally.count, elements, bits, start)))
                    settle(threads * AHEAD)
                    done += elements.size
                    if (percent := 100 * done // elements_of_all) != shown:
                        shown = percent
                        progress(f"reading the weights, {percent} %")
            settle(0)
        finally:
            for _, _, future in waiting:
                future.cancel()
    return [tally.result() for tally in tallies]


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Tally:
    """The counts of one tensor."""

    def __init__(self, weight: Weight, query: SparsityQuery) -> None:
        self.weight, self.query, self.view = weight, query, weight.view
        shape = weight.stored.shape
        self.elements = math.prod(shape)
        self.counts = weight.zero is not None and self.elements > 0
        self.units = self._height()
        self.searches = query.searches(len(shape), self.elements)
        self.inside = min(halvings(self.units), halvings(self.view.units))
        self.search = Search(self.view, self.inside)
        self.zeros = self.whole = 0
        self.blocks = [[0, 0] for _ in query.blocks]
        self.holding = [0] * len(query.patterns)
        self.across: dict[int, Any] = {}
        self.zero_across = self.seen = 0

    def _height(self) -> int:
        """Units of a band: whole blocks and groups along the stream, and elements enough to be worth a thread."""
        view = self.view
        extents = [b.columns if view.flipped else b.rows for b in self.query.blocks]
        extents += [p.group for p in self.query.patterns if view.flipped]
        lines = min(math.lcm(*extents), max(view.lines, 1))
        units = lines // math.gcd(lines, view.lines_of_unit)
        if math.lcm(*extents) > view.lines:
            units = view.units
        while units < view.units and units * view.unit < BAND:
            units *= 2
        return max(1, min(units, view.units))

    def bands(self) -> Iterator[tuple[int, Any, bool]]:
        """Bands in the order of storage: the place of the first element, the elements, and whether they are bits."""
        stored, view = self.weight.stored, self.view
        size, matrix = self.units * view.unit, view.units * view.unit
        raw = stored.raw() if stored.dtype in ("float16", "bfloat16") and self.weight.zero is not None else None
        bits = raw is not None
        pieces = iter([raw.view(numpy.uint16)]) if raw is not None else stored.blocks(max(size, 1 << 18))
        parts: list[Any] = []
        have = start = 0
        for piece in pieces:
            at = 0
            while at < piece.size:
                want = min(size, matrix - start % matrix) - have
                part = piece[at : at + want]
                at += part.size
                have += part.size
                parts.append(part)
                if part.size == want:
                    yield start, parts[0] if len(parts) == 1 else numpy.concatenate(parts), bits
                    start, have, parts = start + have, 0, []
        if have or start != self.elements:
            raise ModelError(
                f"tensor {stored.name!r} holds {start + have} elements, not {self.elements} as its shape says"
            )

    def count(self, elements: Array, bits: bool, start: int) -> _Counted:
        """The counts of a band; runs in a thread."""
        view, query, zero = self.view, self.query, self.weight.zero
        assert zero is not None
        flags = zero_flags(elements, bits, zero, self.weight.stored.shape, start)
        counted = _Counted(int(numpy.count_nonzero(flags)))
        if not counted.zeros:
            flags = flags[:0]  # nothing to count but groups at the edge, which hold whatever they hold
        lines = view.arrange(flags)
        if query.patterns:
            counted.holding = [self._held(pattern, lines, elements.size) for pattern in query.patterns]
        if not counted.zeros:
            return counted
        for block in query.blocks:
            shape = (block.columns, block.rows) if view.flipped else (block.rows, block.columns)
            counted.blocks.append(zero_blocks(lines, *shape))
        counted.whole = int(
            numpy.count_nonzero(flags.reshape(-1, view.unit if view.flipped else view.width).min(axis=1))
        )
        counted.across = self._across(lines, start)
        if self.searches:
            counted.part = part(flags.reshape(-1, view.unit), view, self.inside)
        return counted

    def _held(self, pattern: Pattern, lines: Array, elements: int) -> int:
        """The groups of a band that hold a pattern."""
        nonzero, size = pattern
        axis = 0 if self.view.flipped else 1
        if lines.size:
            return groups_held(lines, nonzero, size, axis)
        zero_lines = elements // self.view.width  # lines without a zero
        length, times = (zero_lines, self.view.width) if self.view.flipped else (self.view.width, zero_lines)
        return times if 0 < length % size <= nonzero else 0

    def _across(self, lines: Array, start: int) -> list[tuple[int, object]]:
        """For each section in a band, which elements of a line are zero in all lines of the section."""
        view = self.view
        per_section = view.lines // view.sections
        first = start // view.width
        cuts = list(range(-first % per_section, lines.shape[0], per_section)) if per_section else []
        edges = sorted({0, *cuts})
        return [
            ((first + low) // per_section, numpy.bitwise_and.reduce(lines[low:high], axis=0))
            for low, high in zip(edges, [*edges[1:], lines.shape[0]], strict=True)
        ]

    def add(self, counted: _Counted, elements: int) -> None:
        """Take in what the next band adds."""
        self.zeros += counted.zeros
        self.whole += counted.whole
        for total, (blocks, inside) in zip(self.blocks, counted.blocks, strict=False):
            total[0] += blocks
            total[1] += inside
        for place, holding in enumerate(counted.holding):
            self.holding[place] += holding
        self._add_across(counted, elements)
        if self.searches:
            self.search.add(counted.part, elements // self.view.unit)

    def _add_across(self, counted: _Counted, elements: int) -> None:
        """Bands come in order, so that only the section at the end can go on."""
        view = self.view
        per_section = view.lines // view.sections
        if counted.across:
            for section, flags in counted.across:
                before = self.across.pop(section, None)
                started = section * per_section * view.width >= self.seen
                self.across[section] = flags if started else None if before is None else before & flags
        else:
            for section in list(self.across):
                if (section + 1) * per_section * view.width > self.seen:
                    self.across[section] = None
        self.seen += elements
        for section in [s for s in self.across if (s + 1) * per_section * view.width <= self.seen]:
            self.zero_across += self._wholly(self.across.pop(section))

    def _wholly(self, flags: Array) -> int:
        """The number of outputs or inputs of a section that are zero, from the elements of a line that are."""
        view = self.view
        if flags is None:
            return 0
        if view.flipped:
            return int(numpy.count_nonzero(flags))
        axes, axis = ((view.inner, view.second), 0) if view.layout == "turned" else ((view.second, view.inner), 1)
        return int(numpy.count_nonzero(flags.reshape(axes).min(axis=axis)))

    def result(self) -> Measured:
        """The counts of the whole tensor."""
        weight, view, query, stored = self.weight, self.view, self.query, self.weight.stored
        exact = weight.zero is not None
        inputs = view.units * view.matrices if view.flipped else view.second * view.sections * view.matrices
        enough = exact and self.elements > 0 and self.zeros > query.min_ratio * self.elements
        block = self.search.result(self.elements, self.zeros, query.tolerance) if self.searches and enough else None
        turned = view.rows * view.matrices
        return Measured(
            stored.name,
            tuple(stored.shape),
            stored.dtype,
            weight.layer,
            weight.op,
            self.elements,
            view.matrices,
            view.rows,
            view.columns,
            _zero_point(weight.zero),
            self.zeros if exact else None,
            block,
            tuple(map(self._blocks, query.blocks, self.blocks)) if exact else (),
            tuple(map(self._groups, query.patterns, self.holding)) if exact else (),
            turned,
            (self.zero_across if view.flipped else self.whole) if exact else None,
            inputs,
            (self.whole if view.flipped else self.zero_across) if exact else None,
            "; ".join(filter(None, (weight.reason, weight.assumed))),
            view.flipped,
        )

    def _blocks(self, block: Block, counted: list[int]) -> ZeroBlocks:
        view = self.view
        blocks_inside = (view.rows // block.rows) * (view.columns // block.columns) * view.matrices
        every = -(-view.rows // block.rows) * -(-view.columns // block.columns) * view.matrices
        return ZeroBlocks(block, every, every - blocks_inside, counted[0], counted[1])

    def _groups(self, pattern: Pattern, holding: int) -> Groups:
        view = self.view
        groups_inside, remainder = divmod(view.columns, pattern.group)
        lines = view.rows * view.matrices
        nonzero = lines * (groups_inside * pattern.kept + min(remainder, pattern.kept))
        return Groups(pattern, lines * (groups_inside + (remainder > 0)), holding, nonzero)


def _zero_point(zero: ZeroPoint | None) -> str:
    if zero is None:
        return "unknown"
    if zero.one is not None:
        return str(zero.one)
    return "per axis" if numpy.asarray(zero.values).ndim == 1 else "per block"
