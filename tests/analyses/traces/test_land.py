"""Time that lands: against counting the instants one by one."""

from __future__ import annotations

import random

from flopwise.analyses.traces.land import Place, Step, Work, land, self_times, union


def _spans(rng: random.Random) -> list[tuple[int, int]]:
    """Nested, overlapping and empty spans, some of them equal."""
    starts = [rng.randrange(-5, 40) for _ in range(rng.randrange(12))]
    spans = [(start, start + rng.choice((0, 0, 1, 2, 5, 17, 40))) for start in starts]
    return spans + [span for span in spans if rng.random() < 0.2]


def _by_instants(spans: list[tuple[int, int]]) -> tuple[list[int], int]:
    """Each instant given to the open span that started last: of several the shortest, of equal ones the last."""
    own, covered = [0] * len(spans), 0
    for now in range(-5, 90):
        open_ = [number for number, (start, end) in enumerate(spans) if start <= now < end]
        covered += bool(open_)
        if open_:
            own[max(open_, key=lambda n: (spans[n][0], -spans[n][1], n))] += 1
    return own, covered


def test_each_instant_lands_once() -> None:
    rng = random.Random(0)
    for _ in range(10_000):
        spans = _spans(rng)
        own, covered = _by_instants(spans)
        assert self_times(spans) == own
        assert union(spans) == covered == sum(own)


def test_a_step_loses_nothing_whatever_its_lanes() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        works = [
            Work(Place((rng.randrange(3),)) if rng.random() < 0.7 else Place(name="copies"), f"lane {lane}", start, end)
            for lane in range(rng.randrange(1, 4))
            for start, end in _spans(rng)
        ]
        landing = land(Step("", 0, 50, works))
        inside = {now for work in works for now in range(max(work.start_ns, 0), min(work.end_ns, 50))}
        assert sum(landing.times.values()) == sum(landing.kernels.values()) == landing.busy_ns
        assert landing.wall_ns == len(inside)
        assert landing.gaps_ns == 50 - len(inside)
        assert landing.covered_ns == sum(landing.times.values()) + landing.gaps_ns
        assert sum(landing.launches.values()) == len(works)
