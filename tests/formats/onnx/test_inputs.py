"""Open inputs: what the user has to say, what follows from it, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import array, conv_net, ints, model, node, shapes, value, weight

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import InputError
from flopwise.formats.kit import inputs as onnx_inputs
from flopwise.formats.onnx.decode import decoded
from flopwise.formats.onnx.memory import MessageSource
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.sizes.facts import Facts

OPEN = model([node("Relu", "x", "y")], {"x": ("N", 3, "H", "W")})
UNNAMED = model([node("Relu", "x", "y")], {"x": (None, 3, None)})
TEXT = model(
    [node("Add", "ids mask", "a"), node("MatMul", "a w", "y")],
    {"ids": ("batch", "seq"), "mask": ("batch", "seq")},
    [weight("w", 8, 4)],
)
SHAPELESS = model([node("Relu", "x", "y")], {"x": None})
SCALAR = model([node("Mul", "x ratio", "y")], {"x": ("N",), "ratio": ()})
QUOTED = model([node("Relu", "my input", "y")], {})
MIXED = model(
    [node("Add", "x state", "y")],
    [value("x", ("n", 4)), value("state", ("batch", 4)), value("table", (7, 4))],
)


def made(net: onnx.ModelProto, inputs: Any = None, **options: Any) -> dict[str, Any]:
    """The shapes of a model's inputs and outputs."""
    graph = read(net, inputs, **options)
    return {t.name: t.shape for t in graph.inputs} | {t.name: t.shape for t in graph.outputs}


