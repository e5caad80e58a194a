"""The result of a trace: recorded time on the rows of a model, on segments of them, and under names."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from flopwise._results import Json, Printed
from flopwise.analyses.timing.bound import WhatIf
from flopwise.analyses.timing.device import Peak
from flopwise.analyses.traces.land import Landing, Place
from flopwise.profiles.profile import Profile

#: Where a row's time is: on the row itself, in a segment of several rows, estimated from that, or nowhere.
Status: TypeAlias = Literal["matched", "segment", "estimate", "absent"]

_TOTALS = ("rows_ns", "segments_ns", "remainder_ns", "covered_ns", "busy_ns", "wall_ns")
_ROW = ("name", "op", "phase", "time_ns", "launches", "flops", "bytes", "floor_ns", "status")
_SEGMENT = ("name", "phase", "time_ns", "launches", "flops")

FORWARD, BACKWARD = "forward", "backward"


class Layer(NamedTuple):
    """The work that time lands on: a row of a profile, or, without a model, an operator with its shapes."""

    name: str
    op: str
    #: Floating-point operations of one run; None where they are not known.
    flops: int | None = None
    #: Bytes read and written.
    bytes: int | None = None
    backward_flops: int | None = None
    macs: int | None = None
    #: Dotted path of the module around it.
    module: str = ""
    #: The least time of one run on the device, and of its backward pass; None where that is not known.
    floor_ns: float | None = None
    backward_floor_ns: float | None = None
    #: Time of the products of one run at the device's peak.
    peak_ns: float | None = None
    #: Whether it computes products of which the trace does not say how many multiply-adds they have.
    uncounted: bool = False


def layers_of(profile: Profile) -> tuple[Layer, ...]:
    """The rows of a profile."""
    return tuple(
        Layer(
            row.name,
            row.node.op,
            row.flops,
            None if row.read_bytes is None or row.written_bytes is None else row.read_bytes + row.written_bytes,
            row.backward_flops,
            row.macs,
            row.node.module,
        )
        for row in profile.rows
    )


class Matched(NamedTuple):
    """The part of a model that was found in a trace."""

    #: Rows that have time of their own or in a segment.
    rows: int = 0
    #: Rows of the model.
    of: int = 0
    #: Share of the time of matrix products and convolutions that landed on rows which compute products; None where
    #: the trace has none.
    product_time_share: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace that was read and matched: the format's own word on what landed where."""

    #: The processor, as the trace names it; "" where it does not.
    device: str
    layers: tuple[Layer, ...]
    landings: tuple[Landing, ...]
    matched: Matched
    notes: tuple[str, ...] = ()
    #: Bytes of the processor's memory; 0 where the trace does not say.
    memory_bytes: int = 0
    #: The element type that most of the products' time was spent on; "" where the trace does not say.
    dtype: str = ""
    #: Figures of the device that the least times rest on, and of its memory; () where it is not known.
    peaks: tuple[Peak, ...] = ()
    #: Places whose times are shares of a segment's.
    estimates: frozenset[Place] = frozenset()
    #: Puts the same events on a profile with backward passes; None where no layer of the trace has one.
    trained: Callable[[Profile], Recording] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A layer with its time in one phase of the reported step."""

    name: str
    op: str
    phase: str
    #: None where its time is part of a segment's.
    time_ns: int | None
    launches: int
    flops: int | None
    #: None where it is not known, as in the backward phase.
    bytes: int | None
    status: Status
    #: The least time on the device; None where the device is not known.
    floor_ns: int | None = None
    module: str = ""
    #: Its time in each step of the trace.
    times_ns: tuple[int, ...] = ()

    @property
    def median_ns(self) -> int | None:
        """The median of its times over the steps."""
        return None if self.time_ns is None else round(statistics.median(self.times_ns or (self.time_ns,)))

    @property
    def spread(self) -> float | None:
        """Half the range of the middle half of its times, as a share of the median; None for fewer than four steps."""
        if len(self.times_ns) < 4 or not self.median_ns:
            return None
        low, _, high = statistics.quantiles(self.times_ns, n=4)
        return (high - low) / 2 / self.median_ns

    @property
    def flops_per_second(self) -> float | None:
        """The FLOP/s that it reached."""
        return 1e9 * self.flops / self.time_ns if self.flops is not None and self.time_ns else None


@dataclass(frozen=True, slots=True)
class Segment:
    """Work of several layers whose time cannot be told apart."""

    name: str
    phase: str
    time_ns: int
    launches: int
    #: Names of its layers.
    layers: tuple[str, ...]
    flops: int | None
    #: Its time in each step of the trace.
    times_ns: tuple[int, ...] = ()

    @property
    def flops_per_second(self) -> float | None:
        """The FLOP/s that it reached."""
        return 1e9 * self.flops / self.time_ns if self.flops is not None and self.time_ns else None


class StepTime(NamedTuple):
    """The times of one step, whole nanoseconds."""

    name: str
    window_ns: int
    busy_ns: int
    wall_ns: int
    #: Its first instant on the clock of the timeline; None where the trace has no times of day.
    start_ns: int | None = None
    #: Time of its products at the device's peak; None where that is not known.
    peak_ns: float | None = None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation: the share of the step that its products would take at the device's peak."""
        return self.peak_ns / self.window_ns if self.peak_ns and self.window_ns else None


