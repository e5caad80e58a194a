"""What commands make of OpenVINO models: sizes that are chosen, weights by place, formulas, bodies, states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.by_hand import CONVOLUTION
from tests.formats.openvino.files import openvino, parameter, written

import flopwise

ops = pytest.importorskip("openvino.opset13")

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny_resnet.onnx"


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ir") / "tiny_resnet.xml"
    openvino.save_model(openvino.convert_model(EXAMPLE), path)
    return path


def test_the_counts_are_those_of_the_onnx_file(resnet: Path) -> None:
    ours, onnx = flopwise.profile(resnet), flopwise.profile(EXAMPLE)
    assert ours.total("macs") == onnx.total("macs") == 1_859_904
    assert ours.graph.format == "openvino"
    batched = flopwise.profile(resnet, inputs={"image": (4, 3, 96, 96)})
    assert batched.total("macs") == flopwise.profile(EXAMPLE, inputs={"image": (4, 3, 96, 96)}).total("macs")
    assert flopwise.profile(resnet, batch_size=4).total("macs") == 4 * ours.total("macs")


def test_conventions_see_the_same_layers(resnet: Path) -> None:
    for convention in ("fvcore", "thop", "caffe"):
        convs = [row for row in flopwise.profile(resnet, convention=convention).rows if row.node.op == "Conv"]
        expected = [row for row in flopwise.profile(EXAMPLE, convention=convention).rows if row.node.op == "Conv"]
        assert sum(row.macs or 0 for row in convs) == sum(row.macs or 0 for row in expected)


def test_a_file_without_weights_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_text(CONVOLUTION)
    profile = flopwise.profile(path)
    assert (profile.total("macs"), profile.total("params")) == (64 * 4 * 27, 108)
    assert profile.to_dict()["coverage"]["exact"]
    assert flopwise.profile(CONVOLUTION.encode()).total("macs") == 64 * 4 * 27
    (row,) = profile.rows
    assert (row.node.op, row.node.origin, row.name) == ("Conv", "Convolution", "y")


def test_weights_are_read_by_place(resnet: Path) -> None:
    graph = flopwise.read(resnet)
    path = resnet.with_suffix(".bin")
    for layer in openvino.Core().read_model(resnet).get_ordered_ops():
        if layer.get_type_name() == "Constant" and layer.get_friendly_name() in graph.weights:
            stored = graph.weights[layer.get_friendly_name()]
            assert np.array_equal(stored.array(), layer.get_data().astype(stored.array().dtype))
    sparsity = flopwise.sparsity(resnet)
    assert sparsity.to_dict()["model"]["format"] == "openvino"
    assert path.stat().st_size >= flopwise.profile(resnet).total("weight_bytes")


def test_a_formula_has_symbols_in_inputs(resnet: Path) -> None:
    formula = flopwise.formula(resnet, inputs={"image": ("N", 3, "H", 64)})
    sizes = {"N": 2, "H": 128}
    expected = flopwise.profile(EXAMPLE, inputs={"image": (2, 3, 128, 64)}).total("macs")
    assert formula.at(**sizes)["macs"] == expected


def test_compressed_weights_are_weights(tmp_path: Path) -> None:
    x = parameter((2, 8), "x")
    eight = ops.convert(ops.constant(np.arange(32, dtype=np.int8).reshape(4, 8)), "f32")
    w = ops.multiply(
        ops.subtract(eight, ops.constant(np.ones((4, 1), np.float32))), ops.constant(np.ones((4, 1), np.float32))
    )
    path = written([ops.matmul(x, w, False, True)], [x], tmp_path / "net.xml")
    profile = flopwise.profile(path)
    assert profile.total("macs") == 2 * 8 * 4
    assert [row.node.op for row in profile.rows] == ["MatMul"]
    kinds = {tensor.dtype for tensor in profile.graph.weights.values() if tensor.role == "weight"}
    assert "int8" in kinds


def _turns(tmp_path: Path, loop: bool, grows: bool = False) -> Path:
    """A product for each of five steps, in a TensorIterator or a Loop; ``grows``: each step's result is longer."""
    x, state = parameter((2, 5, 8), "x"), ops.constant(np.zeros((2, 8), np.float32))
    step, held = ops.parameter([2, 1, 8], np.float32), ops.parameter([-1, 8] if grows else [2, 8], np.float32)
    y = ops.tanh(
        ops.matmul(ops.squeeze(step, ops.constant([1])), ops.constant(np.ones((8, 8), np.float32)), False, True)
    )
    after = ops.concat([held, y], 0) if grows else ops.add(y, held)
    one = ops.unsqueeze(y, ops.constant([1]))
    if loop:
        on = ops.constant(True)
        node = ops.loop(ops.constant(5), ops.constant(True))
        node.set_function(openvino.Model([after, one, on], [step, held], "body"))
        node.set_special_body_ports([-1, 2])
    else:
        node = ops.tensor_iterator()
        node.set_body(openvino.Model([after, one], [step, held], "body"))
    node.set_sliced_input(step, x.output(0), 0, 1, 1, -1, 1)
    node.set_merged_input(held, state.output(0), after.output(0))
    results = [node.get_iter_value(after.output(0), -1), node.get_concatenated_slices(one.output(0), 0, 1, 1, -1, 1)]
    return written(results, [x], tmp_path / "loop.xml")


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("grows", [False, True])
def test_bodies_run_as_often_as_they_say(loop: bool, grows: bool, tmp_path: Path) -> None:
    path = _turns(tmp_path, loop, grows)
    profile = flopwise.profile(path)
    assert profile.total("macs") == 5 * 2 * 8 * 8
    assert [output.shape for output in profile.graph.outputs] == [(12, 8) if grows else (2, 8), (2, 5, 8)]
    if not loop:
        longer = flopwise.profile(path, inputs={"x": (2, 7, 8)})
        assert longer.total("macs") == 7 * 2 * 8 * 8


