"""The steps of a trace that are reported: so many that memory does not grow with their number."""

from __future__ import annotations

from flopwise.analyses.traces.land import KEPT, Landing, Step, land


class Landings:
    """The times of steps; where they have too many events, of every second, fourth ... step."""

    def __init__(self) -> None:
        #: One of so many steps is reported.
        self.stride = 1
        self._all: list[Landing] = []
        self._steps = 0
        self._works = 0

    def takes_next(self) -> bool:
        """True if the next step is one that is reported."""
        self._steps += 1
        return not (self._steps - 1) % self.stride

    def add(self, step: Step) -> None:
        """Add the times of a step."""
        self._all.append(land(step))
        self._works += len(step.works)
        if self._works > KEPT and len(self._all) > 2:
            self._all, self.stride = self._all[::2], 2 * self.stride
            self._works = sum(len(landing.works) for landing in self._all)

    @property
    def reported(self) -> tuple[Landing, ...]:
        """The steps with work in them; all, if none has any."""
        return tuple([landing for landing in self._all if landing.busy_ns] or self._all)
