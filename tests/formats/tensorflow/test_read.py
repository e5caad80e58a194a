"""Files that TensorFlow 2.21 wrote, against counts by hand and what TensorFlow's own profiler said of them.

``data/frozen.pb`` is a small network of Keras' in one graph (``convert_variables_to_constants_v2``), ``data/saved`` a
``tf.Module`` with a loop of five steps and a condition, without what serving does not need.
"""

from __future__ import annotations

import contextlib
import math
import random
import shutil
from pathlib import Path

import pytest
from tests.formats.tensorflow.protobuf import constant, entry, field, function, graph, node, placeholder, scalar, shape

import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.formats.table import open_stored
from flopwise.operators.tables import ROWS

DATA = Path(__file__).parent / "data"

#: Operations by node of ``data/frozen.pb``, from tf.compat.v1.profiler (float_operation), which counts two for each MAC
#: and has no rule for transposed convolutions, pooling and softmax.
PROFILER = {"convolution": 5400, "depthwise": 648, "BiasAdd": 136}


def test_a_frozen_graph() -> None:
    """conv 5·5·4·27, depthwise 3·3·4·9, grouped 3·3·4·2, transposed 3·3·4·2·2·2, dense 2·5."""
    profile = flopwise.profile(DATA / "frozen.pb")
    assert profile.total("macs") == 2700 + 324 + 72 + 288 + 10 == 3394
    assert profile.total("params") == 112 + 16 + 40 + 12 + 34 + 15  # with 8 statistics, which nothing tells apart
    assert profile.graph.format == "tensorflow"
    assert profile.to_dict()["coverage"]["exact"]
    flops = [(row.node.op, row.node.attrs.get("group"), row.flops) for row in profile.rows]
    assert [n for op, group, n in flops if op == "Conv" and group == 1] == [PROFILER["convolution"]]
    assert [n for op, group, n in flops if op == "Conv" and group == 4] == [PROFILER["depthwise"]]
    assert any("does not say which of its constants are statistics" in note for note in profile.graph.warnings)
    with pytest.raises(InputError, match="a result of 1 images from 2"):
        flopwise.profile(DATA / "frozen.pb", batch_size=2)
    with open_stored(DATA / "frozen.pb") as stored:
        sizes = sorted(tensor.array().size for tensor in stored.tensors if tensor.role == "weight")
    assert sizes[-1] == 4 * 27


def test_functions_variables_and_loops() -> None:
    """Five steps of 4·6 + 6·6, and 6·6 in the dearer branch; the statistics are no parameters."""
    profile = flopwise.profile(DATA / "saved")
    assert profile.total("macs") == 5 * (24 + 36) + 36
    assert (profile.total("params"), profile.total("buffers")) == (24 + 6 + 36, 4)
    assert flopwise.profile(DATA / "saved", batch_size=3).total("macs") == 3 * 336
    assert [(t.name, t.shape) for t in profile.graph.inputs] == [("x", (1, 5, 4))]
    assert [row.node.within[-1].trips for row in profile.rows if row.node.op == "MatMul"].count(5) == 2
    with open_stored(DATA / "saved") as stored:
        elements = {tensor.name: tensor.array().tolist() for tensor in stored.tensors if tensor.role == "weight"}
    assert elements["w"] == [[6.0 * row + column for column in range(6)] for row in range(4)]
    assert elements["b"] == [1.0] * 6


def test_a_damaged_index(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    shutil.copytree(DATA / "saved", folder)
    index = folder / "variables" / "variables.index"
    data = index.read_bytes()
    for length in range(0, len(data), 7):
        index.write_bytes(data[:length])
        with open_stored(folder) as stored, pytest.raises(ModelError, match="truncated or damaged"):
            [tensor.array() for tensor in stored.tensors]
    profile = flopwise.profile(folder)
    assert profile.total("macs") == 336  # what it costs does not need the elements
    assert any("elements of variables cannot be read" in note for note in profile.graph.warnings)
    chance = random.Random(0)
    for _ in range(100):
        place = chance.randrange(len(data))
        index.write_bytes(data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :])
        with contextlib.suppress(flopwise.FlopwiseError):
            flopwise.profile(folder)
    shutil.rmtree(folder / "variables")
    assert flopwise.profile(folder).total("macs") == 336
    missing = "the elements of its variables are not beside it"
    with open_stored(folder) as stored, pytest.raises(ModelError, match=missing):
        [tensor.array() for tensor in stored.tensors]


def test_the_file_of_a_directory_and_the_directory() -> None:
    one, other = flopwise.profile(DATA / "saved"), flopwise.profile(DATA / "saved" / "saved_model.pb")
    assert one.total("flops") == other.total("flops")


def _written(tmp_path: Path, *nodes: bytes) -> Path:
    path = tmp_path / "net.pb"
    path.write_bytes(graph(*nodes))
    return path


