"""Work around attentions: masked pairs, rows that are picked and cut off, scores of encoders, and tiles of GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.analyses.advice.planted import Network

import flopwise
from flopwise.analyses.advice.advice import Suggestion

TOKENS, WIDTH = 16, 8
PAIRS = TOKENS * TOKENS
ABOVE = TOKENS * (TOKENS - 1) // 2


def _about(rule: str, net: Network, **settings: str) -> list[Suggestion]:
    found = flopwise.advise(net.model(), **settings).suggestions
    return [each for each in found if each.rule.name == rule]


def _attention(mask: str) -> Network:
    """softmax(Q K^T + mask) V; the mask is added or selects, or there is none."""
    net = Network(inputs={"x": (TensorProto.FLOAT, (1, TOKENS, WIDTH))})
    for name in "qkv":
        net.add("MatMul", f"x {net.weight('w' + name, WIDTH, WIDTH)}", name)
    net.add("Transpose", "k", "kt", perm=[0, 2, 1])
    net.add("MatMul", "q kt", "scores")
    above = np.triu(np.ones((TOKENS, TOKENS)), 1)
    if mask in ("added", "scaled"):
        scores = "scores"
        if mask == "scaled":
            scores = "scaled"
            net.add("Mul", f"scores {net.weight('scale', 1, values=[0.3])}", scores)
        net.add("Add", f"{scores} {net.weight('m', TOKENS, TOKENS, values=(-1e9 * above).ravel())}", "masked")
    elif mask == "where":
        flags = net.weight("m", TOKENS, TOKENS, values=(1 - above).ravel(), dtype=np.bool_)
        net.add("Where", f"{flags} scores {net.weight('low', 1, values=[-1e9])}", "masked")
    elif mask in ("positions", "padding"):
        rows = net.weight("rows", TOKENS, 1, values=range(TOKENS), dtype=np.int64)
        columns = net.weight("columns", TOKENS, values=range(TOKENS), dtype=np.int64)
        other = columns if mask == "positions" else net.weight("zero", 1, values=[0], dtype=np.int64)
        net.add("GreaterOrEqual", f"{rows} {other}", "flags")
        net.add("Where", f"flags scores {net.weight('low', 1, values=[-1e9])}", "masked")
    else:
        net.add("Sqrt", "scores", "masked")
    net.add("Softmax", "masked", "p")
    net.add("MatMul", "p v", "y")
    return net


@pytest.mark.parametrize("mask", ["added", "scaled", "where"])
def test_masked_pairs(mask: str) -> None:
    (found,) = _about("masked-attention", _attention(mask))
    assert found.place == ("scores", "y")
    assert (found.saved.macs, found.saved.nbytes) == (2 * WIDTH * ABOVE, 0)
    assert found.text.startswith(f"{ABOVE} of {PAIRS} pairs")
    assert not _about("masked-attention", _attention("none"))


def _picked(slice_first: bool) -> Network:
    net = Network(inputs={"tokens": (TensorProto.INT64, (2, TOKENS))})
    table = net.weight("table", 100, WIDTH)
    bounds = [net.weight(name, 1, values=[value], dtype=np.int64) for name, value in (("a", 0), ("b", 4), ("c", 1))]
    if slice_first:
        net.add("Slice", f"tokens {' '.join(bounds)}", "part")
        net.add("Gather", f"{table} part", "rows")
    else:
        net.add("Gather", f"{table} tokens", "all")
        net.add("Slice", f"all {' '.join(bounds)}", "rows")
    net.add("Tanh", "rows", "y")
    return net


def test_rows_that_are_cut_off(tmp_path: Path) -> None:
    (found,) = _about("oversized-gather", _picked(slice_first=False))
    assert found.place == ("all", "rows")
    rows, cut = 2 * TOKENS, 2 * 4
    picked, moved = 4 * WIDTH * 2, 3 * 8  # a row is read and written; three settings of the Slice
    before = rows * (picked + 8) + cut * picked + moved
    after = cut * (8 + 8) + moved + cut * (picked + 8)
    assert found.saved.nbytes == before - after
    assert not _about("oversized-gather", _picked(slice_first=True))
    path, better = tmp_path / "model.onnx", tmp_path / "better.onnx"
    onnx.save(_picked(slice_first=False).model(), path)
    notes = flopwise.advise(path, output=better).notes
    assert any("oversized-gather 1" in note and "the outputs agree" in note for note in notes)
    assert [node.op_type for node in onnx.load(better).graph.node] == ["Slice", "Gather", "Tanh"]


def _masked_tokens() -> Network:
    net = Network(inputs={"tokens": (TensorProto.INT64, (2, TOKENS)), "mask": (TensorProto.FLOAT, (2, TOKENS))})
    net.add("Gather", f"{net.weight('table', 100, WIDTH)} tokens", "h")
    net.add("Unsqueeze", f"mask {net.weight('axis', 1, values=[2], dtype=np.int64)}", "m")
    net.add("Mul", "h m", "kept")
    net.add("MatMul", f"kept {net.weight('w', WIDTH, 24)}", "y")
    return net


@pytest.mark.parametrize(("lengths", "longest"), [((10, 7), 10), ((3, 3), 3), ((5, TOKENS), None)])
def test_padding(lengths: tuple[int, int], longest: int | None) -> None:
    mask = ",".join("1" if place < length else "0" for length in lengths for place in range(TOKENS))
    inputs = [f"tokens:i64:2x{TOKENS}", f"mask:f32:2x{TOKENS}:{mask}"]
    found = flopwise.advise(_masked_tokens().model(), inputs, keep_network=True).suggestions
    if longest is None:
        assert not found
        return
    (each,) = found
    gone = 2 * (TOKENS - longest)
    assert each.rule.name == "padding-tokens"
    assert each.saved.macs == gone * WIDTH * 24
    # of each token: an index, its row in and out, the product's factors and result, mask and product in and result out
    assert each.saved.nbytes == gone * (8 + 4 * (2 * WIDTH + (2 * WIDTH + 1) + WIDTH + 24))
    assert f"{TOKENS - longest} of {TOKENS} tokens" in each.text


def test_no_engine_leaves_padding_out(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx.save(_masked_tokens().model(), tmp_path / "model.onnx")
    mask = ",".join("1" if place % TOKENS < 4 else "0" for place in range(2 * TOKENS))
    inputs = [f"tokens:i64:2x{TOKENS}", f"mask:f32:2x{TOKENS}:{mask}"]
    advice = flopwise.advise(tmp_path / "model.onnx", inputs, optimization="all", device="epyc-7742")
    assert "padding-tokens" in {each.rule.name for each in advice.suggestions}


@pytest.mark.parametrize(
    ("mask", "speaks"), [("none", False), ("where", True), ("added", True), ("positions", True), ("padding", False)]
)
def test_encoders_do_not_generate(mask: str, speaks: bool) -> None:
    net = _attention(mask)
    net.inputs = {"tokens": (TensorProto.INT64, (1, TOKENS))}
    first = Network(weights=net.weights)
    first.add("Gather", f"{net.weight('table', 100, WIDTH)} tokens", "x")
    net.nodes[:0] = first.nodes
    net.nodes[-1].output[0] = "attended"
    net.add("MatMul", f"attended {net.weight('head', WIDTH, 100)}", "y")
    assert bool(_about("all-logits", net)) == speaks


@pytest.mark.parametrize("causal", [0, 1])
def test_encoders_whose_attention_is_one_operator(causal: int) -> None:
    net = Network(inputs={"tokens": (TensorProto.INT64, (1, TOKENS))})
    net.add("Gather", f"{net.weight('table', 100, WIDTH)} tokens", "x")
    net.add("Attention", "x x x", "attended", q_num_heads=2, kv_num_heads=2, is_causal=causal)
    net.add("MatMul", f"attended {net.weight('head', WIDTH, 100)}", "y")
    found = flopwise.advise(net.model(opset=23)).suggestions
    assert ("all-logits" in {each.rule.name for each in found}) == bool(causal)


@pytest.mark.parametrize(("rows", "waste"), [(2560, 1 - 160 / 216), (6912, None), (1536, None)])
def test_waves(rows: int, waste: float | None) -> None:
    """Sixteen tiles of 128 columns for every 256 rows, on the 108 multiprocessors of an A100."""
    net = Network(inputs={"x": (TensorProto.FLOAT, (rows, 1024))})
    net.add("MatMul", f"x {net.weight('w', 1024, 2048)}", "y")
    found = _about("waves", net, device="a100-sxm-80gb")
    if waste is None:
        assert not found
    else:
        (wave,) = found
        assert wave.time_share == pytest.approx(waste)
        assert not _about("waves", net)


def test_quantised_models_are_left_alone() -> None:
    """An engine widens quantised numbers for each taker again, and multiplies integers in another layout."""
    net = Network(inputs={"x": (TensorProto.UINT8, (1, 24, 8, 8))})
    scale, zero = net.weight("s", values=[0.1]), net.weight("z", values=[0], dtype=np.uint8)
    net.add("DequantizeLinear", f"x {scale} {zero}", "a")
    net.add("DequantizeLinear", f"x {scale} {zero}", "b")
    net.add("Conv", f"a {net.weight('w', 24, 24, 3, 3)}", "c", pads=[1, 1, 1, 1])
    net.add("Add", "c b", "y")
    for rule in ("repeated-work", "channel-unit"):
        assert not _about(rule, net)
