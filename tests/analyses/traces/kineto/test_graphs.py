"""CUDA graphs: the kernels of a replay on the rows that a capture, or their names, tell."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise.analyses.traces.trace import Trace

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto import recording  # noqa: E402 - without torch there is nothing to record

SHARED = Path(__file__).parents[5] / "shared" / "traces"
SIZES = (4, 3, 64, 64)

Event = dict[str, Any]


def _call(name: str, start: float, number: int, thread: object = 1, **args: object) -> Event:
    args = {"correlation": number, **args}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start,
        "dur": 0,
        "args": args,
    }


def _kernel(name: str, start: int, time: int, number: int, stream: int = 7) -> Event:
    args = {"correlation": number, "device": 0, "stream": stream}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": time, "args": args}


def _started(recorded: Path) -> tuple[list[Event], list[Event]]:
    """The operators of a recorded step, and a call of the driver in each that has no other inside."""
    kept = ("cpu_op", "user_annotation")
    events = [e for e in json.loads(recorded.read_text())["traceEvents"] if e.get("cat") in kept]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    calls: list[Event] = []
    for event in [e for e in events if e["cat"] == "cpu_op"]:
        end = event["ts"] + event["dur"]
        if not any(event is not e and event["ts"] <= e["ts"] < end and e["tid"] == event["tid"] for e in events):
            number = len(calls) + 100
            name = f"k{number % 5}"
            call = _call("hipLaunchKernel", event["ts"], number, event["tid"], kernel=name)
            calls.append({**call, "pid": event["pid"]})
    return events, calls


def _write(path: Path, events: list[Event]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def _times(trace: Trace) -> Counter[tuple[object, str]]:
    times: Counter[tuple[object, str]] = Counter()
    for row in trace.rows:
        times[row.name, row.phase] += row.time_ns or 0
    for segment in trace.segments:
        times[segment.layers, segment.phase] += segment.time_ns
    times.update({(name, ""): time for name, time in trace.remainder.items() if name != "gaps"})
    return +times


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("trains", [True, False])
def test_a_replay_has_the_times_of_the_operators_that_were_captured(trains: bool, named: bool, tmp_path: Path) -> None:
    """The same kernels, started by their operators and by a graph: every row has the same time."""
    model, x = recording.Net().train(trains), torch.randn(SIZES)
    step = recording.training(model, x) if trains else recording.inference(model, x)
    for _ in range(2):
        step()
    recorded = recording.record(tmp_path / "r.json", step, steps=1)
    operators, calls = _started(recorded)
    if not named:
        calls = [{**call, "args": {"correlation": call["args"]["correlation"]}} for call in calls]
    at = int(max(e["ts"] + e["dur"] for e in operators)) + 10
    names = [f"k{n % 5}" for n in range(len(calls))]

    def kernels(start: int, graph: int | None) -> list[Event]:
        return [
            _kernel(name, start + 1000 * n, n + 1, call["args"]["correlation"] if graph is None else graph)
            for n, (name, call) in enumerate(zip(names, calls, strict=True))
        ]

    eager = _write(tmp_path / "eager.json", [*operators, *calls, *kernels(at, None)])
    marks = [_call("hipStreamBeginCapture", operators[0]["ts"] - 1, 1), _call("hipStreamEndCapture", at, 2)]
    capture = _write(tmp_path / "capture.json", [*operators, *calls, *marks])
    replays = [e for n in range(3) for e in (_call("hipGraphLaunch", n, 5 + n), *kernels(10 + 10**6 * n, 5 + n))]
    replay = _write(tmp_path / "replay.json", replays)
    profile = flopwise.profile(model, SIZES, train=trains)
    expected = _times(flopwise.trace(profile, eager, step="all"))
    trace = flopwise.trace(profile, replay, beside=capture, step=0)
    assert _times(trace) == expected
    assert len(trace.steps) == 3
    assert trace.matched == (11, 11, 1.0)
    assert {row.phase for row in trace.rows} == ({"forward", "backward"} if trains else {"forward"})
    other = _write(tmp_path / "other.json", [*replays, _kernel("one more", 10**8, 1, 5)])
    assert "captured in --beside has exactly these" in " ".join(flopwise.trace(None, other, beside=capture).notes)


class Fork(torch.nn.Module):  # type: ignore[misc,name-defined] # torch may be absent
    """Two branches that run on streams of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(3, 8, 5, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x).relu() + self.other(x).relu()


