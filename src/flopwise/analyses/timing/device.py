"""Devices: what they can compute and move in a second, each figure with its source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

#: Levels of memory, the fastest first.
LEVELS: tuple[str, ...] = ("l1", "l2", "llc", "dram")

Kind: TypeAlias = Literal["datasheet", "derived", "measured"]

#: Element type -> types whose figure stands in where a device has none, the nearest first.
_WIDER: dict[str, tuple[str, ...]] = {
    "float64": ("float32",),
    "tfloat32": ("float32", "bfloat16", "float16"),
    "float16": ("bfloat16", "float32"),
    "bfloat16": ("float16", "float32"),
    "float8e4m3fn": ("float16", "bfloat16", "float32"),
    "float6e2m3": ("float8e4m3fn", "float16", "bfloat16", "float32"),
    "float4e2m1": ("float6e2m3", "float8e4m3fn", "int4", "int8", "float16", "bfloat16", "float32"),
    "int8": ("float8e4m3fn", "float16", "bfloat16", "float32"),
    "int4": ("int8", "float4e2m1", "float16", "bfloat16", "float32"),
    "float32": ("bfloat16", "float16"),
}

#: Element types that run at the rate of another.
_SAME: dict[str, str] = {
    "uint8": "int8",
    "uint4": "int4",
    "int3": "int4",
    "int2": "int4",
    "uint2": "int4",
    "float8e4m3fnuz": "float8e4m3fn",
    "float8e5m2": "float8e4m3fn",
    "float8e5m2fnuz": "float8e4m3fn",
    "float6e3m2": "float6e2m3",
    "complex64": "float32",
    "complex128": "float64",
}


@dataclass(frozen=True, slots=True)
class Peak:
    """One figure of a device: what it can do in a second, and where that stands."""

    #: "matrix" (tensor cores, tile units), "vector" (ordinary arithmetic units), a level of memory ("l1", "l2", "llc",
    #: "dram"), "link" (to other devices), or "launch" (the least time of starting a kernel).
    what: str
    #: Element type of "matrix" and "vector"; None otherwise.
    dtype: str | None
    #: FLOP/s (a multiply-add is two, of integers too), B/s, or seconds of a launch; of the whole device.
    value: float
    unit: Literal["FLOP/s", "B/s", "s"]
    kind: Kind
    #: Title of the document, or how the figure was derived or measured.
    source: str
    url: str = ""
    #: Whether the document was opened when the figure was written down.
    verified: bool = True
    #: False for figures with structured sparsity, which no bound uses.
    dense: bool = True
    #: What a single core can do, where a program may use fewer than all.
    core: float | None = None

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
class Device:
    """A processor with its memory."""

    id: str
    name: str
    kind: Literal["cpu", "gpu", "tpu"]
    vendor: str
    #: Bytes of memory.
    memory_bytes: int
    peaks: tuple[Peak, ...]
    aliases: tuple[str, ...] = ()
    #: Cores of a CPU that a program may use; None where nobody counts them.
    cores: int | None = None
    caches: tuple[Cache, ...] = ()
    note: str = ""

    def flops(self, dtype: str, threads: int | None = None) -> Peak | None:
        """The highest dense figure for products of an element type; where there is none, that of the nearest type.

        A peak that is too high only loosens a bound, one that is too low breaks it: of several figures for one type
        the highest counts, measured or not.
        """
        name = _SAME.get(dtype, dtype)
        for candidate in (name, *_WIDER.get(name, ("float32", "bfloat16", "float16"))):
            peaks = [p for p in self.peaks if p.what in ("matrix", "vector") and p.dtype == candidate and p.dense]
            if peaks:
                return max(peaks, key=lambda p: p.scaled(threads))
        return None

    def bandwidth(self, level: str = "dram", threads: int | None = None, estimate: bool = False) -> Peak | None:
        """The highest figure for reading from a level of memory, or from the next faster one that has a figure.

        What was measured may be less than what the level can do, because the machine was busy. So a measured figure
        alone does not bound anything: the next faster level's counts then, if it is higher.

        Args:
            level: one of LEVELS.
            threads: cores in use; None means all.
            estimate: whether a measured figure of the level itself will do.
        """
        peaks: list[Peak] = []
        for candidate in reversed(LEVELS[: LEVELS.index(level) + 1]):
            peaks += [p for p in self.peaks if p.what == candidate]
            if peaks and (estimate or any(p.kind != "measured" for p in peaks)):
                break
        return max(peaks, key=lambda p: p.scaled(threads), default=None)

    def level_of(self, nbytes: int) -> str:
        """The smallest cache that can hold so many bytes, "dram" when none can."""
        held = [c for c in self.caches if c.nbytes >= nbytes]
        return min(held, key=lambda c: LEVELS.index(c.level)).level if held else "dram"

    def cache_bytes(self, level: str) -> int | None:
        """Bytes of all caches of a level together; None where they are not known."""
        return next((c.nbytes for c in self.caches if c.level == level), None)

    def with_peaks(self, peaks: tuple[Peak, ...]) -> Device:
        """The device with further figures."""
        return replace(self, peaks=(*self.peaks, *peaks))
