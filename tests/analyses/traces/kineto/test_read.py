"""PyTorch's profiles on rows, recorded here on the CPU."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise._results import Json
from flopwise.analyses.traces.kineto.events import records_of
from flopwise.analyses.traces.kineto.read import read
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Trace

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto import recording  # noqa: E402 - without torch there is nothing to record
from tests.analyses.traces.kineto.recording import read_trace  # noqa: E402

SHARED = Path(__file__).parents[5] / "shared" / "traces"
sample = pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded traces")


def test_inference_lands_on_every_row(tmp_path: Path) -> None:
    model, x = recording.Net().eval(), torch.randn(4, 3, 64, 64)
    profile = flopwise.profile(model, (4, 3, 64, 64))
    for marks in (True, False):
        trace = read_trace(recording.record(tmp_path / "t.json", recording.inference(model, x), marks=marks), profile)
        assert len(trace.steps) == 4
        assert trace.matched == (len(profile.rows), len(profile.rows), 1.0)
        assert {row.status for row in trace.rows} == {"matched"}
        assert {row.launches for row in trace.rows} == {1}
        assert trace.rows_ns == trace.busy_ns
        assert [row.flops for row in trace.rows] == [row.flops for row in profile.rows]


def test_training_lands_forward_and_backward(tmp_path: Path) -> None:
    model, x = recording.Net(), torch.randn(4, 3, 64, 64)
    profile = flopwise.profile(model, (4, 3, 64, 64), train=True)
    for marks in (True, False):
        path = recording.record(tmp_path / "t.json", recording.training(model, x), marks=marks)
        trace = read_trace(path, profile, "all")
        backward = [row for row in trace.rows if row.phase == "backward"]
        assert {row.status for row in trace.rows} == {"matched"}
        assert [row.flops for row in backward] == [len(trace.steps) * (row.backward_flops or 0) for row in profile.rows]
        assert all(row.launches for row in backward)
        parts = {"optimiser", "loss", "accumulate gradients", "gaps"}
        assert set(trace.remainder) == parts


def test_fused_encoder_layers_are_segments_of_their_rows(tmp_path: Path) -> None:
    model = recording.encoder().eval()
    path = recording.record(tmp_path / "t.json", recording.inference(model, torch.randn(2, 17, 64)))
    profile = flopwise.profile(model, (2, 17, 64))
    trace = read_trace(path, profile)
    assert trace.segments_ns == trace.busy_ns
    assert [{name.split(".")[1] for name in segment.layers} for segment in trace.segments] == [{"0"}, {"1"}]
    assert sum(len(segment.layers) for segment in trace.segments) == len(profile.rows)
    assert sum(segment.flops or 0 for segment in trace.segments) == profile.total("flops")


def test_without_a_model_operators_count_themselves(tmp_path: Path) -> None:
    model, x = recording.Net().eval(), torch.randn(4, 3, 64, 64)
    trace = read_trace(recording.record(tmp_path / "t.json", recording.inference(model, x)), None)
    profile = flopwise.profile(model, (4, 3, 64, 64))
    seen: Counter[str] = Counter()
    for row in trace.rows:
        assert row.flops is not None, row.name
        seen[row.op.removeprefix("aten::").rstrip("_")] += row.flops
    counted: Counter[str] = Counter()
    for each in profile.rows:
        counted[each.node.origin.split(".")[1].rstrip("_")] += each.flops or 0
    assert +seen == +counted


def test_traces_of_other_sizes_and_models_are_refused(tmp_path: Path) -> None:
    model, x = recording.Net().eval(), torch.randn(4, 3, 64, 64)
    path = recording.record(tmp_path / "t.json", recording.inference(model, x))
    with pytest.raises(flopwise.ModelError, match="the trace's batch is 4, the model's 2: -b 4"):
        read_trace(path, flopwise.profile(model, (2, 3, 64, 64)))
    with pytest.raises(flopwise.ModelError, match="other input sizes: 4x3x64x64 where the model has 4x3x32x32"):
        read_trace(path, flopwise.profile(model, (4, 3, 32, 32)))
    with pytest.raises(flopwise.ModelError, match="the trace is of another model: none of its matmul"):
        read_trace(path, flopwise.profile(recording.encoder(), (2, 17, 64)))
    bare = recording.record(tmp_path / "bare.json", recording.inference(model, x), shapes=False)
    with pytest.raises(flopwise.ModelError, match="no shapes were recorded: profile with record_shapes=True"):
        read_trace(bare, flopwise.profile(model, (4, 3, 64, 64)))
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"traceEvents": [{"ph": "M", "ts": 0, "name": "process_name"}]}))
    with pytest.raises(flopwise.ModelError, match="recorded: it is no trace of PyTorch's profiler"):
        read_trace(empty, None)
    empty.write_text(json.dumps({"schemaVersion": 1, "traceEvents": []}))
    with pytest.raises(
        flopwise.ModelError, match="no operators were recorded: export in the profiler's on_trace_ready"
    ):
        read_trace(empty, None)
    with pytest.raises(flopwise.ModelError, match="recorded: kernels alone; profile with Profiler"):
        _recorded(empty, _event("kernel", "gemm", 0, 5))


#: How the files of a year say what those of 2026 say: category, key of the shapes, other keys, first microsecond.
SCHEMAS = {
    2021: ("Operator", "Input dims", (), 1_623_143_089_000_000),
    2022: ("cpu_op", "Input Dims", ("Input type",), 1_655_143_089_000_000),
    2024: ("cpu_op", "Input Dims", ("Input type", "Concrete Inputs"), 0),
}


@pytest.mark.parametrize("year", SCHEMAS)
def test_files_of_each_year_say_the_same(year: int, tmp_path: Path) -> None:
    """A training recorded today, written as profilers did before; its nanoseconds are microseconds then."""
    model, x = recording.Net(), torch.randn(4, 3, 64, 64)
    profile = flopwise.profile(model, (4, 3, 64, 64), train=True)
    path = recording.record(tmp_path / "t.json", recording.training(model, x), steps=2)
    content = json.loads(path.read_text())
    category, key, more, first = SCHEMAS[year]
    events = []
    for event in content["traceEvents"]:
        if event.get("ph") == "X" and event["cat"] in ("cpu_op", "user_annotation"):
            start, end = (round(1000 * time) for time in (event["ts"], event["ts"] + event["dur"]))
            args = event["args"]
            event |= {"ts": start, "dur": end - start}
            old = {key: args.get("Input Dims", []), **{name: args[name] for name in more if name in args}}
            old |= {"Sequence number": args["Sequence number"]} if "Sequence number" in args else {}
            kept = category if year == 2021 else category if event["cat"] == "cpu_op" else event["cat"]
            events.append({**event, "ts": start + first, "cat": kept, "args": old})
        else:
            event |= {name: round(1000 * event[name]) for name in ("ts", "dur") if name in event}
    path.write_text(json.dumps(content))
    now = read_trace(path, profile, "all")
    path.write_text(json.dumps({"traceEvents": events}))
    then = read_trace(path, profile, "all")
    assert now.matched == then.matched == (11, 11, 1.0)
    assert then.rows == now.rows
    assert then.remainder == now.remainder


def test_what_runs_behind_the_backward_pass_is_the_optimisers(tmp_path: Path) -> None:
    """An average of the weights by products and sums, without an optimiser's mark around it."""
    model, x = recording.Net(), torch.randn(4, 3, 64, 64)

    def step() -> None:
        model(x).sum().backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(0.999).add_(0.001)

    path = recording.record(tmp_path / "t.json", step, steps=2)
    trace = read_trace(path, flopwise.profile(model, (4, 3, 64, 64), train=True))
    assert trace.matched[2] == 1
    assert trace.remainder["optimiser"] > 0
    assert "unmatched" not in trace.remainder


