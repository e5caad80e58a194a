"""Whole models: which weight is seen how, and the multiply-accumulates that its zeros save."""

from __future__ import annotations

import json
from typing import Any

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.sparse_models import conv, in_blocks, matmul, model, scattered, two_of_four

import flopwise
from flopwise.answers.sparsity.report import sparsity_report
from flopwise.errors import InputError, ModelError
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, [i.replace("-", "") for i in inputs.split()], [output], name=op.lower(), **attributes)


onnxruntime = pytest.importorskip("onnxruntime")

#: Name -> operator, shape of its input, shape of its weight, and what turns the weight into matrices.
PRODUCTS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], Any]] = {
    "Conv": (node("Conv", "x w"), (2, 6, 9, 8), (8, 6, 3, 2), lambda w: [w.reshape(8, -1)]),
    "Conv of groups": (node("Conv", "x w", group=2), (2, 6, 9, 8), (8, 3, 3, 2), lambda w: [w.reshape(8, -1)]),
    "depthwise": (node("Conv", "x w", group=6), (1, 6, 9, 8), (6, 1, 3, 3), lambda w: [w.reshape(6, -1)]),
    "Conv1d": (node("Conv", "x w"), (2, 6, 9), (8, 6, 3), lambda w: [w.reshape(8, -1)]),
    "Conv3d": (node("Conv", "x w"), (1, 4, 5, 5, 5), (6, 4, 2, 2, 2), lambda w: [w.reshape(6, -1)]),
    "ConvTranspose": (
        node("ConvTranspose", "x w", strides=[2, 2]),
        (1, 6, 4, 5),
        (6, 4, 3, 3),
        lambda w: [w.transpose(1, 0, 2, 3).reshape(4, -1)],
    ),
    "ConvTranspose of groups": (
        node("ConvTranspose", "x w", group=2),
        (1, 6, 4, 5),
        (6, 4, 3, 3),
        lambda w: [p.transpose(1, 0, 2, 3).reshape(4, -1) for p in numpy.split(w, 2)],
    ),
    "Gemm": (node("Gemm", "x w"), (5, 12), (12, 8), lambda w: [w.T]),
    "Gemm transB": (node("Gemm", "x w", transB=1), (5, 12), (8, 12), lambda w: [w]),
    "Gemm, weight on the left": (node("Gemm", "w x"), (12, 5), (8, 12), lambda w: [w]),
    "Gemm transA, weight on the left": (node("Gemm", "w x", transA=1), (12, 5), (12, 8), lambda w: [w.T]),
    "MatMul": (node("MatMul", "x w"), (2, 5, 12), (12, 8), lambda w: [w.T]),
    "MatMul, weight on the left": (node("MatMul", "w x"), (12, 5), (8, 12), lambda w: [w]),
    "experts": (node("MatMul", "x w"), (3, 5, 12), (3, 12, 8), lambda w: [m.T for m in w]),
    "MatMul with a vector": (node("MatMul", "x w"), (5, 12), (12,), lambda w: [w.reshape(1, -1)]),
}


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("name", PRODUCTS)
def test_macs_without_zeros_are_the_products_that_are_left(name: str, share: float) -> None:
    """The oracle: with ones as input, and ones where a weight is kept, the outputs add up to the products."""
    operator, x, shape, matrices = PRODUCTS[name]
    weight = scattered(shape, share, seed=3)
    zeros = matrices(weight.copy())
    blocks = [(2, 1), (1, 4), (3, 5)]
    found = flopwise.sparsity(model([operator], {"x": x}, {"w": weight}), blocks=blocks)

    def products(kept: Any) -> int:
        content = model([operator], {"x": x}, {"w": kept.astype(numpy.float32)})
        run = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        return int(run.run(None, {"x": numpy.ones(x, numpy.float32)})[0].sum())

    (tensor,), effective = found.tensors, found.effective
    assert effective is not None
    assert (tensor.matrices, tensor.rows, tensor.columns) == (len(zeros), *zeros[0].shape)
    assert effective.macs == products(numpy.ones(shape))
    assert effective.zeros == products(weight != 0)
    for block, macs in zip(blocks, effective.blocks, strict=True):
        kept = numpy.ones(shape)
        for seen, mask in zip(matrices(weight), matrices(kept), strict=True):
            for r in range(0, seen.shape[0], block[0]):
                for c in range(0, seen.shape[1], block[1]):
                    part = (slice(r, r + block[0]), slice(c, c + block[1]))
                    mask[part] = seen[part].any()
        if not any(numpy.shares_memory(mask, kept) for mask in matrices(kept)):
            continue  # this layout cannot be written through a view; test_counting has its blocks
        assert macs == products(kept), block


