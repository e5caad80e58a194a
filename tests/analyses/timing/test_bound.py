"""Physical floors: what must be computed and moved, and that no estimate is below them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tests.analyses.timing.models import chain, model
from tests.cases import each
from tests.language_models import PUBLISHED, written

import flopwise
from flopwise.analyses.timing.bound import Bound, physical_bound
from flopwise.analyses.timing.catalog import devices, find
from flopwise.analyses.timing.device import Cache, Device, Peak, roofline
from flopwise.analyses.timing.quantities import must_move
from flopwise.errors import InputError
from flopwise.graph import Graph, Node, Program, Tensor


def peak(what: str, value: float, dtype: str | None = None, **others: Any) -> Peak:
    return Peak(what, dtype, value, "FLOP/s" if dtype else "B/s", others.pop("kind", "datasheet"), "a test", **others)


#: 1 TFLOP/s, 10 GB/s from memory, 100 GB/s from a cache of 1 MB.
SLOW = Device(
    "slow",
    "Slow",
    "gpu",
    "nobody",
    10**9,
    (peak("vector", 1e12, "float32"), peak("l1", 1e11), peak("dram", 1e10)),
    caches=(Cache("l1", 10**6),),
)


def bound(content: bytes, device: Device = SLOW, **others: Any) -> Bound:
    return physical_bound(flopwise.profile(content), device, **others)


def test_the_floor_is_arithmetic_or_memory() -> None:
    found = bound(chain(layers=3, size=64, batch=8))
    assert found.physical.compute_ns == pytest.approx(2 * 3 * 8 * 64 * 64 / 1e12 * 1e9)
    moved = 4 * (3 * 64 * 64 + 2 * 8 * 64)
    assert found.physical.movement.total == moved
    assert found.physical.level == "l1"
    assert found.physical.memory_ns == pytest.approx(moved / 1e11 * 1e9)
    assert (found.physical.roof, found.verdict) == ("memory", "roofline")


def test_a_model_that_no_cache_holds_comes_from_memory() -> None:
    found = bound(chain(layers=3, size=512, batch=8))
    assert found.physical.level == "dram"
    assert found.physical.memory_ns == pytest.approx(4 * (3 * 512 * 512 + 2 * 8 * 512) / 1e10 * 1e9)


def test_rows_are_charged_the_fastest_level_and_their_roofline_the_memory_that_holds_them() -> None:
    row = bound(chain(layers=1, size=1024, batch=1)).rows[0]
    assert row.physical_ns == pytest.approx(4 * (1024 * 1024 + 2 * 1024) / 1e11 * 1e9)
    assert row.roofline_ns == pytest.approx(10 * row.physical_ns)
    assert row.roof == "memory"


def test_a_device_without_a_figure_for_caches_charges_rows_their_arithmetic_alone() -> None:
    device = Device("d", "D", "gpu", "", 1, (peak("vector", 1e12, "float32"), peak("dram", 1e9)))
    found = bound(chain(layers=1), device)
    assert found.rows[1].physical_ns == 0
    assert found.rows[1].roofline_ns is not None
    assert found.rows[1].roofline_ns > 0


def test_without_figures_the_floor_says_what_it_lacks() -> None:
    found = bound(chain(layers=1), Device("z80", "Z80", "cpu", "", 0, ()))
    assert found.physical.ns == 0
    assert any("no figure for products" in note for note in found.notes)
    assert any("no figure for its memory" in note for note in found.notes)


def test_a_table_that_is_picked_from_is_charged_what_is_picked() -> None:
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    content = model(nodes, {"ids": (1, 5)}, ["y"], {"table": (1000, 16)}, integers=["ids"])
    found = must_move(flopwise.read(content))
    assert found.weights == 5 * 16 * 4
    assert found.inputs == 5 * 8


@pytest.mark.parametrize(
    ("op", "shape", "attrs", "nbytes"),
    [
        ("GatherBlockQuantized", (1000, 16), {"block_size": 16}, 5 * 16),
        ("GatherPacked", (1000, 66), {"K": 256, "packed_type": 16, "output_dtype": 1}, 5 * 66),
    ],
)
def test_a_packed_table_is_charged_the_bytes_of_what_is_picked(
    op: str, shape: tuple[int, int], attrs: dict[str, int], nbytes: int
) -> None:
    table = Tensor("table", shape, "uint8", "weight")
    ids, made = Tensor("ids", (5,), "int64", "input"), Tensor("y", (5, attrs.get("K", 32)), "float32")
    node = Node(f"com.microsoft::{op}", "gather", (table, ids), (made,), attrs)
    found = must_move(Graph("m", "onnx", "", (ids,), (made,), (node,)))
    assert found.weights == nbytes


def test_of_inputs_what_is_picked_or_sliced_is_charged_and_of_experts_those_that_tokens_choose() -> None:
    table, ids = Tensor("x", (100, 8), "float32", "input"), Tensor("i", (5,), "int64", "input")
    picked = Tensor("y", (5, 8), "float32")
    gather = Node("Gather", "pick", (table, ids), (picked,), {})
    assert must_move(Graph("m", "onnx", "", (table, ids), (picked,), (gather,))).inputs == 5 * 8 * 4 + 5 * 8
    whole, part = Tensor("x", (100, 8), "float32", "input"), Tensor("y", (3, 8), "float32")
    cut = Node("Slice", "cut", (whole,), (part,), {})
    assert must_move(Graph("m", "onnx", "", (whole,), (part,), (cut,))).inputs == 3 * 8 * 4
    x, y = Tensor("x", (5, 16), "float32", "input"), Tensor("y", (5, 16), "float32")
    router = Tensor("router", (5, 64), "float32", "input")
    experts = [Tensor(f"fc{n}", shape, "float32", "weight") for n, shape in ((1, (64, 32, 16)), (2, (64, 16, 32)))]
    for chosen in (1, 2, 40):
        mix = Node("com.microsoft::MoE", "mix", (x, router, experts[0], None, experts[1]), (y,), {"k": chosen})
        moved = must_move(Graph("m", "onnx", "", (x, router), (y,), (mix,)))
        assert moved.weights == min(64, 5 * chosen) * 2 * 16 * 32 * 4


def test_a_tied_table_that_is_also_multiplied_is_charged_whole() -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("Gemm", ["e", "table"], ["y"], transB=1),
    ]
    content = model(nodes, {"ids": (5,)}, ["y"], {"table": (1000, 16)}, integers=["ids"])
    assert must_move(flopwise.read(content)).weights == 1000 * 16 * 4


def test_a_cache_that_grows_is_written_where_it_is_new() -> None:
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=2),
        helper.make_node("MatMul", ["q", "present"], ["y"]),
    ]
    shapes = {"past": (1, 2, 100, 8), "new": (1, 2, 1, 8), "q": (1, 2, 1, 101)}
    found = must_move(flopwise.read(model(nodes, shapes, ["present", "y"])))
    assert found.outputs == 4 * (2 * 8 + 2 * 8)
    assert found.inputs == 4 * (2 * 100 * 8 + 2 * 8 + 2 * 101)


def test_a_cache_that_is_updated_in_place_is_not_written_whole() -> None:
    nodes = [
        helper.make_node("ScatterND", ["past", "where", "new"], ["present"]),
        helper.make_node("MatMul", ["q", "present"], ["y"]),
    ]
    shapes = {"past": (100, 8), "where": (1, 1), "new": (1, 8), "q": (1, 100)}
    found = must_move(flopwise.read(model(nodes, shapes, ["present", "y"], integers=["where"])))
    assert found.outputs == 4 * 8


def test_experts_that_no_token_uses_are_not_read() -> None:
    nodes = [
        helper.make_node("MoE", ["x", "router", "w1", "", "w2"], ["y"], domain="com.microsoft", k=2),
    ]
    weights = {"w1": (8, 16, 32), "w2": (8, 32, 16)}
    content = model(nodes, {"x": (1, 16), "router": (1, 8)}, ["y"], weights, domains=["com.microsoft"])
    assert must_move(flopwise.read(content)).weights == 4 * 2 * 2 * 16 * 32


def test_a_stack_of_experts_is_charged_the_tokens_that_are_routed() -> None:
    tokens = Tensor("x", (3, 16), "float32", "input")
    stack = Tensor("w", (8, 16, 32), "float32", "weight")
    ends, made = Tensor("ends", (8,), "int32", "input"), Tensor("y", (3, 32), "float32")
    product = Node("aten::_grouped_mm", "experts", (tokens, stack, ends), (made,), origin="aten._grouped_mm")
    graph = Graph("m", "torch", "", (tokens, ends), (made,), (product,), program=Program())
    assert must_move(graph).weights == 3 * 16 * 32 * 4


def convolution(stride: int = 1, group: int = 1, kernel: int = 3) -> bytes:
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, group=group, pads=[kernel // 2] * 4)
    return model([node], {"x": (1, 8, 16, 16)}, ["y"], {"w": (8, 8 // group, kernel, kernel)})


@pytest.mark.parametrize(("how", "fewer"), [({}, True), ({"stride": 2}, False), ({"group": 8}, False)])
def test_winograd_is_for_plain_three_by_three_convolutions(how: dict[str, int], fewer: bool) -> None:
    plain, allowed = bound(convolution(**how)), bound(convolution(**how), winograd=True)
    ratio = plain.physical.compute_ns / allowed.physical.compute_ns
    assert ratio == pytest.approx(2.25 if fewer else 1, rel=1e-3)
    assert any("--winograd" in note for note in plain.notes) == fewer
    assert not any("--winograd" in note for note in allowed.notes)


def test_a_layer_without_a_count_leaves_a_floor_that_holds() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Odd", ["h"], ["y"], domain="acme")]
    found = bound(model(nodes, {"x": (8, 8)}, ["y"], {"w": (8, 8)}, domains=["acme"]))
    assert found.rows[1].status == "unknown"
    assert found.physical.compute_ns > 0
    assert any("1 layer without a count" in note for note in found.notes)


def test_another_element_type_of_arithmetic() -> None:
    device = find("a100")
    plain, exact = bound(chain(), device), bound(chain(), device, dtype="float32")
    assert exact.physical.compute_ns / plain.physical.compute_ns == pytest.approx(156 / 19.5)
    assert "the floor assumes float32 in tfloat32, 156 TFLOP/s; no structured sparsity" in plain.notes
    assert "the floor assumes float32, 19.5 TFLOP/s; no structured sparsity" in exact.notes


@pytest.mark.parametrize(("dtype", "ratio"), [("fp16", 0.5), ("bf16", 0.5), ("float32", 1), ("tf32", 1), ("fp8", 1)])
def test_an_element_type_is_that_of_all_tensors(dtype: str, ratio: float) -> None:
    """As if the model were stored in it; a type of arithmetic alone leaves the tensors as they are."""
    plain, found = (flopwise.bound(chain(), device="h100", dtype=each) for each in (None, dtype))
    assert found.physical.memory_ns == pytest.approx(ratio * plain.physical.memory_ns)
    assert [row.work.nbytes for row in found.rows] == [ratio * row.work.nbytes for row in plain.rows]
    counted = flopwise.bound(flopwise.profile(chain()), device="h100", dtype=dtype)
    assert counted.physical == found.physical


def test_a_figure_that_is_not_known_is_named() -> None:
    notes = bound(chain(), find("jetson-xavier-nx")).notes  # of its GPU alone no figure is published
    assert "NVIDIA Jetson Xavier NX has no figure for products, so arithmetic takes no time in the floor" in notes


def test_fewer_cores_take_longer() -> None:
    device = find("epyc-9654")
    one, all_ = bound(chain(), device, threads=1), bound(chain(), device)
    assert one.physical.compute_ns / all_.physical.compute_ns == pytest.approx(96)


def test_of_several_figures_the_highest_counts() -> None:
    measured = SLOW.with_peaks((peak("vector", 2e12, "float32", kind="measured"),))
    found = bound(chain(), measured)
    assert found.physical.compute_ns == pytest.approx(bound(chain()).physical.compute_ns / 2)
    assert found.machine is not None
    lower = SLOW.with_peaks((peak("vector", 5e11, "float32", kind="measured"),))
    assert bound(chain(), lower).physical.compute_ns == bound(chain()).physical.compute_ns


def test_a_measured_bandwidth_is_an_estimate_and_no_bound() -> None:
    """A busy machine reads slowly: what it can do is more."""
    device = SLOW.with_peaks((peak("l2", 2e10, kind="measured"), peak("dram", 1e9, kind="measured")))
    assert device.bandwidth("l2") == SLOW.bandwidth("l1")
    assert device.bandwidth("l2", estimate=True) == device.peaks[-2]
    assert device.bandwidth("dram") == SLOW.bandwidth("dram")
    alone = Device("d", "D", "cpu", "", 1, (peak("l1", 9e10, kind="measured"), peak("dram", 1e10, kind="measured")))
    assert alone.bandwidth("dram") == alone.peaks[0]


def test_sparse_figures_are_never_used() -> None:
    device = SLOW.with_peaks((peak("matrix", 8e12, "float32", dense=False),))
    assert bound(chain(), device).physical == bound(chain()).physical


@given(st.sampled_from(devices()), st.integers(1, 64), st.integers(1, 512))
@settings(max_examples=40, deadline=None)
def test_more_work_never_takes_less(device: Device, batch: int, size: int) -> None:
    macs, nbytes = batch * size * size, size * size
    small = roofline(device, {("float32",): macs}, nbytes)
    large = roofline(device, {("float32",): 2 * macs}, 2 * nbytes)
    assert large.seconds == pytest.approx(2 * small.seconds)
    for level in ("l1", "l2", "llc"):
        near = roofline(device, {("float32",): macs}, nbytes, level)
        assert near.seconds <= small.seconds


@each("device", devices())
def test_no_row_has_a_floor_above_its_roofline(device: Device) -> None:
    for row in bound(chain(), device).rows:
        assert row.physical_ns is not None
        assert row.roofline_ns is not None
        assert row.physical_ns <= row.roofline_ns * (1 + 1e-9)


def test_the_public_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOPWISE_STORE", str(tmp_path / "times.sqlite"))
    found = flopwise.bound(chain(), device="h100")
    assert found.device.id == "h100-sxm"
    assert "physical floor" in str(found)
    assert flopwise.bound(flopwise.profile(chain()), device=SLOW).physical.ns == bound(chain()).physical.ns
    assert flopwise.devices("H100") == (found.device,)
    assert len(flopwise.devices()) > 60
    with pytest.raises(InputError, match="unknown device"):
        flopwise.bound(chain(), device="abacus")
    with pytest.raises(InputError, match="97 threads: AMD EPYC 9654 has 96 cores"):
        flopwise.bound(chain(), device="epyc-9654", threads=97)
    with pytest.raises(InputError, match="unknown element type"):
        flopwise.bound(chain(), device="h100", dtype="float7")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("tiny_resnet.onnx", {}),
        ("transformer_block.onnx", {"dims": {"batch": 1, "sequence": 16}}),
        ("alexnet.prototxt", {}),
        ("mixtral-8x7b", {"past": 100, "new": 1}),
        ("llama3-8b", {"past": 0, "new": 100}),
    ],
)
def test_what_must_move_is_no_more_than_what_the_layers_move(tmp_path: Path, name: str, how: dict[str, Any]) -> None:
    path = Path(__file__).parents[3] / "examples" / name
    if name in PUBLISHED:
        pytest.importorskip("transformers")
        path = written(tmp_path, PUBLISHED[name])
    counted = flopwise.profile(str(path), **how)
    moved = sum((row.read_bytes or 0) + (row.written_bytes or 0) for row in counted.rows)
    assert 0 < must_move(counted.graph).total <= moved
    found = physical_bound(counted, find("h100"))
    assert found.physical.ns <= found.roofline_ns * (1 + 1e-9)