def test_results_of_either_branch_have_the_sizes_that_both_have(tmp_path: Path) -> None:
    x, condition = parameter((2, 8), "x"), ops.parameter([], np.bool_, name="condition")
    inner = [ops.parameter([2, 8], np.float32) for _ in range(2)]
    bodies = [
        ops.result(ops.matmul(one, ops.constant(np.ones((8, wide), np.float32)), False, False))
        for one, wide in zip(inner, (4, 6), strict=True)
    ]
    node = ops.if_op(condition.output(0))
    node.set_then_body(openvino.Model([bodies[0]], [inner[0]], "then"))
    node.set_else_body(openvino.Model([bodies[1]], [inner[1]], "else"))
    node.set_input(x.output(0), inner[0], inner[1])
    path = written([node.set_output(bodies[0], bodies[1])], [x, condition], tmp_path / "if.xml")
    (result,) = flopwise.profile(path).graph.outputs
    assert result.shape is None or (result.shape[1] != 4 and result.bound)


def test_the_dearer_branch_counts(tmp_path: Path) -> None:
    x, condition = parameter((2, 8), "x"), ops.parameter([], np.bool_, name="condition")
    inner = [ops.parameter([2, 8], np.float32) for _ in range(2)]
    then = ops.result(ops.matmul(inner[0], ops.constant(np.ones((8, 4), np.float32)), False, False))
    other = ops.result(
        ops.reduce_sum(
            ops.matmul(inner[1], ops.constant(np.ones((8, 6), np.float32)), False, False), ops.constant([1]), True
        )
    )
    node = ops.if_op(condition.output(0))
    node.set_then_body(openvino.Model([then], [inner[0]], "then"))
    node.set_else_body(openvino.Model([other], [inner[1]], "else"))
    node.set_input(x.output(0), inner[0], inner[1])
    path = written([node.set_output(then, other)], [x, condition], tmp_path / "if.xml")
    assert flopwise.profile(path).total("macs") == 2 * 8 * 6


def test_states_begin_as_their_values_say(tmp_path: Path) -> None:
    from openvino.op.util import Variable, VariableInfo

    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = openvino.PartialShape([1, 8]), openvino.Type.f32, "state"
    variable = Variable(info)
    x = parameter((1, 8), "x")
    read: Any = ops.read_value(ops.multiply(x, ops.constant(np.float32(0))), variable)
    total = ops.add(x, read)
    path = written([ops.result(total)], [x], tmp_path / "state.xml", [ops.assign(total, variable)])
    profile = flopwise.profile(path)
    assert not profile.to_dict()["coverage"]["unknown"]
    assert {row.node.op for row in profile.rows} >= {"Add", "openvino::ReadValue", "openvino::Assign"}


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    x = parameter((-1, 8), "x")
    path = written([ops.relu(x)], [x], tmp_path / "open.xml")
    with pytest.raises(flopwise.InputError, match=r"input 'x' has open dimensions \(\? x 8\)"):
        flopwise.profile(path)
    assert flopwise.profile(path, batch_size=3).total("activations") == 24


def test_files_of_other_things_in_a_directory_are_passed_over(tmp_path: Path, resnet: Path) -> None:
    from flopwise.formats.table import models_in

    (tmp_path / "pom.xml").write_text("<project/>")
    (tmp_path / "net.xml").write_text(CONVOLUTION)
    assert models_in(str(tmp_path)) == [str(tmp_path / "net.xml")]


def test_one_channel_has_a_bias(tmp_path: Path) -> None:
    """A convolution and a product with one output each; a factor of one element is no parameter."""
    torch = pytest.importorskip("torch")
    openvino = pytest.importorskip("openvino")

    class Net(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = torch.nn.Conv2d(3, 1, 3), torch.nn.Linear(36, 1)

        def forward(self, x: Any) -> Any:
            return self.head((self.conv(x) * 0.3).flatten(1))

    onnx = tmp_path / "net.onnx"
    torch.onnx.export(Net().eval(), (torch.zeros(2, 3, 8, 8),), onnx, dynamo=False)
    openvino.save_model(openvino.convert_model(onnx), tmp_path / "net.xml")
    assert flopwise.profile(tmp_path / "net.xml").total("params") == 27 + 1 + 36 + 1
