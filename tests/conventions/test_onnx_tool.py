"""Every operator of onnx-tool's convention, beside what the installed onnx-tool says of a one-node model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.cases import each
from tests.conventions.nodes import Shapes, node, total

from flopwise.conventions import CONVENTIONS, onnx_tool
from flopwise.graph import Node

tool = pytest.importorskip("onnx_tool")

X = (2, 8, 6, 6)

#: A shape is a float input, an array a stored one, None an omitted one.
Input = "tuple[int, ...] | np.ndarray[Any, Any] | None"


@dataclass(frozen=True)
class Case:
    """One node and, where it is worth reading, the number that the tool prints."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    expected: int | None = None

    def __str__(self) -> str:
        shapes = ",".join(
            "-" if i is None else "x".join(map(str, np.shape(i) if _stored(i) else i)) for i in self.inputs
        )
        return f"{self.op}({shapes})" + "".join(f",{k}={v}".replace(" ", "") for k, v in self.attrs.items())


def _stored(one: Any) -> bool:
    return isinstance(one, np.ndarray)


def case(op: str, *inputs: Any, outputs: int = 1, expected: int | None = None, **attrs: Any) -> Case:
    return Case(op, inputs, attrs, outputs, expected)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


UNARY = """
    Exp Log Sqrt Sin Cos Atan Tanh Sigmoid Softplus Elu Gelu Silu HardSigmoid HardSwish Relu Relu6 LeakyRelu Clip
    Reciprocal Abs Neg Sign Ceil Floor Round Not Erf LogitSoftCapping Rope GeGelu
"""
BINARY = "Add Sub Mul Div Mod Max Min Less LessOrEqual Greater GreaterOrEqual Equal And Or Xor"