@pytest.mark.parametrize(
    ("net", "inputs", "options", "expected"),
    [
        (OPEN, {"x": (2, 3, 8, 9)}, {}, {"x": (2, 3, 8, 9), "y": (2, 3, 8, 9)}),
        (OPEN, (2, 3, 8, 9), {}, {"x": (2, 3, 8, 9), "y": (2, 3, 8, 9)}),
        (OPEN, "x:f32:2x3x8x9", {}, {"x": (2, 3, 8, 9), "y": (2, 3, 8, 9)}),
        (OPEN, None, {"dims": {"N": 2, "H": 8, "W": 9}}, {"x": (2, 3, 8, 9), "y": (2, 3, 8, 9)}),
        (OPEN, None, {"dims": {"H": 8, "W": 9}, "batch_size": 5}, {"x": (5, 3, 8, 9), "y": (5, 3, 8, 9)}),
        (OPEN, ("K", 3, "H", "H"), {"dims": {"K": 2, "H": 8}}, {"x": (2, 3, 8, 8), "y": (2, 3, 8, 8)}),
        (OPEN, ("K", 3, 8, 8), {"batch_size": 4}, {"x": (4, 3, 8, 8), "y": (4, 3, 8, 8)}),
        # a shape of one sample takes the batch
        (OPEN, (1, 3, 8, 8), {"batch_size": 4}, {"x": (4, 3, 8, 8), "y": (4, 3, 8, 8)}),
        (conv_net(), (1, 3, 64, 64), {"batch_size": 4}, {"x": (4, 3, 64, 64), "y": (4, 1000)}),
        (
            MIXED,
            {"state": (1, 4), "table": (1, 4)},
            {"batch_size": 6},
            {"x": (6, 4), "state": (6, 4), "table": (1, 4), "y": (6, 4)},
        ),
        (OPEN, (2, 3, 8, 8), {"batch_size": 2}, {"x": (2, 3, 8, 8), "y": (2, 3, 8, 8)}),
        (UNNAMED, (2, 3, 5), {}, {"x": (2, 3, 5), "y": (2, 3, 5)}),
        # a symbol has one value everywhere
        (TEXT, {"ids": (2, 8)}, {}, {"ids": (2, 8), "mask": (2, 8), "y": (2, 4)}),
        (TEXT, None, {"dims": {"seq": 8}, "batch_size": 3}, {"ids": (3, 8), "mask": (3, 8), "y": (3, 4)}),
        # other shapes than the file's
        (conv_net(), {"x": (1, 3, 64, 48)}, {}, {"x": (1, 3, 64, 48), "y": (1, 1000)}),
        (conv_net(), None, {"batch_size": 8}, {"x": (8, 3, 32, 32), "y": (8, 1000)}),
        (SHAPELESS, (4, 5), {}, {"x": (4, 5), "y": (4, 5)}),
        # a value for a scalar, however it is written
        (SCALAR, ["x:3", "ratio:f32:-1:0.25"], {}, {"x": (3,), "ratio": (), "y": (3,)}),
        (SCALAR, ["x:3", "ratio:f32::0.1"], {}, {"x": (3,), "ratio": (), "y": (3,)}),
        # the batch is where the first input has it, and where the name says so; a table is no batch
        (MIXED, None, {"batch_size": 6}, {"x": (6, 4), "state": (6, 4), "table": (7, 4), "y": (6, 4)}),
    ],
)
def test_what_follows(net: onnx.ModelProto, inputs: Any, options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert made(net, inputs, **options) == expected


@pytest.mark.parametrize(
    ("net", "inputs", "options", "told"),
    [
        (OPEN, None, {}, "open dimensions .N x 3 x H x W.; give them with --dim N=1 --dim H=224 --dim W=224, or "),
        (OPEN, None, {}, "or with -i x:float32:1x3x224x224$"),
        (UNNAMED, None, {}, r"input 'x' has open dimensions \(\? x 3 x \?\); give them with -i x:float32:1x3x128$"),
        (SHAPELESS, None, {}, "input 'x' has no shape; give it with -i x:float32:SHAPE, such as 1x3x224x224"),
        (
            TEXT,
            None,
            {"dims": {"sequence": 7}},
            "no input has a dimension named 'sequence'; the symbolic dimensions are",
        ),
        (TEXT, None, {"dims": {"sequence": 7}}, "are: batch, seq"),
        (conv_net(), None, {"dims": {"N": 1}}, "are: none"),
        (OPEN, None, {"dims": {"N": -1}}, "dimension N cannot be -1"),
        (OPEN, None, {"dims": {"N": 1 << 63}}, "dimension N cannot be 9223372036854775808"),
        (OPEN, (2, 3, 8), {}, r"input 'x' has 4 dimensions \(N x 3 x H x W\), but 3 are given: 2x3x8"),
        (OPEN, (), {}, None),
        (SCALAR, {"ratio": (2,)}, {}, "input 'ratio' has 0 dimensions .a scalar., but 1 are given: 2"),
        (SCALAR, ["ratio:f32:2:1,2"], {}, "input 'ratio' has 0 dimensions"),
        (OPEN, {"z": (1,)}, {}, "the model has no input 'z'; its inputs are 'x'"),
        (conv_net(), {"conv.w": (64, 3, 5, 5)}, {}, "the model has no input 'conv.w'; its inputs are 'x'"),
        (OPEN, None, {"batch_size": 0}, "0 is not a batch size"),
        (OPEN, (2, 3, 8, 8), {"batch_size": 4}, "input 'x' is given with the batch 2, not 4"),
        (OPEN, None, {"dims": {"N": 2}, "batch_size": 4}, "input 'x' is given with the batch 2, not 4"),
        (SHAPELESS, None, {"batch_size": 4}, "no input has a first dimension that could be the batch"),
        (SCALAR, ["x:i8:1:300", "ratio:"], {}, "the data of input 'x' does not fit its type, int8"),
        (SCALAR, ["x:i64:1:0.5", "ratio:"], {}, "the data of input 'x' does not fit its type, int64"),
    ],
)
def test_what_is_refused(net: onnx.ModelProto, inputs: Any, options: dict[str, Any], told: str | None) -> None:
    with pytest.raises(InputError, match=told) as raised:
        read(net, inputs, **options)
    assert str(raised.value).startswith("g: ")


def test_what_to_type_is_quoted_for_the_shell() -> None:
    net = model([node("Relu", "x", "y")], {"x": ("batch size", 3)})
    net.graph.input[0].name = net.graph.node[0].input[0] = "the input"
    with pytest.raises(InputError, match=r"--dim 'batch size'=1, or with -i 'the input:float32:1x3'"):
        read(net)


def test_what_to_type_can_be_typed() -> None:
    for net in (OPEN, UNNAMED, TEXT):
        inputs: list[str] = []
        for _ in net.graph.input:
            try:
                read(net, inputs)
            except InputError as error:
                inputs.append(str(error).rpartition("-i ")[2])
        assert all(t.shape for t in read(net, inputs).inputs)


def test_a_negative_dim_is_an_open_one() -> None:
    """Old exporters write -1 for what they do not know."""
    net = model([node("Relu", "x", "y")], {"x": (-1, 3)})
    with pytest.raises(InputError, match=r"open dimensions \(\? x 3\); give them with -i x:float32:1x3"):
        read(net)
    assert made(net, (2, 3)) == {"x": (2, 3), "y": (2, 3)}
    assert made(net, batch_size=4) == {"x": (4, 3), "y": (4, 3)}


def test_the_type_can_be_given() -> None:
    assert read(OPEN, "x:f16:1x3x2x2").inputs[0].dtype == "float16"
    assert read(OPEN, {"x": numpy.zeros((1, 3, 2, 2), numpy.float64)}).outputs[0].dtype == "float64"
    assert read(OPEN, (1, 3, 2, 2)).inputs[0].dtype == "float32"


def test_data_decides_shapes() -> None:
    net = model(
        [node("Reshape", "x target", "r"), node("Relu", "r", "y")],
        [value("x", (2, 6)), value("target", (2,), TensorProto.INT64)],
    )
    assert shapes(read(net))["y"] is None
    assert shapes(read(net, ["target:i64:2:3,4"]))["y"] == (3, 4)


def other_types() -> dict[str, onnx.TypeProto]:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
    return {
        "sequence": helper.make_sequence_type_proto(tensor),
        "optional": helper.make_optional_type_proto(tensor),
        "map": helper.make_map_type_proto(TensorProto.INT64, tensor),
        "sparse": helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, (2, 3)),
    }


