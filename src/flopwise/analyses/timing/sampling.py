"""Interleaved rounds: every task once a round in a new order, least times, and how noisy the machine was.

A busy minute hurts all tasks of a round alike; measured one after the other, a sum of nodes has met a slow minute that
the whole model has not.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: A session is noisy when its two equal wholes differ by more, or had less of a processor than this share.
MOST_NOISE, LEAST_CPU = 0.05, 0.9

#: Rounds that are run at least, and the change of the sum of minima under which a session may end.
LEAST_ROUNDS, SETTLED = 20, 0.01


@dataclass(slots=True)
class Samples:
    """The times of one task."""

    times: list[int] = field(default_factory=list)
    #: Times of samples during which the processor was taken away.
    disturbed: int = 0
    cpu: int = 0
    wall: int = 0
    best: int | None = None

    def add(self, wall: int, cpu: int, switched: bool) -> None:
        """Note a sample; one with a switch counts for the least time and not for the median."""
        self.wall += wall
        self.cpu += cpu
        self.best = wall if self.best is None else min(self.best, wall)
        if switched:
            self.disturbed += 1
        else:
            self.times.append(wall)

    @property
    def runs(self) -> int:
        """Number of samples."""
        return len(self.times) + self.disturbed

    @property
    def median(self) -> float | None:
        """The median of the undisturbed samples; the least time when all were disturbed."""
        return statistics.median(self.times) if self.times else self.best

    @property
    def spread(self) -> float | None:
        """90th percentile over 10th; None with fewer than ten samples."""
        if len(self.times) < 10:
            return None
        tenths = statistics.quantiles(self.times, n=10)
        return tenths[8] / tenths[0] if tenths[0] else None


class Clock:
    """The readings of a sampler: wall time and CPU time in nanoseconds, and how often the processor was taken away."""

    def __init__(
        self, wall: Callable[[], int], cpu: Callable[[], int] | None = None, switches: Callable[[], int] | None = None
    ) -> None:
        self.wall = wall
        self.cpu = cpu or wall
        self.switches = switches or (lambda: 0)


class Sampler:
    """Runs tasks in interleaved rounds.

    Args:
        tasks: name -> what to time; sampled once a round.
        clock: what to time with.
        warm: name -> runs before each sample that are not timed: what ran in between has taken the caches.
        runs: name -> timed runs of a sample; 1 where it says nothing.
        seed: of the order of each round.
        before: called with the name of a task before it runs, so that a watchdog knows what hangs.
    """

    def __init__(
        self,
        tasks: Mapping[str, Callable[[], object]],
        clock: Clock,
        seed: int = 0,
        before: Callable[[str], None] = lambda name: None,
        warm: Mapping[str, int] | None = None,
        runs: Mapping[str, int] | None = None,
    ) -> None:
        self.warm, self.runs = dict(warm or {}), dict(runs or {})
        self.tasks = dict(tasks)
        self.clock = clock
        self.samples = {name: Samples() for name in tasks}
        self.rounds = 0
        self._random = random.Random(seed)
        self._before = before
        #: Sum of the minima after each round.
        self.sums: list[int] = []

    def round(self) -> None:
        """Every task once, in a new order."""
        order = list(self.tasks)
        self._random.shuffle(order)
        for name in order:
            self._before(name)
            self.sample(name)
        self.rounds += 1
        self.sums.append(sum(s.best or 0 for s in self.samples.values()))

    def sample(self, name: str) -> None:
        """One sample of a task: its warm runs, then its timed ones."""
        run, clock = self.tasks[name], self.clock
        for _ in range(self.warm.get(name, 0)):
            run()
        for _ in range(self.runs.get(name, 1)):
            switches, cpu = clock.switches(), clock.cpu()
            start = clock.wall()
            run()
            wall = clock.wall() - start
            self.samples[name].add(wall, clock.cpu() - cpu, clock.switches() != switches)

    @property
    def settled(self) -> bool:
        """True once the sum of the minima moved by less than 1 % in the last third of the rounds."""
        if self.rounds < LEAST_ROUNDS:
            return False
        before = self.sums[-1 - self.rounds // 3]
        return before - self.sums[-1] < SETTLED * before


def noise(one: Samples, other: Samples) -> float:
    """By how much the least times of two equal tasks differ."""
    if not one.best or not other.best:
        return 0.0
    return abs(one.best / other.best - 1)


def cpu_share(*samples: Samples) -> float:
    """CPU time over wall time."""
    wall = sum(s.wall for s in samples)
    return sum(s.cpu for s in samples) / wall if wall else 1.0


def verdict(noise: float, share: float, drift: float = 0.0, threads: int = 1) -> str:
    """ "quiet", or why the machine was not.

    >>> verdict(0.01, 0.99), verdict(0.08, 0.99), verdict(0.01, 0.7)
    ('quiet', 'two equal runs differ by 8 %', 'only 70 % of a processor')
    """
    if noise > MOST_NOISE:
        return f"two equal runs differ by {noise:.0%}".replace("%", " %")
    if share < LEAST_CPU * min(threads, 1):
        return f"only {share:.0%} of a processor".replace("%", " %")
    if drift > 2 * MOST_NOISE:
        return f"the processor's speed changed by {drift:.0%}".replace("%", " %")
    return "quiet"