CASES = [
    # Convolutions: the facts of the tool's own issues, and one of each dimension.
    case("Conv", (1, 3, 224, 224), (96, 3, 11, 11), (96,), strides=[4, 4], kernel_shape=[11, 11], expected=101896704),
    case("Conv", (1, 1, 224, 224), (8, 1, 1, 1), (8,), expected=802816),
    case("Conv", (1, 8, 10, 10), (4, 4, 3, 3), group=2, pads=[1, 1, 1, 1]),
    case("Conv", (1, 8, 10), (4, 8, 3), (4,)),
    case("Conv", (1, 3, 8, 8, 8), (4, 3, 3, 3, 3)),
    case("Conv", (1, 8, 10, 10), (4, 8, 3, 3), (4,), dilations=[2, 2], strides=[2, 1]),
    case("Conv", (1, 8, 10, 10), (4, 8, 3, 3), auto_pad="SAME_UPPER"),
    case("ConvTranspose", (1, 64, 32, 32), (64, 32, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1], expected=67108864),
    case("ConvTranspose", (1, 512, 32, 32), (512, 3, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1], expected=589824),
    case("ConvTranspose", (1, 64, 32, 32), (64, 1, 4, 4), group=64, strides=[2, 2], pads=[1] * 4, expected=4194304),
    case("ConvTranspose", (1, 8, 5), (8, 4, 3), (4,)),
    case("ConvTranspose", (1, 4, 3, 3, 3), (4, 2, 2, 2, 2), strides=[2, 2, 2], pads=[0] * 6, dilations=[1, 1, 1]),
    case("ConvInteger", (1, 8, 10, 10), (4, 8, 3, 3)),
    case("ConvInteger", (1, 8, 10, 10), (4, 8, 3, 3), zeros(), zeros()),
    case("ConvInteger", (1, 8, 10), (4, 8, 3)),
    case("QLinearConv", (1, 8, 10, 10), (), (), (4, 8, 3, 3), (), (), (), ()),
    case("QLinearConv", (1, 8, 10, 10), (), (), (4, 8, 3, 3), (), (), (), (), (4,)),
    # Matrix products.
    case("Gemm", (1, 9216), (4096, 9216), (4096,), transB=1, expected=37752832),
    case("Gemm", (3, 5), (5, 7), alpha=0.5),
    case("Gemm", (5, 3), (5, 7), (3, 7), transA=1, beta=2.0),
    case("MatMul", (2, 3, 4, 5), (5, 7)),
    case("MatMul", (2, 3, 4, 5), (2, 3, 5, 7)),
    case("MatMul", (8, 1, 64, 64), (1, 8, 64, 64), expected=2097152),
    case("MatMulInteger", (4, 5), (5, 7)),
    case("MatMulInteger", (4, 5), (5, 7), (), expected=4 * 5 * 7 + 4 * 7),
    case("MatMulInteger", (4, 5), (5, 7), (), ()),
    case("QLinearMatMul", (2, 4, 5), (), (), (5, 7), (), (), (), ()),
    case("Einsum", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik", expected=120),
    case("Einsum", (3, 4), (4, 5), equation="ij, jk -> ik"),
    case("Einsum", (3, 3), (3, 5), equation="ii,ij->j"),
    # Recurrent layers.
    case("LSTM", (100, 1, 64), (1, 256, 64), (1, 256, 64), (1, 512), outputs=3, hidden_size=64, expected=4480000),
    case("LSTM", (100, 1, 64), (2, 256, 64), (2, 256, 64), (2, 512), direction="bidirectional", expected=7808000),
    case("LSTM", (7, 2, 4), (1, 12, 4), (1, 12, 3), None, ints(7, 7)),
    case("GRU", (100, 1, 64), (1, 192, 64), (1, 192, 64), (1, 384), outputs=2, expected=100 * (24576 + 384 + 64 * 110)),
    # Pooling.
    case("MaxPool", X, kernel_shape=[3, 2], strides=[2, 2]),
    case("MaxPool", (2, 8, 9), kernel_shape=[3], strides=[1], pads=[0, 0]),
    case("MaxPool", (1, 8, 16, 16, 16), kernel_shape=[2] * 3, strides=[2] * 3, pads=[0] * 6, expected=8192),
    case("AveragePool", X, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0]),
    case("GlobalAveragePool", X, expected=2 * 8 * 36 + 4 * 16),
    case("GlobalAveragePool", (2, 8, 5)),
    # Normalisations.
    case("BatchNormalization", X, (8,), (8,), (8,), (8,), expected=31 * 576),
    case("InstanceNormalization", X, (8,), (8,), epsilon=1e-5),
    case("LayerNormalization", (2, 5, 16), (16,), (16,), expected=160 * 7 + 10 * 29),
    case("LayerNormalization", (2, 5, 16), (5, 16), axis=1, expected=160 * 7 + 32 * 29),
    case("LpNormalization", (2, 5)),
    case("LRN", X, size=5, expected=42 * 576),
    case("Softmax", (2, 10), axis=1),
    case("LogSoftmax", (2, 10), axis=1),
    case("Hardmax", (2, 10)),
    # Reductions.
    *(case(f"Reduce{kind}", (2, 5, 16), axes=[1]) for kind in ("Mean", "Sum", "Prod", "Min", "Max")),
    case("ReduceMean", (2, 5, 16), ints(1)),
    case("ReduceL2", (2, 5, 16), axes=[1], expected=160 * 25),
    case("CumSum", (2, 5), np.array(1)),
    # Pointwise operators.
    *(case(op, (2, 5)) for op in UNARY.split()),
    *(case(op, (4, 1, 5), (3, 5)) for op in BINARY.split()),
    *(case(op, (), ()) for op in ("Add", "Mul", "Div", "Equal")),
    case("Sqrt", ()),
    case("Pow", (4, 5), ()),
    case("Pow", (4, 1), (1, 5), expected=5 * 32),
    case("PRelu", (4, 5), (5,)),
    case("Clip", (4, 5), zeros(), zeros()),
    case("Max", (4, 5), (4, 5), (4, 5), (4, 5), expected=20),
    case("Min", (4, 5)),
    case("Sum", (4, 5), (4, 5), (4, 5), expected=40),
    case("Sum", (4, 5)),
    case("Sum", (4, 1), (1, 5), expected=5),
    case("ImageScaler", X, scale=0.5, bias=[0.0] * 8),
    case("QuantizeLinear", (4, 5), (), zeros(dtype=np.uint8)),
    case("DequantizeLinear", zeros(4, 5, dtype=np.int8), ()),
    case("DequantizeLinear", (4, 5), (), ()),
    case("NonZero", (4, 5)),
    # Interpolation.
    *(case("Resize", X, None, ints(1, 1, 2, 2).astype(np.float32), mode=m) for m in ("nearest", "linear", "cubic")),
    case("Resize", X, ints(1, 1, 2, 2).astype(np.float32), mode="linear"),
    case("Upsample", X, ints(1, 1, 2, 2).astype(np.float32), mode="bilinear"),
    # Operators that cost nothing.
    case("ArgMax", (4, 5), axis=1),
    case("ArrayFeatureExtractor", (4, 5), ints(0)),
    case("CategoryMapper", (4,)),
    case("Compress", (4, 5), np.array([True, False, True, True]), axis=0),
    case("DepthToSpace", (1, 8, 3, 3), blocksize=2),
    case("Dropout", X, outputs=2),
    case("Expand", (4, 1), ints(4, 5)),
    case("Flatten", X),
    case("GatherElements", (4, 5), np.zeros((4, 2), np.int64), axis=1),
    case("GatherND", (4, 5), np.zeros((3, 1), np.int64)),
    case("GridSample", X, (2, 4, 4, 2)),
    case("NonMaxSuppression", (1, 6, 4), (1, 1, 6), ints(3)),
    case("OneHot", ints(0, 2), np.array(3), zeros(2)),
    case("RandomNormalLike", (4, 5)),
    case("RandomUniformLike", (4, 5)),
    case("Range", np.array(0), np.array(6), np.array(2)),
    case("RoiAlign", X, (3, 4), ints(0, 0, 1), output_height=2, output_width=2),
    case("Scan", (4,), (4,), (4,), (4,), outputs=5),
    case("ScatterElements", (4, 5), np.zeros((1, 5), np.int64), (1, 5)),
    case("ScatterND", (4, 5), np.zeros((2, 1), np.int64), (2, 5)),
    case("Split", (4, 6), outputs=2, axis=1),
    case("Tile", (4, 5), ints(2, 1)),
    case("TopK", (4, 5), ints(2), outputs=2, axis=1),
    case("Transpose", (4, 5)),
    case("Trilu", (4, 4)),
    case("Where", (4, 5), (4, 5), (4, 5)),
    case("ZipMap", (4, 5)),
]