def helper_model(content: bytes) -> Any:
    import onnx

    return onnx.load_from_string(content)


def test_recurrent_layers_skip_in_both_their_weights() -> None:
    w, r = scattered((2, 16, 6), 0.5, 1), scattered((2, 16, 4), 0.25, 2)
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4, direction="bidirectional")]
    found = flopwise.sparsity(model(nodes, {"x": (10, 3, 6)}, {"w": w, "r": r}), patterns="2:4")
    assert found.effective is not None
    assert found.effective.macs == 10 * 3 * (w.size + r.size)
    assert found.effective.zeros == 30 * int(numpy.count_nonzero(w) + numpy.count_nonzero(r))
    assert [(t.matrices, t.rows, t.columns) for t in found.tensors] == [(2, 16, 6), (2, 16, 4)]


@pytest.mark.parametrize("transpose", [False, True])
def test_a_pattern_saves_where_every_group_holds(transpose: bool) -> None:
    weight = two_of_four((8, 12))
    stored = weight if transpose else weight.T.copy()
    nodes = [node("Gemm", "x w", transB=int(transpose))]
    found = flopwise.sparsity(model(nodes, {"x": (5, 12)}, {"w": stored}), patterns=["2:4", (1, 4), "1:2"])
    assert found.effective is not None
    assert found.effective.patterns == (5 * 8 * 6, 5 * 8 * 12, 5 * 8 * 12)
    assert found.tensors[0].patterns[0].holds
    broken = stored.copy()
    broken[:] = 1
    once = flopwise.sparsity(model(nodes, {"x": (5, 12)}, {"w": broken}), patterns="2:4")
    assert once.effective is not None
    assert once.effective.patterns == (480,)


def test_two_of_four_along_the_channels_of_a_convolution() -> None:
    """The order of sparse matrix units: at each kernel position 2 of 4 neighbouring input channels are kept."""
    weight = two_of_four((8 * 9, 16)).reshape(8, 3, 3, 16).transpose(0, 3, 1, 2).copy()
    stored = flopwise.sparsity(conv(weight), patterns="2:4").tensors[0].patterns[0]
    last = flopwise.sparsity(conv(weight), patterns="2:4", order="channels-last").tensors[0].patterns[0]
    assert (stored.holds, last.holds, last.groups) == (False, True, 8 * 9 * 4)


def test_a_model_in_qdq_form() -> None:
    random = numpy.random.default_rng(4)
    weight = random.integers(-3, 4, (12, 8)).astype(numpy.int8)
    points = random.integers(-3, 4, 8).astype(numpy.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=1),
        helper.make_node("MatMul", ["x", "f"], ["y"], name="fc"),
    ]
    weights = {"w": weight, "s": numpy.ones(8, numpy.float32), "z": points}
    found = flopwise.sparsity(model(nodes, {"x": (5, 12)}, weights), blocks="2x3")
    (tensor,) = found.tensors
    assert (tensor.name, tensor.dtype, tensor.layer, tensor.zero_point) == ("w", "int8", "fc", "per axis")
    assert tensor.zeros == int((weight == points).sum())
    assert (tensor.rows, tensor.columns) == (8, 12)
    assert found.effective is not None
    assert found.effective.zeros == 5 * int((weight != points).sum())


@pytest.mark.parametrize("point", [0, 3, 128])
def test_qlinear_conv(point: int) -> None:
    weight = numpy.random.default_rng(5).integers(point, point + 3, (4, 3, 2, 2)).astype(numpy.uint8)
    nodes = [node("QLinearConv", "x xs xz w ws wz ys yz")]
    one, zero = numpy.float32(1), numpy.uint8(0)
    weights = {
        **{name: numpy.array(one) for name in ("xs", "ws", "ys")},
        **{name: numpy.array(zero) for name in ("xz", "yz")},
        "w": weight,
        "wz": numpy.array(point, numpy.uint8),
    }
    (tensor,) = flopwise.sparsity(model(nodes, {"x": (1, 3, 5, 5)}, weights, TensorProto.UINT8)).tensors
    assert (tensor.zeros, tensor.zero_point) == (int((weight == point).sum()), str(point))


