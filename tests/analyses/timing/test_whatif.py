"""Other ways for a model: each is a part of the floor, or a measured time."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.analyses.timing.models import chain
from tests.analyses.timing.test_bound import bound as physical
from tests.analyses.timing.test_engine import bound

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.bound import Other
from flopwise.analyses.timing.engine import what_ifs
from flopwise.report.commands.bound.report import bound_report
from flopwise.report.report import as_text

NODES = (
    Executed("a", "com.microsoft.nchwc::ReorderInput", "ka", macs=0, nbytes=8, dtypes=("float32",)),
    Executed("b", "Conv", "kb", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("c", "Conv", "kc", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("d", "Add", "kd", macs=0, nbytes=8, dtypes=("float32",), needs=(1, 2)),
)
TIMES = {("ka", "hot"): (1000.0, 1), ("kb", "hot"): (5000.0, 1), ("kc", "hot"): (4000.0, 1), ("kd", "hot"): (2000.0, 1)}


def test_each_way() -> None:
    found = {each.what: (each.ns, each.kind) for each in what_ifs(bound(TIMES, nodes=NODES))}
    assert found["as it is"] == (12_000, "floor")
    assert found["element-wise nodes fused into others"] == (10_000, "floor")
    assert found["no node that only moves elements"] == (11_000, "floor")
    assert found["independent nodes at once"] == (8_000, "floor")
    assert found["2 workers that share the cores"] == (8_000, "floor")
    assert found["every product at the device's peak"][0] > 0


def test_other_environments() -> None:
    measured = bound(TIMES, nodes=NODES)
    assert measured.engine is not None
    engine = dataclasses.replace(measured.engine, others=(Other("onnxruntime 1, off, 1 thread", 20_000.0),))
    found = what_ifs(dataclasses.replace(measured, engine=engine))
    assert (found[-1].what, found[-1].ns, found[-1].kind) == ("onnxruntime 1, off, 1 thread", 20_000, "measured")


def test_what_was_not_measured_has_no_other_ways() -> None:
    assert what_ifs(physical(chain())) == []
    assert "flopwise bench" in as_text(bound_report(physical(chain()), what_if=True))


@pytest.mark.parametrize("format", ["table", "markdown", "latex"])
def test_reports(format: str) -> None:
    text = as_text(bound_report(bound(TIMES, nodes=NODES), what_if=True), format)
    assert "independent nodes at once" in text
    assert "independent nodes at once" not in as_text(bound_report(bound(TIMES, nodes=NODES)), format)


def test_json() -> None:
    found = json.loads(as_text(bound_report(bound(TIMES, nodes=NODES), what_if=True), "json"))
    assert found["what_if"][0] == {"what": "as it is", "ns": 12_000, "kind": "floor"}
