"""Profiles that onnxruntime writes, on the rows of the models that it ran."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

import onnx
from tests.analyses.traces.nets import LEVELS, NETS, cnn, events, looped, quantised, recorded, residual

from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.format import format_of
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Trace
from flopwise.api.profile import profile
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile


def traced(path: Path, counted: Profile | None, step: str | int = "median") -> Trace:
    with Scan(path) as scan:
        format = format_of(scan)
        return trace_of(format.read(scan, counted), "net", format.name, step)


@pytest.mark.parametrize("name", NETS)
def test_every_row_has_its_time_at_every_level(name: str, tmp_path: Path) -> None:
    model = NETS[name]()
    counted = profile(model)
    for level in LEVELS:
        for parallel in (False, True):
            trace = traced(recorded(model, tmp_path, level, parallel), counted)
            assert trace.format == "onnxruntime"
            assert len(trace.steps) == 3
            assert trace.matched == (len(counted.rows), len(counted.rows), 1.0), (level, parallel)
            assert trace.remainder.keys() <= {"layout", "constants", "gaps"}, (level, parallel)
            assert level != "off" or not trace.segments
            assert trace.rows_ns + trace.segments_ns + trace.remainder_ns == trace.covered_ns


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("processor", ["avx2", "avx512"])
def test_blocks_of_channels_are_those_of_any_processor(processor: str, name: str, tmp_path: Path) -> None:
    """Recorded at level all, where processors with AVX2 keep 8 channels in a block, those with AVX-512 16."""
    path, model = tmp_path / "profile.json", NETS[name]()
    with gzip.open(Path(__file__).with_name(f"{processor}.json.gz"), "rt", encoding="utf-8") as file:
        path.write_text(json.dumps(json.load(file)[name]), "utf-8")
    counted = profile(model)
    trace = traced(path, counted)
    assert trace.matched == (len(counted.rows), len(counted.rows), 1.0)
    assert trace.remainder.keys() <= {"layout", "gaps"}


def test_the_sum_is_that_of_the_file(tmp_path: Path) -> None:
    path = recorded(residual(), tmp_path)
    runs = [e for e in events(path) if e["name"] == "model_run"]
    nodes = [e for e in events(path) if e["cat"] == "Node"]
    for number, run in enumerate(runs):
        inside = [e["dur"] for e in nodes if run["ts"] <= e["ts"] < run["ts"] + run["dur"]]
        trace = traced(path, profile(residual()), number)
        assert trace.busy_ns == 1000 * sum(inside)
        assert trace.covered_ns == trace.window_ns == 1000 * run["dur"]
    whole = traced(path, profile(residual()), "all")
    assert whole.covered_ns == 1000 * sum(run["dur"] for run in runs)


def test_the_order_of_events_does_not_matter(tmp_path: Path) -> None:
    path, counted = recorded(residual(), tmp_path), profile(residual())
    before = traced(path, counted)
    path.write_text(json.dumps(sorted(events(path), key=lambda e: (e["ts"], -e["dur"]))), "utf-8")
    assert traced(path, counted) == before


def test_fused_nodes_are_segments_of_what_they_do(tmp_path: Path) -> None:
    trace = traced(recorded(residual(), tmp_path, "all"), profile(residual()))
    assert [segment.layers[-1] for segment in trace.segments] == [f"node_relu_{number}" for number in range(1, 8)]
    assert trace.segments[3].layers == ("node_conv_4", "node_add_1", "node_relu_4")
    assert trace.segments[3].flops == sum(
        r.flops or 0 for r in profile(residual()).rows if r.name in trace.segments[3].layers
    )
    assert [row.name for row in trace.rows if row.status == "matched"] == ["node_globalaveragepool_1"]


def test_a_loop_has_what_its_rounds_leave(tmp_path: Path) -> None:
    path = recorded(looped(), tmp_path, runs=1)
    times: Counter[str] = Counter()
    for event in events(path):
        times[event["name"].removesuffix("_kernel_time")] += event["dur"]
    rows = {row.name: row for row in traced(path, profile(looped())).rows}
    inner = [name for name in rows if name.startswith("node_inner")]
    assert {rows[name].launches for name in inner} == {5}
    assert all(rows[name].time_ns == 1000 * times[name] for name in inner)
    assert rows["node_loop_1"].time_ns == 1000 * (times["node_loop_1"] - sum(times[name] for name in inner))


def test_weights_that_are_sliced_in_each_run_are_constants(tmp_path: Path) -> None:
    trace = traced(recorded(NETS["lstm"](), tmp_path, "off"), profile(NETS["lstm"]()))
    assert trace.remainder["constants"] > 0


@pytest.mark.parametrize("name", ["mobile", "bert", "unet"])
def test_files_of_the_older_exporter(name: str, tmp_path: Path) -> None:
    """PyTorch's exporter by TorchScript calls nodes by module and operator, and writes more of them."""
    torch = pytest.importorskip("torch")
    from tests.analyses.traces.kineto.test_models import CASES

    path = tmp_path / "old.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(CASES[name].model().eval(), (CASES[name].x,), str(path), dynamo=False)
    counted = profile(str(path))
    for level in LEVELS:
        trace = traced(recorded(onnx.load(path), tmp_path, level), counted)
        assert trace.matched.product_time_share == 1.0
        assert trace.matched.rows == trace.matched.of
        assert trace.remainder.keys() <= {"layout", "constants", "gaps"}, level


