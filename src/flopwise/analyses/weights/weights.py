"""The weights of a model in figures: stored tensors, grouped by layer or taken one by one, and measured in a stream."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from flopwise.analyses.weights.result import Entry, Histogram, Weights
from flopwise.errors import InputError, counted
from flopwise.graph.construction import no_search_for_garbage
from flopwise.graph.dtypes import BITS, is_float
from flopwise.graph.names import FreshNames

if TYPE_CHECKING:
    from flopwise.analyses.weights.engine import Engine, Scanned
    from flopwise.analyses.weights.portable import Moments
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import StoredTensor

#: What one entry stands for.
GROUPINGS = ("layer", "tensor")

#: A histogram has at most this many bins.
MOST_BINS = 1 << 16

#: Elements from which on a layer is shared between threads; smaller layers are measured side by side.
LARGE = 1 << 22

#: Layers from which on small ones are measured together, and layers that one thread takes at a time.
MANY, AT_ONCE = 500, 64

#: An entry, the moments of its elements, and those of its elements scaled.
_Measured: TypeAlias = "tuple[Entry, Moments, Moments]"

#: Magnitudes whose squares float64 does not hold; beyond them the elements are scaled.
HUGE, TINY = 1e140, 1e-140


def weights_of_arrays(arrays: Any, **options: Any) -> Weights:
    """As ``flopwise.weights``, of a mapping of names to numpy arrays, each a layer."""
    from flopwise.formats.weights.tensor import StoredTensors, in_memory, numbers

    tensors = tuple(
        in_memory(name, partial(numbers, array), array.shape, array.dtype.name, layer=name)
        for name, array in arrays.items()
    )
    return measured(StoredTensors("arrays", "numpy", tensors), **options)


def measured(
    stored: StoredTensors,
    by: str = "layer",
    bins: int = 100,
    histogram: bool = True,
    layers: str | Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Weights:
    """As ``flopwise.weights``, of stored tensors that are open already."""
    from flopwise.analyses.weights.engine import loops

    check_options(by, bins, threads)
    groups, notes = _groups(stored, by)
    patterns = [layers] if isinstance(layers, str) else list(layers or ["*"])
    chosen = {name: group for name, group in groups.items() if any(fnmatch.fnmatchcase(name, p) for p in patterns)}
    if groups and not chosen:
        raise InputError(f"no {by} is called {', '.join(patterns)}; the first are {', '.join(list(groups)[:5])}")
    code, bound = loops(sum(map(_numel, chosen.values()))), bins if histogram else 0
    measurements = _measurements(chosen, bound, code, threads or os.cpu_count() or 1, progress)
    total = _total([measurements[name] for name in chosen])
    if total.nan or total.infinite:
        notes.append(f"{total.nan:,} NaN and {total.infinite:,} infinite elements are in no other figure")
    entries = tuple(measurements[name][0] for name in chosen)
    return Weights(stored.model, stored.format, by, bound, entries, total, (*notes, *stored.notes_by_now()), code.NAME)


def _measurements(
    chosen: dict[str, list[StoredTensor]],
    bins: int,
    code: ModuleType,
    threads: int,
    progress: Callable[[str], None] | None,
) -> dict[str, _Measured]:
    """Measurements by entry: many tiny tensors in tables, small layers side by side, large ones shared by threads."""
    from flopwise.analyses.weights import together
    from flopwise.analyses.weights.engine import Engine

    measurements: dict[str, _Measured] = {}
    done, every = 0, sum(map(_numel, chosen.values()))

    def say() -> None:
        if progress is not None and every:
            progress(f"measuring weights, {100 * done // every} % of {every:,} elements")

    with no_search_for_garbage(), ThreadPoolExecutor(threads) as pool:  # all that is made for a tensor stays
        shared, alone = Engine(code, pool if threads > 1 else None, 2 * threads), Engine(code)
        if len(chosen) > MANY and bins <= together.MOST_BINS and code.__name__.endswith("portable"):
            measurements = _measure_small(chosen, bins)
        done = sum(_numel(chosen[name]) for name in measurements)
        unmeasured = [name for name in chosen if name not in measurements]
        small = [name for name in unmeasured if threads > 1 and _side_by_side(chosen[name])]
        parts = [small[at : at + AT_ONCE] for at in range(0, len(small), AT_ONCE)]
        for part in pool.map(lambda names: {n: _measure(alone, n, chosen[n], bins) for n in names}, parts):
            measurements |= part
            done += sum(_numel(chosen[name]) for name in part)
            say()
        for name in unmeasured:
            if name not in measurements:
                say()
                measurements[name] = _measure(shared, name, chosen[name], bins)
                done += _numel(chosen[name])
    return measurements


def check_options(by: str, bins: int, threads: int | None) -> None:
    """Raise InputError if the grouping is unknown, or there are too many bins or too few threads."""
    if by not in GROUPINGS:
        raise InputError(f"unknown grouping {by!r}; known: {', '.join(GROUPINGS)}")
    if not 1 <= bins <= MOST_BINS:
        raise InputError(f"a histogram has 1 to {MOST_BINS:,} bins, not {bins}")
    if threads is not None and threads < 1:
        raise InputError(f"{threads} threads: give 1 or more")


def floating(dtype: str) -> bool:
    """True where elements of this type are floating-point numbers; those of GGUF blocks are."""
    return is_float(dtype) or dtype not in BITS


def _groups(stored: StoredTensors, by: str) -> tuple[dict[str, list[StoredTensor]], list[str]]:
    """Name of an entry -> its tensors, and what is left out."""
    numbers = [p for p in stored.tensors if p.dtype != "string" and not p.dtype.startswith("complex")]
    notes = []
    if len(numbers) < len(stored.tensors):
        notes.append(f"{counted(len(stored.tensors) - len(numbers), 'tensor')} of strings or complex numbers left out")
    if by == "tensor":
        names = FreshNames()
        return {names.fresh(tensor.name or "(unnamed)"): [tensor] for tensor in numbers}, notes
    weights = [p for p in numbers if floating(p.dtype) and p.role != "constant"]
    if len(weights) < len(numbers):
        elements = counted(_numel(numbers) - _numel(weights), "element")
        notes.append(
            f"{counted(len(numbers) - len(weights), 'tensor')} of integers or constants with {elements} "
            "belong to no layer; --by tensor lists them"
        )
    together: dict[str, list[StoredTensor]] = {}
    for tensor in weights:
        together.setdefault(tensor.layer or tensor.name, []).append(tensor)
    return {name: sorted(group, key=lambda p: p.slot) for name, group in together.items()}, notes


def _numel(group: Sequence[StoredTensor]) -> int:
    return sum(tensor.numel for tensor in group)


def _side_by_side(group: Sequence[StoredTensor]) -> bool:
    """True where a layer is small, and its elements are at hand without a stream that others share."""
    return _numel(group) < LARGE and all(p.raw() is not None for p in group)


def _measure_small(chosen: dict[str, list[StoredTensor]], bins: int) -> dict[str, _Measured]:
    """Measurements of those layers that are one small tensor, all of one size at once."""
    from flopwise.analyses.weights import together
    from flopwise.analyses.weights.engine import SOME

    single = ((name, group[0]) for name, group in chosen.items() if len(group) == 1 and group[0].numel <= SOME)
    measurements: dict[str, _Measured] = {}
    for those, rows in together.tables(single, lambda item: item[1].raw()):
        moments = {place: m for place, m in enumerate(together.scan(rows)) if m is not None and _factor(m) == 1.0}
        histograms: Sequence[Histogram | None] = [None] * len(moments)
        if bins and moments:
            histograms = together.histograms(rows[list(moments)], list(moments.values()), bins)
        for (place, moment), histogram in zip(moments.items(), histograms, strict=True):
            name, tensor = those[place]
            if histogram is not None or not bins:
                measurements[name] = _entry(name, [tensor], moment, moment, histogram), moment, moment
    return measurements


def _measure(engine: Engine, name: str, group: Sequence[StoredTensor], bins: int) -> _Measured:
    from flopwise.analyses.weights.engine import KEPT
    from flopwise.analyses.weights.portable import Ruler, merge

    scans: list[Scanned] = []
    room = KEPT if bins else 0
    for tensor in group:
        scans.append(engine.scan(tensor, room=room))
        room -= sum(block.size for block in scans[-1].kept)
    unscaled = merge(scan.moments for scan in scans)
    histogram: Histogram | None = None
    if bins and unscaled.count:
        ruler = Ruler(unscaled.low, unscaled.high, bins)
        counts = sum(engine.bins(tensor, scan, ruler) for tensor, scan in zip(group, scans, strict=True))
        histogram = Histogram(tuple(ruler.edges.tolist()), tuple(counts.tolist()))  # type: ignore[union-attr]
    factor = _factor(unscaled)
    scaled = (engine.scan(tensor, factor, room=0).moments for tensor in group)
    moments = unscaled if factor == 1.0 else merge(scaled)
    return _entry(name, group, unscaled, moments, histogram), unscaled, moments


def _entry(
    name: str, group: Sequence[StoredTensor], unscaled: Moments, moments: Moments, histogram: Histogram | None
) -> Entry:
    return Entry(
        name,
        next((p.op for p in group if p.op), ""),
        tuple(dict.fromkeys(p.dtype for p in group)),
        tuple(p.shape for p in group),
        sum(p.nbytes for p in group),
        **_figures(unscaled, moments),
        histogram=histogram,
        tensors=tuple(p.name for p in group),
    )


def _factor(moments: Moments) -> float:
    """The power of two that elements are scaled by where float64 does not hold their squares, else 1."""
    greatest = max(abs(moments.low), abs(moments.high)) if moments.count else 0.0
    if TINY <= greatest <= HUGE or not greatest:
        return 1.0
    return math.ldexp(1.0, -min(max(math.frexp(greatest)[1], -1000), 1000))


def _figures(unscaled: Moments, moments: Moments) -> dict[str, Any]:
    """The figures of elements from their moments and those of the scaled ones: beside huge ones tiny ones are zero."""
    from flopwise.analyses.weights.result import figures

    factor = _factor(unscaled)
    values = figures(moments, factor)
    if factor != 1.0:
        greatest = max(abs(unscaled.low), abs(unscaled.high))
        values |= {"zeros": unscaled.zeros, "min": unscaled.low, "max": unscaled.high, "absmax": greatest}
    return values


def _total(measurements: Sequence[_Measured]) -> Entry:
    """All entries together."""
    from flopwise.analyses.weights.portable import merge

    entries = [entry for entry, _, _ in measurements]
    unscaled = merge(moment for _, moment, _ in measurements)
    factor = _factor(unscaled)
    merged = merge(scaled.times(factor / _factor(moment)) for _, moment, scaled in measurements)
    dtypes = tuple(dict.fromkeys(dtype for entry in entries for dtype in entry.dtypes))
    nbytes, tensors = sum(e.nbytes for e in entries), tuple(t for e in entries for t in e.tensors)
    return Entry("Total", "", dtypes, (), nbytes, **_figures(unscaled, merged), tensors=tensors)
