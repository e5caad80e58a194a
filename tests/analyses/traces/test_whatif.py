"""Other ways for a recorded step: floors with times removed, and the same kernels on another device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.traces.floors import what_ifs
from flopwise.report.commands.trace import trace_report
from flopwise.report.report import as_text

RECORDED = Path(__file__).parents[4] / "shared" / "traces"


def recorded(name: str) -> Path:
    path = RECORDED / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("needs recorded traces")
    return path


@pytest.mark.parametrize("model", ["bert_small", "vit_nsfw"])
@pytest.mark.parametrize(("here", "there", "name"), [("h100", "mi300", "mi300x"), ("mi300", "h100", "h100")])
def test_kernels_on_another_device_lie_in_the_range(model: str, here: str, there: str, name: str) -> None:
    """The same model was recorded on both."""
    other = flopwise.trace(None, recorded(f"kineto_{model}_{there}"))
    (way,) = flopwise.trace(None, recorded(f"kineto_{model}_{here}"), tries=[f"device={name}"]).tried
    assert way.kind == "estimate"
    assert way.low_ns is not None
    assert way.high_ns is not None
    assert way.low_ns <= other.busy_ns <= way.high_ns


def test_the_same_device_changes_nothing() -> None:
    (way,) = flopwise.trace(None, recorded("kineto_vit_nsfw_h100"), tries=["device=h100"]).tried
    assert way.ns == way.base_ns


def test_floors_of_a_step() -> None:
    trace = flopwise.trace(None, recorded("kineto_bert_small_h100"))
    ways = {way.what: way for way in what_ifs(trace)}
    assert ways["as it is"].ns == trace.window_ns
    assert ways["without gaps"].ns == trace.wall_ns
    assert all(way.ns <= trace.window_ns and way.base_ns == trace.window_ns for way in ways.values())
    content = json.loads(as_text(trace_report(trace, what_if=True), "json"))
    assert [way["kind"] for way in content["what_if"]] == [way.kind for way in ways.values()]
    assert "what_if" not in json.loads(as_text(trace_report(trace), "json"))


def test_refusals() -> None:
    path = recorded("kineto_cpu_only")
    with pytest.raises(flopwise.InputError, match="give it with --device"):
        flopwise.trace(None, path, tries=["device=h100"])
    with pytest.raises(flopwise.InputError, match="it takes device"):
        flopwise.trace(None, path, tries=["level=all"])
