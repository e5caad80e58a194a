"""The engine's floor in a bound: coverage, what is missing, and a floor that does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.analyses.timing.sessions import small
from tests.analyses.timing.test_bound import SLOW

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.bound import Bound, physical_bound
from flopwise.analyses.timing.engine import with_engine
from flopwise.analyses.timing.machine import Environment
from flopwise.analyses.timing.store import Record, Whole
from flopwise.report.commands.bound import bound_report, content
from flopwise.report.report import as_text

NODES = (
    Executed("a", "Conv", "ka", rows=("conv1",), macs=1000, flops=2000, nbytes=400, dtypes=("float32",)),
    Executed("b", "Reshape", "kb", alias=True, needs=(0,)),
    Executed("c", "Gemm", "kc", macs=3000, flops=6000, nbytes=800, dtypes=("float32",), needs=(1,)),
)


def bound(best: dict[Any, Any], wholes: tuple[float, ...] = (100_000.0,), noise: float = 0.01, **others: Any) -> Bound:
    record = Record(
        Environment({"engine": {"name": "simulated", "version": "1", "level": "all", "threads": 1}}),
        others.pop("nodes", NODES),
        best,
        others.pop("failed", {}),
        tuple(Whole(i, ns, noise, others.get("machine", "quiet"), str(i)) for i, ns in enumerate(wholes)),
        (),
    )
    return with_engine(physical_bound(small(), SLOW), record)


ALL = {("ka", "hot"): (40_000.0, 1), ("kc", "hot"): (50_000.0, 1), ("kc", "streamed"): (55_000.0, 1)}


def test_nodes_are_added_up_and_aliases_are_free() -> None:
    found = bound(ALL)
    assert found.engine is not None
    assert (found.engine.hot_ns, found.engine.streamed_ns) == (90_000, 95_000)
    assert (found.engine.nodes, found.engine.measured_nodes, found.engine.complete) == (3, 3, True)
    assert found.engine.macs_share == 1
    assert found.engine.ratio == pytest.approx(0.9)
    assert found.verdict == "holds"
    assert [row.status for row in found.rows] == ["ok", "alias", "ok"]
    assert found.rows[0].layers == ("conv1",)


def test_a_node_without_a_time_counts_with_its_physical_floor() -> None:
    found = bound({("kc", "hot"): (50_000.0, 1)}, failed={"ka": "timeout"})
    assert found.engine is not None
    physical = found.rows[0].physical_ns
    assert found.engine.hot_ns == pytest.approx(50_000 + (physical or 0))
    assert not found.engine.complete
    assert found.engine.macs_share == pytest.approx(0.75)
    assert found.rows[0].status == "timeout"
    assert any("1 of 3 executed nodes were not measured" in note for note in found.notes)
    text = as_text(bound_report(found))
    assert "~ timeout" in text
    assert "engine floor" in text
    assert "≥ 50.0 us" in text


@pytest.mark.parametrize(
    ("whole", "noise", "verdict"),
    [(100_000.0, 0.0, "holds"), (89_000.0, 0.02, "holds"), (80_000.0, 0.02, "BROKEN")],
)
def test_a_floor_above_the_measured_time_is_said_and_not_clipped(whole: float, noise: float, verdict: str) -> None:
    found = bound(ALL, (whole,), noise)
    assert found.verdict == verdict
    assert found.engine is not None
    assert found.engine.hot_ns == 90_000
    assert verdict in as_text(bound_report(found))


def test_a_busy_machine_is_said() -> None:
    found = bound(ALL, machine="only 70 % of a processor")
    assert found.verdict == "noisy"
    assert any("only 70 % of a processor" in note for note in found.notes)


def test_the_least_of_several_sessions_counts() -> None:
    found = bound(ALL, (120_000.0, 100_000.0, 110_000.0))
    assert found.engine is not None
    assert (found.engine.measured_ns, found.engine.sessions) == (100_000, 3)
    noisy = [replace(found, engine=replace(found.engine, noise=0.02, sessions=number)) for number in (3, 1)]
    texts = [as_text(bound_report(each)) for each in noisy]
    assert ["best of 3 sessions" in text for text in texts] == [True, False]
    assert ["of two equal runs, one session" in text for text in texts] == [False, True]


def test_a_node_below_its_physical_floor_is_named() -> None:
    nodes = (Executed("fast", "Conv", "ka", macs=10**9, flops=2 * 10**9, nbytes=8, dtypes=("float32",)),)
    found = bound({("ka", "hot"): (10.0, 1)}, nodes=nodes)
    assert any("faster than the physical floor, the first fast" in note for note in found.notes)


def test_the_least_that_a_node_ever_took_counts_however_it_was_measured() -> None:
    found = bound({**ALL, ("kc", "streamed"): (45_000.0, 1)})
    assert found.engine is not None
    assert (found.engine.hot_ns, found.engine.streamed_ns) == (85_000, 85_000)


def test_json() -> None:
    found = content(bound(ALL))
    assert found["floors"]["engine_ns"] == 90_000
    assert found["floors"]["streamed_ns"] == 95_000
    assert found["measured_ns"] == 100_000
    assert found["verdict"] == "holds"
    assert found["coverage"] == {"nodes": 3, "measured": 3, "macs_share": 1.0}
    assert [row["time_ns"] for row in found["rows"]] == [40_000, 0, 50_000]
    assert found["rows"][0]["layers"] == ["conv1"]
    assert found["environment"]["engine"]["name"] == "simulated"


@pytest.mark.parametrize("by", ["layer", "op"])
@pytest.mark.parametrize("format", ["table", "markdown", "csv", "latex"])
def test_reports(by: str, format: str) -> None:
    text = as_text(bound_report(bound(ALL), by), format)
    assert "Gemm" in text