#: Nodes at which the tool stops although it knows the operator.
REFUSED = [
    case("MatMul", (5,), (5, 7)),
    case("MatMul", (4, 5), (5,)),
    case("Einsum", (2, 3, 4), (2, 4, 5), equation="...ij,...jk->...ik"),
    case("Einsum", (2, 3), (3, 4), (4, 5), equation="ij,jk,kl->il"),
    case("Einsum", (3, 3), equation="ii->i"),
    case("Einsum", (2, 3), (3, 4), equation="ij,jk"),
    case("LSTM", (7, 2, 4), (1, 12, 4), (1, 12, 3), hidden_size=3),
    case("GRU", (7, 2, 4), (1, 9, 4), (1, 9, 3), (1, 18)),
    case("GRU", (7, 2, 4), (1, 9, 4), (1, 9, 3), outputs=2),
    case("QuantizeLinear", (4, 5), ()),
    case("Resize", X, None, ints(1, 1, 2, 2).astype(np.float32)),
    *(
        case(op, X)
        for op in ("Selu", "Mish", "Softsign", "GlobalMaxPool", "ReduceL1", "ArgMin", "Mean", "Tan", "IsNaN")
    ),
    case("GroupNormalization", X, (8,), (8,), num_groups=2),
    case("Attention", (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
]


def model(one: Case) -> ModelProto:
    """A model of the one node."""
    names = ["" if i is None else f"x{k}" for k, i in enumerate(one.inputs)]
    pairs = [(n, i) for n, i in zip(names, one.inputs, strict=True) if n]
    outputs = [f"y{k}" for k in range(one.outputs)]
    graph = helper.make_graph(
        [helper.make_node(one.op, names, outputs, name="n", **one.attrs)],
        "one",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, i) for n, i in pairs if not _stored(i)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(i, n) for n, i in pairs if _stored(i)],
    )
    return helper.make_model(graph)