@pytest.mark.parametrize("kind", other_types())
def test_inputs_that_are_no_tensors(kind: str) -> None:
    taken = {"sequence": "SequenceLength", "optional": "OptionalHasElement"}.get(kind, "Identity")
    net = model([node(taken, "s", "n"), node("Relu", "x", "y")], {"x": ("N",)}, outputs=["n", "y"])
    net.graph.input.append(onnx.ValueInfoProto(name="s", type=other_types()[kind]))
    graph = read(net, batch_size=3)
    whole = (2, 3) if kind in ("optional", "sparse") else None
    assert [(t.name, t.shape) for t in graph.inputs] == [("x", (3,)), ("s", whole)]
    assert shapes(graph)["y"] == (3,)
    told = (
        "holds tensors of 2 dimensions, but 1 are given: 1"
        if kind == "optional"
        else "is not a tensor; its shape cannot"
    )
    with pytest.raises(InputError, match=f"input 's' {told}"):
        read(net, {"s": (1,), "x": (3,)})


# --- a batch that a Reshape forbids ---


def reshaping(*target: int, batch: Any = 1, opset: int = 17, constant: bool = False) -> onnx.ModelProto:
    if opset < 5:
        nodes = [node("Reshape", "x", "r", "flat", shape=list(target))]
    elif constant:
        nodes = [node("Constant", "", "t", value=ints("t", *target)), node("Reshape", "x t", "r", "flat")]
    else:
        nodes = [node("Reshape", "x t", "r", "flat")]
    stored = [] if opset < 5 or constant else [ints("t", *target)]
    return model([*nodes, node("Relu", "r", "y")], {"x": (batch, 4, 6)}, stored, opset=opset)


FIXED = (
    r"batch size 8 is impossible: Reshape 'flat' always makes the shape \({}\); export the model with a dynamic batch"
)


@pytest.mark.parametrize("spelling", [{}, {"constant": True}, {"opset": 4}])
@pytest.mark.parametrize(("target", "told"), [((1, 24), "1, 24"), ((1, -1), "1, -1"), ((4, 6), "4, 6")])
def test_a_fixed_reshape_refuses_a_batch(spelling: dict[str, Any], target: tuple[int, ...], told: str) -> None:
    net = reshaping(*target, **spelling)
    assert shapes(read(net))["y"]
    with pytest.raises(InputError, match=FIXED.format(told)):
        read(net, batch_size=8)