def test_4_bits_in_blocks() -> None:
    random = numpy.random.default_rng(6)
    values, points = random.integers(0, 16, (12, 6)), random.integers(0, 16, (3, 6))
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "f"], ["y"], name="fc"),
    ]
    weights = {
        "w": helper.make_tensor("w", TensorProto.UINT4, (12, 6), values.ravel()),
        "s": numpy.ones((3, 6), numpy.float32),
        "z": helper.make_tensor("z", TensorProto.UINT4, (3, 6), points.ravel()),
    }
    (tensor,) = flopwise.sparsity(model(nodes, {"x": (2, 12)}, weights)).tensors
    assert tensor.zeros == int((values == points.repeat(4, axis=0)).sum())
    assert tensor.zero_point == "per block"


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("k", [32, 40])
def test_packed_weights(bits: int, given: bool, k: int) -> None:
    """The oracle packs; a zero point for each block of 16, or the middle of the range."""
    random = numpy.random.default_rng(8)
    blocks = -(-k // 16)
    values = random.integers(0, 1 << bits, (6, blocks * 16)) // 2 * 2
    points = random.integers(0, 1 << bits, (6, blocks)) // 2 * 2 if given else numpy.full((6, blocks), 1 << (bits - 1))

    def packed(elements: Any) -> Any:
        per = 8 // bits
        rows = numpy.pad(elements, ((0, 0), (0, -elements.shape[1] % per)))
        parts = rows.reshape(len(rows), -1, per)
        return sum(parts[:, :, i] << (bits * i) for i in range(per)).astype(numpy.uint8)

    attributes = {"N": 6, "K": k, "bits": bits, "block_size": 16}
    inputs = ["x", "w", "s", "z"][: 3 + given]
    nodes = [helper.make_node("MatMulNBits", inputs, ["y"], name="fc", domain="com.microsoft", **attributes)]
    weights = {"w": packed(values).reshape(6, blocks, -1), "s": numpy.ones((6, blocks), numpy.float32)}
    if given:
        weights["z"] = packed(points)
    found = flopwise.sparsity(model(nodes, {"x": (5, k)}, weights), blocks="2x3", patterns="2:4")
    kept = (values != points.repeat(16, axis=1))[:, :k]
    (tensor,) = found.tensors
    assert (tensor.shape, tensor.dtype, tensor.zeros) == ((6, k), f"uint{bits}", int((~kept).sum()))
    assert tensor.zero_point == ("per block" if given else str(1 << (bits - 1)))
    assert found.effective is not None
    assert found.effective.zeros == 5 * int(kept.sum())


def test_a_zero_point_that_is_not_stored() -> None:
    nodes = [node("MatMulInteger", "x w - z")]
    content = model(nodes, {"x": (2, 12), "z": ()}, {"w": numpy.zeros((12, 6), numpy.uint8)}, TensorProto.UINT8)
    found = flopwise.sparsity(content, blocks="2x2")
    (tensor,) = found.tensors
    assert (tensor.zeros, tensor.zero_point, found.ratio) == (None, "unknown", None)
    assert any("zero point 'z' is not stored" in note for note in found.notes)
    assert found.layers[0].effective.zeros is None
    assert "?" in str(found)
    for by in ("tensor", "layer"):
        text = as_text(sparsity_report(found, by), "table", Look(color=True))
        (line,) = [line for line in text.splitlines() if "MatMulInteger" in line]
        assert line.startswith("\x1b")  # set apart, as all that is unknown


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"])
def test_stored_types(dtype: str) -> None:
    values = numpy.random.default_rng(7).integers(0, 2, (10, 6))
    stored = helper.make_tensor("w", getattr(TensorProto, dtype), (10, 6), values.ravel())
    nodes = [helper.make_node("Cast", ["w"], ["f"], to=1), helper.make_node("MatMul", ["x", "f"], ["y"], name="fc")]
    found = flopwise.sparsity(model(nodes, {"x": (2, 10)}, {"w": stored}))
    assert found.effective is not None
    assert found.effective.zeros == 2 * values.sum()
    assert found.zeros == 60 - values.sum()


def test_a_transposed_weight_is_seen_through() -> None:
    weight = in_blocks((8, 12), (2, 4), 0.5)
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    found = flopwise.sparsity(model(nodes, {"x": (5, 12)}, {"w": weight}), blocks="2x4")
    assert (found.tensors[0].rows, found.tensors[0].columns) == (8, 12)
    assert found.tensors[0].blocks[0].ratio == found.ratio
    nodes[0] = helper.make_node("Reshape", ["w", "s"], ["t"])
    shaped = {"w": weight, "s": numpy.array([12, 8], numpy.int64)}
    other = flopwise.sparsity(model(nodes, {"x": (5, 12)}, shaped))
    assert other.effective == found.effective or other.effective is not None
    assert any("first axis" in note for note in other.notes)
    assert other.effective.zeros == 5 * int(numpy.count_nonzero(weight))  # type: ignore[union-attr]


def test_a_shared_weight_is_read_once_and_saves_in_every_layer() -> None:
    weight = scattered((8, 8), 0.5)
    nodes = [node("MatMul", "x w", "h"), helper.make_node("MatMul", ["h", "w"], ["y"], name="again")]
    found = flopwise.sparsity(model(nodes, {"x": (5, 8)}, {"w": weight}))
    assert len(found.tensors) == 1
    assert found.elements == 64
    left = 5 * int(numpy.count_nonzero(weight))
    assert [layer.effective.zeros for layer in found.layers] == [left, left]
    assert found.effective is not None
    assert found.effective.zeros == 2 * left


def test_layers_whose_weights_are_no_factors() -> None:
    nodes = [
        helper.make_node("Gather", ["e", "x"], ["h"], name="embed"),
        helper.make_node("LayerNormalization", ["h", "g"], ["y"], name="norm"),
    ]
    weights = {"e": scattered((20, 8), 0.5), "g": numpy.zeros(8, numpy.float32)}
    found = flopwise.sparsity(model(nodes, {"x": (3,)}, weights, TensorProto.INT64))
    assert [t.name for t in found.tensors] == ["e", "g"]
    assert found.effective is not None
    assert found.effective.zeros == found.effective.macs


def test_an_operator_without_a_rule() -> None:
    nodes = [helper.make_node("Mystery", ["x", "w"], ["h"], name="m", domain="acme"), node("MatMul", "x w")]
    content = model(nodes, {"x": (5, 8)}, {"w": scattered((8, 8), 0.5)})
    proto = helper_model(content)
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    found = flopwise.sparsity(proto.SerializeToString())
    assert found.layers[0].effective.macs is None
    assert "≥" in str(found) or ">=" in str(found) or "lower bounds" in str(found)


def test_examples_of_the_page() -> None:
    """[1, 0, 0, 0] is 75 % sparse in single elements, and 50 % in blocks of two."""
    weight = numpy.float32([[1, 0, 0, 0]])
    nodes = [node("Gemm", "x w", transB=1)]
    (tensor,) = flopwise.sparsity(model(nodes, {"x": (1, 4)}, {"w": weight}), blocks="1x1,1x2").tensors
    assert [b.ratio for b in tensor.blocks] == [0.75, 0.5]
    assert tensor.ratio == 0.75
    vector = model([node("MatMul", "x w")], {"x": (1, 4)}, {"w": weight[0]})
    assert [b.ratio for b in flopwise.sparsity(vector, blocks="1x1,1x2").tensors[0].blocks] == [0.75, 0.5]


def test_one_weight_alone() -> None:
    nodes = [node("MatMul", "x v", "h"), helper.make_node("MatMul", ["h", "w"], ["y"])]
    content = model(nodes, {"x": (5, 8)}, {"v": scattered((8, 8), 0.5), "w": scattered((8, 8), 0.5)})
    found = flopwise.sparsity(content, tensors=["w"])
    assert [t.name for t in found.tensors] == ["w"]
    assert found.effective is None
    with pytest.raises(InputError, match="no weight is named 'ww'; did you mean 'w'"):
        flopwise.sparsity(content, tensors=["ww"])


def test_the_schema() -> None:
    found = flopwise.sparsity(matmul(scattered((8, 8), 0.5)), blocks="3x3", patterns="2:4").to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["schema"] == "flopwise.sparsity/1"
    assert found["tensors"][0]["blocks"][0]["at_edges"] == 5
    assert found["totals"]["effective_macs"]["blocks"].keys() == {"3x3"}


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_any_number_of_threads(threads: int) -> None:
    weight = in_blocks((1024, 768), (4, 4), 0.8)
    found = flopwise.sparsity(matmul(weight), blocks="3x7,4x4", patterns="2:4", threads=threads)
    one = flopwise.sparsity(matmul(weight), blocks="3x7,4x4", patterns="2:4", threads=1)
    assert found.to_dict() == one.to_dict()


def test_weights_that_are_not_there(tmp_path: Any) -> None:
    proto = helper_model(matmul(scattered((80, 80), 0.5)))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"weights\.bin"):
        flopwise.sparsity(path)
    (tmp_path / "weights.bin").write_bytes(numpy_helper.from_array(scattered((80, 80), 0.5)).raw_data)
    assert flopwise.sparsity(path).zeros == int((scattered((80, 80), 0.5) == 0).sum())
