"""Devices: what they can compute and move in a second, each figure with its source."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from flopwise._arguments import checked
from flopwise.errors import InputError

#: Levels of memory, the fastest first.
LEVELS: tuple[str, ...] = ("l1", "l2", "llc", "dram")

Unit: TypeAlias = Literal["FLOP/s", "B/s", "s"]

Kind: TypeAlias = Literal["datasheet", "derived", "measured"]

#: Element type -> the next types that hold each of its values, in which its products can be computed as well, or whose
#: units compute it too (float8e5m2, float6e3m2). A zero point makes signed numbers of unsigned ones; a factor of two,
#: which goes into the scale, whole numbers of float4e2m1.
_HELD_BY: dict[str, tuple[str, ...]] = {
    "int2": ("int3",),
    "uint2": ("int3",),
    "int3": ("int4", "float4e2m1"),
    "uint4": ("int4",),
    "int4": ("int8", "float8e4m3fn"),
    "uint8": ("int8",),
    "int8": ("float16", "bfloat16"),
    "float4e2m1": ("float6e2m3", "int8"),
    "float6e2m3": ("float8e4m3fn",),
    "float6e3m2": ("float6e2m3",),
    "float8e4m3fn": ("float16", "bfloat16"),
    "float8e4m3fnuz": ("float8e4m3fn",),
    "float8e5m2": ("float8e4m3fn",),
    "float8e5m2fnuz": ("float8e4m3fn",),
    "float16": ("tfloat32",),
    "bfloat16": ("tfloat32",),
    "tfloat32": ("float32",),
    "float32": ("float64",),
    "complex64": ("float32",),
    "complex128": ("float64",),
}

#: Element type -> types that engines take in its place on devices that do not have it.
_IN_PLACE_OF: dict[str, tuple[str, ...]] = {
    "float64": ("float32",),
    "float32": ("bfloat16", "float16"),
    "tfloat32": ("bfloat16", "float16"),
    "float16": ("bfloat16",),
    "bfloat16": ("float16",),
    "int8": ("float8e4m3fn",),
}

#: Stored type -> a type of arithmetic that frameworks round its factors to, where the device has units for it.
_ROUNDED = {"float32": "tfloat32", "complex64": "tfloat32"}


@functools.cache
def holders(dtype: str) -> tuple[str, ...]:
    """An element type and those that hold each of its values.

    >>> holders("int8")
    ('int8', 'float16', 'tfloat32', 'float32', 'float64', 'bfloat16')
    """
    wider = (holder for one in _HELD_BY.get(dtype, ()) for holder in holders(one))
    return tuple(dict.fromkeys((dtype, *wider)))


def arithmetic(dtypes: Iterable[str]) -> tuple[str, ...]:
    """The types in which products of stored ones may be computed: their own, and what frameworks round them to.

    >>> arithmetic(("float32", "int4"))
    ('float32', 'int4', 'tfloat32')
    """
    stored = tuple(dtypes)
    return tuple(dict.fromkeys((*stored, *(_ROUNDED[one] for one in stored if one in _ROUNDED))))


@dataclass(frozen=True, slots=True)
class Peak:
    """One figure of a device: what it can do in a second, and where that stands."""

    #: "matrix" (tensor cores, tile units), "vector" (ordinary arithmetic units), a level of memory ("l1", "l2", "llc",
    #: "dram"), "link" (what it sends to other devices while it receives as much), "network" (the same beyond those that
    #: its link connects), or "launch" (the least time of starting a kernel).
    what: str
    #: Element type of "matrix" and "vector"; None otherwise.
    dtype: str | None
    #: FLOP/s (a multiply-add is two, of integers too), B/s, or seconds of a launch; of the whole device.
    value: float
    unit: Unit
    kind: Kind
    #: Title of the document, or how the figure was derived or measured.
    source: str
    url: str = ""
    #: False for figures with structured sparsity, which no bound uses.
    dense: bool = True
    #: What a single core can do, where a program may use fewer than all.
    core: float | None = None
    #: Of a link: what it consists of, such as "NVLink 4.0 x18", and how many devices it connects at most; None where
    #: that is not known.
    via: str = ""
    devices: int | None = None
    #: The clock that the figure is of, in MHz, where it is higher than the rated one; None for rated figures.
    above_rated_mhz: int | None = None

    def scaled(self, threads: int | None) -> float:
        """The value with so many cores in use; None means all."""
        if threads is None or self.core is None:
            return self.value
        return min(self.value, self.core * threads)


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache: its level and its bytes, of all its instances together."""

    level: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock that a vendor's figures are of, and the highest that drivers list for the part; MHz."""

    rated: int
    highest: int
    #: Title and link of the list.
    source: str
    url: str


