"""The least time of a model: the physical floor of a device, row by row and for the whole model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from flopwise._results import Printed
from flopwise.analyses.needed import needed
from flopwise.analyses.timing.benchmark import Status as Measured
from flopwise.analyses.timing.device import Device, Peak, Roof, assumptions, fastest, roofline
from flopwise.analyses.timing.quantities import (
    WINOGRAD,
    Movement,
    Work,
    inner_dtypes,
    must_move,
    products,
    stored_types,
    works,
)
from flopwise.errors import counted
from flopwise.formats.sources.text import JsonObject
from flopwise.graph.dtypes import is_float

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: "roofline": nothing was measured, the figures follow from the device alone.
Verdict: TypeAlias = Literal["holds", "noisy", "BROKEN", "roofline"]

#: How a row's time came to be; "roofline" where nothing was measured, "unknown" where the work itself is not known.
Status: TypeAlias = Measured | Literal["roofline", "unknown"]


@dataclass(frozen=True, slots=True)
class BoundRow:
    """A row of a profile, and the least time it takes."""

    name: str
    op: str
    work: Work
    #: What binds at the memory that holds the row's operands: arithmetic or reading and writing.
    roof: Roof
    #: Textbook roofline: operands from the memory that holds them. An estimate, no bound: caches may be faster.
    roofline_ns: float | None
    #: No engine with direct algorithms is faster: needed arithmetic at peak, bytes at the fastest level.
    physical_ns: float | None
    status: Status
    #: Least time that the engine's own kernels took for the row alone; None where nothing was measured.
    engine_ns: float | None = None
    #: The same with heavy weights from beyond the second cache; None where the node has none.
    streamed_ns: float | None = None
    #: Of an executed node: the layers of the model that it does the work of.
    layers: tuple[str, ...] = ()

    @property
    def floor_ns(self) -> float | None:
        """The tightest floor that is known: the engine's where it was measured, else the physical one."""
        return self.physical_ns if self.engine_ns is None else self.engine_ns


@dataclass(frozen=True, slots=True)
class Floor:
    """The physical floor of a whole model, and its two sides."""

    compute_ns: float
    memory_ns: float | None
    movement: Movement
    #: Where the bytes that must move can lie: a cache, or "dram".
    level: str
    #: The figures used: one for each element type, and the memory's.
    peaks: tuple[Peak, ...]

    @property
    def ns(self) -> float:
        """The larger side."""
        return max(self.compute_ns, self.memory_ns or 0.0)

    @property
    def roof(self) -> Roof:
        """The name of that side."""
        return "memory" if (self.memory_ns or 0.0) > self.compute_ns else "compute"


class Other(NamedTuple):
    """Least time of the whole model at another level, or with other threads."""

    label: str
    ns: float


class WhatIf(NamedTuple):
    """One other way, and what the model would take."""

    what: str
    ns: float
    kind: Literal["floor", "estimate", "measured"]
    #: The time of the same kind as it is now.
    base_ns: float
    #: Of an estimate the range in which times were when changes of its kind were really made; None otherwise.
    low_ns: float | None = None
    high_ns: float | None = None

    @property
    def ratio(self) -> float | None:
        """The time over that of now; None where that is nothing."""
        return self.ns / self.base_ns if self.base_ns else None


@dataclass(frozen=True, slots=True)
class EngineFloor:
    """The times of a model's nodes alone, and that of the whole, in one environment."""

    environment: JsonObject
    #: Least times with everything in caches, added up; a node without one contributes its physical floor.
    hot_ns: float
    #: The same with heavy weights from beyond the second cache: an estimate of the whole, no floor.
    streamed_ns: float
    #: Along the longest chain of nodes: what an engine could do that runs independent nodes at once.
    critical_ns: float
    #: Least time of the whole model; None when it was never measured.
    measured_ns: float | None
    #: How far two equal wholes differed in the session of the least time.
    noise: float | None
    sessions: int
    #: Executed nodes, and those that have a time of their own or need none.
    nodes: int
    measured_nodes: int
    #: Share of the executed multiply-adds that were measured; None where there are none.
    macs_share: float | None
    #: "quiet", or why the last session was not.
    machine: str
    #: For each executed node the positions of the nodes that it waits for.
    needs: tuple[tuple[int, ...], ...] = ()
    #: The same model in other environments of this machine.
    others: tuple[Other, ...] = ()

    @property
    def complete(self) -> bool:
        """True if every node was measured; else the floor covers the known nodes, and the true one is higher."""
        return self.measured_nodes == self.nodes

    @property
    def ratio(self) -> float | None:
        """The floor over the measured whole."""
        return self.hot_ns / self.measured_ns if self.measured_ns else None


@dataclass(frozen=True, eq=False)
class Bound(Printed):
    """The least time of a model on a device."""

    profile: Profile
    device: Device
    threads: int | None
    rows: tuple[BoundRow, ...]
    physical: Floor
    #: The same from figures that were measured on this device alone; None without any.
    machine: Floor | None
    notes: tuple[str, ...]
    verdict: Verdict = "roofline"
    #: The floor of an engine, whose executed nodes the rows then are; None where nothing was measured.
    engine: EngineFloor | None = None
    #: What other ways were found to take: of each change that was tried.
    tried: tuple[WhatIf, ...] = ()

    @functools.cached_property
    def roofline_ns(self) -> float:
        """The rows' textbook rooflines added up: an estimate of a run in which nothing is fused, no bound."""
        return sum(row.roofline_ns or 0.0 for row in self.rows)


