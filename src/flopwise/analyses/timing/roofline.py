"""Operations and bytes x a device's peaks -> seconds, and which roof is the lower one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from flopwise.analyses.timing.device import Device, Peak

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
    #: The figures used.
    compute_peak: Peak | None
    memory_peak: Peak | None


def roofline(
    device: Device,
    *,
    macs: float = 0,
    flops: float | None = None,
    nbytes: float = 0,
    dtype: str | Sequence[str] = "float32",
    level: str = "dram",
    threads: int | None = None,
    estimate: bool = False,
) -> Roofline:
    """The least time of multiply-adds and bytes on a device: the larger of compute and memory time.

    Args:
        device: a device of ``catalog.find`` or of this machine.
        macs: multiply-adds, two operations each.
        flops: operations, in place of ``macs``.
        nbytes: bytes that are read or written.
        dtype: the element type of the products; of several the fastest counts.
        level: where the bytes come from: "dram", or a cache ("llc", "l2", "l1").
        threads: cores in use; None means all.
        estimate: whether a measured bandwidth will do, which may be less than what the level can do.

    >>> from flopwise.analyses.timing.catalog import find
    >>> floor = roofline(find("h100"), macs=7e9, nbytes=14e9, dtype="bfloat16")
    >>> floor.roof, round(floor.seconds * 1e3, 2)
    ('memory', 4.18)
    """
    operations = 2 * macs if flops is None else flops
    best = fastest(device, (dtype,) if isinstance(dtype, str) else dtype, threads)
    memory = device.bandwidth(level, threads, estimate)
    compute_seconds = operations / best.scaled(threads) if best is not None else 0.0
    memory_seconds = nbytes / memory.scaled(threads) if memory is not None else None
    roof: Roof = "none" if not operations and not nbytes else "compute"
    if roof == "compute" and (memory_seconds or 0.0) > compute_seconds:
        roof = "memory"
    if operations and best is None:
        roof = "unknown"
    return Roofline(max(compute_seconds, memory_seconds or 0.0), roof, compute_seconds, memory_seconds, best, memory)


def fastest(device: Device, dtypes: Sequence[str], threads: int | None = None) -> Peak | None:
    """The highest of the device's figures for these element types."""
    peaks = [peak for dtype in dtypes for peak in [device.flops(dtype, threads)] if peak is not None]
    return max(peaks, key=lambda p: p.scaled(threads), default=None)