@dataclass(frozen=True, slots=True)
class ReportedMemory:
    """The memory of a device as its driver reports it."""

    nbytes: int
    kind: Kind
    #: Title and link of the report, with how the figure was derived.
    source: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A processor with its memory."""

    id: str
    name: str
    kind: Literal["cpu", "gpu", "tpu", "mcu"]
    vendor: str
    #: Bytes of memory, as the vendor prints them; 0 where they are not known.
    memory_bytes: int
    peaks: tuple[Peak, ...]
    aliases: tuple[str, ...] = ()
    #: Cores of a CPU that a program may use; None where nobody counts them.
    cores: int | None = None
    caches: tuple[Cache, ...] = ()
    note: str = ""
    #: None where no list of its clocks is known.
    clock: Clock | None = None
    #: None where nobody wrote down what its driver reports.
    reported: ReportedMemory | None = None
    #: Streaming multiprocessors of a GPU of NVIDIA's; None where the table does not have them.
    multiprocessors: int | None = None
    #: Of a microcontroller: bytes of its flash, 0 where it has none of its own, and of the largest bank of its SRAM, 0
    #: where it is one.
    flash_bytes: int = 0
    bank_bytes: int = 0
    #: Title and link of the document that says its memory, where no figure does.
    source: str = ""
    url: str = ""

    @property
    def capacity_bytes(self) -> int:
        """Bytes of memory that its driver reports, else those that the vendor prints; 0 where neither is known."""
        return self.memory_bytes if self.reported is None else self.reported.nbytes

    @checked
    def flops(self, dtype: str, threads: int | None = None) -> Peak | None:
        """The highest dense figure for products of an element type, which any type that holds it can compute.

        A peak that is too high only loosens a bound, one that is too low breaks it: of several figures the highest
        counts, measured or not, at whatever clock. Where the device does not have the type itself, those count as well
        that engines take in its place.
        """
        return self._best(self.peaks, dtype, threads)

    @checked
    def rated(self, dtype: str) -> Peak | None:
        """The figure for products of an element type that the vendor states, at the rated clock: what shares of a peak
        are measured by."""
        printed = [p for p in self.peaks if p.above_rated_mhz is None and p.kind != "measured"]
        own = [p for p in printed if p.what in ("matrix", "vector") and p.dtype == dtype and p.dense]
        return max(own, key=lambda p: p.value) if own else self._best(printed, dtype, None)

    def _best(self, peaks: Iterable[Peak], dtype: str, threads: int | None) -> Peak | None:
        products = [p for p in peaks if p.what in ("matrix", "vector") and p.dense]
        taken = {*holders(dtype)}
        if not any(p.dtype == dtype for p in products):
            taken.update(_IN_PLACE_OF.get(dtype, ()))
        usable = (p for p in products if p.dtype in taken)
        return max(usable, key=lambda p: (p.scaled(threads), p.dtype == dtype), default=None)

    @checked
    def bandwidth(self, level: str = "dram", threads: int | None = None, estimate: bool = False) -> Peak | None:
        """The highest figure for reading from a level of memory, or from the next faster one that has a figure.

        What was measured may be less than what the level can do, because the machine was busy. So a measured figure
        alone does not bound anything: the next faster level's counts then, if it is higher.

        Args:
            level: one of LEVELS.
            threads: cores in use; None means all.
            estimate: whether a measured figure of the level itself will do.

        Raises:
            InputError: there is no such level.
        """
        if level not in LEVELS:
            raise InputError(f"unknown level {level!r}; known: {', '.join(LEVELS)}")
        peaks: list[Peak] = []
        for candidate in reversed(LEVELS[: LEVELS.index(level) + 1]):
            peaks += [p for p in self.peaks if p.what == candidate]
            if peaks and (estimate or any(p.kind != "measured" for p in peaks)):
                break
        return max(peaks, key=lambda p: p.scaled(threads), default=None)

    def link(self, what: Literal["link", "network"] = "link") -> Peak | None:
        """The figure for what it sends to other devices; None where there is none."""
        return max((p for p in self.peaks if p.what == what), key=lambda p: p.value, default=None)

    @checked
    def level_of(self, nbytes: int) -> str:
        """The smallest cache that can hold so many bytes, "dram" when none can."""
        wide = [c for c in self.caches if c.nbytes >= nbytes]
        return min(wide, key=lambda c: LEVELS.index(c.level)).level if wide else "dram"

    def with_peaks(self, peaks: tuple[Peak, ...]) -> Device:
        """The device with further figures."""
        return replace(self, peaks=(*self.peaks, *peaks))


# Operations and bytes x a device's peaks -> seconds, and which roof is the lower one.


#: What takes the time: arithmetic, memory, nothing (a view), or unknown.
Roof: TypeAlias = Literal["compute", "memory", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time of some work on a device."""

    #: The larger of the two times below; seconds.
    seconds: float
    roof: Roof
    compute_seconds: float
    #: None where the device has no figure for the level of memory.
    memory_seconds: float | None
    memory_peak: Peak | None