@pytest.mark.parametrize(
    ("target", "made_of"),
    [((-1, 24), (8, 24)), ((0, -1), (8, 24)), ((0, 24), (8, 24)), ((-1, 4, 3, 2), (8, 4, 3, 2)), ((-1,), (192,))],
)
def test_a_reshape_that_carries_any_batch(target: tuple[int, ...], made_of: tuple[int, ...]) -> None:
    assert shapes(read(reshaping(*target), batch_size=8))["y"] == made_of


def test_a_reshape_of_what_has_no_batch() -> None:
    """A Reshape of a weight, and one whose first dimension is the sequence, say nothing about the batch."""
    net = model(
        [
            node("Reshape", "w t", "v"),
            node("MatMul", "x v", "p"),
            node("Transpose", "p", "q", perm=[1, 0, 2]),
            node("Reshape", "q s", "y"),
        ],
        {"x": (1, 49, 6)},
        [weight("w", 3, 8), ints("t", 6, 4), ints("s", 49, -1, 2)],
    )
    assert shapes(read(net, batch_size=8))["y"] == (49, 16, 2)


def test_a_reshape_to_a_scalar() -> None:
    net = model([node("Reshape", "x t", "y")], {"x": (1,)}, [ints("t")])
    assert shapes(read(net, batch_size=1))["y"] == ()


def test_targets_that_are_no_shapes() -> None:
    for target in (array("t", [0.5]), TensorProto(name="t", data_type=7, dims=[1])):
        net = model([node("Reshape", "x t", "y")], {"x": (1, 4)}, [target])
        assert isinstance(read(net, batch_size=2), Graph)


# --- inputs with data ---


def test_an_input_with_data_stays_an_input() -> None:
    """Its value decides shapes; what is computed from it is computed in every inference, and counts."""
    net = model(
        [node("Mul", "size two", "twice"), node("Expand", "x twice", "e"), node("Exp", "e", "y")],
        [value("x", (1,)), value("size", (2,), TensorProto.INT64)],
        [ints("two", 2)],
    )
    inputs = {"size": numpy.array([3, 4])}
    graph = read(net, inputs)
    assert [(t.name, t.kind) for t in graph.inputs] == [("x", "input"), ("size", "input")]
    assert shapes(graph)["y"] == (6, 8)
    counted = profile(net, inputs)
    assert [r.name for r in counted.rows] == ["mul_1", "expand_1", "exp_1"]
    assert counted.rows[0].counts == Counts(mul=2)
    assert counted.total("params") == counted.total("weight_bytes") == 0
    assert profile(net, inputs, fold=False).total("flops") == counted.total("flops")


@pytest.mark.parametrize(
    ("given", "code", "expected"),
    [
        ("x:i64:2:3,4", TensorProto.INT64, "int64"),
        ("x:2:3,4", TensorProto.INT32, "int32"),
        ("x:2:0.5,4", TensorProto.BFLOAT16, "bfloat16"),
        ("x:2:0.5,4", TensorProto.FLOAT8E4M3FN, "float8e4m3fn"),
        ("x:2:-8,7", TensorProto.INT4, "int4"),
        ("x:2:0,15", TensorProto.UINT4, "uint4"),
        ("x:2:true,false", TensorProto.BOOL, "bool"),
        ("x:string:2:a,b", TensorProto.STRING, "string"),
        ({"x": numpy.array(["a", "b"])}, TensorProto.STRING, "string"),
        ({"x": numpy.ones(2, ml_dtypes.bfloat16)}, TensorProto.BFLOAT16, "bfloat16"),
        ({"x": numpy.ones(2, ml_dtypes.float8_e5m2)}, TensorProto.FLOAT8E5M2, "float8e5m2"),
        ({"x": numpy.ones(2, ml_dtypes.int4)}, TensorProto.INT4, "int4"),
        ({"x": numpy.ones(2, "V2")}, TensorProto.BFLOAT16, "bfloat16"),
    ],
)
def test_data_of_every_type(given: Any, code: int, expected: str) -> None:
    net = model([node("Identity", "x", "y")], [value("x", ("N",), code)], opset=23, ir=11)
    net.graph.output[0].type.tensor_type.elem_type = code
    (made,) = read(net, given).inputs
    assert (made.shape, made.dtype, made.kind) == ((2,), expected, "input")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("x:1:300", TensorProto.INT8),
        ("x:1:0.5", TensorProto.INT64),
        ("x:1:2", TensorProto.BOOL),
        *[(f"x:1:{number}", TensorProto.INT4) for number in (-9, 8)],
        *[(f"x:1:{number}", TensorProto.UINT4) for number in (-1, 16)],
        ("x:1:" + "9" * 40, TensorProto.INT64),
        ("x:1:5", TensorProto.STRING),
        ({"x": numpy.ones(1, "V3")}, TensorProto.BFLOAT16),
    ],
)
def test_data_that_does_not_fit(given: Any, code: int) -> None:
    net = model([node("Identity", "x", "y")], [value("x", ("N",), code)])
    with pytest.raises(InputError, match="the data of input 'x' does not fit its type"):
        read(net, given)