def physical_bound(
    profile: Profile,
    device: Device,
    threads: int | None = None,
    winograd: bool = False,
    dtype: str | None = None,
) -> Bound:
    """The floors that follow from a device's peaks alone; nothing runs.

    Args:
        profile: the model.
        device: the device.
        threads: cores in use; None means all.
        winograd: whether 3x3 convolutions of stride 1 may take 2.25 times fewer multiplications.
        dtype: element type in which products of floating-point numbers are computed; None: the fastest that the types
            of their factors, as they are stored, allow.
    """
    least = needed(profile)
    stated = works(profile, least.least, stored_types(profile.graph))
    each_work = [_computed_in(work, dtype, winograd) for work in stated]
    names = [(row.name, row.node.op) for row in profile.rows]
    rows = tuple(bound_row(name, op, work, device, threads) for (name, op), work in zip(names, each_work, strict=True))
    movement = must_move(profile.graph)
    physical = _floor(movement, each_work, device, threads)
    measured = tuple(p for p in device.peaks if p.kind == "measured")
    machine = _floor(movement, each_work, replace(device, peaks=measured), threads) if measured else None
    rewrites = (
        *least.rewrites,
        *least.floors,
        *(["3x3 convolutions take 2.25 times fewer multiplications"] if winograd else []),
    )
    assumed = assumptions(products(each_work), device, threads, rewrites)
    notes = (*assumed, *_notes(each_work, device, physical, winograd))
    return Bound(profile, device, threads, rows, physical, machine, notes)


def _computed_in(work: Work, dtype: str | None, winograd: bool) -> Work:
    if dtype is not None and any(is_float(t) for t in work.dtypes):
        work = replace(work, computed=dtype)
    if winograd and work.winograd and work.macs is not None:
        work = replace(work, needed=int(work.macs / WINOGRAD))
    return work


def bound_row(name: str, op: str, work: Work, device: Device, threads: int | None) -> BoundRow:
    """The floors of a row; of a row whose work is unknown, the known part."""
    unknown = work.macs is None and work.nbytes is None
    level = device.level_of(work.nbytes or 0)
    level = level if any(p.what == level for p in device.peaks) else "dram"
    near = roofline(device, {work.arithmetic: work.macs or 0}, work.nbytes or 0, level, threads, estimate=True)
    least = roofline(device, {work.arithmetic: work.least or 0}, work.nbytes or 0, "l1", threads)
    on_chip = least.memory_peak is not None and least.memory_peak.what != "dram"
    physical = least.seconds if on_chip else least.compute_seconds
    return BoundRow(
        name=name,
        op=op,
        work=work,
        roof="unknown" if work.macs is None else near.roof,
        roofline_ns=None if unknown else near.seconds * 1e9,
        physical_ns=None if unknown else physical * 1e9,
        status="unknown" if work.macs is None or work.nbytes is None else "roofline",
    )


def _floor(movement: Movement, works: Sequence[Work], device: Device, threads: int | None) -> Floor:
    """Arithmetic at peak, or the bytes that must move at the bandwidth of what can hold them."""
    least, level = products(works), device.level_of(movement.total)
    both = roofline(device, least, movement.total, level, threads)
    peaks = {peak: None for types in least if (peak := fastest(device, types, threads)) is not None}
    used = (*peaks, *([both.memory_peak] if both.memory_peak else []))
    memory = None if both.memory_seconds is None else 1e9 * both.memory_seconds
    return Floor(1e9 * both.compute_seconds, memory, movement, level, used)


def _notes(works: Sequence[Work], device: Device, floor: Floor, winograd: bool) -> list[str]:
    notes = [note for note in (device.note and f"{device.name}: {device.note}",) if note]
    if inner_dtypes(works) and not any(p.what in ("matrix", "vector") for p in floor.peaks):
        notes.append(f"{device.name} has no figure for products, so arithmetic takes no time in the floor")
    if floor.memory_ns is None:
        notes.append(f"{device.name} has no figure for its memory, so moving bytes takes no time in the floor")
    if any(work.macs is None for work in works):
        count = sum(work.macs is None for work in works)
        notes.append(f"{count} layer{'s' if count > 1 else ''} without a count: the floor leaves them out, and holds")
    if floor.movement.unknown:
        of = counted(len(floor.movement.unknown), "tensor")
        notes.append(f"the sizes of {of} are unknown: the floor leaves them out")
    if not winograd and (share := _winograd_share(works)) >= 0.005:
        notes.append(
            f"{share:.0%} of the multiply-adds are in 3x3 convolutions of stride 1, which Winograd's algorithm does "
            "with 2.25 times fewer: --winograd"
        )
    return notes


def _winograd_share(works: Sequence[Work]) -> float:
    total = sum(work.macs or 0 for work in works)
    return sum(work.macs or 0 for work in works if work.winograd) / total if total else 0.0