@pytest.mark.parametrize("name", NETS)
def test_without_names_order_and_sizes_are_left(name: str, tmp_path: Path) -> None:
    model = NETS[name]()
    for node in model.graph.node:
        node.ClearField("name")
    counted = profile(NETS[name]())
    for level in LEVELS:
        trace = traced(recorded(model, tmp_path, level), counted)
        assert trace.matched.product_time_share == 1.0
        assert trace.remainder.keys() <= {"layout", "constants", "gaps"}, level  # of the time, not of products alone


def test_quantised_nodes_are_found_behind_their_conversions(tmp_path: Path) -> None:
    counted = profile(quantised())
    for level in LEVELS:
        trace = traced(recorded(quantised(), tmp_path, level), counted)
        assert trace.matched.product_time_share == 1.0
        assert trace.matched.rows == trace.matched.of
        assert trace.remainder.keys() <= {"layout", "constants", "gaps"}, level


def test_the_trace_alone(tmp_path: Path) -> None:
    trace = traced(recorded(NETS["bert"](), tmp_path, "off"), None)
    counted = profile(NETS["bert"]())
    assert sum(row.flops or 0 for row in trace.rows if "MatMul" in row.op) == sum(
        row.flops or 0 for row in counted.rows if row.node.op == "MatMul"
    )
    assert trace.remainder.keys() <= {"gaps"}
    attention = next(row for row in trace.rows if row.name.startswith("Softmax"))
    assert (attention.name, attention.launches) == ("Softmax 1x4x24x24", 2)
    scores = next(row for row in trace.rows if row.name == "MatMul 1x4x24x16 1x4x16x24")
    assert scores.bytes == 2 * 4 * 4 * 24 * (16 + 16 + 24)  # two factors that no kernel packed, and the result


@pytest.mark.parametrize(
    ("op", "inputs", "result", "macs", "elements"),
    [
        ("Gemm", [[5, 7], [7, 3], [3]], [5, 3], 105, 74),
        ("Gemm", [[7, 5], [7, 3], [3]], [5, 3], 105, 74),  # its left factor is transposed
        ("Gemm", [[5, 7], [3]], [5, 3], 105, 74),  # its right one was packed when the session was made
        ("Gemm", [[7, 5], [3]], [5, 3], 105, 74),
        ("MatMul", [[2, 5, 7]], [2, 5, 3], 210, 121),
        ("MatMul", [[2, 5, 7], [2, 7, 3]], [2, 5, 3], 210, 142),
        ("FusedMatMul", [[2, 5, 7], [2, 3, 7]], [2, 5, 3], 210, 142),
        ("FusedMatMul", [[2, 7, 5], [2, 7, 3]], [2, 5, 3], 210, 142),
        ("Conv", [[1, 3, 9], [4, 3, 3]], [1, 4, 7], 252, 91),
        ("Conv", [[1, 3, 9]], [1, 4, 7], None, None),
        ("LSTM", [[6, 2, 8], [2, 20, 8], [2, 20, 5]], [6, 2, 2, 5], 6 * 2 * 2 * 4 * 5 * (8 + 5), 736),
    ],
)
def test_a_kernel_counts_by_its_shapes(
    op: str, inputs: list[list[int]], result: list[int], macs: int | None, elements: int | None, tmp_path: Path
) -> None:
    """The elements are those that it reads and writes, of 4 bytes each."""
    shapes = {"input_type_shape": [{"float": shape} for shape in inputs], "output_type_shape": [{"float": result}]}
    node = {"cat": "Node", "name": "n_kernel_time", "tid": 1, "ts": 1, "dur": 5, "args": {"op_name": op, **shapes}}
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"cat": "Session", "name": "model_run", "tid": 1, "ts": 0, "dur": 9}, node]), "utf-8")
    with Scan(path) as scan:
        (layer,) = format_of(scan).read(scan, None).layers
    assert (layer.macs, layer.bytes) == (macs, None if elements is None else 4 * elements)


