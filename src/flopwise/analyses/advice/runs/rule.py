"""A rule of advice on a recorded run, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from flopwise.analyses.traces.trace import BACKWARD

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.analyses.traces.trace import Trace


class Run(NamedTuple):
    """A recorded step, and the device that it ran on."""

    trace: Trace
    #: None for a processor that is not in the table of devices.
    device: Device | None

    @property
    def on_gpu(self) -> bool:
        """True where kernels of a GPU were recorded."""
        return self.trace.device not in ("", "CPU")

    @property
    def trains(self) -> bool:
        """True where backward passes were recorded."""
        return any(row.phase == BACKWARD for row in self.trace.rows)


class Finding(NamedTuple):
    """Time that a run would not need."""

    #: Layers, or the name of a remainder such as "gaps".
    place: tuple[str, ...]
    #: Nanoseconds of the step, at most.
    ns: float
    #: Why, with its figure.
    text: str


@dataclass(frozen=True)
class RunRule:
    """A kind of time that is lost in a run, and the threshold from which it is advice."""

    name: str
    #: What is changed, in a line.
    about: str
    #: Who set the threshold: a tool with its version.
    source: str
    #: From what share on it is advice, mostly of the step.
    threshold: float
    find: Callable[[Run, float], Iterator[Finding]]
    exactness: Literal["run"] = "run"