def test_what_has_no_rule_is_unknown(tmp_path: Path) -> None:
    path = _written(tmp_path, placeholder("x", 2, 3), node("y", "FancyOp", "x"), node("z", "Relu", "y"))
    profile = flopwise.profile(path)
    assert profile.to_dict()["coverage"]["unknown"] == {"tensorflow::FancyOp": 1}


#: Operator -> its inputs of 2 x 3, and the classes of its 6 elements; None: a special function, unknown with a reason.
ELEMENTWISE: dict[str, tuple[int, dict[str, int] | None]] = {
    "DivNoNan": (2, {"div": 6, "cmp": 6}),
    "MulNoNan": (2, {"mul": 6, "cmp": 6}),
    "Xdivy": (2, {"div": 6, "cmp": 6}),
    "Xlogy": (2, {"log": 6, "mul": 6, "cmp": 12}),
    "Xlog1py": (2, {"log": 6, "mul": 6, "cmp": 12, "add": 6}),
    "Mod": (2, {"div": 6}),
    "TruncateMod": (2, {"div": 6}),
    "TruncateDiv": (2, {"div": 6, "cmp": 6}),
    "NextAfter": (2, {"cmp": 6, "bit": 6}),
    "ApproximateEqual": (2, {"add": 6, "bit": 6, "cmp": 6}),
    "BitwiseXor": (2, {"bit": 6}),
    "Invert": (1, {"bit": 6}),
    "IsFinite": (1, {"cmp": 6}),
    "Erfinv": (1, {"add": 66, "mul": 78, "div": 18, "exp": 12, "erf": 12, "bit": 12}),
    "L2Loss": (1, {"mul": 7, "add": 6}),
    **dict.fromkeys(("Igamma", "Igammac", "Zeta", "Polygamma"), (2, None)),
    **dict.fromkeys(("Digamma", "Lgamma", "Ndtri", "BesselI0e", "BesselI1e"), (1, None)),
}


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise_operators(op: str, tmp_path: Path) -> None:
    number, classes = ELEMENTWISE[op]
    names = ["a", "b"][:number]
    path = _written(tmp_path, *(placeholder(name, 2, 3) for name in names), node("y", op, *names))
    (row,) = flopwise.profile(path).rows
    assert row.counts == (None if classes is None else flopwise.Counts(**classes))
    assert row.node.outputs[0].shape == (() if op == "L2Loss" else (2, 3))
    if classes is None:
        assert "a special function" in ROWS[row.node.op].note


def _ints(*values: int) -> bytes:
    return field(1, field(3, bytes(values)))


@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_padding_multipliers_and_orders_of_axes(order: str, tmp_path: Path) -> None:
    """By hand: 8 × 6 (padded to 11 × 7) by 3 × 3 in steps of 2 is 5 × 3; two outputs for each of four channels."""
    last = order == "NHWC"
    strides, pads = ([1, 2, 2, 1], [0, 0, 1, 2, 0, 1, 0, 0]) if last else ([1, 1, 2, 2], [0, 0, 0, 0, 1, 2, 0, 1])
    settings = {"data_format": field(2, order), "strides": _ints(*strides), "padding": field(2, "EXPLICIT")}
    settings["explicit_paddings"] = _ints(*pads)
    product = node("c", "DepthwiseConv2dNative", "x", "w", **settings)
    bias = node("b", "BiasAdd", "c", "v", data_format=field(2, order))
    start = placeholder("x", *((1, 8, 6, 4) if last else (1, 4, 8, 6)))
    profile = flopwise.profile(_written(tmp_path, start, constant("w", 3, 3, 4, 2), constant("v", 8), product, bias))
    assert not profile.to_dict()["coverage"]["unknown"]
    assert profile.total("macs") == 5 * 3 * 8 * 9
    assert profile.total("flops") == 2 * 5 * 3 * 8 * 9 + 5 * 3 * 8
    assert profile.graph.outputs[0].shape == ((1, 5, 3, 8) if last else (1, 8, 5, 3))
    conv = profile.graph.nodes[0]
    assert [shape for _, shape in ((t, t.shape) for t in conv.ordered.known_inputs)] == [(1, 4, 8, 6), (8, 1, 3, 3)]
    assert profile.total("params") == 72 + 8


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative", "MaxPool", "AvgPool"])
def test_a_kernel_larger_than_the_image_is_refused(op: str, tmp_path: Path) -> None:
    settings = {"strides": _ints(1, 1, 1, 1), "padding": field(2, "VALID")}
    inputs = ["x", "w"] if "Conv" in op else ["x"]
    if "Conv" not in op:
        settings["ksize"] = _ints(1, 5, 5, 1)
    nodes = placeholder("x", -1, -1, -1, 4), constant("w", 5, 5, 4, 1), node("y", op, *inputs, **settings)
    path = _written(tmp_path, *nodes)
    assert (flopwise.read(path, {"x": (1, 5, 6, 4)}).outputs[0].shape or ())[1:3] == (1, 2)
    with pytest.raises(InputError, match=r"impossible: .* a window over 5 elements is larger than the image, 4"):
        flopwise.profile(path, {"x": (1, 4, 8, 4)})