class Moment(NamedTuple):
    """One event of the step, and where its time landed."""

    #: A row, a segment, or a name of the remainder.
    where: str
    #: "" for what no layer does.
    phase: str
    kernel: str
    #: The thread or the stream.
    lane: str
    start_ns: int
    end_ns: int
    #: Arithmetic of the row or the segment, all its kernels together; None where it is not known.
    flops: int | None
    #: The position of the layer; None for a segment and for the remainder.
    layer: int | None = None


@dataclass(frozen=True)
class Trace(Printed):
    """Recorded time on the rows of a model: rows + segments + remainder = covered, in whole nanoseconds.

    Raises:
        ValueError: the parts do not add up.
    """

    #: Name of the model; "" where none was given.
    model: str
    #: The profiler: "kineto", "onnxruntime", "tensorrt".
    format: str
    #: The processor, as the trace names it; "" where it does not.
    device: str
    #: Names of the steps in the trace.
    steps: tuple[str, ...]
    #: Name of the step whose times these are; "all" for the sum of all.
    step: str
    #: From the first instant of the step to its last.
    window_ns: int
    rows: tuple[TimedRow, ...]
    segments: tuple[Segment, ...]
    #: Time of no layer, by name ("layout", "optimiser", "gaps", "unmatched"), the longest first.
    remainder: Mapping[str, int]
    #: Time of all threads or streams together, and the gaps.
    covered_ns: int
    #: Time of all threads or streams together.
    busy_ns: int
    #: Time in which any of them is at work.
    wall_ns: int
    matched: Matched
    notes: tuple[str, ...] = ()
    #: Time by where it landed (a row, a segment, a name of the remainder), phase and kernel.
    kernels: Mapping[tuple[str, str, str], int] = field(default_factory=dict, repr=False)
    #: Kernel -> its time in each step of the trace.
    kernel_times: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    #: Covered and wall time, and the gaps, of each step of the trace.
    times: tuple[StepTime, ...] = ()
    #: The events of the step, in the order of their start; () where the trace has no times of day.
    timeline: tuple[Moment, ...] = field(default=(), repr=False)
    #: Figures of the device that the least times rest on, and of its memory; () where it is not known.
    peaks: tuple[Peak, ...] = field(default=(), repr=False)
    #: Time of the products of the step at the device's peak; None where that is not known.
    peak_ns: float | None = None
    #: How the times of segments were divided: "macs", by multiply-adds, which is an estimate; "" where they were not.
    split: str = ""
    #: What other devices were found to take.
    tried: tuple[WhatIf, ...] = ()

    def __post_init__(self) -> None:
        parts = self.rows_ns + self.segments_ns + self.remainder_ns
        if parts != self.covered_ns:
            raise ValueError(f"the parts of a trace add up to {parts:,} ns, and it covers {self.covered_ns:,} ns")

    @property
    def rows_ns(self) -> int:
        """Time on single layers."""
        return sum(row.time_ns or 0 for row in self.rows)

    @property
    def segments_ns(self) -> int:
        """Time on segments."""
        return sum(segment.time_ns for segment in self.segments)

    @property
    def unseen(self) -> float:
        """The share of the model's arithmetic that is of rows without time in the step."""
        flops = sum(row.flops or 0 for row in self.rows)
        return sum(row.flops or 0 for row in self.rows if row.status == "absent") / flops if flops else 0.0

    @property
    def remainder_ns(self) -> int:
        """Time of no layer."""
        return sum(self.remainder.values())

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation: the share of the step that its products would take at the device's peak."""
        return self.peak_ns / self.window_ns if self.peak_ns and self.window_ns else None

    def to_dict(self) -> Json:
        """The JSON schema ``flopwise.trace/1``: times are integers in nanoseconds, what is not known is null."""
        return {
            "schema": "flopwise.trace/1",
            "model": self.model or None,
            "trace": {
                "format": self.format,
                "device": self.device or None,
                "steps": len(self.steps),
                "step": self.step,
                "window_ns": self.window_ns,
                "split": self.split or None,
            },
            "totals": {name: getattr(self, name) for name in _TOTALS} | {"mfu": self.mfu},
            "matched": self.matched._asdict(),
            "rows": [
                {name: getattr(each, name) for name in _ROW} | {"median_ns": each.median_ns, "spread": each.spread}
                for each in self.rows
            ],
            "segments": [
                {name: getattr(each, name) for name in _SEGMENT} | {"layers": list(each.layers)}
                for each in self.segments
            ],
            "remainder": dict(self.remainder),
            "notes": list(self.notes),
        }
