"""Where time lands: each instant of a lane belongs to the event that started last among those open.

A lane is a thread or a stream of a device. What the events of each lane cover, added up, is the busy time; the instants
at which any lane is at work are the wall time. Nothing is divided, and nothing is lost: the times of all places add up
to the busy time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

#: The first and the last instant, in nanoseconds.
Span: TypeAlias = "tuple[int, int]"


#: Events that a format keeps; of more, only those of every second, fourth ... step.
KEPT = 50_000


class Place(NamedTuple):
    """Where time lands: on one layer, on a segment of several, or under the name of what no layer does."""

    #: Positions of the layers.
    layers: tuple[int, ...] = ()
    phase: str = "forward"
    #: The name of a segment, or of a remainder ("gaps", "optimiser").
    name: str = ""


class Work(NamedTuple):
    """An event and its place."""

    place: Place
    lane: str
    start_ns: int
    end_ns: int
    #: Kernels that it stands for, or calls of the operator; 0 for an event that goes on with another's work.
    launches: int = 1
    #: The kernel, or the operator where no kernels are recorded.
    name: str = ""


@dataclass(slots=True)
class Step:
    """One step of what was recorded: an inference, or an iteration of training."""

    name: str
    start_ns: int
    end_ns: int
    works: list[Work]
    #: How often the layer of a place ran, where that is not once.
    runs: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Landing:
    """The times of one step, whole nanoseconds."""

    name: str
    times: dict[Place, int]
    launches: dict[Place, int]
    #: The same times by kernel.
    kernels: dict[tuple[Place, str], int]
    #: Time of all lanes together.
    busy_ns: int
    #: Time in which any lane is at work.
    wall_ns: int
    #: From the first instant to the last; what is not wall time is gaps.
    window_ns: int
    #: How often the layer of a place ran, where that is not once.
    runs: Mapping[Place, int] = field(default_factory=dict)
    #: The events; empty where the trace has no times of day.
    works: Sequence[Work] = ()
    #: Its first instant; None where the trace has no times of day.
    start_ns: int | None = None

    @property
    def gaps_ns(self) -> int:
        """Time in which no lane is at work."""
        return self.window_ns - self.wall_ns

    @property
    def covered_ns(self) -> int:
        """Time that is to be explained: that of all lanes, and the gaps."""
        return self.busy_ns + self.gaps_ns


def land(step: Step) -> Landing:
    """The times of a step; of an event that sticks out of it, only the part inside."""
    lanes: defaultdict[str, list[Work]] = defaultdict(list)
    for work in step.works:
        lanes[work.lane].append(work)
    times: Counter[Place] = Counter()
    launches: Counter[Place] = Counter()
    kernels: Counter[tuple[Place, str]] = Counter()
    spans: list[list[Span]] = []
    for works in lanes.values():
        spans.append([_inside(work, step) for work in works])
        for work, time in zip(works, self_times(spans[-1]), strict=True):
            times[work.place] += time
            launches[work.place] += work.launches
            kernels[work.place, work.name] += time
    busy, wall = sum(map(union, spans)), union(span for lane in spans for span in lane)
    window = step.end_ns - step.start_ns
    return Landing(
        step.name, dict(times), dict(launches), dict(kernels), busy, wall, window, step.runs, step.works, step.start_ns
    )


def _inside(work: Work, step: Step) -> Span:
    start = min(max(work.start_ns, step.start_ns), step.end_ns)
    return start, max(start, min(work.end_ns, step.end_ns))


def self_times(spans: Sequence[Span]) -> list[int]:
    """For each span the time in which it is the one that started last among those open.

    Of two that start at once the one that ends first has the time; one that outlasts the span around it keeps its own.

    >>> self_times([(0, 10), (2, 5), (4, 12)])
    [2, 2, 8]
    """
    own = [0] * len(spans)
    stack: list[int] = []
    now = 0

    def run(until: int | None) -> None:
        nonlocal now
        while stack and (until is None or now < until):
            end = spans[stack[-1]][1]
            stop = end if until is None else min(end, until)
            if stop > now:
                own[stack[-1]] += stop - now
                now = stop
            if end <= now:
                stack.pop()

    for place in sorted(range(len(spans)), key=lambda place: (spans[place][0], -spans[place][1])):
        start = spans[place][0]
        run(start)
        now = start
        stack.append(place)
    run(None)
    return own


def union(spans: Iterable[Span]) -> int:
    """The time that spans cover together.

    >>> union([(0, 10), (2, 5), (20, 21)])
    11
    """
    time, last = 0, None
    for start, end in sorted(spans):
        if last is None or start > last:
            last = start
        if end > last:
            time, last = time + end - last, end
    return time


class Landings:
    """The times of steps; where they have too many events, of every second, fourth ... step: memory stays bounded."""

    def __init__(self) -> None:
        #: Steps so far, and one in how many is kept.
        self.steps, self.stride = 0, 1
        self.kept: list[Landing] = []
        self._works = 0

    def takes_next(self) -> bool:
        """True if the next step is one that is kept."""
        self.steps += 1
        return not (self.steps - 1) % self.stride

    def add(self, step: Step) -> None:
        """Add the times of a step."""
        self.kept.append(land(step))
        self._works += len(step.works)
        if self._works > KEPT and len(self.kept) > 2:
            self.kept, self.stride = self.kept[::2], 2 * self.stride
            self._works = sum(len(landing.works) for landing in self.kept)

    @property
    def reported(self) -> tuple[Landing, ...]:
        """The steps with work in them; all, if none has any."""
        return tuple([landing for landing in self.kept if landing.busy_ns] or self.kept)
