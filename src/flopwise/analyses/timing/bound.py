"""How long a model takes at least: the physical floor of a device, row by row and for the whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from flopwise.analyses.timing.benchmark import Status as Measured
from flopwise.analyses.timing.device import Device, Peak
from flopwise.analyses.timing.quantities import WINOGRAD, Movement, Work, inner_dtypes, must_move, works
from flopwise.analyses.timing.roofline import Roof, fastest, roofline
from flopwise.errors import counted
from flopwise.graph.dtypes import is_float
from flopwise.profiles.precision import TIMES

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
    #: No engine with direct algorithms in this type is faster: arithmetic at peak, bytes at the fastest level.
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
        """Which side that is."""
        return "memory" if (self.memory_ns or 0.0) > self.compute_ns else "compute"


class Other(NamedTuple):
    """Least time of the whole model at another level, or with other threads."""

    label: str
    ns: float


@dataclass(frozen=True, slots=True)
class EngineFloor:
    """What the nodes of a model take alone, and what the whole takes, in one environment."""

    environment: Mapping[str, Any]
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
        """Whether every node was measured; else the floor covers the known nodes, and the true one is higher."""
        return self.measured_nodes == self.nodes

    @property
    def ratio(self) -> float | None:
        """The floor over the measured whole."""
        return self.hot_ns / self.measured_ns if self.measured_ns else None


@dataclass(frozen=True, eq=False)
class Bound:
    """How long a model takes at least on a device."""

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
    #: How ``print(bound)`` looks; provided by whoever knows the reports.
    renderer: Callable[[Bound], str] | None = field(default=None, repr=False)

    @property
    def roofline_ns(self) -> float:
        """The rows' textbook rooflines added up: an estimate of a run in which nothing is fused, no bound."""
        return sum(row.roofline_ns or 0.0 for row in self.rows)

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)


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
        dtype: element type in which products of floating-point numbers are computed; None: the model's own.
    """
    each_work = [_computed_in(work, dtype, winograd) for work in works(profile)]
    names = [(row.name, row.node.op) for row in profile.rows]
    rows = tuple(bound_row(name, op, work, device, threads) for (name, op), work in zip(names, each_work, strict=True))
    floor = _floor(profile, each_work, device, threads)
    measured = tuple(p for p in device.peaks if p.kind == "measured")
    machine = _floor(profile, each_work, replace(device, peaks=measured), threads) if measured else None
    notes = tuple(_notes(profile, each_work, device, floor, winograd, dtype))
    return Bound(profile, device, threads, rows, floor, machine, notes)


def _computed_in(work: Work, dtype: str | None, winograd: bool) -> Work:
    if dtype is not None and any(is_float(t) for t in work.dtypes):
        work = replace(work, dtypes=(dtype,))
    if winograd and work.winograd and work.macs is not None:
        work = replace(work, macs=int(work.macs / WINOGRAD))
    return work


def bound_row(name: str, op: str, work: Work, device: Device, threads: int | None) -> BoundRow:
    """The floors of a row; of a row whose work is unknown, the known part."""
    unknown = work.macs is None and work.nbytes is None
    level = device.level_of(work.nbytes or 0)
    near = roofline(
        device,
        macs=work.macs or 0,
        nbytes=work.nbytes or 0,
        dtype=work.dtypes,
        level=level if any(p.what == level for p in device.peaks) else "dram",
        threads=threads,
        estimate=True,
    )
    least = roofline(
        device, macs=work.macs or 0, nbytes=work.nbytes or 0, dtype=work.dtypes, level="l1", threads=threads
    )
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


def _floor(profile: Profile, works: Sequence[Work], device: Device, threads: int | None) -> Floor:
    """Arithmetic at peak, or the bytes that must move at the bandwidth of what can hold them."""
    movement = must_move(profile.graph)
    compute, peaks = 0.0, {}
    for work in works:
        peak = fastest(device, work.dtypes, threads)
        if work.macs and peak is not None:
            compute += 2 * work.macs / peak.scaled(threads)
            peaks[peak.what, peak.dtype] = peak
    level = device.level_of(movement.total)
    memory = device.bandwidth(level, threads)
    nanoseconds = None if memory is None else 1e9 * movement.total / memory.scaled(threads)
    used = (*peaks.values(), *([memory] if memory else []))
    return Floor(1e9 * compute, nanoseconds, movement, level, used)


def _notes(
    profile: Profile, works: Sequence[Work], device: Device, floor: Floor, winograd: bool, dtype: str | None
) -> list[str]:
    notes = [note for note in (device.note and f"{device.name}: {device.note}",) if note]
    unverified = dict.fromkeys(p.source.rpartition(": ")[2] for p in floor.peaks if not p.verified)
    if unverified:
        notes.append(f"unverified, because the document was not opened: {'; '.join(unverified)}")
    for types in inner_dtypes(works):
        peak = fastest(device, types.split(TIMES))
        if peak is None:
            notes.append(f"{device.name} has no figure for products, so arithmetic takes no time in the floor")
        elif peak.dtype not in types.split(TIMES) and peak.dtype:
            notes.append(f"{device.name} has no figure for {types}; that of {peak.dtype} is used")
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
    if dtype is None and device.kind != "cpu" and any("float32" in work.dtypes for work in works if work.macs):
        lower = [p for p in (device.flops("tfloat32"),) if p is not None and p.dtype == "tfloat32"]
        if lower:
            notes.append("a framework that computes float32 in TF32 can be faster than this floor: --dtype tfloat32")
    return notes


def _winograd_share(works: Sequence[Work]) -> float:
    total = sum(work.macs or 0 for work in works)
    return sum(work.macs or 0 for work in works if work.winograd) / total if total else 0.0
