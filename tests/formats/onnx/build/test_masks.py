"""Masks of Attention that are stored with a model: needed work is what they leave."""

from __future__ import annotations

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import flopwise


def _model(mask: numpy.ndarray, queries: int = 5, keys: int = 7, **attrs: int) -> onnx.ModelProto:
    shapes = {"q": (2, 3, queries, 8), "k": (2, 3, keys, 8), "v": (2, 3, keys, 8)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], name="attention", **attrs)
    graph = helper.make_graph([node], "attends", inputs, [output], [numpy_helper.from_array(mask, "mask")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7), (3, 5, 7)])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", ["flags", "added"])
def test_needed_work_is_what_a_stored_mask_leaves(shape: tuple[int, ...], causal: int, kind: str) -> None:
    left = numpy.random.default_rng(len(shape)).random(shape) < 0.6
    mask = left if kind == "flags" else numpy.where(left, 0.0, -numpy.inf).astype(numpy.float32)
    profile = flopwise.profile(_model(mask, is_causal=causal))
    allowed = numpy.tri(5, 7, dtype=bool) if causal else numpy.ones((5, 7), bool)
    pairs = int(numpy.broadcast_to(left & allowed, (2, 3, 5, 7)).sum())
    assert profile.total("macs") == 2 * 3 * 5 * 7 * 16
    assert profile.total("needed_macs") == pairs * 16
    assert flopwise.profile(_model(mask, is_causal=causal), masked="needed").total("macs") == pairs * 16
    assert any(note.startswith("masks: 1 attention layer") for note in profile.notes)