def measure(one: Case) -> tuple[int, list[tuple[int, ...]]]:
    """What the tool counts, and the shapes of the outputs as it sees them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = tool.Model(model(one), {"verbose": False}).graph
        graph.graph_reorder_nodes()
        graph.shape_infer(None)
        graph.profile()
    (measured,) = graph.nodemap.values()
    return int(measured.macs[0]), [tuple(graph.tensormap[name].get_shape()) for name in measured.output]


def ours(one: Case, outputs: Shapes) -> Node:
    shapes = [None if i is None else np.shape(i) if _stored(i) else i for i in one.inputs]
    return node(one.op, shapes, outputs, one.attrs)


@each("one", CASES)
def test_counts_as_the_tool_does(one: Case) -> None:
    count, outputs = measure(one)
    assert total("onnx-tool", ours(one, outputs)) == count
    assert one.expected in (None, count)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "count"),
    [
        ("MatMul", [(8, 1, 64, 64), (1, 8, 64, 64)], (8, 8, 64, 64), 2097152),
        ("Pow", [(4, 1), (1, 5)], (4, 5), 160),
        ("Sum", [(4, 1), (1, 5)], (4, 5), 5),
    ],
)
def test_operands_that_broadcast_each_other(op: str, inputs: Shapes, output: tuple[int, ...], count: int) -> None:
    """The tool's figure also for the true shape of the output, which it does not see."""
    assert total("onnx-tool", node(op, inputs, [output])) == count


@pytest.mark.parametrize("one", REFUSED, ids=str)
def test_stops_where_the_tool_does(one: Case) -> None:
    with pytest.raises(Exception):  # noqa: B017 - the tool stops with whatever error comes first
        measure(one)
    assert total("onnx-tool", ours(one, [(1,)] * one.outputs)) is None


def test_every_rule_is_compared() -> None:
    assert {one.op for one in CASES} == CONVENTIONS["onnx-tool"].overrides.keys()


def test_operators_are_those_that_the_tool_registers() -> None:
    registered = {name.removesuffix("Node") for name, _ in tool.NODE_REGISTRY if name.endswith("Node")}
    convention = CONVENTIONS["onnx-tool"]
    #: Written only by its builder of language models.
    builder_only = {"MHA", "GQA", "MQA"}
    assert convention.overrides.keys() | convention.unlisted == registered - builder_only
    assert convention.unlisted == set(tool.NoMacsOps)


def test_layer_names() -> None:
    nodes = [node("Conv", [X], [X]), node("Relu", [X], [X], name="act"), node("acme::Relu", [X], [X])]
    assert onnx_tool.layer_names(nodes) == ["Conv_0", "act", "Relu_2"]


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_an_omitted_bias_costs_nothing(op: str) -> None:
    x, w, y = {"Conv": ((1, 3, 10, 10), (8, 3, 3, 3), (1, 8, 8, 8)), "Gemm": ((4, 20), (20, 30), (4, 30))}[op]
    without, omitted = (total("onnx-tool", node(op, [x, w, *rest], [y])) for rest in ([], [None]))
    assert without == omitted == {"Conv": 13_824, "Gemm": 2_400}[op]
