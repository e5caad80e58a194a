"""Other ways for a model: each is a part of the floor, or a measured time."""

from __future__ import annotations

import dataclasses
import functools
import json

import numpy as np
import pytest
from tests.analyses.timing.models import chain
from tests.analyses.timing.test_bound import bound as physical
from tests.analyses.timing.test_engine import bound
from tests.docs.blocks import ROOT

import flopwise
from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.bound import Other
from flopwise.analyses.timing.turns import in_turns
from flopwise.analyses.timing.whatif import tries_of, what_ifs
from flopwise.api.tries import resized
from flopwise.report.commands.bound.report import bound_report
from flopwise.report.report import as_text

NODES = (
    Executed("a", "com.microsoft.nchwc::ReorderInput", "ka", macs=0, nbytes=8, dtypes=("float32",)),
    Executed("b", "Conv", "kb", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("c", "Conv", "kc", macs=10, nbytes=8, dtypes=("float32",), needs=(0,)),
    Executed("d", "Add", "kd", macs=0, nbytes=8, dtypes=("float32",), needs=(1, 2)),
)
TIMES = {("ka", "hot"): (1000.0, 1), ("kb", "hot"): (5000.0, 1), ("kc", "hot"): (4000.0, 1), ("kd", "hot"): (2000.0, 1)}


def test_each_way() -> None:
    found = {each.what: (each.ns, each.kind) for each in what_ifs(bound(TIMES, nodes=NODES))}
    assert found["as it is"] == (12_000, "floor")
    assert found["element-wise nodes fused into others"] == (10_000, "floor")
    assert found["no node that only moves elements"] == (11_000, "floor")
    assert found["independent nodes at once"] == (8_000, "floor")
    assert found["2 workers that share the cores"] == (8_000, "floor")
    assert found["every product at the device's peak"][0] > 0


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
        ("threads=0", "at least 1"),
        ("batch", "batch"),
    ],
)
def test_what_cannot_be_tried(text: str, words: str) -> None:
    with pytest.raises(flopwise.InputError, match=words):
        tries_of([text], ("level", "threads", "batch", "dtype"))


def test_what_is_tried_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("flopwise.api.tries.in_turns", functools.partial(in_turns, seconds=0.0))
    tries = ["level=off", "threads=2", "batch=4", "dtype=int8", "dtype=float16"]
    tried = flopwise.bound(ROOT / "examples" / "tiny_resnet.onnx", threads=1, tries=tries)
    kinds = [(way.what, way.kind) for way in tried.tried]
    assert kinds == [
        ("level off", "measured"),
        ("threads 2", "measured"),
        ("batch 4, time of 1", "measured"),
        ("batch 4, time of 1", "estimate"),
        ("dtype int8", "measured"),
        ("dtype int8", "estimate"),
        ("dtype float16", "estimate"),
    ]
    for way in tried.tried:
        assert way.base_ns > 0 < way.ns
        assert (way.low_ns is not None and way.low_ns < way.ns) == (way.kind == "estimate")
    assert any("float16 is not measured" in note for note in tried.notes)


def test_other_sizes_in_a_file_give_the_rows_of_each_item() -> None:
    """A batch of a file whose inputs have fixed sizes: each item has the result that it has alone."""
    ort = pytest.importorskip("onnxruntime")
    path = str(ROOT / "examples" / "tiny_resnet.onnx")
    images = np.random.default_rng(0).standard_normal((3, 3, 64, 64)).astype(np.float32)
    sessions = [ort.InferenceSession(model) for model in (path, resized(path, {"image": images.shape}))]
    alone = [sessions[0].run(None, {"image": images[i : i + 1]})[0] for i in range(3)]
    np.testing.assert_allclose(sessions[1].run(None, {"image": images})[0], np.concatenate(alone), rtol=1e-4)


def test_what_runs_here_is_refused_for_other_devices() -> None:
    with pytest.raises(flopwise.InputError, match="leave --device out"):
        flopwise.bound(ROOT / "examples" / "tiny_resnet.onnx", device="h100", tries=["level=off"])
