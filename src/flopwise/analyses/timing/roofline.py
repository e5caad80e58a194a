"""Operations and bytes x a device's peaks -> seconds, and which roof is the lower one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