@pytest.mark.parametrize("named", [True, False])
def test_a_graph_of_two_streams(named: bool, tmp_path: Path) -> None:
    """Figures by hand. The second branch is through first: of kernels of one name a stream's are in its own order.

    Where calls do not name their kernels, as on CUDA, nobody can say which of two streams comes first.
    """
    shapes = {"aten::conv2d": [[2, 3, 8, 8], [8, 3, 3, 3], [8]], "aten::relu": [[2, 8, 8, 8]]}
    wide = [[2, 3, 8, 8], [8, 3, 5, 5], [8]]
    ran = [
        ("aten::conv2d", shapes["aten::conv2d"], "conv"),
        ("aten::relu", shapes["aten::relu"], "relu"),
        ("aten::conv2d", wide, "conv"),
        ("aten::relu", shapes["aten::relu"], "relu"),
        ("aten::add", [[2, 8, 8, 8]] * 2, "add"),
    ]
    captured: list[Event] = []
    for number, (name, dims, kernel) in enumerate(ran):
        operator = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10 * number, "dur": 9}
        values = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"] if name == "aten::conv2d" else [""] * len(dims)
        dims = dims + [[]] * (len(values) - len(dims))
        types = ["float" if size else "Scalar" for size in dims]
        operator["args"] = {"Input Dims": dims, "Concrete Inputs": values, "Input type": types}
        call = _call("hipLaunchKernel", 10 * number + 1, 100 + number, **({"kernel": kernel} if named else {}))
        captured += [operator, call]
    marks = [_call("hipStreamBeginCapture", -1, 1), _call("hipStreamEndCapture", 60, 2)]
    capture = _write(tmp_path / "capture.json", [*captured, *marks])
    replays = []
    for number, start in enumerate((0, 1000)):
        stream, kernels = (7, 20), []
        for name, lane, first, last in (
            ("conv", 0, 100, 160),
            ("conv", 1, 110, 140),
            ("relu", 1, 140, 155),
            ("relu", 0, 160, 170),
            ("add", 0, 170, 175),
        ):
            kernels.append(_kernel(name, start + first, last - first, 5 + number, stream[lane]))
        replays += [_call("hipGraphLaunch", start, 5 + number), *kernels]
    replay = _write(tmp_path / "replay.json", replays)
    model = (Fork().eval(), (2, 3, 8, 8)) if named else (None, None)
    trace = flopwise.trace(model[0], replay, model[1], beside=capture, step=0)
    assert (trace.busy_ns, trace.wall_ns, trace.window_ns) == (120_000, 75_000, 1_000_000)
    assert trace.covered_ns == 120_000 + 925_000
    assert {moment.lane for moment in trace.timeline} == {"device 0, stream 7", "device 0, stream 20"}
    if named:
        times = {row.name: row.time_ns for row in trace.rows}
        assert times == {"one": 60_000, "relu": 10_000, "other": 30_000, "relu:2": 15_000, "add": 5_000}
        assert trace.remainder == {"gaps": 925_000}
    else:
        assert {row.name: row.time_ns for row in trace.rows} == {"conv": 90_000, "relu": 25_000, "add": 5_000}
        assert "captured in --beside has exactly these" in " ".join(trace.notes)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded traces")
def test_a_served_language_model_whose_kernels_have_names_alone(tmp_path: Path) -> None:
    """vLLM's step of gpt-oss-20b on an MI300X, recorded by others: 421 kernels in one graph."""
    pytest.importorskip("transformers")
    path = SHARED / "kineto_vllm_decode_graph.json.gz"
    assert set(flopwise.trace(None, path).remainder) == {"gaps"}
    config = {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "vocab_size": 201088,
        "sliding_window": 128,
        "torch_dtype": "bfloat16",
        "attention_bias": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    trace = flopwise.trace(str(tmp_path), path, past=1721, new=1, batch_size=32)
    assert trace.matched.product_time_share == 1.0
    kinds = Counter(row.op for row in trace.rows if row.status == "matched")
    assert (kinds["aten::_grouped_mm"], kinds["Gemm"]) == (48, 49)  # o_proj, router, logits; q, k and v are a segment
    assert sum(len(s.layers) == 3 and s.name.endswith("q_proj+2") for s in trace.segments) == 24
    assert sum(any(layer.endswith(".matmul") for layer in s.layers) for s in trace.segments) == 24
    assert (trace.rows_ns + trace.segments_ns) / trace.busy_ns > 0.9
    assert trace.remainder["CUDA graphs"] < 0.1 * trace.busy_ns


def test_a_vision_transformer_whose_kernels_have_names_alone() -> None:
    """Three steps of torchvision's ViT-B/16, compiled into one graph on an H100; the first runs behind the profiler."""
    from tests.torch_vision import torchvision

    model = torchvision.models.vit_b_16(weights=None).eval()
    trace = flopwise.trace(model, Path(__file__).with_name("graphs.json.gz"), "16x3x224x224", step="all")
    products = [row for row in trace.rows if row.op in ("Conv", "Gemm", "MatMul", "Attention")]
    assert Counter(row.op for row in products if row.launches == 3) == {"Conv": 1, "Gemm": 49, "Attention": 12}
    assert all((row.time_ns or 0) > (row.floor_ns or 0) > 0 for row in products)
    assert (trace.rows_ns + trace.segments_ns) / trace.busy_ns > 0.98
    assert any("174 kernels launched before the recording began" in note for note in trace.notes)


class Pair(torch.nn.Module):  # type: ignore[misc,name-defined] # torch may be absent
    """Two products."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.one(x).relu())


@pytest.mark.parametrize("more", [0, 1])
def test_products_are_on_rows_where_there_are_as_many(more: int, tmp_path: Path) -> None:
    """One product more than the model has, and each kernel may be any of them; the parts of one are added up."""
    ran = ["sm90_gemm_a", "cublasLt::splitKreduce_kernel", "triton_poi_fused_addmm_relu_0", "sm90_gemm_b"]
    ran += ["sm90_gemm_c"] * more
    events = []
    for number in (0, 1):
        events.append(_call("cudaGraphLaunch", 1000 * number, number))
        events += [_kernel(name, 1000 * number + 10 + 20 * n, 5 + n, number) for n, name in enumerate(ran)]
    path = _write(tmp_path / "t.json", events)
    if more:
        with pytest.raises(flopwise.ModelError, match="name other products than Pair has: give a trace of their capt"):
            flopwise.trace(Pair(), path, (2, 8), step=0)
        return
    trace = flopwise.trace(Pair(), path, (2, 8), step=0)
    assert {row.name: row.time_ns for row in trace.rows} == {"one": 11_000, "relu": 7_000, "other": 8_000}
    assert set(trace.remainder) == {"gaps"}
