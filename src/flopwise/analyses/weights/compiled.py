"""The loops over elements, compiled by numba (the extra ``fast``); the same functions as in ``portable``.

Each loop releases the interpreter, so that threads share the work, and stays on a block that fits the first-level
cache. Additions may be reordered within a block, where they run in several lanes; between blocks they are compensated.
The reordering loops see finite elements only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from flopwise.analyses.weights.portable import Moments, Ruler
from flopwise.graph.stored import Array

#: An array of numpy's, or one of its numbers; inside what is compiled, both are of numba's own types.
Number: TypeAlias = Any

F = TypeVar("F", bound=Callable[..., Any])

NAME = f"numba {numba.__version__}"

#: Elements of a block: 16 KiB of float32.
BLOCK = 4096

#: Elements whose bins are found at once, and tables that are counted into in turn: elements of one bin often follow
#: each other, and a single counter would have to wait for itself.
STRIP, TABLES = 256, 8

#: Elements that one call counts at most: a counter of 32 bits holds them.
CALL = 1 << 31

#: Float type -> integer type of its bits, shift to the sign, all but the sign, and the key of infinity.
_BITS = {
    "float32": (np.int32, np.int32(31), np.int32(0x7FFFFFFF), np.int32(0x7F800000)),
    "float64": (np.int64, np.int64(63), np.int64(0x7FFFFFFFFFFFFFFF), np.int64(0x7FF0000000000000)),
}

_njit: Any = numba.njit
_plain: Callable[[F], F] = _njit(nogil=True, cache=True)
_loose: Callable[[F], F] = _njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nnan", "ninf", "nsz"})


def scan(x: Array, factor: float = 1.0) -> Moments:
    """The statistics of the elements times ``factor``, a 1-D array of float32 or float64."""
    if not x.size:
        return Moments()
    kind, shift, mask, infinity = _BITS[x.dtype.name]
    x = _frozen(x)
    out = np.empty(12)
    _scan(x, x.view(kind), shift, mask, infinity, factor, out)
    count, nan, infinite, zeros = (int(v) for v in out[:4])
    low, high, *sums = (float(v) for v in out[4:])
    if not count:
        return Moments(nan=nan, infinite=infinite)
    return Moments(count, nan, infinite, zeros, low + 0.0, high + 0.0, *sums)


def bins(x: Array, ruler: Ruler, finite: bool) -> Array:
    """The number of finite elements in each bin; ``finite`` says that all are finite."""
    steps, low, scale, slack = ruler.fast(x.dtype)
    x = _frozen(x)
    narrow = ruler.bins <= 256 and x.size >= 1 << 16
    places = np.empty(STRIP, np.uint8 if narrow else np.int32)
    pairs = places.view(np.uint16) if narrow else np.empty(0, np.uint16)
    doubles = np.zeros((2, 1 << 16 if narrow else 0), np.uint32)
    singles = np.zeros((TABLES, ruler.bins), np.int64)
    kind, _, mask, infinity = _BITS[x.dtype.name]
    for start in range(0, x.size, CALL):
        part = x[start : start + CALL]
        if finite:
            _bins(part, low, scale, slack, steps, places, pairs, doubles, singles)
        else:
            bits = part.view(kind)
            _bins_of_finite(part, bits, mask, infinity, low, scale, slack, steps, places, pairs, doubles, singles)
    counts: Array = singles.sum(0)
    if narrow:
        table = doubles.sum(0, dtype=np.int64).reshape(256, 256)
        counts += (table.sum(0) + table.sum(1))[: ruler.bins]
    return counts


def codes(x: Array, patterns: int) -> Array:
    """The number of elements with each bit pattern in an array of uint8 or uint16."""
    tables = np.zeros((4, patterns), np.int64)
    _codes(_frozen(x), tables)
    summed: Array = tables.sum(0)
    return summed


def _frozen(x: Array) -> Array:
    """A view that cannot be written to, as a mapping is: the loops are compiled for that type only."""
    view: Array = x.view()
    view.flags.writeable = False
    return view


@_loose
def _extremes(bits: Array, shift: Number, mask: Number) -> Number:
    """Least and greatest key, and zeros; a key is the bits as an integer in the order of the numbers, -0 below 0.

    The casts keep integers as narrow as the bits, of which twice as many fit a register.
    """
    kind = type(mask)
    low = high = kind(bits[0] ^ (kind(bits[0] >> shift) & mask))
    zeros = kind(0)
    for i in range(bits.size):
        key = kind(bits[i] ^ kind(kind(bits[i] >> shift) & mask))
        low = min(low, key)
        high = max(high, key)
        zeros = kind(zeros + kind(kind(bits[i] & mask) == kind(0)))
    return low, high, zeros


@_loose
def _sums(x: Array, centre: float) -> Number:
    """Sum of magnitudes, of deviations from ``centre``, and of their squares."""
    magnitude, drift, squares = 0.0, 0.0, 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        magnitude += abs(value)
        deviation = value - centre
        drift += deviation
        squares += deviation * deviation
    return magnitude, drift, squares


@_plain
def _keep_finite(x: Array, bits: Array, mask: Number, infinity: Number, finite: Array) -> Number:
    """Copies the finite elements to ``finite``; how many they are, and how many NaN there were."""
    count, nan = 0, 0
    for i in range(x.size):
        magnitude = bits[i] & mask
        if magnitude < infinity:
            finite[count] = x[i]
            count += 1
        elif magnitude > infinity:
            nan += 1
    return count, nan


@_plain
def _scan(x: Array, bits: Array, shift: Number, mask: Number, infinity: Number, factor: float, out: Array) -> None:
    """Write the moments of the finite elements, and the numbers of NaN, infinities and zeros, into ``out``."""
    finite = np.empty(BLOCK, x.dtype)
    finite_bits = finite.view(bits.dtype)
    count, nan, infinite, zeros = 0, 0, 0, 0
    total, lost, magnitude, squares, anchor, offset = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    least, most = infinity, -infinity
    for start in range(0, x.size, BLOCK):
        block, pattern = x[start : start + BLOCK], bits[start : start + BLOCK]
        low, high, none = _extremes(pattern, shift, mask)
        n = block.size
        if high >= infinity or low <= ~infinity:
            n, strange = _keep_finite(block, pattern, mask, infinity, finite)
            nan += strange
            infinite += block.size - n - strange
            if n == 0:
                continue
            block, pattern = finite[:n], finite_bits[:n]
            low, high, none = _extremes(pattern, shift, mask)
        if factor != 1.0:
            for i in range(n):
                finite[i] = block[i] * factor
            block, pattern = finite[:n], finite_bits[:n]
            low, high, none = _extremes(pattern, shift, mask)
        least, most = min(least, low), max(most, high)
        zeros += none
        centre = anchor + offset
        size, drift, spread = _sums(block, centre)
        if drift * drift > 64.0 * n * (spread - drift * drift / n):  # digits would cancel
            centre += drift / n
            size, drift, spread = _sums(block, centre)
        spread -= drift * drift / n
        part = n * centre + drift
        magnitude += size
        if count == 0:
            anchor = centre
        away = (centre - anchor) + drift / n - offset
        squares += spread + away * away * (count / (count + n)) * n
        count += n
        offset += away * (n / count)
        raised = total + part
        lost += (total - raised) + part if abs(total) >= abs(part) else (part - raised) + total
        total = raised
    ends = np.empty(2, bits.dtype)
    ends[0] = least ^ ((least >> shift) & mask)
    ends[1] = most ^ ((most >> shift) & mask)
    numbers = ends.view(x.dtype)
    out[0], out[1], out[2], out[3] = count, nan, infinite, zeros
    out[4], out[5], out[6], out[7], out[8], out[9] = numbers[0], numbers[1], total, lost, magnitude, squares
    out[10], out[11] = anchor, offset


@_loose
def _places(x: Array, low: Number, scale: Number, slack: Number, places: Array) -> Number:
    """The number of elements near an edge; ``places`` gets the bins of the others."""
    near, half = np.int32(0), type(slack)(0.5)
    limit = half - slack
    for i in range(x.size):
        place = (x[i] - low) * scale
        number = np.int32(place)
        places[i] = number
        near = np.int32(near + np.int32(abs(place - type(slack)(number) - half) > limit))
    return near


@_plain
def _near(x: Array, low: Number, scale: Number, steps: Number, places: Array) -> None:
    """The bin of each element, compared with both edges."""
    for i in range(x.size):
        place = np.int32((x[i] - low) * scale)
        if x[i] < steps[place]:
            place -= 1
        elif x[i] >= steps[place + 1]:
            place += 1
        places[i] = place


@_plain
def _bins(
    x: Array,
    low: Number,
    scale: Number,
    slack: Number,
    steps: Number,
    places: Array,
    pairs: Array,
    doubles: Array,
    singles: Array,
) -> None:
    """Counts the bins of two neighbours at once in ``doubles``, where ``pairs`` is a view of ``places``."""
    for start in range(0, x.size, STRIP):
        strip = x[start : start + STRIP]
        n = np.uint64(strip.size)
        if _places(strip, low, scale, slack, places):
            _near(strip, low, scale, steps, places)
        if pairs.size and n == STRIP:
            for i in range(np.uint64(0), np.uint64(STRIP // 2), np.uint64(2)):
                doubles[0, pairs[i]] += np.uint32(1)
                doubles[1, pairs[i + np.uint64(1)]] += np.uint32(1)
            continue
        for i in range(np.uint64(0), n):
            singles[i & np.uint64(TABLES - 1), np.uint32(places[i])] += 1


@_plain
def _bins_of_finite(
    x: Array,
    bits: Array,
    mask: Number,
    infinity: Number,
    low: Number,
    scale: Number,
    slack: Number,
    steps: Number,
    places: Array,
    pairs: Array,
    doubles: Array,
    singles: Array,
) -> None:
    finite = np.empty(BLOCK, x.dtype)
    for start in range(0, x.size, BLOCK):
        n, _ = _keep_finite(x[start : start + BLOCK], bits[start : start + BLOCK], mask, infinity, finite)
        _bins(finite[:n], low, scale, slack, steps, places, pairs, doubles, singles)


@_plain
def _codes(x: Array, tables: Array) -> None:
    """Count each bit pattern, in several tables in turn, so that equal neighbours do not wait for each other."""
    ways = tables.shape[0]
    unrolled = x.size - x.size % ways
    for i in range(0, unrolled, ways):
        for k in range(ways):
            tables[k, x[i + k]] += 1
    for i in range(unrolled, x.size):
        tables[0, x[i]] += 1
