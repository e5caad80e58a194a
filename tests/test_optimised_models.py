"""Models as onnxruntime's optimisers rewrite them: the same products and parameters, in other operators."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from flopwise.api.profile import profile
from flopwise.profiles.profile import Profile

runtime = pytest.importorskip("onnxruntime")

_RANDOM = np.random.default_rng(3)

#: A layer of BERT as its exporters write it out: attention with a mask, Gelu by its definition, sums and norms.
LAYER = """
    <ir_version: 8, opset_import: ["": 17]>
    layer (float[2, 6, 16] x0, int64[2, 6] mask) => (float[2, 6, 16] y) {
        x = LayerNormalization<axis = -1, epsilon = 1e-5>(x0, g0, b0)
        q0 = MatMul(x, wq)
        q1 = Add(bq, q0)
        q2 = Reshape(q1, apart)
        q = Transpose<perm = [0, 2, 1, 3]>(q2)
        k0 = MatMul(x, wk)
        k1 = Add(bk, k0)
        k2 = Reshape(k1, apart)
        k = Transpose<perm = [0, 2, 3, 1]>(k2)
        v0 = MatMul(x, wv)
        v1 = Add(bv, v0)
        v2 = Reshape(v1, apart)
        v = Transpose<perm = [0, 2, 1, 3]>(v2)
        s0 = MatMul(q, k)
        s1 = Div(s0, root)
        m1 = Unsqueeze(mask, one)
        m2 = Unsqueeze(m1, two)
        m3 = Cast<to = 1>(m2)
        m4 = Sub(unit, m3)
        m5 = Mul(m4, low)
        s2 = Add(s1, m5)
        p = Softmax<axis = 3>(s2)
        o0 = MatMul(p, v)
        o1 = Transpose<perm = [0, 2, 1, 3]>(o0)
        o2 = Reshape(o1, whole)
        o3 = MatMul(o2, wo)
        o4 = Add(bo, o3)
        r = Add(o4, x)
        n = LayerNormalization<axis = -1, epsilon = 1e-5>(r, g1, b1)
        f0 = MatMul(n, wf)
        f1 = Add(bf, f0)
        f2 = Div(f1, sqrt2)
        f3 = Erf(f2)
        f4 = Add(f3, unit)
        f5 = Mul(f1, f4)
        f6 = Mul(f5, half)
        f7 = MatMul(f6, wg)
        f8 = Add(bg, f7)
        t = Add(f8, n)
        y = LayerNormalization<axis = -1, epsilon = 1e-5>(t, g2, b2)
    }
"""

#: Convolutions with activations and a sum; 20 channels fill no block.
IMAGES = """
    <ir_version: 8, opset_import: ["": 17]>
    images (float[1, 3, 32, 32] x) => (float[1, 20, 1, 1] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w1, c1)
        b = Relu(a)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
        c = Conv<pads = [1, 1, 1, 1]>(p, w2)
        d = Add(c, p)
        e = Relu(d)
        f = Sigmoid(e)
        g = Conv<pads = [1, 1, 1, 1], group = 20>(f, w3)
        y = GlobalAveragePool(g)
    }
"""


def layer() -> onnx.ModelProto:
    square, vector, wide = (16, 16), (16,), (16, 32)
    weights = {
        **dict.fromkeys(("wq", "wk", "wv", "wo"), square),
        **dict.fromkeys(("bq", "bk", "bv", "bo", "bg", "g0", "b0", "g1", "b1", "g2", "b2"), vector),
        "wf": wide,
        "bf": wide[1:],
        "wg": wide[::-1],
    }
    settings = {
        "apart": np.array([0, 0, 4, 4]),
        "whole": np.array([0, 0, 16]),
        "one": np.array([1]),
        "two": np.array([2]),
        **{
            n: np.array(v, np.float32)
            for n, v in {"root": 2, "unit": 1, "low": -1e4, "sqrt2": 2**0.5, "half": 0.5}.items()
        },
    }
    return _with(LAYER, weights, settings)


def images() -> onnx.ModelProto:
    return _with(IMAGES, {"w1": (20, 3, 3, 3), "c1": (20,), "w2": (20, 20, 3, 3), "w3": (20, 1, 3, 3)}, {})


def _with(text: str, weights: dict[str, tuple[int, ...]], settings: dict[str, Any]) -> onnx.ModelProto:
    model = parser.parse_model(text)
    random = {name: _RANDOM.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    model.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in (random | settings).items())
    onnx.checker.check_model(model)
    return model


def rewritten(model: onnx.ModelProto, level: str, folder: Path) -> Profile:
    """The profile of the model that onnxruntime saves after optimising it."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return profile(folder / "optimised.onnx")


def kinds(profiled: Profile) -> set[str]:
    return {row.node.op for row in profiled.rows}


def test_fused_layer_of_a_transformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    plain, path = layer(), tmp_path / "layer.onnx"
    onnx.save(plain, path)
    fused = optimizer.optimize_model(str(path), model_type="bert", num_heads=4, hidden_size=16, opt_level=0)
    before, after = profile(plain), profile(fused.model)
    assert {"com.microsoft::Attention", "com.microsoft::BiasGelu", "com.microsoft::SkipLayerNormalization"} <= kinds(
        after
    )
    assert after.exact, after.notes
    assert after.total("macs") == before.total("macs")
    assert after.total("params") == before.total("params")
    assert after.graph.outputs[0].shape == before.graph.outputs[0].shape == (2, 6, 16)


@pytest.mark.parametrize(("make", "fused"), [(layer, "SkipLayerNormalization"), (images, "FusedConv")])
def test_fused_by_the_session(make: Any, fused: str, tmp_path: Path) -> None:
    before = profile(make())
    after = rewritten(make(), "EXTENDED", tmp_path)
    assert f"com.microsoft::{fused}" in kinds(after)
    assert after.exact, after.notes
    assert after.total("macs") == before.total("macs")
    assert after.total("params") == before.total("params")
    assert after.total("flops") == before.total("flops")


def test_channels_that_fill_blocks_up_are_computed_with(tmp_path: Path) -> None:
    before = profile(images())
    after = rewritten(images(), "ALL", tmp_path)
    if "com.microsoft.nchwc::Conv" not in kinds(after):
        pytest.skip("onnxruntime keeps no channels in blocks on this processor")
    assert after.exact, after.notes
    assert after.unresolved == ()
    assert after.graph.outputs[0].shape == (1, 20, 1, 1)
    assert before.total("macs") < after.total("macs")
    first = next(row for row in after.rows if row.node.op == "com.microsoft.nchwc::Conv")
    channels = first.node.output().dims[1]
    assert channels in (24, 32)
    assert first.macs == channels * 32 * 32 * 27
