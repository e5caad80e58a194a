"""A recorded step for Perfetto: every event once, under the name of its layer, on the track of its thread."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import flopwise
from flopwise.report.commands.trace import trace_report
from flopwise.report.report import as_text

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_events_carry_their_layers() -> None:
    trace = flopwise.trace(
        f"{EXAMPLES}/classifier.py:Classifier", EXAMPLES / "classifier_trace.json.gz", (16, 3, 32, 32)
    )
    content = json.loads(as_text(trace_report(trace), "perfetto"))
    events = [event for event in content["traceEvents"] if event["ph"] == "X"]
    tracks = {event["tid"] for event in content["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in events} == tracks
    assert min(event["ts"] for event in events) == 0
    times: Counter[tuple[str, str]] = Counter()
    for event in events:
        times[event["name"], event["args"].get("phase", "")] += round(1000 * event["dur"])
    assert {row.name: row.time_ns for row in trace.rows if row.phase == "forward"} == {
        name: time for (name, phase), time in times.items() if phase == "forward"
    }
    flops = {event["name"]: event["args"]["FLOPs of the layer"] for event in events if event["cat"] == "backward"}
    assert flops == {row.name: row.flops for row in trace.rows if row.phase == "backward"}
    assert {name for name, phase in times if not phase} == set(trace.remainder) - {"gaps"}