def test_a_part_of_a_model_is_told_from_a_smaller_model(tmp_path: Path) -> None:
    """Blocks that are all alike: of a trace with fewer of them all time is on rows, and the others were passed over."""

    def net(blocks: int) -> torch.nn.Sequential:
        convs = [torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(blocks)]
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 1), *convs, torch.nn.Flatten(), torch.nn.Linear(2048, 5)
        ).eval()

    x, large = torch.randn(2, 3, 16, 16), net(6)
    path = recording.record(tmp_path / "t.json", recording.inference(net(3), x))
    with pytest.raises(flopwise.ModelError, match=r"another model: .* between layers that ran, have no time: 49\.1%"):
        read_trace(path, flopwise.profile(large, x))
    part = recording.record(tmp_path / "part.json", recording.inference(large[:4], x))
    (note,) = read_trace(part, flopwise.profile(large, x)).notes
    assert "in layers without time in the trace" in note


Event = dict[str, Any]


def _event(kind: str, name: str, start: int, end: int, lane: int = 1, **args: Any) -> Event:
    times = {"ts": start, "dur": end - start}
    return {"ph": "X", "cat": kind, "name": name, "pid": lane, "tid": lane, **times, "args": args}


def _recorded(path: Path, *events: Event) -> Trace:
    path.write_text(json.dumps({"traceEvents": events}))
    return read_trace(path, None, "all")


