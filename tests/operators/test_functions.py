"""Operators whose ONNX schema carries a function body cost what the body costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from tests.operators.arrays import Input, given, mask, positive
from tests.operators.expansion import cost_of_body, versions_with_body
from tests.operators.nodes import cost

from flopwise.operators.counts import Counts
from flopwise.operators.tables import OPERATORS


@dataclass(frozen=True)
class Expansion:
    """One application of an operator, for the versions of its schema in which it is valid."""

    op: str
    inputs: tuple[Input | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    since: int = 1
    until: int = 99
    constants: tuple[int, ...] = ()


def single(*shape: int) -> Input:
    """Numbers between 0.1 and 0.9 in single precision, as the constants in the bodies are."""
    return Input(positive(*shape).array.astype(np.float32))


def pointwise() -> Iterator[Expansion]:
    unary = """
        Celu Elu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Softplus Softsign Swish ThresholdedRelu Gelu Clip
        Softmax LogSoftmax
    """
    for op in unary.split():
        yield Expansion(op, (single(2, 3, 4),))
    for op in ("GreaterOrEqual", "LessOrEqual"):
        yield Expansion(op, (single(2, 3, 4), single(3, 1)))
    yield Expansion("Elu", (single(5),), {"alpha": 0.5})
    yield Expansion("Celu", (single(5),), {"alpha": 2.0})
    yield Expansion("Selu", (single(5),), {"alpha": 2.0, "gamma": 1.5})
    yield Expansion("Swish", (single(5),), {"alpha": 1.5})
    yield Expansion("Shrink", (single(5),), {"lambd": 0.3, "bias": 0.1})
    yield Expansion("Gelu", (single(2, 3),), {"approximate": "tanh"})
    low, high = Input(np.float32(0.2)), Input(np.float32(0.8))
    yield Expansion("Clip", (single(2, 3), low, high))
    yield Expansion("Clip", (single(2, 3), None, high))
    yield Expansion("Clip", (single(2, 3), low))
    yield Expansion("PRelu", (single(2, 3, 4), single(3, 1)))


def along_axes() -> Iterator[Expansion]:
    for axis in (0, 1, -1):
        yield Expansion("Softmax", (single(2, 3, 4),), {"axis": axis})
        yield Expansion("LogSoftmax", (single(2, 3, 4),), {"axis": axis})
    for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
        yield Expansion(op, (single(2, 3, 4),))
        yield Expansion(op, (single(2, 3, 4), given([0, 2])), {"keepdims": 0})
        yield Expansion(op, (single(2, 3, 4),), {"noop_with_empty_axes": 1})
    yield Expansion("MeanVarianceNormalization", (single(2, 3, 4, 5),))
    yield Expansion("MeanVarianceNormalization", (single(2, 3, 4),), {"axes": [1]})
    scale, bias = single(4), single(4)
    yield Expansion("LayerNormalization", (single(2, 3, 4), scale, bias))
    yield Expansion("LayerNormalization", (single(2, 3, 4), scale))
    yield Expansion("LayerNormalization", (single(2, 3, 4), single(3, 4), single(3, 4)), {"axis": 1}, outputs=3)
    yield Expansion("LayerNormalization", (single(2, 3, 4), scale, bias), outputs=2)
    yield Expansion("RMSNormalization", (single(2, 3, 4), scale))
    yield Expansion("RMSNormalization", (single(2, 3, 4), single(3, 4)), {"axis": -2})
    groups = {"num_groups": 2}
    yield Expansion("GroupNormalization", (single(2, 4, 3, 3), single(2), single(2)), groups, until=20)
    yield Expansion("GroupNormalization", (single(2, 4, 3, 3), scale, bias), groups, since=21)


def movement() -> Iterator[Expansion]:
    yield Expansion("CastLike", (single(2, 3), Input(np.float64(1.0))))
    yield Expansion("DepthToSpace", (single(1, 8, 2, 2),), {"blocksize": 2})
    yield Expansion("DepthToSpace", (single(1, 8, 2, 2),), {"blocksize": 2, "mode": "CRD"})
    yield Expansion("SpaceToDepth", (single(1, 2, 4, 4),), {"blocksize": 2})
    yield Expansion("CenterCropPad", (single(2, 3, 8), given([4, 4])), {"axes": [1, 2]}, constants=(1,))


def attention() -> Iterator[Expansion]:
    whole = single(2, 2, 3, 4), single(2, 2, 5, 4), single(2, 2, 5, 6)
    grouped = single(2, 3, 16), single(2, 5, 8), single(2, 5, 12)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    past = single(2, 2, 4, 4), single(2, 2, 4, 6)
    length = given([3, 5])
    yield Expansion("Attention", whole)
    yield Expansion("Attention", whole, {"scale": 0.3, "softcap": 2.0})
    yield Expansion("Attention", whole, {"is_causal": 1})
    yield Expansion("Attention", (*whole, single(3, 5)))
    yield Expansion("Attention", (*whole, single(2, 1, 3, 5)), {"is_causal": 1})
    yield Expansion("Attention", grouped, heads)
    yield Expansion("Attention", (*grouped, single(4, 3, 5)), heads)
    yield Expansion("Attention", (*grouped, mask(2, 1, 3, 5)), heads)
    yield Expansion("Attention", (*grouped, mask(2, 1, 1, 5)), heads)
    yield Expansion("Attention", (*grouped, single(1, 5)), {**heads, "is_causal": 1})
    yield Expansion("Attention", (*grouped, None, *past), {**heads, "is_causal": 1}, outputs=3)
    yield Expansion("Attention", (*grouped, mask(3, 9), *past), heads, outputs=3)
    for mode in range(4):
        attrs = {**heads, "qk_matmul_output_mode": mode, "softcap": 1.5}
        yield Expansion("Attention", (*grouped, single(3, 9), *past), attrs, outputs=4)
    yield Expansion("Attention", (*grouped, None, None, None, length), heads, since=24)
    yield Expansion("Attention", (*grouped, single(3, 4), None, None, length), heads, since=24)
    yield Expansion("Attention", (*grouped, None, None, None, length), {**heads, "is_causal": 1}, since=24)
    yield Expansion("Attention", (*grouped, single(3, 5), None, None, length), {**heads, "is_causal": 1}, since=24)
    for left, right in ((0, -1), (-1, 1), (1, 0)):
        window = {**heads, "left_window_size": left, "right_window_size": right}
        yield Expansion("Attention", grouped, window, since=25)
        yield Expansion("Attention", (*grouped, single(3, 5)), {**window, "is_causal": 1}, since=25)
        yield Expansion("Attention", (*grouped, None, None, None, length), window, since=25)
    tables, positions = (single(9, 2), single(9, 2)), given([[0, 1, 2], [4, 5, 6]])
    yield Expansion("RotaryEmbedding", (single(2, 2, 3, 4), *tables, positions))
    yield Expansion("RotaryEmbedding", (single(2, 3, 16), *tables, positions), {"num_heads": 4, "interleaved": 1})
    partial = {"num_heads": 2, "rotary_embedding_dim": 4}
    yield Expansion("RotaryEmbedding", (single(2, 3, 16), single(2, 3, 2), single(2, 3, 2)), partial)
    yield Expansion("RotaryEmbedding", (single(2, 2, 3, 8), *tables, positions), {"rotary_embedding_dim": 4})


def quantized() -> Iterator[Expansion]:
    yield Expansion("DynamicQuantizeLinear", (single(2, 3, 4),), outputs=3)
    yield Expansion("DynamicQuantizeLinear", (single(5),), outputs=3)


def losses() -> Iterator[Expansion]:
    scores, labels, weights = single(2, 3, 4), given(np.arange(8).reshape(2, 4) % 3), single(3)
    for op, outputs in (("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2)):
        for reduction in ("none", "sum", "mean"):
            for operands in ((scores, labels), (scores, labels, weights)):
                yield Expansion(op, operands, {"reduction": reduction}, outputs)
                yield Expansion(op, operands, {"reduction": reduction, "ignore_index": 1}, outputs)


def generators() -> Iterator[Expansion]:
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield Expansion(op, (given(8),))
        yield Expansion(op, (given(5),), {"periodic": 0})
    yield Expansion("Bernoulli", (single(2, 3),))
    for corners in (0, 1):
        size = given([2, 1, 3, 4, 5])
        yield Expansion("AffineGrid", (single(2, 3, 4), size), {"align_corners": corners}, constants=(1,))


def states() -> Iterator[Expansion]:
    """Operators that hand a state on."""
    yield Expansion("SwiGLU", (single(2, 3), single(2, 3)), {"alpha": 1.5})
    x, w, b, past = single(2, 3, 5), single(3, 1, 4), single(3), single(2, 3, 3)
    for activation in ("none", "silu", "swish"):
        yield Expansion("CausalConvWithState", (x, w), {"activation": activation}, 2)
        yield Expansion("CausalConvWithState", (x, w, b, past), {"activation": activation}, 2)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    tokens = single(2, 3, 8), single(2, 3, 4), single(2, 3, 6)
    memory, decay, share = single(2, 2, 2, 3), single(2, 3, 4), single(2, 3, 2)
    for first in (None, memory):
        for rule, gates in (
            ("linear", ()),
            ("gated", (decay,)),
            ("gated", (single(2, 3, 2),)),
            ("delta", (None, share)),
            ("gated_delta", (decay, share)),
            ("gated_delta", (decay, single(2, 3, 1))),
        ):
            yield Expansion("LinearAttention", (*tokens, first, *gates), {**heads, "update_rule": rule}, 2)
    flex = "ai.onnx.preview::FlexAttention"
    yield Expansion(flex, (single(2, 2, 3, 4), single(2, 2, 5, 4), single(2, 2, 5, 6)))
    yield Expansion(flex, (single(1, 4, 3, 4), single(1, 2, 5, 4), single(1, 2, 5, 4)), {"scale": 0.5})


EXPANSIONS = [*losses(), *generators(), *states(), *pointwise(), *quantized(), *along_axes(), *movement(), *attention()]

#: Operators whose count is not that of their body, and why.
EXCEPTIONS = {
    "GreaterOrEqual": "one comparison (IEEE 754-2019, 5.11); the body asks twice, for runtimes that lack the relation",
    "LessOrEqual": "one comparison (IEEE 754-2019, 5.11); the body asks twice, for runtimes that lack the relation",
    "Range": "numbers positions; the body spells this as a Loop whose trip count is data",
    "SequenceMap": "the operators of its body are rows of their own",
}

#: Versions of Attention whose body says what a row does that is masked out whole.
OLD_ATTENTION = pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23),
    reason="onnx before 1.23 divides zero by zero in rows that are masked out whole",
)


def rows() -> Iterator[Any]:
    for one in EXPANSIONS:
        for version in versions_with_body(one.op):
            if one.since <= version <= one.until:
                shapes = ",".join("x".join(map(str, x.array.shape)) if x else "-" for x in one.inputs)
                attrs = ",".join(f"{k}={v}".replace(" ", "") for k, v in one.attrs.items())
                marks = [OLD_ATTENTION] if one.op == "Attention" else []
                yield pytest.param(one, version, id=f"{one.op}@{version}({shapes}){attrs and ':' + attrs}", marks=marks)


@pytest.mark.parametrize(("one", "version"), list(rows()))
def test_operator_costs_what_its_body_costs(one: Expansion, version: int) -> None:
    expected, shapes = cost_of_body(one.op, version, one.inputs, one.attrs, one.outputs, one.constants)
    ours = cost(one.op, [None if x is None else x.array.shape for x in one.inputs], shapes, version, **one.attrs)
    if one.op in EXCEPTIONS:
        assert ours != expected, "no exception any more"
    else:
        assert ours == expected


def test_comparison_costs_no_more_than_its_body() -> None:
    for op in ("GreaterOrEqual", "LessOrEqual"):
        body, _ = cost_of_body(op, 16, (single(4), single(4)), {})
        assert body == Counts(cmp=8, bit=4)


def test_grid_of_an_image_costs_half_of_what_its_body_costs() -> None:
    """In two dimensions the body makes three coordinates of four terms each and drops one; two of three are due."""
    operands = single(2, 2, 3), given([2, 1, 4, 5])
    body, _ = cost_of_body("AffineGrid", 20, operands, {}, constants=(1,))
    assert body == cost("AffineGrid", [(2, 2, 3), (4,)], [(2, 4, 5, 2)]) * 2


def test_every_operator_with_a_body_is_compared_or_excepted() -> None:
    with_body = {op for op in OPERATORS if versions_with_body(op)}
    listed = {one.op for one in EXPANSIONS} | EXCEPTIONS.keys()
    assert with_body == {op for op in listed if versions_with_body(op)}
