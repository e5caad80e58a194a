"""Sessions of simulated programs: floors that hold whatever the noise, and hidden times that come out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.analyses.timing.sessions import kernel, program, random_program
from tests.analyses.timing.simulated import Simulated
from tests.cases import each

from flopwise.analyses.timing.engines import Options, load
from flopwise.analyses.timing.measure import measure, runs_of_round
from flopwise.errors import InputError


def measured(content: dict[str, Any], rounds: int = 25, **others: Any) -> tuple[Simulated, dict[str, Any]]:
    simulated = Simulated(content, Options())
    return simulated, measure(simulated, 1e9, now=lambda: 0.0, most_rounds=rounds, **others)


def floor(simulated: Simulated, result: dict[str, Any], mode: str = "hot") -> float:
    best = {(m["key"], m["mode"]): m["best_ns"] for m in result["measurements"]}
    return sum(best.get((n.key, mode), best[n.key, "hot"]) for n in simulated.executed if not n.alias)


@each("seed", range(200))
def test_a_floor_is_never_above_the_whole_and_hidden_times_come_out(seed: int) -> None:
    simulated, result = measured(random_program(seed))
    whole = min(result["whole_ns"])
    assert floor(simulated, result) <= whole
    hidden = sum(k["ns"] for k in simulated.kernels if not k["alias"])
    assert floor(simulated, result) == pytest.approx(hidden, rel=0.01, abs=1)
    cold = sum(k["ns"] + k["cold"] for k in simulated.kernels if not k["alias"])
    assert floor(simulated, result, "streamed") == pytest.approx(cold, rel=0.01, abs=1)


def test_more_rounds_never_raise_a_floor_once_the_empty_run_has_met_its_least_time() -> None:
    content = random_program(7)
    floors = [floor(*measured(content, rounds)) for rounds in (5, 10, 20, 40)]
    assert floors == sorted(floors, reverse=True)


def test_equal_nodes_share_a_benchmark_and_aliases_have_none() -> None:
    nodes = [kernel("a", 100), kernel("b", 100), kernel("c", 900, alias=True)]
    simulated, result = measured(program(*nodes))
    assert len(result["measurements"]) == 1
    assert floor(simulated, result) == pytest.approx(200)


def test_small_nodes_run_in_copies() -> None:
    _, result = measured(program(kernel("a", 1_000), kernel("b", 1_000_000)))
    notes = {round(m["best_ns"]): m["note"] for m in result["measurements"]}
    assert notes == {1_000: "20 copies", 1_000_000: ""}


def test_without_noise_every_figure_of_a_time_is_that_time() -> None:
    """An empty run takes 3,000 ns, and each run of 20 copies as much beside them."""
    _, result = measured(program(kernel("a", 1_000), kernel("b", 1_000_000)))
    whole = 3_000 + 2 * 300 + 1_001_000
    assert (result["whole_ns"], result["median_ns"], result["cpu_ns"]) == ([whole, whole], whole, whole)
    assert (result["rounds"], result["noise"], result["cpu_share"], result["settling"]) == (25, 0, 1, 1)
    for one in result["measurements"]:
        copies, time = (20, 1_000) if one["note"] else (1, 1_000_000)
        assert (one["best_ns"], one["median_ns"], one["null_ns"]) == (time, time, 3_000)
        assert (one["cpu_ns"], one["spread"]) == (time + 3_000 / copies, 1)
        assert one["runs"] % 25 == 0


def test_a_node_that_the_engine_refuses_has_a_status() -> None:
    _, result = measured(program(kernel("a", 100), kernel("b", 5, fault="unsupported")))
    status = {m["status"]: m["note"] for m in result["measurements"]}
    assert status == {"ok": "64 copies", "unsupported": "no kernel of that name"}


def test_what_is_skipped_keeps_its_status() -> None:
    simulated = Simulated(program(kernel("a", 100), kernel("b", 5, fault="hang")), Options())
    key = simulated.executed[1].key
    _, result = measured(program(kernel("a", 100), kernel("b", 5, fault="hang")), skip={key: "timeout"})
    assert [m["status"] for m in result["measurements"]] == ["ok", "timeout"]


def test_only_some_keys() -> None:
    simulated = Simulated(program(kernel("a", 100), kernel("b", 200)), Options())
    _, result = measured(program(kernel("a", 100), kernel("b", 200)), only=[simulated.executed[1].key])
    assert [m["key"] for m in result["measurements"]] == [simulated.executed[1].key]


def test_a_busy_machine_is_noisy() -> None:
    assert measured(program(kernel("a", 10_000)))[1]["verdict"] == "quiet"
    assert measured(program(kernel("a", 10_000), idle=0.5))[1]["verdict"] == "only 67 % of a processor"


def test_a_processor_that_changes_its_speed_is_noisy() -> None:
    _, result = measured(program(kernel("a", 10_000), drift=0.02))
    assert result["drift"] > 0.1
    assert "the processor's speed changed by" in result["verdict"]
    assert measured(program(kernel("a", 10_000)))[1]["drift"] == 0


def test_an_interrupt_keeps_what_is_measured() -> None:
    simulated = Simulated(program(kernel("a", 10_000)), Options())
    runs = 0

    def before(name: str) -> None:
        nonlocal runs
        runs += name == "whole A"
        if runs == 5:
            raise KeyboardInterrupt

    result = measure(simulated, 1e9, before=before, now=lambda: 0.0)
    assert result["interrupted"]
    assert result["rounds"] >= 2
    assert result["measurements"][0]["best_ns"] == pytest.approx(10_000)


def test_an_unknown_engine() -> None:
    with pytest.raises(InputError, match="unknown engine 'tpu'; known: onnxruntime"):
        load("tpu")


def test_nodes_that_take_little_beside_the_whole_run_more_often() -> None:
    names = ["whole A", "whole B", "hot a", "streamed a", "null empty"]
    assert runs_of_round({"whole A": 1000, "hot a": 100}, names) == {
        "whole A": 2,
        "whole B": 2,
        "hot a": 8,
        "streamed a": 1,
        "null empty": 2,
    }
    assert runs_of_round({"whole A": 1000, "hot a": 1000}, names)["hot a"] == 2
    assert runs_of_round({"whole A": 1000, "hot a": 500}, names)["hot a"] == 4


def test_a_few_rounds_are_finished_whatever_the_budget() -> None:
    simulated = Simulated(program(kernel("a", 100)), Options())
    ticks = iter(range(10_000))
    assert measure(simulated, 0.0, now=lambda: float(next(ticks)))["rounds"] == 6


def test_an_interrupt_in_the_first_round_keeps_the_whole_that_was_met() -> None:
    simulated = Simulated(program(kernel("a", 10_000)), Options())
    calls: list[str] = []

    def before(name: str) -> None:
        calls.append(name)
        if calls.count("whole A") + calls.count("whole B") == 4:  # two to calibrate, then the second of the round
            raise KeyboardInterrupt

    result = measure(simulated, 1e9, before=before, now=lambda: 0.0)
    assert result["interrupted"]
    assert result["whole_ns"][0] == result["whole_ns"][1] > 0
