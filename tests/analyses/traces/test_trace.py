"""A trace's parts add up, whatever landed where."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.traces.assembly import split_by_macs, trace_of
from flopwise.analyses.traces.land import Landing, Place, Step, Work, land
from flopwise.analyses.traces.trace import Layer, Matched, Recording
from flopwise.report.commands.trace import trace_report
from flopwise.report.report import as_text

LAYERS = tuple(Layer(f"layer{n}", "Conv", 10 * n, 4 * n, 20 * n) for n in range(5))
PLACES = (
    *(Place((n,), phase) for n in range(4) for phase in ("forward", "backward")),
    Place((1, 2, 3)),
    Place((2, 3), "backward", "attention"),
    Place(name="copies"),
    Place(name="optimiser"),
)


def _landing(rng: random.Random, name: str) -> Landing:
    starts = [rng.randrange(90) for _ in range(20)]
    works = [
        Work(rng.choice(PLACES), f"stream {rng.randrange(3)}", start, start + rng.randrange(30)) for start in starts
    ]
    return land(Step(name, 0, 100, works))


@pytest.mark.parametrize("step", ["median", "all", "0", 4, "second"])
@pytest.mark.parametrize("phase", [None, "forward", "backward"])
def test_parts_add_up(step: str | int, phase: str | None) -> None:
    rng = random.Random(2)
    for _ in range(50):
        landings = [_landing(rng, name) for name in ("first", "second", "third", "fourth", "fifth")]
        trace = trace_of(Recording("", LAYERS, tuple(landings), Matched()), "m", "kineto", step, phase)
        said = trace.to_dict()
        totals, remainder = said["totals"], said["remainder"]
        parts = totals["rows_ns"] + totals["segments_ns"] + totals["remainder_ns"]
        assert parts == totals["covered_ns"] == totals["busy_ns"] + remainder.get("gaps", 0)
        assert (
            said["trace"]["window_ns"]
            == totals["wall_ns"] + remainder.get("gaps", 0)
            == (500 if step == "all" else 100)
        )
        assert {row["phase"] for row in said["rows"]} <= ({"forward", "backward"} if phase is None else {phase})
        assert totals["rows_ns"] == sum(row["time_ns"] or 0 for row in said["rows"])


def test_what_does_not_add_up_is_no_trace() -> None:
    whole = land(Step("", 0, 10, [Work(Place((0,)), "", 0, 4)]))
    lost = Landing("", {}, {}, {}, whole.busy_ns, whole.wall_ns, 10)
    with pytest.raises(ValueError, match="add up to 6 ns, and it covers 10 ns"):
        trace_of(Recording("", LAYERS, (lost,), Matched()), "", "kineto")


def test_each_event_has_the_arithmetic_of_what_it_landed_on() -> None:
    """Of one layer, of a segment, of what no layer does, and of a layer of which nobody knows it."""
    layers = (*LAYERS, Layer("mystery", "Own"))
    places = (Place((3,)), Place((3,), "backward"), Place((2, 3)), Place((3, 5)), Place(name="copies"))
    works = [Work(place, "stream 1", 2 * n, 2 * n + 1, name=f"k{n}") for n, place in enumerate(places)]
    works.append(Work(Place((4,)), "", 0, 0, 0))  # a layer that was passed over
    trace = trace_of(Recording("", layers, (land(Step("s", 0, 20, works)),), Matched()), "m", "kineto")
    assert [(each.where, each.phase, each.kernel, each.flops, each.layer) for each in trace.timeline] == [
        ("layer3", "forward", "k0", 30, 3),
        ("layer3", "backward", "k1", 60, 3),
        ("layer2+1", "forward", "k2", 50, None),
        ("layer3+1", "forward", "k3", None, None),
        ("copies", "", "k4", None, None),
    ]


def test_the_spread_of_a_layer_is_that_of_its_steps() -> None:
    """Half of the range of the middle half, 12.5 to 37.5 of 10, 20, 30 and 40: a half of the median."""
    steps = [land(Step(f"s{n}", 0, 100, [Work(Place((1,)), "stream 1", 0, 10 * n)])) for n in (3, 1, 4, 2)]
    trace = trace_of(Recording("", LAYERS, tuple(steps), Matched()), "m", "kineto")
    (line,) = [
        each for each in csv.DictReader(as_text(trace_report(trace), "csv").splitlines()) if each["name"] == "layer1"
    ]
    assert (float(line["median"]), float(line["spread"])) == (0.025, 50)


def test_a_segment_holds_the_time_of_its_layers() -> None:
    works = [
        Work(Place((0,)), "", 0, 4),
        Work(Place((1, 2)), "", 4, 10, launches=2),
        Work(Place(name="copies"), "", 12, 13),
    ]
    trace = trace_of(Recording("CPU", LAYERS, (land(Step("s", 0, 20, works)),), Matched(3, 5, 1.0)), "m", "kineto")
    assert [(row.status, row.time_ns) for row in trace.rows] == [
        *(("matched", 4), ("segment", None), ("segment", None), ("absent", 0), ("absent", 0))
    ]
    (segment,) = trace.segments
    assert (segment.name, segment.time_ns, segment.launches, segment.flops) == ("layer1+1", 6, 2, 30)
    assert trace.remainder == {"gaps": 9, "copies": 1}
    assert segment.flops_per_second == 5e9


def test_segments_divided_by_multiply_adds_lose_nothing() -> None:
    layers = tuple(Layer(f"layer{n}", "Conv", 2 * macs, macs=macs) for n, macs in enumerate((7, 0, 3, 3, 0)))
    works = [
        Work(Place((0,)), "", 0, 4),
        Work(Place((1, 2, 3)), "", 4, 15, launches=2, name="fused"),
        Work(Place((1, 4)), "", 15, 17),
    ]
    recording = Recording("", layers, (land(Step("s", 0, 20, works)),), Matched(5, 5, 1.0))
    trace = trace_of(split_by_macs(recording), "m", "kineto")
    assert [(row.status, row.time_ns, row.launches) for row in trace.rows] == [
        *(("matched", 4, 1), ("estimate", 0, 0), ("estimate", 5, 2), ("estimate", 6, 0), ("segment", None, 0))
    ]
    assert [(one.layers, one.time_ns) for one in trace.segments] == [(("layer1", "layer4"), 2)]
    assert trace.kernels["layer3", "forward", "fused"] == 6
    assert trace.to_dict()["trace"]["split"] == "macs"
    assert trace_of(recording, "m", "kineto").split == ""


def test_unknown_steps_and_phases_are_one_line() -> None:
    recording = Recording("", LAYERS, (land(Step("ProfilerStep#3", 0, 10, [])),), Matched())
    with pytest.raises(flopwise.InputError, match="no step 'ProfilerStep#4'; did you mean 'ProfilerStep#3'"):
        trace_of(recording, "", "kineto", "ProfilerStep#4")
    with pytest.raises(flopwise.InputError, match="no step 7"):
        trace_of(recording, "", "kineto", 7)
    with pytest.raises(flopwise.InputError, match="unknown phase 'optimiser'"):
        trace_of(recording, "", "kineto", phase="optimiser")
    for nothing in (recording, Recording("", (), (), Matched())):
        with pytest.raises(flopwise.ModelError, match="the trace: no step has any work in it: none of its"):
            trace_of(nothing, "", "kineto")


def test_no_engine_is_imported_to_read_a_trace(tmp_path: Path) -> None:
    """Nor NumPy, whose memory is a third of what a large file may take."""
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 0, "dur": 5}]}')
    code = (
        "import sys, flopwise; flopwise.trace(None, sys.argv[1]); "
        "sys.exit(', '.join({'numpy', 'onnx', 'onnxruntime', 'torch'} & sys.modules.keys()) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
