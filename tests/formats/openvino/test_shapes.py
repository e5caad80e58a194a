"""Shapes of every kind of layer, worked out by rules, against those of OpenVINO; models of the ONNX tests converted."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.formats.models import LIGHT
from tests.formats.openvino.files import openvino, parameter, stated, written

import flopwise
from flopwise.formats.openvino.decode import read_net
from flopwise.formats.openvino.table import CONTROL_FLOW, TABLE
from flopwise.formats.sources.open import open_source
from flopwise.operators.tables import ROWS

ops = pytest.importorskip("openvino.opset16")
old = pytest.importorskip("openvino.opset1")


def _image(*shape: int) -> Any:
    return parameter(shape or (2, 6, 9, 11), "x")


def _ints(*numbers: int) -> Any:
    return ops.constant(np.array(numbers, np.int64))


def _floats(*shape: int) -> Any:
    return ops.constant(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def _sequence(op: Any, gates: int, states: int, biases: int, **attrs: Any) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        lengths = ops.constant(np.array([5, 5], np.int32))
        more = [_floats(2, 2, 7) for _ in range(states)]
        made = op(
            x,
            *more,
            lengths,
            _floats(2, gates * 7, 8),
            _floats(2, gates * 7, 7),
            _floats(2, biases),
            7,
            "BIDIRECTIONAL",
            **attrs,
        )
        return made.output(0)

    return build


#: Layer -> the shape of its input, how it is built, and another shape of the input.
LAYERS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], tuple[int, ...]]] = {
    "Convolution": (
        (2, 6, 9, 11),
        lambda x: ops.convolution(x, _floats(4, 6, 3, 3), [2, 1], [1, 0], [0, 1], [1, 2]),
        (1, 6, 16, 12),
    ),
    "ConvolutionSame": (
        (2, 6, 9, 11),
        lambda x: ops.convolution(x, _floats(4, 6, 3, 3), [2, 2], [0, 0], [0, 0], [1, 1], "same_upper"),
        (1, 6, 16, 12),
    ),
    "GroupConvolution": (
        (2, 6, 9, 11),
        lambda x: ops.group_convolution(x, _floats(3, 4, 2, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1]),
        (1, 6, 16, 12),
    ),
    "ConvolutionBackpropData": (
        (2, 6, 9, 11),
        lambda x: ops.convolution_backprop_data(
            x, _floats(6, 4, 3, 3), strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], output_padding=[1, 0]
        ),
        (1, 6, 5, 4),
    ),
    "GroupConvolutionBackpropData": (
        (2, 6, 9, 11),
        lambda x: ops.group_convolution_backprop_data(x, _floats(3, 2, 4, 3, 3), strides=[2, 2]),
        (1, 6, 5, 4),
    ),
    "DeformableConvolution": (
        (2, 6, 9, 11),
        lambda x: ops.deformable_convolution(
            x, _floats(2, 18, 7, 9), _floats(4, 6, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1]
        ),
        (2, 6, 9, 11),
    ),
    "MaxPoolCeil": (
        (2, 6, 9, 11),
        lambda x: ops.max_pool(x, [2, 3], [1, 1], [1, 0], [0, 1], [3, 2], "ceil", None, "i64").output(0),
        (1, 6, 16, 12),
    ),
    "MaxPoolCeilTorch": (
        (2, 6, 9, 11),
        lambda x: ops.max_pool(x, [2, 3], [1, 1], [1, 1], [1, 1], [3, 2], "ceil_torch", None, "i64").output(0),
        (1, 6, 16, 12),
    ),
    "AvgPool": ((2, 6, 9, 11), lambda x: ops.avg_pool(x, [2, 2], [1, 1], [1, 1], [3, 3], True), (1, 6, 16, 12)),
    "AdaptiveAvgPool": ((2, 6, 9, 11), lambda x: ops.adaptive_avg_pool(x, _ints(3, 4)), (1, 6, 16, 12)),
    "MatMulTransposed": ((2, 5, 8), lambda x: ops.matmul(x, _floats(4, 5), True, True), (3, 5, 9)),
    "LSTMSequence": ((2, 5, 8), _sequence(ops.lstm_sequence, 4, 2, 28), (2, 9, 8)),
    "GRUSequence": ((2, 5, 8), _sequence(ops.gru_sequence, 3, 1, 28, linear_before_reset=True), (2, 9, 8)),
    "RNNSequence": ((2, 5, 8), _sequence(ops.rnn_sequence, 1, 1, 7), (2, 9, 8)),
    "LSTMCell": (
        (2, 8),
        lambda x: ops.lstm_cell(x, _floats(2, 7), _floats(2, 7), _floats(28, 8), _floats(28, 7), _floats(28), 7).output(
            0
        ),
        (2, 8),
    ),
    "ScaledDotProductAttention": (
        (2, 4, 5, 8),
        lambda x: ops.scaled_dot_product_attention(x, x, x, causal=True),
        (1, 4, 9, 8),
    ),
    "ReduceMean": ((2, 6, 9, 11), lambda x: ops.reduce_mean(x, _ints(2, -1), False), (1, 6, 16, 12)),
    "MVN": ((2, 6, 9, 11), lambda x: ops.mvn(x, _ints(2, 3), True, 1e-5, "inside_sqrt"), (1, 6, 16, 12)),
    "NormalizeL2": ((2, 6, 9, 11), lambda x: ops.normalize_l2(x, _ints(1, 2), 1e-5, "add"), (1, 6, 16, 12)),
    "TopK": (
        (2, 6, 9, 11),
        lambda x: ops.topk(x, ops.constant(3), 1, "max", "value").output(1),
        (1, 6, 16, 12),
    ),
    "Reshape": ((2, 6, 9, 11), lambda x: ops.reshape(x, _ints(0, -1, 11), True), (1, 6, 16, 11)),
    "Transpose": ((2, 6, 9, 11), lambda x: ops.transpose(x, _ints(0, 2, 3, 1)), (1, 6, 16, 12)),
    "Split": ((2, 6, 9, 11), lambda x: ops.split(x, ops.constant(1), 3).output(2), (1, 6, 16, 12)),
    "VariadicSplit": (
        (2, 6, 9, 11),
        lambda x: ops.variadic_split(x, ops.constant(1), _ints(1, -1, 2)).output(1),
        (1, 6, 16, 12),
    ),
    "Gather": ((2, 6, 9, 11), lambda x: ops.gather(x, _ints(1, 2), ops.constant(-2)), (1, 6, 16, 12)),
    "StridedSlice": (
        (2, 6, 9, 11),
        lambda x: ops.strided_slice(
            x,
            _ints(0, 1, 0, 2),
            _ints(1, 5, 0, -1),
            _ints(1, 2, 1, 3),
            [0, 0, 1, 0],
            [0, 0, 1, 0],
            [],
            [1, 0, 0, 0],
            [],
        ),
        (1, 6, 16, 12),
    ),
    "StridedSliceEllipsis": (
        (2, 6, 9, 11),
        lambda x: ops.strided_slice(
            x, _ints(0, 0, 0), _ints(0, 0, 5), _ints(1, 1, 1), [0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]
        ),
        (1, 6, 16, 12),
    ),
    "Slice": (
        (2, 6, 9, 11),
        lambda x: ops.slice(x, _ints(1, 8), _ints(100, 0), _ints(2, -1), _ints(3, 2)),
        (1, 6, 16, 12),
    ),
    "Pad": (
        (2, 6, 9, 11),
        lambda x: ops.pad(x, _ints(0, 1, 2, 0), _ints(0, 0, -1, 3), "constant", ops.constant(np.float32(0))),
        (1, 6, 16, 12),
    ),
    "Broadcast": ((9, 1), lambda x: ops.broadcast(x, _ints(2, 9, 4)), (9, 1)),
    "BroadcastExplicit": ((9,), lambda x: ops.broadcast(x, _ints(2, 9, 4), _ints(1), "explicit"), (9,)),
    "Tile": ((6, 9), lambda x: ops.tile(x, _ints(2, 1, 3)), (3, 4)),
    "DepthToSpace": ((2, 16, 9, 11), lambda x: ops.depth_to_space(x, "blocks_first", 2), (1, 16, 5, 4)),
    "SpaceToDepth": ((2, 6, 8, 12), lambda x: ops.space_to_depth(x, "blocks_first", 2), (1, 6, 16, 12)),
    "SpaceToBatch": (
        (2, 6, 8, 12),
        lambda x: ops.space_to_batch(x, _ints(1, 1, 2, 3), _ints(0, 0, 1, 0), _ints(0, 0, 1, 0)),
        (1, 6, 16, 12),
    ),
    "BatchToSpace": (
        (12, 6, 8, 12),
        lambda x: ops.batch_to_space(x, _ints(1, 1, 2, 3), _ints(0, 0, 1, 0), _ints(0, 0, 1, 0)),
        (6, 6, 5, 4),
    ),
    "ShuffleChannels": ((2, 6, 9, 11), lambda x: ops.shuffle_channels(x, 1, 3), (1, 6, 16, 12)),
    "Roll": ((2, 6, 9, 11), lambda x: ops.roll(x, _ints(1), _ints(2)), (1, 6, 16, 12)),
    "ExtractImagePatches": (
        (2, 6, 9, 11),
        lambda x: ops.extract_image_patches(x, [3, 3], [2, 2], [1, 1], "valid"),
        (1, 6, 16, 12),
    ),
    "InterpolateSizes": (
        (2, 6, 9, 11),
        lambda x: ops.interpolate(x, _ints(20, 30), "linear_onnx", "sizes", axes=_ints(2, 3)),
        (1, 6, 16, 12),
    ),
    "InterpolateScales": (
        (2, 6, 9, 11),
        lambda x: ops.interpolate(
            x, ops.constant(np.array([2.0, 1.5], np.float32)), "cubic", "scales", axes=_ints(2, 3)
        ),
        (1, 6, 16, 12),
    ),
    "GridSample": (
        (2, 6, 9, 11),
        lambda x: ops.grid_sample(x, _floats(2, 4, 5, 2), {"mode": "bilinear"}),
        (2, 6, 9, 8),
    ),
    "ROIAlign": (
        (2, 6, 9, 11),
        lambda x: ops.roi_align(x, _floats(3, 4), ops.constant(np.zeros(3, np.int32)), 5, 6, 2, 1.0, "avg"),
        (1, 6, 16, 12),
    ),
    "PSROIPooling": (
        (2, 18, 9, 11),
        lambda x: ops.psroi_pooling(x, _floats(3, 5), 2, 3, 1.0, 1, 1, "average"),
        (1, 18, 16, 12),
    ),
    "RDFT": ((2, 6, 9, 12), lambda x: ops.rdft(x, _ints(2, 3)), (1, 6, 16, 12)),
    "IRDFT": ((2, 6, 9, 2), lambda x: ops.irdft(x, _ints(1, 2)), (1, 6, 5, 2)),
    "DFT": ((2, 6, 9, 2), lambda x: ops.dft(x, _ints(1, 2), _ints(8, -1)), (1, 6, 5, 2)),
    "STFT": ((2, 64), lambda x: ops.stft(x, _floats(16), ops.constant(16), ops.constant(4), True), (1, 128)),
    "OneHotOfArgument": (
        (2, 6),
        lambda x: ops.one_hot(ops.convert(x, "i64"), ops.constant(5), ops.constant(1.0), ops.constant(0.0), 1),
        (3, 4),
    ),
    "ShapeOfChain": (
        (2, 6, 9, 11),
        lambda x: ops.reshape(
            x, ops.concat([ops.gather(ops.shape_of(x), _ints(0), ops.constant(0)), _ints(-1)], 0), False
        ),
        (1, 6, 16, 12),
    ),
    "GRN": ((2, 6, 9, 11), lambda x: ops.grn(x, 1e-5), (1, 6, 16, 12)),
    "FakeQuantize": (
        (2, 6, 9, 11),
        lambda x: ops.fake_quantize(x, _floats(1), _floats(1), _floats(1), _floats(1), 256),
        (1, 6, 16, 12),
    ),
    "ReorgYolo": ((2, 6, 8, 12), lambda x: ops.reorg_yolo(x, [2]), (1, 6, 16, 12)),
    "RegionYolo": ((2, 18, 9, 11), lambda x: ops.region_yolo(x, 4, 1, 3, False, [0, 1, 2], 1, 3), (1, 18, 16, 12)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_at_two_sizes(name: str, tmp_path: Path) -> None:
    shape, build, other = LAYERS[name]
    x = parameter(shape, "x")
    path = written([build(x)], [x], tmp_path / "layer.xml")
    _agrees(path, {})
    model = openvino.Core().read_model(path)
    model.reshape(openvino.PartialShape(list(other)))
    changed = tmp_path / "changed.xml"
    openvino.save_model(model, changed, compress_to_fp16=False)
    _agrees(path, {"x": other}, changed)


def _agrees(path: Path, inputs: dict[str, tuple[int, ...]], expected: Path | None = None) -> None:
    """The results of a model have OpenVINO's shapes, every layer is counted, and rules alone said so."""
    graph = flopwise.read(path, inputs=inputs)
    assert not graph.warnings
    assert not flopwise.profile(path, inputs=inputs).to_dict()["coverage"]["unknown"]
    results = [tuple(output.get_shape()) for output in openvino.Core().read_model(expected or path).outputs]
    assert [output.shape for output in graph.outputs] == results


