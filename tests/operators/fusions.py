"""Operators of onnxruntime, and the same written with ONNX's operators: two texts for one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

#: The newest operator set that onnxruntime runs the parts with.
OPSET = 24


@dataclass(frozen=True)
class Fusion:
    """One function in two forms, on the same inputs."""

    name: str
    #: Nodes that make y, and perhaps more, with operators of com.microsoft ...
    fused: str
    #: ... and with standard ones.
    parts: str
    inputs: dict[str, Any]
    #: Inputs that are stored in both models.
    stored: tuple[str, ...] = ()
    #: How far the results may be apart.
    tolerance: float = 2e-4
    #: Whether onnxruntime has a kernel for the processor.
    runs: bool = True
    #: Shapes of inputs that only the parts have, because the fused operator makes them of its attributes.
    constants: dict[str, Any] = field(default_factory=dict)
    opset: int = OPSET
    #: The first version of onnxruntime that runs it.
    since: str = "1.31"

    def __str__(self) -> str:
        return self.name

    def models(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """The fused model, and the one of parts."""
        return self._model(self.fused, {}), self._model(self.parts, self.constants)

    def feeds(self) -> dict[str, Any]:
        return {name: x for name, x in self.inputs.items() if name not in self.stored}

    def _model(self, nodes: str, constants: dict[str, Any]) -> onnx.ModelProto:
        text = f"""
            <ir_version: 10, opset_import: ["": {self.opset}, "com.microsoft": 1]>
            model () => (y) {{ {nodes} }}
        """
        model = parser.parse_model(text)
        model.graph.input.extend(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in self.feeds().items()
        )
        kept = {name: self.inputs[name] for name in self.stored} | constants
        model.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in kept.items())
        return model


_RANDOM = np.random.default_rng(7)


def real(*shape: int) -> Any:
    return _RANDOM.normal(size=shape).astype(np.float32)


def octets(*shape: int, dtype: Any = np.uint8) -> Any:
    return _RANDOM.integers(0, 120, shape).astype(dtype)


def number(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def split(name: str, heads: int, made: str = "") -> str:
    """Text that takes (B, S, N × d) apart into heads (B, N, S, d)."""
    made = made or f"{name}4"
    return f"""
        {made}shape = Constant<value_ints = [0, 0, {heads}, -1]>()
        {made}s = Reshape({name}, {made}shape)
        {made} = Transpose<perm = [0, 2, 1, 3]>({made}s)
    """


def softmax(q: str, k: str, v: str, made: str, size: int, masks: Sequence[str] = ()) -> str:
    """Text of the attention of heads: both scaled by the root of 1 / √size, masks added to the scores one by one."""
    scores = "".join(f"{made}s{i + 1} = Add({made}s{i}, {mask})\n" for i, mask in enumerate(masks))
    return f"""
        {made}c = Constant<value_float = {size**-0.25:.9f}>()
        {made}q = Mul({q}, {made}c)
        {made}k = Mul({k}, {made}c)
        {made}t = Transpose<perm = [0, 1, 3, 2]>({made}k)
        {made}s0 = MatMul({made}q, {made}t)
        {scores}
        {made}a = Softmax<axis = -1>({made}s{len(masks)})
        {made} = MatMul({made}a, {v})
    """


def merge(name: str, made: str = "y") -> str:
    """Text that puts heads (B, N, S, d) together to (B, S, N × d)."""
    return f"""
        {made}shape = Constant<value_ints = [0, 0, -1]>()
        {made}t = Transpose<perm = [0, 2, 1, 3]>({name})
        {made} = Reshape({made}t, {made}shape)
    """


def heads(masks: Sequence[str] = (), number: int = 4, size: int = 4) -> str:
    """Text of the attention of q, k and v, each (B, S, N × d)."""
    return (
        split("q", number)
        + split("k", number)
        + split("v", number)
        + softmax("q4", "k4", "v4", "o", size, masks)
        + merge("o")
    )


def hide(mask: str, made: str) -> str:
    """Text that makes what is added to scores of a mask (B, T): 0 where it is 1, else a large negative number."""
    return f"""
        {made}axes = Constant<value_ints = [1, 2]>()
        {made}zero = Constant<value_float = 0.0>()
        {made}low = Constant<value_float = -10000.0>()
        {made}flag = Cast<to = 9>({mask})
        {made}4 = Unsqueeze({made}flag, {made}axes)
        {made} = Where({made}4, {made}zero, {made}low)
    """


def causal(length: int, total: int) -> Any:
    """What is added to scores (length, total) of the last positions so that none sees what comes later."""
    place = np.arange(total)[None, :] > np.arange(total - length, total)[:, None]
    return np.where(place, np.float32(-10000.0), np.float32(0.0))


def swiglu(made: str) -> str:
    """Text of a swiglu of g0 and l0: activation_alpha 1.5, activation_beta 1, both clamped to 2."""
    return f"""
        top = Constant<value_float = 2.0>()
        low = Constant<value_float = -2.0>()
        g = Min(g0, top)
        l = Clip(l0, low, top)
        alpha = Constant<value_float = 1.5>()
        one = Constant<value_float = 1.0>()
        ga = Mul(g, alpha)
        gs = Sigmoid(ga)
        gg = Mul(g, gs)
        lb = Add(l, one)
        {made} = Mul(gg, lb)
    """