def test_open_sizes_and_factors_that_are_turned(tmp_path: Path) -> None:
    product = node("y", "BatchMatMulV2", "x", "w", adj_y=field(5, 1))
    path = _written(tmp_path, placeholder("x", -1, -1, 4, 5), constant("w", 7, 5), product)
    with pytest.raises(InputError, match=r"input 'x' has open dimensions \(1 x \? x 4 x 5\); give them with -i"):
        flopwise.profile(path)
    profile = flopwise.profile(path, {"x": (2, 3, 4, 5)})
    assert profile.total("macs") == 2 * 3 * 4 * 5 * 7
    assert [tensor.shape for tensor in profile.graph.outputs] == [(2, 3, 4, 7)]


@pytest.mark.parametrize(
    ("left", "right", "turned", "result"),
    [
        ((2, 5, 7), (2, 7, 3), "", (2, 5, 3)),
        ((2, 7, 5), (2, 7, 3), "x", (2, 5, 3)),
        ((2, 5, 7), (2, 3, 7), "y", (2, 5, 3)),
        ((2, 7, 5), (2, 3, 7), "xy", (2, 5, 3)),
        ((4, 1, 5, 7), (2, 7, 3), "", (4, 2, 5, 3)),  # the axes in front broadcast
        ((2, 5, 7), (4, 1, 7, 3), "", (4, 2, 5, 3)),
        ((4, 2, 5, 7), (1, 7, 3), "", (4, 2, 5, 3)),
        ((7, 5), (4, 2, 7, 3), "x", (4, 2, 5, 3)),
    ],
)
def test_products_in_batches(
    left: tuple[int, ...], right: tuple[int, ...], turned: str, result: tuple[int, ...], tmp_path: Path
) -> None:
    product = node("y", "BatchMatMulV2", "a", "b", **{f"adj_{side}": field(5, 1) for side in turned})
    profile = flopwise.profile(_written(tmp_path, placeholder("a", *left), placeholder("b", *right), product))
    assert profile.graph.outputs[0].shape == result
    assert profile.total("macs") == math.prod(result) * 7


def test_settings_that_follow_from_others(tmp_path: Path) -> None:
    """As in Keras' products of tensors: the order of axes is put together from constants."""
    order = node("order", "Pack", "one", "zero", "two", axis=field(3, 0))
    scalars = [scalar("one", 1), scalar("zero", 0), scalar("two", 2)]
    path = _written(tmp_path, placeholder("x", 2, 3, 4), *scalars, order, node("y", "Transpose", "x", "order"))
    profile = flopwise.profile(path)
    assert not profile.to_dict()["coverage"]["unknown"]
    assert [tensor.shape for tensor in profile.graph.outputs] == [(3, 2, 4)]


def test_inputs_with_values_of_their_own_are_inputs(tmp_path: Path) -> None:
    """But a scalar is a setting, as the rate of a dropout is."""
    fed = node("x", "PlaceholderWithDefault", "d", dtype=field(6, 1), shape=field(7, shape(2, 4)))
    rate = node("rate", "PlaceholderWithDefault", "r", dtype=field(6, 1), shape=field(7, b""))
    product, scaled = node("y", "MatMul", "x", "w"), node("z", "Mul", "y", "rate")
    starts = [constant("d", 2, 4), constant("r"), fed, rate, constant("w", 4, 8)]
    profile = flopwise.profile(_written(tmp_path, *starts, product, scaled))
    assert profile.total("macs") == 2 * 4 * 8
    assert [tensor.name for tensor in profile.graph.inputs] == ["x"]
    assert profile.total("params") == 4 * 8


def test_gradients_of_functions_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    relu = function("f", "x", "r:activations:0", node("r", "Relu", "x"))
    gradient = node("y", "SymbolicGradient", "x", f=field(10, field(1, "f")))
    path.write_bytes(graph(placeholder("x", 2), gradient, functions=(relu,)))
    assert flopwise.profile(path).to_dict()["coverage"]["unknown"] == {"tensorflow::SymbolicGradient": 1}


@pytest.mark.parametrize("end", ["y:0", "y:\x7f", "y:"])
def test_a_saved_model_without_variables_is_frozen(end: str, tmp_path: Path) -> None:
    nodes = graph(placeholder("x", -1, 4), constant("w", 4, 8), node("y", "MatMul", "x", "w"))
    sides = field(1, entry("x", field(1, "x:0"))) + field(2, entry("y", field(1, end)))
    content = field(2, nodes) + field(5, entry("serving_default", sides))
    (tmp_path / "saved_model.pb").write_bytes(field(1, 1) + field(2, content))
    if end != "y:0":
        with pytest.raises(ModelError, match="is read, which is the name of no tensor"):
            flopwise.profile(tmp_path)
    else:
        assert flopwise.profile(tmp_path).total("params") == 32
