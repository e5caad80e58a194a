"""An event of a trace, whatever profiler wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: A shape as the profiler saw it; None where it says none.
Extents: TypeAlias = "tuple[int, ...] | None"


@dataclass(slots=True)
class Event:
    """A piece of work with its time."""

    #: What the profiler calls it: a node, an operator, a kernel.
    name: str
    #: The operator's type without decoration ("conv2d", "Conv"); "" where it is none.
    op: str
    start_ns: int
    duration_ns: int
    #: The thread or the stream of a device that it ran on.
    lane: str = ""
    inputs: tuple[Extents, ...] = ()
    outputs: tuple[Extents, ...] = ()
    #: "forward" or "backward"; "" where it is neither.
    phase: str = "forward"
    #: Position of the model's row that it belongs to; None while none is known.
    row: int | None = None

    @property
    def end_ns(self) -> int:
        """The instant at which it is over."""
        return self.start_ns + self.duration_ns
