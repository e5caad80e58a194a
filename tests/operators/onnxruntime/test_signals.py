"""Fourier transforms in every form that onnxruntime takes: shapes as it makes them, and counts that know the form."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from flopwise.api.profile import profile
from flopwise.operators.counts import Counts
from flopwise.operators.fourier import transform

runtime = pytest.importorskip("onnxruntime")


def built(op: str, version: int, inputs: list[Any], stored: tuple[int, ...], attrs: dict[str, Any]) -> onnx.ModelProto:
    """One node; None is an input that is left out."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    while not names[-1]:
        names.pop()
    placed = [(i, name, inputs[i]) for i, name in enumerate(names) if name]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, name, x in placed
            if i not in stored
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(x, name) for i, name, x in placed if i in stored],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def made(model: onnx.ModelProto, inputs: list[Any], stored: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that onnxruntime makes; None where it refuses the form."""
    try:
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and i not in stored}
        return tuple(session.run(None, feeds)[0].shape)
    except Exception:  # every error of its own has a class of its own
        return None


def real(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


SIGNALS = [(6,), (2, 6), (6, 1), (6, 2), (2, 6, 1), (2, 6, 2), (2, 3, 6, 1), (2, 3, 6, 2)]


@pytest.mark.parametrize(
    ("version", "shape", "length", "onesided", "inverse"),
    list(itertools.product((17, 20), SIGNALS, (None, 4), (0, 1), (0, 1))),
)
def test_transforms(version: int, shape: tuple[int, ...], length: int | None, onesided: int, inverse: int) -> None:
    inputs = [real(*shape), None if length is None else np.array(length)]
    model = built("DFT", version, inputs, (1,), {"onesided": onesided, "inverse": inverse})
    result = profile(model, fold=False)
    shape_of_runtime = made(model, inputs, (1,))
    if shape_of_runtime is not None:
        assert result.graph.outputs[0].shape == shape_of_runtime
        assert [row.counts is not None for row in result.rows] == [True]
    else:
        no_signal = shape[-1] > 2 or (version == 17 and len(shape) == 2)  # whose default axis is that of components
        assert onesided or no_signal, "onnxruntime takes every whole transform of a signal"


@pytest.mark.parametrize(
    ("shape", "window", "length", "onesided"),
    list(itertools.product([(2, 32), (2, 32, 1), (2, 32, 2)], (None, 8), (None, 8), (0, 1))),
)
def test_short_transforms(shape: tuple[int, ...], window: int | None, length: int | None, onesided: int) -> None:
    inputs = [
        real(*shape),
        np.array(4),
        None if window is None else real(window),
        None if length is None else np.array(8),
    ]
    model = built("STFT", 17, inputs, (1, 3), {"onesided": onesided})
    result = profile(model, fold=False)
    y = made(model, inputs, (1, 3))
    if y is None:
        assert shape[2:] == (2,) or (window is None and length is None), "onnxruntime takes every other form"
        return
    assert result.graph.outputs[0].shape == y
    components = 2 if shape[2:] == (2,) else 1
    whole = transform(8 if window or length else 32)
    each = whole if components == 2 else Counts(mul=whole.mul // 2, add=whole.add // 2)
    weighed = Counts(mul=8 * components) if window else Counts()
    if onesided and length and not window:  # five bins are those of 8 numbers or of 9
        each = Counts(mul=transform(9).mul // 2, add=transform(9).add // 2)
    assert [row.counts for row in result.rows] == [(each + weighed) * (y[0] * y[1])]
