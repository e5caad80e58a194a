"""Both pieces of a change: as models of their own they give the same results, and have a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.analyses.advice.planted import Fault, faults

import flopwise
from flopwise.analyses.advice.advice import suggestions_of
from flopwise.analyses.advice.edited import Edited
from flopwise.analyses.advice.measured import pieces
from flopwise.analyses.advice.rules import RULES
from flopwise.analyses.advice.subject import Subject

ort = pytest.importorskip("onnxruntime")

FAULTS = {f"{fault.family.name}: {fault.name}": fault for fault in faults()}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_pieces_give_the_same(fault: Fault) -> None:
    model = fault.model()
    subject = Subject(flopwise.profile(model, fold=False))
    chosen = [rule for rule in RULES if rule.name == fault.rule]
    (found,) = suggestions_of(subject, chosen)
    assert found.change is not None
    old, new = pieces(Edited(model, subject), found.change)
    names = {tuple(node.output) for node in onnx.load_from_string(old).graph.node}
    assert {name for outputs in names for name in outputs} >= set(fault.layers)
    if new is None:
        assert not found.change.after
        return
    sessions = [ort.InferenceSession(piece, providers=["CPUExecutionProvider"]) for piece in (old, new)]
    random = np.random.default_rng(3)
    feeds = {
        i.name: random.integers(0, 50, i.shape).astype(i.type[7:-1])
        if "int" in i.type
        else random.standard_normal(i.shape, np.float32)
        for i in sessions[0].get_inputs()
    }
    if fault.rule == "recomputed-rows":  # the piece that comes takes the earlier product
        feeds["old"] = feeds["h"] @ fault.weights("wk")
    one, other = (session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()}) for session in sessions)
    rounding = 1e-2 if fault.rule == "cast-pairs" else 1e-4
    for before, after in zip(one, other, strict=True):
        np.testing.assert_allclose(before, after, rtol=rounding, atol=rounding * np.nanmax(np.abs(before)))


def test_the_largest_place_of_a_rule_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.analyses.advice.measured.in_turns", lambda ways, seconds: [10.0, 110.0, 60.0])
    path = tmp_path / "model.onnx"
    onnx.save(FAULTS["cnn: batch norm"].model(), path)
    (found,) = flopwise.advise(path, keep_network=True, measure=True).suggestions
    assert found.measured_share == 0.5
    assert flopwise.advise(path, keep_network=True).suggestions[0].measured_share is None
    with pytest.raises(flopwise.InputError, match="local ONNX file"):
        flopwise.advise(onnx.load(path), measure=True)
