"""Profiles that others recorded on a V100, H100 and MI300X, beside what they and other tools say of them."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import math
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.traces.kineto.read import read
from flopwise.analyses.traces.land import Place, union
from flopwise.analyses.traces.scan import Scan

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto.recording import named, read_trace  # noqa: E402

SHARED = Path(__file__).parents[5] / "shared" / "traces"
sample = pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded traces")


@sample
def test_v100_training_of_resnet50() -> None:
    """Each row has its time, and 0.99 of the kernels' time is on a row or named."""
    from tests.torch_vision import torchvision

    path = SHARED / "kineto_resnet50_v100_train.json.gz"
    profile = flopwise.profile(torchvision.models.resnet50(), (32, 3, 224, 224), train=True)
    trace = read_trace(path, profile, "all")
    assert trace.device == "Tesla V100-DGXS-32GB"
    assert len(trace.steps) == 6
    assert trace.matched == (175, 175, 1.0)
    assert {row.status for row in trace.rows} == {"matched"}
    assert named(trace) > 0.999
    parts = Counter(dict.fromkeys(("forward", "backward"), 0))
    for row in trace.rows:
        parts[row.phase] += row.time_ns or 0
    assert round(parts["forward"] / trace.busy_ns, 2) in (0.32, 0.33)
    assert round(parts["backward"] / trace.busy_ns, 2) in (0.63, 0.64)


#: Operators of PyTorch -> what TraceLens calls their kind.
_KINDS = {
    "aten::linear": "GEMM",
    "aten::scaled_dot_product_attention": "SDPA_fwd",
    "aten::conv2d": "CONV_fwd",
    "aten::add": "elementwise",
    "aten::add_": "elementwise",
    "aten::layer_norm": "NORM_fwd",
}

Shapes = list[tuple[int, ...]]


def _key(kind: str, shapes: Shapes) -> tuple[object, ...]:
    """An operator and its shapes; of a linear layer rows, inner size and columns, as both a program and addmm have."""
    if kind != "GEMM":
        return kind, *shapes[: 1 if kind in ("SDPA_fwd", "NORM_fwd") else 2]
    if len(shapes[0]) == 1:
        return kind, *shapes[1], shapes[2][1]
    return kind, math.prod(shapes[0][:-1]), shapes[0][-1], shapes[1][0]


@sample
@pytest.mark.parametrize("model", ["bert_small", "vit_nsfw"])
@pytest.mark.parametrize("device", ["h100", "mi300"])
def test_operators_count_what_another_tool_counts(model: str, device: str) -> None:
    """Calls, FLOPs and bytes of each operator and shape beside TraceLens'; all kernels' time is on operators or copies.

    That tool counts a norm of n elements and C channels as 5 n + 6 C; softmax and biases of convolutions it leaves out.
    """
    theirs: Counter[tuple[object, ...]] = Counter()
    with open(SHARED / f"kineto_{model}_{device}.tracelens.csv", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["GFLOPS"]:
                kind, number = line["op category"], int(line["operation_count"])
                shapes = [shape for shape in ast.literal_eval(line["Input Dims"]) if shape]
                flops, moved = round(1e9 * float(line["GFLOPS"])), round(2**20 * float(line["Data Moved (MB)"]))
                if kind == "NORM_fwd":
                    assert flops == 5 * math.prod(shapes[0]) + 6 * shapes[0][-1]
                    flops = moved = 0
                theirs.update(dict.fromkeys([(*_key(kind, shapes), flops, moved)], number))
    path = SHARED / f"kineto_{model}_{device}.json.gz"
    with Scan(path) as scan:
        recorded = read(scan, None)
    (landing,) = recorded.landings
    ours: Counter[tuple[object, ...]] = Counter()
    for number, layer in enumerate(recorded.layers):
        if kind := _KINDS.get(layer.op, ""):
            shapes = [tuple(map(int, text.split("x"))) for text in layer.name.split()[1:]]
            flops, moved = layer.flops or 0, layer.bytes or 0
            if kind in ("SDPA_fwd", "CONV_fwd"):
                flops, moved = 2 * (layer.macs or 0), moved - (2 * shapes[2][0] if kind == "CONV_fwd" else 0)
            elif kind == "NORM_fwd":
                assert flops == 7 * math.prod(shapes[0]) + 6 * math.prod(shapes[0][:-1])
                flops = moved = 0
            ours[(*_key(kind, shapes), flops, moved)] += landing.runs[Place((number,))]
    assert ours == theirs
    assert set(read_trace(path, None).remainder) <= {"gaps", "copies"}


@sample
@pytest.mark.parametrize(
    "name",
    [
        *("alexnet_a100", "bert_small_h100", "bert_small_mi300", "compile_triton", "minitoy_mi250", "triton"),
        *("resnet50_v100_train", "vit_nsfw_h100", "vit_nsfw_mi300", "vllm_decode_graph"),
    ],
)
def test_the_time_of_kernels_is_that_of_the_file(name: str) -> None:
    """The union of the spans of each stream, taken from the file itself; what is outside of the steps is in a note."""
    path = SHARED / f"kineto_{name}.json.gz"
    streams: dict[object, list[tuple[int, int]]] = {}
    for event in json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]:
        if event.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            start, time = (int(1000 * Decimal(event[key])) for key in ("ts", "dur"))
            lane = event["args"]["device"], event["args"]["stream"]
            streams.setdefault(lane, []).append((start, start + time))
    trace = read_trace(path, None, "all")
    busy = sum(union(spans) for spans in streams.values())
    outside = [float(share[1]) for note in trace.notes if (share := re.match(r"([\d.]+) % of kernel time", note))]
    assert trace.busy_ns == pytest.approx(busy * (1 - sum(outside) / 100), abs=busy / 1000 if outside else 0)
    assert bool(outside) == (name == "alexnet_a100")  # a model is loaded before its two runs


@sample
def test_hardware_counters_of_alexnet() -> None:
    """What an A100 executed: fc1 and fc2 exactly our multiply-adds, fc3 and conv1 those of their tiles, never fewer."""
    from tests.torch_vision import torchvision

    profile = flopwise.profile(torchvision.models.alexnet(), (128, 3, 224, 224))
    ours = {row.name: row.macs or 0 for row in profile.rows if row.macs}
    counter = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    with Scan(SHARED / "kineto_alexnet_a100_counters.json.gz") as scan:
        ranges = [event for event in scan.events() if event.get("cat") == "cuda_profiler_range"]
    ranges.sort(key=lambda event: int(event["ts"]))
    linear = [int(event["args"][counter]) for event in ranges if "ampere_sgemm_32x32_sliced" in event["name"]]
    first, second, third = linear[:3]
    assert (first, second) == (ours["classifier.1"], ours["classifier.4"])
    assert 1 <= third / ours["classifier.6"] < 1.06
    tiles = [int(event["args"][counter]) for event in ranges if "implicit_convolve_sgemm" in event["name"]]
    assert 1 <= max(tiles) / ours["features.0"] < 1.02