def test_a_norm_in_blocks_of_channels_counts_as_a_norm(tmp_path: Path) -> None:
    """It runs as a convolution of one weight a channel; one of as many channels that has another name is one."""
    shapes = {"input_type_shape": [{"float": [1, 16, 8, 8]}, {"float": [16, 1, 1, 1]}, {"float": [16]}]}
    args = {"op_name": "Conv", **shapes, "output_type_shape": [{"float": [1, 16, 8, 8]}]}
    names = ("a_bn_nchwc_kernel_time", "b_bn_nchwc_token_7_kernel_time", "c_nchwc_kernel_time")
    nodes = [{"cat": "Node", "name": name, "tid": 1, "ts": 1, "dur": 2, "args": args} for name in names]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"cat": "Session", "name": "model_run", "tid": 1, "ts": 0, "dur": 9}, *nodes]), "utf-8")
    norm, conv = traced(path, None).rows
    assert (norm.name, norm.launches, norm.flops) == (
        "BatchNormalization 1x16x8x8 16 16 16 16",
        *(2, 2 * (2 * 1024 + 5 * 16)),
    )
    assert (conv.name, conv.flops) == ("Conv 1x16x8x8 16x1x1x1 16", 3 * 1024)


@pytest.mark.parametrize("name", NETS)
def test_the_trace_of_another_model_is_refused(name: str, tmp_path: Path) -> None:
    path = recorded(NETS[name](), tmp_path, "all")
    for other in NETS.keys() - {name}:
        with pytest.raises(ModelError, match=r"^\S+: the trace is of (another model|other)[^\n]*$") as error:
            traced(path, profile(NETS[other]()))
        share = re.search(r"([\d.]+)% of its matmul", str(error.value))
        assert share is None or float(share[1]) < 5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (cnn(batch=4), "the trace's batch is 1, the model's 4: -b 1"),
        (cnn(size=48), r"the trace is of other input shapes: \S+ has output 1x16x32x32 in the trace, 1x16x48x48 in"),
    ],
)
def test_other_inputs_are_named(tmp_path: Path, model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        traced(recorded(cnn(), tmp_path, "basic"), profile(model))


def test_of_many_runs_some_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(residual(), tmp_path, "off", runs=40)
    monkeypatch.setattr("flopwise.analyses.traces.land.KEPT", 9 * 17)
    trace = traced(path, profile(residual()))
    assert trace.steps == ("run 1", "run 9", "run 17", "run 25", "run 33")
    assert trace.notes == ("too many runs to keep: one in 8 is reported",)


def test_damage_is_one_line(tmp_path: Path) -> None:
    path = recorded(cnn(), tmp_path)
    text, counted = path.read_text("utf-8"), profile(cnn())
    node = next(e for e in events(path) if e["cat"] == "Node")
    run = next(e for e in events(path) if e["name"] == "model_run")
    for content, message in (
        (text[: len(text) // 2], "cut off"),
        (json.dumps([e for e in events(path) if e["cat"] == "Node"]), "it has no model_run"),
        (json.dumps([{**node, "ts": "soon"}]), "event 1 is not onnxruntime's"),
        (json.dumps([{**node, "args": {"op_name": "Conv", "input_type_shape": [[1]]}}]), "event 1 is not onn"),
        (json.dumps([run, run]), "runs overlap"),
        (json.dumps([run]), "its runs have no node events"),
    ):
        path.write_text(content, "utf-8")
        with pytest.raises(ModelError, match=message) as error:
            traced(path, counted)
        assert "\n" not in str(error.value)
