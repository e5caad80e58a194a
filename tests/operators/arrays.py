"""Random inputs for one operator: what is arithmetic and what only steers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.helper
import pytest
from onnx.reference import ReferenceEvaluator

_RANDOM = np.random.default_rng(0)


class Input(NamedTuple):
    """An input array, and whether its elements are numbers that the operator computes with."""

    array: Any
    counted: bool = True


def real(*shape: int) -> Input:
    """Normally distributed numbers."""
    return Input(_RANDOM.normal(size=shape))


def positive(*shape: int) -> Input:
    """Numbers between 0.1 and 0.9: in the domain of every function."""
    return Input(_RANDOM.uniform(0.1, 0.9, size=shape))


def whole(*shape: int) -> Input:
    """Small positive integers."""
    return Input(_RANDOM.integers(1, 6, size=shape, dtype=np.uint32))


def flags(*shape: int) -> Input:
    """Booleans that are computed with."""
    return Input(_RANDOM.random(size=shape) < 0.5)


def given(values: Any, dtype: Any = np.int64) -> Input:
    """An input that steers and is not computed with: axes, indices, sizes."""
    return Input(np.array(values, dtype), counted=False)


def mask(*shape: int) -> Input:
    """Booleans that select."""
    return Input(_RANDOM.random(size=shape) < 0.7, counted=False)


def model(
    op: str, inputs: Sequence[Input | None], outputs: int, attrs: Mapping[str, Any], version: int
) -> onnx.ModelProto:
    """A model of one operator on these inputs; ``version`` is that of the operator's domain."""
    domain, _, kind = op.rpartition("::")
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = onnx.helper.make_node(kind, names, [f"y{i}" for i in range(outputs)], domain=domain, **attrs)
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names if n]
    results = [onnx.ValueInfoProto(name=n) for n in node.output]  # types are the operator's affair
    graph = onnx.helper.make_graph([node], kind, values, results)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)], ir_version=10)


def newest(op: str) -> int:
    """The version of an operator's domain to use where a test names none."""
    return {"": 24, "ai.onnx.ml": 3}.get(op.rpartition("::")[0], 1)


def reference(
    op: str, inputs: Sequence[Input | None], outputs: int = 1, attrs: Mapping[str, Any] | None = None, version: int = 0
) -> list[Any]:
    """What onnx's reference implementation answers."""
    feeds = {f"x{i}": x.array for i, x in enumerate(inputs) if x is not None}
    return ReferenceEvaluator(model(op, inputs, outputs, attrs or {}, version or newest(op))).run(None, feeds)


def onnxruntime(
    op: str, inputs: Sequence[Input | None], outputs: int, attrs: Mapping[str, Any], version: int
) -> list[Any]:
    """What ONNX Runtime answers, in single precision; the test is skipped where it is not installed."""
    runtime = pytest.importorskip("onnxruntime")
    file = model(op, inputs, outputs, attrs, version or min(newest(op), 21)).SerializeToString()
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    feeds = {f"x{i}": x.array.astype(np.float32) for i, x in enumerate(inputs) if x is not None}
    return session.run(None, feeds)
