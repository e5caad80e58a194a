"""Models with advice carried out: the same outputs in onnxruntime by the test's own run, and nothing left to advise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.analyses.advice.planted import Family, Fault, Network, _rms, faults
from tests.docs.blocks import ROOT

import flopwise

ort = pytest.importorskip("onnxruntime")

FAULTS = {f"{fault.family.name}: {fault.name}": fault for fault in faults()}


def _outputs(path: Path) -> list[np.ndarray]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    feeds = {
        i.name: random.integers(0, 50, i.shape) if "int64" in i.type else random.standard_normal(i.shape, np.float32)
        for i in session.get_inputs()
    }
    return session.run(None, feeds)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_outputs_stay(fault: Fault, tmp_path: Path) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(fault.model(), before)
    advice = flopwise.advise(before, keep_network=True, output=after)
    assert any("changed at 1 place" in note for note in advice.notes)
    rounding = 1e-2 if fault.rule == "cast-pairs" else 1e-4
    for one, other in zip(_outputs(before), _outputs(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding * np.nanmax(np.abs(one)))
    assert not flopwise.advise(after, keep_network=True).suggestions


def test_a_change_that_is_wrong_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS["cnn: batch norm"]
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(fault.model(), before)
    from flopwise.analyses.advice.rules import operators

    folded = operators._folded
    monkeypatch.setattr(operators, "_folded", lambda *a: {k: 2 * v for k, v in folded(*a).items()})
    notes = flopwise.advise(before, output=after).notes
    assert any("batch-norm: 1 place left as they are: an output differs by more" in note for note in notes)
    assert [node.op_type for node in onnx.load(after).graph.node] == [n.op_type for n in onnx.load(before).graph.node]


def test_never_over_the_input(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(FAULTS["mlp: dead"].model(), path)
    with pytest.raises(flopwise.InputError, match="would overwrite"):
        flopwise.advise(path, output=path)


def test_what_an_older_operator_set_lacks_is_said(tmp_path: Path) -> None:
    net = Network(inputs={"x": (TensorProto.FLOAT, (2, 16))})
    net.add("Tanh", "x", "h")
    _rms(net, Family("rms", (2, 16), lambda net: None, lambda net: None))
    net.add("Exp", "g", "y")
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(net.model(), before)
    notes = flopwise.advise(before, output=after).notes
    assert any("RMSNormalization is of operator set 23, the file of 20" in note for note in notes)
    assert [node.op_type for node in onnx.load(after).graph.node] == [node.op_type for node in net.nodes]


def test_what_only_the_program_can_change_is_said(tmp_path: Path) -> None:
    net = Network(inputs={"tokens": (TensorProto.INT64, (1, 16))})
    net.add("Gather", f"{net.weight('table', 100, 32)} tokens", "h")
    net.add("MatMul", f"h {net.weight('head', 32, 100)}", "y")
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(net.model(), before)
    notes = flopwise.advise(before, output=after).notes
    assert any("all-logits: 1 place left as they are: it takes a tensor that nothing makes" in note for note in notes)


@pytest.mark.parametrize("rows", ["rows", 5])
def test_sizes_that_the_file_leaves_open_are_not_stored(rows: str | int, tmp_path: Path) -> None:
    """x times the square root of its number of rows, which is stored where the file fixes it."""
    net = Network(inputs={"x": (TensorProto.FLOAT, (rows, 16))})  # type: ignore[dict-item]
    net.add("Shape", "x", "shape", end=1)
    net.add("Cast", "shape", "number", to=TensorProto.FLOAT)
    net.add("Expand", f"number {net.weight('wide', 1, values=[400], dtype=np.int64)}", "row")
    net.add("Sqrt", "row", "root")
    net.add("ReduceMax", "root", "most", keepdims=0)
    net.add("Mul", "x most", "y")
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(net.model(), before)
    notes = flopwise.advise(before, (5, 16), output=after).notes
    assert any("the size of an input, which the file leaves open" in note for note in notes) == (rows == "rows")
    left = {node.op_type for node in onnx.load(after).graph.node}
    assert left == ({node.op_type for node in net.nodes} if rows == "rows" else {"Mul"})
    (result,) = ort.InferenceSession(after).run(None, {"x": np.ones((5, 16), np.float32)})
    np.testing.assert_allclose(result, 5**0.5, rtol=1e-6)


@pytest.mark.parametrize("settings", [{"output": "after.onnx"}, {"measure": True}])
def test_weights_that_are_missing_are_said(settings: dict[str, object], tmp_path: Path) -> None:
    path, data = tmp_path / "model.onnx", tmp_path / "model.bin"
    model = FAULTS["cnn: batch norm"].model()
    onnx.save(model, path, save_as_external_data=True, location=data.name, size_threshold=0)
    data.unlink()
    settings = {"output": tmp_path / "after.onnx"} if "output" in settings else settings
    with pytest.raises(flopwise.ModelError, match="weights outside the file cannot be read"):
        flopwise.advise(path, **settings)  # type: ignore[arg-type]


def test_what_the_engine_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(flopwise.ModelError, match=r"custom_op\.onnx: onnxruntime refuses it"):
        flopwise.advise(ROOT / "examples" / "custom_op.onnx", output=tmp_path / "after.onnx")
