"""Other ways for a model: each is a part of the floor, or a measured time."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Sequence

import numpy as np
import pytest
from tests.analyses.timing.models import chain
from tests.analyses.timing.test_bound import bound as physical
from tests.analyses.timing.test_engine import bound
from tests.docs.blocks import ROOT

import flopwise
from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.bound import Other
from flopwise.analyses.timing.catalog import devices
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.engines.onnxruntime import Runtime
from flopwise.analyses.timing.peaks import Way, in_turns, saved_ns
from flopwise.analyses.timing.whatif import trials, tries_of, what_ifs
from flopwise.api import tries
from flopwise.api.tries import BLOCKS, channels_last, resized
from flopwise.report.commands.bound import bound_report
from flopwise.report.report import as_text

NODES = (
    Executed("a", "com.microsoft.nchwc::ReorderInput", "ka", macs=0, nbytes=8, dtypes=("float32",)),
    Executed("b", "Conv", "kb", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("c", "Conv", "kc", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("d", "Add", "kd", macs=0, nbytes=8, dtypes=("float32",), needs=(1, 2)),
)
TIMES = {("ka", "hot"): (1000.0, 1), ("kb", "hot"): (5000.0, 1), ("kc", "hot"): (4000.0, 1), ("kd", "hot"): (2000.0, 1)}


def test_each_way() -> None:
    ways = what_ifs(bound(TIMES, nodes=NODES))
    found = {each.what: (each.ns, each.kind) for each in ways}
    assert found["as it is"] == (12_000, "floor")
    assert found["element-wise nodes fused into others"] == (10_000, "floor")
    assert found["no node that only moves elements"] == (11_000, "floor")
    assert found["independent nodes at once"] == (8_000, "floor")
    assert found["2 workers that share the cores"] == (8_000, "floor")
    assert found["every product at the device's peak"][0] > 0
    assert {each.what: each.ratio for each in ways}["independent nodes at once"] == pytest.approx(8 / 12)


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
    (first, *_) = found["what_if"]
    assert first.items() >= {"what": "as it is", "ns": 12_000, "kind": "floor", "low_ns": None}.items()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lvel=all", "did you mean 'level'"),
        ("level=most", "unknown level"),
        ("layout=chwn", "unknown layout"),
        ("threads=0", "at least 1"),
        ("batch", "batch"),
        ("dtype=float16", "int8 alone"),
    ],
)
def test_what_cannot_be_tried(text: str, words: str) -> None:
    with pytest.raises(flopwise.InputError, match=words):
        tries_of([text], ("level", "threads", "layout", "batch", "dtype"))


def test_what_is_tried_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("flopwise.api.tries.in_turns", functools.partial(in_turns, seconds=0.0))
    monkeypatch.setattr("flopwise.analyses.timing.peaks.SECONDS", 0.0)
    texts = ["level=off", "threads=2", "layout=nchw", "layout=nhwc", "batch=4", "dtype=int8"]
    tried = flopwise.bound(ROOT / "examples" / "tiny_resnet.onnx", threads=1, tries=texts)
    kinds = [(way.what, way.kind) for way in tried.tried]
    assert kinds == [
        ("level off", "measured"),
        ("threads 2", "measured"),
        ("layout nchw", "measured"),
        ("layout nhwc", "measured"),
        ("batch 4, time of 1", "measured"),
        ("batch 4, time of 1", "estimate"),
        ("dtype int8", "measured"),
        ("dtype int8", "estimate"),
    ]
    for way in tried.tried:
        assert way.base_ns > 0 < way.ns
        assert (way.low_ns is not None and way.low_ns < way.ns) == (way.kind == "estimate")


def test_each_change_is_made_and_its_time_is_that_of_as_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    path, ways = str(ROOT / "examples" / "tiny_resnet.onnx"), []

    def timed(both: Sequence[Way]) -> list[float]:
        ways.append(both[-1])
        return [80.0, 40.0]

    rooflines = {1: 10.0, 4: 20.0}
    monkeypatch.setattr(tries, "in_turns", timed)
    monkeypatch.setattr(tries, "saved_ns", lambda *_: 30.0)
    monkeypatch.setattr(tries, "roofline_ns", lambda profile, *_: rooflines[profile.graph.inputs[0].shape[0]])
    texts = ["level=off", "threads=2", "layout=nchw", "layout=nhwc", "batch=4", "dtype=int8"]
    changes = tries_of(texts, [text.partition("=")[0] for text in texts])
    counted, device = flopwise.profile(path), next(iter(devices()))
    made, notes = tries.tried(path, counted, changes, device, Options(threads=1), {}, lambda _: None)
    assert notes == []
    assert [(each.what, each.kind, each.ns, each.ratio) for each in made] == [
        ("level off", "measured", 40, 0.5),
        ("threads 2", "measured", 40, 0.5),
        ("layout nchw", "measured", 40, 0.5),
        ("layout nhwc", "measured", 40, 0.5),
        ("batch 4, time of 1", "measured", 10, 0.125),
        ("batch 4, time of 1", "estimate", 40, 0.5),  # a quarter of twice the roofline
        ("dtype int8", "measured", 40, 0.5),
        ("dtype int8", "estimate", 50, 0.625),
    ]
    level, threads, blocks, last, batch, quantised = ways
    assert (level.options.level, level.model) == ("off", path)
    assert (threads.options.threads, threads.model) == (2, path)
    assert (blocks.without, blocks.model) == ((BLOCKS,), path)
    assert (last.shapes["image.channels_last"], last.without) == ([1, 64, 64, 3], ())
    assert batch.shapes == {"image": (4, 3, 64, 64)}
    assert str(quantised.model).endswith("quantized.onnx")


def test_other_sizes_in_a_file_give_the_rows_of_each_item() -> None:
    """A batch of a file whose inputs have fixed sizes: each item has the result that it has alone."""
    ort = pytest.importorskip("onnxruntime")
    path = str(ROOT / "examples" / "tiny_resnet.onnx")
    images = np.random.default_rng(0).standard_normal((3, 3, 64, 64)).astype(np.float32)
    sessions = [ort.InferenceSession(model) for model in (path, resized(path, {"image": images.shape}))]
    alone = [sessions[0].run(None, {"image": images[i : i + 1]})[0] for i in range(3)]
    np.testing.assert_allclose(sessions[1].run(None, {"image": images})[0], np.concatenate(alone), rtol=1e-4)


def test_images_with_their_channels_last_give_the_same() -> None:
    ort = pytest.importorskip("onnxruntime")
    path = str(ROOT / "examples" / "tiny_resnet.onnx")
    image = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    content, shapes = channels_last(path, {"image": image.shape})
    assert shapes["image.channels_last"] == [1, 64, 64, 3]
    last = ort.InferenceSession(content).run(None, {"image.channels_last": image.transpose(0, 2, 3, 1)})[0]
    np.testing.assert_allclose(ort.InferenceSession(path).run(None, {"image": image})[0], last, rtol=1e-5)
    with pytest.raises(flopwise.InputError, match="no input has four dimensions"):
        channels_last(path, {"image": (4, 4)})


def test_blocks_of_channels_are_left_out_by_name() -> None:
    """What layout=nchw leaves out is an optimiser of the installed onnxruntime."""
    pytest.importorskip("onnxruntime")
    runtime = Runtime(Options())
    model = str(ROOT / "examples" / "tiny_resnet.onnx")
    blocks = []
    for without in ((), (BLOCKS,)):
        with tempfile.TemporaryDirectory() as folder:
            saved = f"{folder}/saved.onnx"
            runtime.session(model, "all", saved, without=without)
            blocks.append(sum(node.op.startswith("com.microsoft.nchwc") for node in flopwise.read(saved).nodes))
    assert blocks[0] > 0 == blocks[1]


@pytest.mark.parametrize("change", ["batch", "dtype", "device"])
def test_the_guide_prints_the_ranges_of_the_trials(change: str) -> None:
    off = trials()[change]
    assert all(off.low <= ratio <= off.high for ratio in off.ratios)
    guide = (ROOT / "docs" / "guides" / "time.md").read_text("utf-8")
    assert f"| {off.low:g} to {off.high:g} ({len(off.ratios)} trials" in guide


def test_what_runs_here_is_refused_for_other_devices() -> None:
    with pytest.raises(flopwise.InputError, match="leave --device out"):
        flopwise.bound(ROOT / "examples" / "tiny_resnet.onnx", device="h100", tries=["level=off"])


def test_products_alone_are_those_with_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight products of the block, two of which have no weights; two in a type take half of the time each."""
    block = flopwise.profile(ROOT / "examples" / "transformer_block.onnx", "hidden_states:f32:1x128x40")
    sizes: list[tuple[int, ...]] = []

    def halved(ways: Sequence[Way], seconds: float) -> list[float]:
        graph = flopwise.read(ways[0].model).nodes[0]
        sizes.append((*graph.input(0).dims, graph.output().dims[-1]))
        return [1000.0, 500.0]

    monkeypatch.setattr("flopwise.analyses.timing.peaks.in_turns", halved)
    pytest.importorskip("onnxruntime")
    assert saved_ns(block, Options()) == 6 * 500
    assert sorted(sizes) == [(128, 40, 40), (128, 40, 160), (128, 160, 40)]