def test_steps_that_several_processes_mark_are_not_added(tmp_path: Path) -> None:
    """One trace of two processes: the steps are those of the busier one, the other's time has a name."""
    events = [
        event
        for lane, time in ((1, 20), (2, 30))
        for start in (0, 100)
        for event in (
            _event("user_annotation", f"ProfilerStep#{start}", start + lane, start + 90, lane),
            _event("cpu_op", "aten::relu", start + 10, start + 10 + time, lane, **{"Input Dims": [[8]]}),
        )
    ]
    trace = _recorded(tmp_path / "t.json", *events)
    assert (len(trace.steps), trace.rows_ns, trace.remainder["other threads"]) == (2, 60_000, 40_000)
    assert trace.notes == ("2 threads mark steps: those of 2/2, the busiest one, are reported",)


def test_kernels_of_calls_outside_operators_have_their_time(tmp_path: Path) -> None:
    """Before the first operator and behind the last one a program may start kernels itself, or a graph of them."""
    kernels = [_event("kernel", f"k{n}", 100 + 10 * n, 106 + 10 * n, 9, correlation=n) for n in range(4)]
    trace = _recorded(
        tmp_path / "t.json",
        _event("cuda_runtime", "cudaLaunchKernel", 5, 6, correlation=0),
        _event("cpu_op", "aten::relu", 10, 20, **{"Input Dims": [[8]]}),
        _event("cuda_runtime", "cudaLaunchKernel", 12, 13, correlation=1),
        _event("cuda_runtime", "cudaGraphLaunch", 30, 31, correlation=2),
        *kernels,
    )
    assert (trace.busy_ns, trace.rows_ns) == (24_000, 12_000)
    assert trace.remainder == {"gaps": 107_000, "unmatched": 12_000}
    assert [(row.name, row.time_ns) for row in trace.rows] == [("relu 8", 6_000), ("k2", 6_000)]
    assert "1 kernel of CUDA graphs matched by name only" in trace.notes[1]


