"""Rounds, least times, noise: with a clock that the tests turn."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopwise.analyses.timing.sampling import Clock, Sampler, Samples, cpu_share, noise, verdict


class Virtual:
    """A clock, and tasks that turn it."""

    def __init__(self, seed: int = 0, spikes: float = 0.0) -> None:
        self.now = self.switches = 0
        self.random = random.Random(seed)
        self.spikes = spikes

    def task(self, nanoseconds: int) -> object:
        def run() -> None:
            spike = self.random.random() < self.spikes
            self.now += nanoseconds * (3 if spike else 1)
            self.switches += spike

        return run

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, None, lambda: self.switches)


def test_every_task_runs_once_a_round_in_a_changing_order() -> None:
    virtual, order = Virtual(), []
    tasks = {name: virtual.task(10) for name in "abcdef"}
    sampler = Sampler(tasks, virtual.clock, before=order.append)  # type: ignore[arg-type]
    for _ in range(4):
        sampler.round()
    rounds = [tuple(order[i : i + 6]) for i in range(0, 24, 6)]
    assert all(sorted(r) == list("abcdef") for r in rounds)
    assert len(set(rounds)) > 1


@given(st.integers(0, 1000), st.integers(1, 10**6))
@settings(max_examples=50, deadline=None)
def test_spikes_do_not_raise_the_least_time_and_stay_out_of_the_median(seed: int, nanoseconds: int) -> None:
    virtual = Virtual(seed, spikes=0.3)
    sampler = Sampler({"a": virtual.task(nanoseconds)}, virtual.clock)  # type: ignore[dict-item]
    for _ in range(60):
        sampler.round()
    samples = sampler.samples["a"]
    assert samples.best == nanoseconds
    assert samples.median == nanoseconds
    assert samples.runs == 60


def test_more_rounds_never_raise_a_minimum() -> None:
    virtual = Virtual(3, spikes=0.8)
    sampler = Sampler({str(i): virtual.task(100 * i + 1) for i in range(9)}, virtual.clock)  # type: ignore[misc]
    for _ in range(30):
        sampler.round()
    assert sampler.sums == sorted(sampler.sums, reverse=True)


def test_rounds_go_on_until_the_minima_settle() -> None:
    virtual = Virtual()
    sampler = Sampler({"a": virtual.task(100)}, virtual.clock)  # type: ignore[dict-item]
    for _ in range(19):
        sampler.round()
        assert not sampler.settled
    sampler.round()
    assert sampler.settled
    sampler.sums[-7:] = [200, 180, 160, 150, 140, 120, 100]
    assert not sampler.settled


def test_noise_is_the_difference_of_two_equal_tasks() -> None:
    one, other = Samples(), Samples()
    one.add(100, 100, False)
    other.add(110, 55, True)
    assert noise(one, other) == pytest.approx(1 - 100 / 110)
    assert cpu_share(one, other) == pytest.approx(155 / 210)
    assert noise(Samples(), Samples()) == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.01, 1.0), "quiet"),
        ((0.06, 1.0), "two equal runs differ by 6 %"),
        ((0.01, 0.71), "only 71 % of a processor"),
        ((0.01, 1.0, 0.2), "the processor's speed changed by 20 %"),
    ],
)
def test_verdicts(values: tuple[float, ...], said: str) -> None:
    assert verdict(*values) == said


def test_a_cold_first_run_is_not_a_sample() -> None:
    """What ran in between has taken the caches: only runs behind a warm one count."""
    virtual = Virtual()
    last = ""

    def task(name: str) -> object:
        def run() -> None:
            nonlocal last
            virtual.now += 100 if last == name else 150
            last = name

        return run

    tasks = {name: task(name) for name in "ab"}
    cold = Sampler(tasks, virtual.clock)  # type: ignore[arg-type]
    warm = Sampler(tasks, virtual.clock, warm={"a": 1, "b": 1}, runs={"a": 2, "b": 2})  # type: ignore[arg-type]
    for _ in range(3):
        warm.round()
    assert {s.best for s in warm.samples.values()} == {100}
    assert {s.runs for s in warm.samples.values()} == {6}
    last = ""
    cold.round()
    assert {s.best for s in cold.samples.values()} == {150}


def test_the_spread_takes_ten_samples() -> None:
    assert Samples([10, 10, 10, 10, 10, 20, 20, 20, 20]).spread is None
    assert Samples([10, 10, 10, 10, 10, 20, 20, 20, 20, 20]).spread == 2.0
    assert Samples([0] * 10).spread is None
    assert Samples().median is None


@pytest.mark.parametrize(
    ("noise", "share", "drift", "quiet"),
    [
        (0.05, 0.9, 0.1, True),
        (0.0501, 0.9, 0.1, False),
        (0.05, 0.8999, 0.1, False),
        (0.05, 0.9, 0.1001, False),
    ],
)
def test_a_machine_is_quiet_up_to_its_limits(noise: float, share: float, drift: float, quiet: bool) -> None:
    assert (verdict(noise, share, drift) == "quiet") is quiet
