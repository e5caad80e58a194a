"""Two traces side by side."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.comparison import breaks, compare_traces, grouped, spread
from flopwise.analyses.traces.land import Place, Step, Work, land
from flopwise.analyses.traces.trace import Layer, Matched, Recording, Trace
from flopwise.errors import InputError

LAYERS = tuple(Layer(name, "Conv") for name in "abcd")


def trace(places: list[tuple[Place, int]], steps: int = 5, noise: int = 0, seed: int = 0) -> Trace:
    """Steps of works one after the other, each with a little more than its time."""
    rng = random.Random(seed)
    landings = []
    for number in range(steps):
        works, now = [], 0
        for place, time in places:
            more = rng.randint(0, noise)
            works.append(Work(place, "t", now, now + time + more))
            now += time + more + 1
        landings.append(land(Step(f"run {number}", 0, now, works)))
    return trace_of(Recording("", LAYERS, tuple(landings), Matched()), "net", "onnxruntime")


ROWS = [Place((number,)) for number in range(4)]


def test_rows_of_one_trace_meet_the_segments_of_the_other() -> None:
    before = trace([(ROWS[0], 100), (ROWS[1], 50), (ROWS[2], 30), (ROWS[3], 20)])
    after = trace([(Place((0, 1)), 120), (Place((1, 2)), 7), (ROWS[3], 20), (Place(name="layout"), 9)])
    found = compare_traces(before, after)
    assert [(c.name, c.layers, c.before_ns, c.after_ns, c.verdict) for c in found.changes if c.layers] == [
        ("a+2", ("a", "b", "c"), 180, 127, "faster"),
        ("d", ("d",), 20, 20, "same"),
    ]
    assert {c.name: c.more_ns for c in found.changes if not c.layers} == {"gaps": 0, "layout": 9}


def test_differences_add_up_whatever_is_fused() -> None:
    rng = random.Random(1)
    for _ in range(200):
        sides = []
        for _ in range(2):
            starts = sorted(rng.sample(range(4), rng.randint(1, 4)))
            places = [Place(tuple(range(a, b))) for a, b in zip(starts, [*starts[1:], 4], strict=True)]
            sides.append(trace([(p, rng.randint(1, 99)) for p in places], noise=9, seed=rng.randrange(99)))
        found = compare_traces(*sides)  # which raises where they do not
        assert sum(c.more_ns for c in found.changes) == sides[1].covered_ns - sides[0].covered_ns
        assert sorted(name for c in found.changes for name in c.layers) == sorted(
            {r.name for s in sides for r in s.rows}
        )


def test_what_is_within_the_spread_is_the_same() -> None:
    noisy = [(place, 1000) for place in ROWS]
    one, other = trace(noisy, 9, 400, seed=1), trace(noisy, 9, 400, seed=2)
    assert {c.verdict for c in compare_traces(one, one).changes} == {"same"}
    assert {c.verdict for c in compare_traces(one, other).changes if c.layers} == {"same"}
    slow = trace([(ROWS[0], 2000), *noisy[1:]], 9, 400, seed=2)
    assert [c.verdict for c in compare_traces(one, slow).changes if c.layers] == ["slower", "same", "same", "same"]
    gone = compare_traces(one, trace(noisy[1:], 9, 400))
    assert gone.changes[0].verdict == "gone"


def test_conditions_hold_beyond_the_spread() -> None:
    before, after = trace([(ROWS[0], 1000)], 9), trace([(ROWS[0], 1100)], 9)
    found = compare_traces(before, after)
    assert [b.condition for b in breaks(found, "time>5%, busy>+99,wall > 11%, time<-1%")] == ["time>5%", "busy>+99"]
    noisy = compare_traces(trace([(ROWS[0], 1000)], 9, 400), trace([(ROWS[0], 1100)], 9, 400))
    assert not breaks(noisy, "time>0%")
    assert [b[1:3] for b in breaks(compare_traces(after, before), "time<-5%")] == [(1101, 1001)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time", "cannot understand 'time'; write a figure, a sign and a limit: time>5%"),
        ("tme>5%", "unknown figure 'tme'; did you mean 'time'. known: time, busy, wall"),
        ("time>much", "much"),
    ],
)
def test_conditions_that_are_none(text: str, message: str) -> None:
    found = compare_traces(trace([(ROWS[0], 1)]), trace([(ROWS[0], 1)]))
    with pytest.raises(InputError, match=message):
        breaks(found, text)


def test_what_cannot_be_compared() -> None:
    one = trace([(ROWS[0], 5)])
    with pytest.raises(InputError, match="traces of different models: net and none"):
        compare_traces(one, replace(one, model=""))
    with pytest.raises(InputError, match="no layer in common"):
        compare_traces(one, replace(one, rows=tuple(replace(row, name=f"{row.name}'") for row in one.rows)))
    assert compare_traces(trace([(ROWS[0], 5)], 2), one).notes == (
        "the first trace has fewer than four steps: its spread is a rough estimate",
    )


def test_spread_is_that_of_the_middle_half() -> None:
    assert spread([1, 100, 101, 102, 103, 104, 9999]) == pytest.approx(2, abs=1)
    assert spread([]) == 0


@pytest.mark.parametrize("by", ["layer", "op", "kernel"])
def test_groups_add_up_to_the_whole(by: str) -> None:
    rng = random.Random(3)
    for _ in range(50):
        sides = []
        for _ in range(2):
            places = [*rng.sample(ROWS, 3), Place((0, 1)), Place(name="copies")]
            made = trace([(p, rng.randint(1, 99)) for p in places], noise=9, seed=rng.randrange(99))
            sides.append(made)
        found = compare_traces(*sides)
        changes = grouped(found, by)
        assert sum(c.before_ns for c in changes) == sides[0].covered_ns
        assert sum(c.more_ns for c in changes) == sides[1].covered_ns - sides[0].covered_ns


def test_a_module_has_the_spread_of_its_own_steps() -> None:
    """Two layers whose times vary against each other: each by itself is unsure, the module of both is not."""

    def side(first: int) -> Trace:
        layers = (Layer("m.a", "Conv", module="m.a"), Layer("m.b", "Conv", module="m.b"))
        landings = []
        for number in range(9):
            times = first + 40 * number, 1000 - 40 * number
            works = [Work(ROWS[0], "t", 0, times[0]), Work(ROWS[1], "t", times[0], sum(times))]
            landings.append(land(Step(f"run {number}", 0, sum(times), works)))
        return trace_of(Recording("", layers, tuple(landings), Matched()), "net", "onnxruntime")

    found = compare_traces(side(500), side(520))
    assert [c.verdict for c in found.changes if c.layers] == ["same", "same"]
    modules = {c.name: c for c in grouped(found, "module")}
    assert set(modules) == {"net", "m", "m.a", "m.b"}
    assert (modules["m"].verdict, modules["m"].spread_ns, modules["m"].more_ns) == ("slower", 0, 20)
    assert "m.a" not in {c.name for c in grouped(found, "module", 1)}
    assert [(c.name, c.verdict) for c in grouped(found, "op") if c.layers] == [("Conv", "slower")]