@pytest.mark.parametrize(
    ("around", "category", "kernel", "name"),
    [
        ("Optimizer.step#SGD.step", "kernel", "multi_tensor_apply", "optimiser"),
        ("Optimizer.step#SGD.step", "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        ("Optimizer.step#SGD.step", "gpu_memcpy", "Memcpy HtoD", "copies"),
        ("enumerate(DataLoader)#_SingleProcess.__next__", "kernel", "fill", "data loading"),
        ("enumerate(DataLoader)#_SingleProcess.__next__", "gpu_memset", "Memset", "copies"),
        ("## Call CompiledFxGraph abc ##", "kernel", "triton_red_fused_0", "compiled kernels"),
        ("[pl][profile]run_training_batch", "kernel", "fill", "unmatched"),
    ],
)
def test_a_kernel_under_an_annotation_alone_is_named_by_either(
    around: str, category: str, kernel: str, name: str, tmp_path: Path
) -> None:
    trace = _recorded(
        tmp_path / "t.json",
        _event("cpu_op", "aten::relu", 0, 5, **{"Input Dims": [[8]]}),
        _event("user_annotation", around, 10, 20),
        _event("cuda_runtime", "cudaLaunchKernel", 12, 13, correlation=1),
        _event(category, kernel, 30, 36, 9, correlation=1),
    )
    assert trace.remainder == {"gaps": 30_000, name: 6_000}


def test_kernels_that_were_launched_before_the_recording_are_of_no_step(tmp_path: Path) -> None:
    """The step before the first one is still running on the device: the first step begins where it ends."""
    launches = [_event("cuda_runtime", "cudaLaunchKernel", 12 + 20 * n, 13 + 20 * n, correlation=7 + n) for n in (0, 1)]
    trace = _recorded(
        tmp_path / "t.json",
        _event("user_annotation", "ProfilerStep#1", 10, 30),
        _event("user_annotation", "ProfilerStep#2", 30, 50),
        *[_event("cpu_op", "aten::relu", start, start + 9, **{"Input Dims": [[8]]}) for start in (11, 31)],
        *launches,
        *[_event("kernel", "k", 9 + 20 * n, 29 + 20 * n, 9, correlation=n + 5) for n in range(4)],
    )
    assert (trace.rows_ns, trace.busy_ns, trace.remainder) == (40_000, 40_000, {})
    assert "50.0 % of kernel time is outside the reported steps: 2 kernels launched before the recording began" in (
        trace.notes
    )


def test_floors_under_autocast_are_those_of_the_type_that_is_computed(tmp_path: Path) -> None:
    model, x = recording.Net().eval(), torch.randn(2, 3, 32, 32)
    cast = torch.autocast("cpu", torch.bfloat16)(model.forward)
    path = recording.record(tmp_path / "t.json", recording.inference(cast, x))
    trace = flopwise.trace(model, path, x, device="h100")
    assert any("the floor assumes bfloat16" in note for note in trace.notes)


@pytest.mark.parametrize("processor", ["avx2", "avx512"])
def test_a_convolution_that_a_processor_computes_in_parts_is_of_their_type(processor: str) -> None:
    """Without bfloat16 in hardware each group is a product of its own, and what was made is joined last."""
    path = Path(__file__).with_name(f"{processor}.json.gz")
    trace = flopwise.trace(recording.Net().eval(), path, (2, 3, 32, 32), device="h100")
    assert trace.matched == (11, 11, 1.0)
    assert any("the floor assumes bfloat16" in note for note in trace.notes)


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.LSTM(64, 32, batch_first=True),
        recording.encoder(),
        torch.nn.Sequential(torch.nn.Conv1d(17, 34, 3, groups=17), torch.nn.ConvTranspose1d(34, 8, 3, groups=2)),
    ],
    ids=["recurrent", "fused encoder", "grouped"],
)
def test_the_type_of_a_product_is_that_of_the_last_one_inside_it(model: torch.nn.Module, tmp_path: Path) -> None:
    x = torch.randn(2, 17, 64)
    cast = torch.autocast("cpu", torch.bfloat16)(model.eval().forward)
    try:
        path = recording.record(tmp_path / "t.json", recording.inference(cast, x))
    except RuntimeError as error:
        pytest.skip(f"this processor has no such kernel: {error}")
    with Scan(path) as scan:
        assert read(scan, flopwise.profile(model, x)).dtype == "bfloat16"


def test_what_runs_on_into_a_step_has_its_time(tmp_path: Path) -> None:
    trace = _recorded(
        tmp_path / "t.json",
        _event("cpu_op", "aten::relu", 0, 30, 2, **{"Input Dims": [[8]]}),
        _event("user_annotation", "ProfilerStep#1", 10, 90),
        _event("cpu_op", "aten::relu", 20, 60, **{"Input Dims": [[8]]}),
    )
    assert (trace.rows_ns, trace.busy_ns, trace.wall_ns) == (40_000, 60_000, 50_000)
    assert trace.remainder == {"gaps": 30_000, "other threads": 20_000}


def test_properties_of_devices_that_are_nonsense_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    events = [
        _event("cpu_op", "aten::relu", 0, 30, **{"Input Dims": [[8]]}),
        _event("cuda_runtime", "cudaLaunchKernel", 5, 6, correlation=0),
        _event("kernel", "k", 10, 20, 9, correlation=0),
    ]
    for properties in (5, [None], [{"id": 0, "name": 5, "totalGlobalMem": "much"}], [{"name": ["x"]}]):
        path.write_text(json.dumps({"traceEvents": events, "deviceProperties": properties}))
        assert flopwise.trace(None, path).rows_ns == 10_000
        with Scan(path) as scan:
            assert read(scan, None).memory_bytes == 0