def test_every_operator_of_the_sets_is_known() -> None:
    names = set()
    for number in range(1, 17):
        names |= {name for name in vars(pytest.importorskip(f"openvino.opset{number}")) if not name.startswith("_")}
    aliases = {
        "absolute": "abs",
        "ceil": "ceiling",
        "if_op": "if",
        "ops": "",
        "constant": "",
        "parameter": "",
        "result": "",
    }
    known = {*TABLE, *CONTROL_FLOW, *(row.partition("::")[2].lower() for row in ROWS if row.startswith("openvino::"))}
    wanted = {aliases.get(name, name.replace("_", "")) for name in names} - {""}
    assert wanted - known == set()


def _models() -> list[Path]:
    """One small model of the ONNX tests for each of 40 operators, and three networks."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    first: dict[str, Path] = {}
    for path in sorted(folder.glob("test_*/model.onnx")):
        words = path.parent.name.split("_")
        if not re.search("expanded|training|sequence|optional|string|adagrad|adam|loop|if_", path.parent.name):
            first.setdefault(words[1], path)
    every = list(first.values())
    return [*every[:: max(len(every) // 38, 1)][:38], LIGHT / "light_squeezenet.onnx", LIGHT / "light_shufflenet.onnx"]


def test_forty_models_of_the_onnx_tests(tmp_path: Path) -> None:
    compared = 0
    for number, source in enumerate(_models()):
        try:
            model = openvino.convert_model(source)
        except Exception:  # what OpenVINO's own front end does not take
            continue
        path = tmp_path / f"{number}.xml"
        openvino.save_model(model, path)
        if not model.inputs or any(not one.get_partial_shape().is_static for one in model.inputs):
            continue
        graph, expected = flopwise.read(path), stated(path)
        assert not any("the file says" in warning for warning in graph.warnings), source
        for node in graph.nodes:
            shape = node.outputs[0].shape if node.outputs and node.outputs[0] is not None else None
            if node.name in expected and shape is not None:
                assert shape == expected[node.name], (source, node.name)
                compared += 1
    assert compared > 150


def test_what_is_read_is_what_the_file_holds(tmp_path: Path) -> None:
    x = parameter((1, 3, 8, 8), "x")
    path = written([ops.relu(x)], [x], tmp_path / "net.xml")
    net = read_net(open_source(path))
    assert [layer.type for layer in net.layers] == ["Parameter", "ReLU", "Result"]
    assert net.layers[1].outputs[0].dims == [1, 3, 8, 8]