def held(kind: str, dims: Any) -> onnx.ModelProto:
    """A model that takes a tensor, and a sequence or an optional."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, dims)
    nodes, made = {
        "sequence": ([node("ConcatFromSequence", "s", "c", axis=0)], helper.make_sequence_type_proto(tensor)),
        "optional": ([node("OptionalGetElement", "s", "c")], helper.make_optional_type_proto(tensor)),
    }[kind]
    net = model([*nodes, node("Exp", "c", "y")], {}, opset=18)
    net.graph.input.append(onnx.ValueInfoProto(name="s", type=made))
    return net


@pytest.mark.parametrize(
    ("kind", "dims", "given", "expected"),
    [
        ("sequence", (None, 3), [(2, 3), (4, 3)], (6, 3)),
        ("sequence", None, [numpy.ones((2, 3), numpy.float32)] * 5, (10, 3)),
        ("sequence", (2, 3), [(4, 3), (4, 3)], (8, 3)),
        ("optional", (None, 3), (2, 3), (2, 3)),
        ("optional", None, numpy.ones((2, 3), numpy.float32), (2, 3)),
        ("optional", (1, 3), [(2, 3)], (2, 3)),
        ("optional", None, "f32:2x3", (2, 3)),
    ],
)
def test_members(kind: str, dims: Any, given: Any, expected: Any) -> None:
    assert shapes(read(held(kind, dims), {"s": given}))["y"] == expected


@pytest.mark.parametrize(
    ("kind", "dims", "given", "told"),
    [
        ("sequence", None, (2, 3), "its shape cannot be given: give a list of shapes or arrays"),
        ("sequence", None, numpy.ones(3, numpy.float32), "give a list of shapes or arrays"),
        ("optional", None, [(2, 3), (2, 3)], "give None, a shape or an array"),
        ("sequence", (None, 3), [(2, 3), (3,)], "holds tensors of 2 dimensions, but 1 are given: 3"),
        ("sequence", None, [numpy.ones(3)], "holds float32, but float64 is given"),
        ("sequence", None, [("N", 3)], "the shape of each must be given in numbers"),
        ("sequence", None, [[(2, 3)]], "the shape of each must be given in numbers"),
    ],
)
def test_members_that_do_not_fit(kind: str, dims: Any, given: Any, told: str) -> None:
    with pytest.raises(InputError, match=f"input 's' .*{told}"):
        read(held(kind, dims), {"s": given})


@pytest.mark.parametrize(("given", "told"), [(None, "None"), ([(1, 3)], "a list")])
def test_a_tensor_is_neither_list_nor_nothing(given: Any, told: str) -> None:
    with pytest.raises(InputError, match=f"input 'x' is a tensor, but {told} is given; give its shape"):
        read(OPEN, {"x": given})


def test_nothing_is_known_to_be_nothing() -> None:
    net = held("optional", (2, 3))
    net.graph.node[0].op_type = "OptionalHasElement"
    net.graph.node[1].op_type = "Not"
    for given, has in ((None, False), ((2, 3), True)):
        model = decoded(read_skeleton(MessageSource(net)), "")
        settled = onnx_inputs.settle(model, {"s": given}, {}, None, Facts())
        assert bool(settled.given["s"].members) is has
