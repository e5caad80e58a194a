"""What is written is the model that was read but for what was asked for, in little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import numpy_helper
from tests.formats.models import LIGHT, model, node

import flopwise

EXAMPLES = Path(__file__).parents[3] / "examples"
MODELS = [*sorted(LIGHT.glob("*.onnx")), *sorted(LIGHT.parent.glob("simple/*/model.onnx")), *EXAMPLES.glob("*.onnx")]


def without_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without the types of values and without our notes."""
    strip(proto.graph)
    return proto


def strip(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.ClearField("type")
    for one in graph.node:
        ours = [entry for entry in one.metadata_props if entry.key.startswith("flopwise.")]
        for entry in ours:
            one.metadata_props.remove(entry)
        for attribute in one.attribute:
            strip(attribute.g)
            if not attribute.HasField("g"):
                attribute.ClearField("g")
            for body in attribute.graphs:
                strip(body)


@pytest.mark.parametrize("form", ["file", "message"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem if path.stem != "model" else path.parent.name)
def test_everything_else_stays(path: Path, form: str, tmp_path: Path) -> None:
    source: Any = str(path) if form == "file" else onnx.load(path)
    flopwise.write_shapes(source, tmp_path / "w.onnx", annotate=True, assume={"*": 2})
    written, before = onnx.load(tmp_path / "w.onnx"), onnx.load(path)
    assert without_shapes(written) == without_shapes(before)


@pytest.mark.parametrize("form", ["file", "message"])
@pytest.mark.parametrize("weights", [True, False])
def test_memory_does_not_follow_the_weights(form: str, weights: bool, tmp_path: Path) -> None:
    stored = [numpy_helper.from_array(numpy.ones((1024, 1024), "f"), f"w{i}") for i in range(8)]
    nodes = [node("MatMul", f"x{i} w{i}", f"x{i + 1}") for i in range(8)]
    net = model(nodes, {"x0": (1, 1024)}, stored)
    onnx.save(net, tmp_path / "big.onnx")
    source: Any = str(tmp_path / "big.onnx") if form == "file" else net
    flopwise.write_shapes(source, tmp_path / "first.onnx", weights=weights)  # what it imports stays
    tracemalloc.start()
    try:
        flopwise.write_shapes(source, tmp_path / "written.onnx", weights=weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (12 << 20 if form == "message" and weights else 4 << 20)  # of 32 MB; a message gives a tensor at once
    assert ((tmp_path / "written.onnx").stat().st_size > 32 << 20) == weights