def roofline(
    device: Device,
    products: Mapping[tuple[str, ...], float],
    nbytes: float = 0,
    level: str = "dram",
    threads: int | None = None,
    estimate: bool = False,
) -> Roofline:
    """The least time of multiply-adds and bytes on a device: the larger of compute and memory time.

    Args:
        device: a device of ``catalog.find`` or of this machine.
        products: types of arithmetic that products may be computed in -> multiply-adds; the fastest of each counts.
        nbytes: bytes that are read or written.
        level: where the bytes come from: "dram", or a cache ("llc", "l2", "l1").
        threads: cores in use; None means all.
        estimate: whether a measured bandwidth will do, which may be less than what the level can do.

    >>> from flopwise.analyses.timing.catalog import find
    >>> floor = roofline(find("h100"), {("bfloat16",): 7e9}, nbytes=14e9)
    >>> floor.roof, round(floor.seconds * 1e3, 2)
    ('memory', 4.18)
    """
    peaks = {dtypes: fastest(device, dtypes, threads) for dtypes, macs in products.items() if macs}
    compute = sum(2 * products[dtypes] / peak.scaled(threads) for dtypes, peak in peaks.items() if peak is not None)
    memory_peak = device.bandwidth(level, threads, estimate)
    memory = nbytes / memory_peak.scaled(threads) if memory_peak is not None else None
    roof: Roof = "none"
    if peaks and not any(peaks.values()):
        roof = "unknown"
    elif peaks or nbytes:
        roof = "memory" if (memory or 0.0) > compute else "compute"
    return Roofline(max(compute, memory or 0.0), roof, compute, memory, memory_peak)


def fastest(device: Device, dtypes: Sequence[str], threads: int | None = None) -> Peak | None:
    """The highest of the device's figures for these element types."""
    peaks = [peak for dtype in dtypes for peak in [device.flops(dtype, threads)] if peak is not None]
    return max(peaks, key=lambda p: p.scaled(threads), default=None)


def assumptions(
    products: Mapping[tuple[str, ...], float], device: Device, threads: int | None = None, rewrites: Sequence[str] = ()
) -> list[str]:
    """In a line, the arithmetic and the rewrites that a floor assumes; empty where there are no products.

    Args:
        products: types of arithmetic that products may be computed in -> multiply-adds.
        device: what computes them.
        threads: cores in use; None means all.
        rewrites: what is done otherwise than in the program.
    """
    parts = []
    for dtypes, macs in sorted(products.items(), key=lambda item: -item[1]):
        peak = fastest(device, dtypes, threads)
        if peak is None or not macs:
            continue
        clock = f" at {peak.above_rated_mhz:,} MHz, the highest clock" if peak.above_rated_mhz else ""
        stored = "×".join(d for d in dtypes if d != "tfloat32" or len(dtypes) == 1)
        how = "" if stored == peak.dtype else f" in {peak.dtype}"
        parts.append(f"{stored}{how}{clock}, {peak.scaled(threads) / 1e12:,.4g} TFLOP/s")
    if not parts:
        return []
    return [f"the floor assumes {'; '.join((*dict.fromkeys(parts), *rewrites))}; no structured sparsity"]