@pytest.mark.parametrize("dims", [[[1.5]], [["a"]], [[[[1]]]], [3], 3])
def test_shapes_of_nonsense_are_one_line(tmp_path: Path, dims: object) -> None:
    event = _event("cpu_op", "aten::relu", 0, 30, **{"Input Dims": dims, "Sequence number": [1]})
    with pytest.raises(flopwise.ModelError, match=r"damaged: event 1 \('aten::relu'\)"):
        _recorded(tmp_path / "t.json", event)


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a training, whose backward passes a profile of the forward pass alone does not count."""
    model, x = recording.Net(), torch.randn(4, 3, 64, 64)
    path = recording.record(tmp_path / "t.json", recording.training(model, x))
    passes: list[Scan] = []
    events = Scan.events

    def noted(scan: Scan) -> Iterator[Json]:
        passes.append(scan)
        return events(scan)

    monkeypatch.setattr(Scan, "events", noted)
    trace = flopwise.trace(model, path, (4, 3, 64, 64))
    assert len(passes) == 1
    assert all(row.flops for row in trace.rows if row.phase == "backward" and row.op == "Conv")


def test_of_many_steps_some_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.analyses.traces.land.KEPT", 5)
    events = [
        event
        for step in range(17)
        for event in (
            _event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 90),
            _event("cpu_op", "aten::relu", 100 * step + 1, 100 * step + 2 + step, **{"Input Dims": [[8]]}),
        )
    ]
    trace = _recorded(tmp_path / "t.json", *reversed(events))
    assert trace.steps == ("ProfilerStep#0", "ProfilerStep#4", "ProfilerStep#8", "ProfilerStep#12", "ProfilerStep#16")
    assert trace.rows_ns == 1000 * (1 + 5 + 9 + 13 + 17)
    assert trace.notes == ("too many steps to keep: one in 4 is reported",)


@pytest.mark.parametrize("order", ["as Kineto's", "marks last", "kernels first"])
def test_a_large_trace_is_folded_and_no_kept_step_changes(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's kernels run on into the next one, and a thread of another process is at work beside them."""
    marks, operators, kernels = [], [], []
    for step in range(64):
        marks.append(_event("user_annotation", f"ProfilerStep#{step}", 1000 * step, 1000 * step + 999))
        for place in range(9):
            start, number = 1000 * step + 100 * place, 9 * step + place
            operators.append(_event("cpu_op", "aten::relu", start, start + 50, **{"Input Dims": [[8 + place]]}))
            operators.append(_event("cpu_op", "other", start + 7 * step, start + 7 * step + 9, 2))
            run = _event("kernel", f"k{place}", start + 700, start + 700 + 3 * place + step, 9, correlation=number)
            kernels += [_event("cuda_runtime", "cudaLaunchKernel", start + 1, start + 2, correlation=number), run]
    events = [*marks, *operators, *kernels]
    if order == "marks last":
        events = [*operators, *kernels, *marks]
    elif order == "kernels first":
        events = [*kernels[::-1], *operators, *marks]
    whole = {time.name: time for time in _recorded(tmp_path / "t.json", *events).times}
    monkeypatch.setattr("flopwise.analyses.traces.kineto.records.HELD", 300)
    folded = _recorded(tmp_path / "t.json", *events)
    assert len(whole) == 64
    assert 3 <= len(folded.steps) <= 16
    assert folded.notes == (f"too many steps to keep: one in {64 // len(folded.steps)} is reported",)
    assert all(time == whole[time.name] for time in folded.times)
    assert {row.launches for row in folded.rows} == {len(folded.steps)}


def test_of_a_folded_trace_little_is_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of each dropped step the last kernel and its call are left: the next step begins where it ends."""
    monkeypatch.setattr("flopwise.analyses.traces.kineto.records.HELD", 100)
    events = [
        event
        for step in range(1, 33)
        for event in (
            _event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 99),
            *[_event("cuda_runtime", "cudaLaunchKernel", 100 * step + n, 100 * step + n, correlation=100 * step + n)
              for n in range(1, 5)],
            *[_event("kernel", "k", 100 * step + 20 * n, 100 * step + 20 * n + 9, 9, correlation=100 * step + n)
              for n in range(1, 5)],
        )
    ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with Scan(path) as scan:
        records = records_of(scan)
    records.fold()
    held = {100 * step + n for step in range(1, 33) for n in range(1, 5) if n == 4 or step % 8 == 0}
    assert {kernel.correlation for kernel in records.kernels} == records.launches.keys() == held
