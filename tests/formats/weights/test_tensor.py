"""Stored tensors of models with a graph, of modules and of NumPy's files: places, elements, and whose they are."""

from __future__ import annotations

import io
import itertools
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.cases import each
from tests.formats.caffe.caffemodel import field, varint

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.table import open_stored
from flopwise.formats.weights.tensor import NARROW, PLAIN, encoding, length
from flopwise.graph.stored import StoredTensor

ML = {name: getattr(ml_dtypes, ml) for name, (ml, _) in NARROW.items()} | {"bfloat16": ml_dtypes.bfloat16}


def _same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    numpy.testing.assert_array_equal(found, expected)


def _checked(payload: StoredTensor, expected: Any) -> None:
    """A payload gives the same elements whole, in blocks of any size, and raw where it can."""
    assert payload.shape == expected.shape
    _same(payload.array(), expected)
    for size in (1, 7, 1 << 18):
        blocks = list(payload.blocks(size))
        assert all(b.ndim == 1 for b in blocks)
        if expected.size:
            _same(numpy.concatenate(blocks), expected.reshape(-1))


def _numbers(array: Any) -> Any:
    """What the elements of an array are as payloads give them, by NumPy's and ml_dtypes' own conversion."""
    if array.dtype in (numpy.float64, numpy.bool_) or array.dtype.kind in "iuc":
        return array
    if str(array.dtype) in ("int4", "int2"):
        return array.astype(numpy.int8)
    if str(array.dtype) in ("uint4", "uint2"):
        return array.astype(numpy.uint8)
    return array.astype(numpy.float32)


def _random(dtype: str, count: int) -> tuple[bytes, Any]:
    """Random bits, and the array that NumPy or ml_dtypes sees in them."""
    bits = numpy.random.default_rng(7).integers(0, 256, 32 * count, numpy.uint8)
    if dtype == "bool":
        array = (bits[:count] & 1).astype(bool)
        return array.tobytes(), array
    if dtype in PLAIN and dtype != "bfloat16":
        array = bits.view(dtype)[:count]
        return array.tobytes(), array
    width = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2, "float6e2m3": 6, "float6e3m2": 6}.get(dtype)
    if width is None:
        array = bits.view(ML[dtype])[:count]
        return array.tobytes(), array
    patterns = bits[:count] & ((1 << width) - 1)
    whole = sum(int(p) << (width * i) for i, p in enumerate(patterns))
    return whole.to_bytes((count * width + 7) // 8, "little"), patterns.view(ML[dtype])


@each("count", [0, 1, 2, 3, 5, 101])
@each("dtype", [*PLAIN, *NARROW, "bool"])
def test_every_type(dtype: str, count: int) -> None:
    data, expected = _random(dtype, count)
    found = encoding(dtype)
    assert found is not None
    assert len(data) == length(count, dtype)
    with numpy.errstate(invalid="ignore"):
        _same(found.decode(numpy.frombuffer(data, numpy.uint8))[:count], _numbers(expected))


def _model(path: Path, tensors: list[onnx.TensorProto], nodes: list[onnx.NodeProto] | None = None, **rest: Any) -> str:
    nodes = nodes or [helper.make_node("Identity", [t.name], [f"{t.name}_out"]) for t in tensors]
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.UNDEFINED, None)]
    inputs = rest.get("inputs", [])
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors, sparse_initializer=rest.get("sparse", []))
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    file = str(path / "m.onnx")
    onnx.save_model(model, file, **rest.get("saved", {}))
    return file


@pytest.fixture
def arrays() -> dict[str, Any]:
    names = [n for n in (*PLAIN, *NARROW, "bool") if not n.startswith("float6")]
    return {name: _random(name, 315)[1].reshape(5, 7, 9) for name in names}


@pytest.mark.parametrize("form", ["inline", "external", "each its own file"])
def test_onnx_raw_data(tmp_path: Path, arrays: dict[str, Any], form: str) -> None:
    saved: dict[str, Any] = {}
    if form != "inline":
        one = form == "external"
        saved = {"save_as_external_data": True, "all_tensors_to_one_file": one, "size_threshold": 0}
        saved |= {"location": "weights.bin"} if one else {}
    model = _model(tmp_path, [numpy_helper.from_array(a, n) for n, a in arrays.items()], saved=saved)
    with open_stored(model) as stored, numpy.errstate(invalid="ignore"):
        assert [p.name for p in stored.tensors] == [*arrays]
        for payload in stored.tensors:
            assert payload.dtype == payload.name
            assert payload.nbytes == length(315, payload.dtype)
            _checked(payload, _numbers(arrays[payload.name]))
            raw = payload.raw()
            if payload.dtype in PLAIN and payload.nbytes > 384:
                assert raw.tobytes() == arrays[payload.name].tobytes()
                assert not raw.flags.writeable
                assert payload.array() is not raw


def test_onnx_typed_fields(tmp_path: Path) -> None:
    codes = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
    values = [0, 1, 3, 5, 2, 6, 4, 1] * 50
    tensors = [helper.make_tensor(f"t{code}", code, (20, 20), values) for code in codes]
    expected = {t.name: _numbers(numpy_helper.to_array(t)) for t in tensors}
    with open_stored(_model(tmp_path, tensors)) as stored:
        assert len(stored.tensors) == len(codes)
        for payload in stored.tensors:
            _checked(payload, expected[payload.name])
        assert {p.name for p in stored.tensors if p.raw() is not None} == {"t1", "t11"}


def test_onnx_constants_sparse_and_strings(tmp_path: Path) -> None:
    whole = numpy.arange(40, dtype=numpy.float32).reshape(5, 8)
    values = numpy_helper.from_array(numpy.array([2.0, 3.0], numpy.float32), "s")
    indices = numpy_helper.from_array(numpy.array([1, 6], numpy.int64), "s_at")
    sparse = helper.make_sparse_tensor(values, indices, [4, 2])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(whole)),
        helper.make_node("Constant", [], ["f"], value_floats=[1.0, 2.0]),
        helper.make_node("Add", ["x", "c"], ["y"], name="add"),
        helper.make_node("Mul", ["y", "f"], ["z"]),
        helper.make_node("Sum", ["z", "s"], ["w"]),
    ]
    words = helper.make_tensor("words", TensorProto.STRING, (2,), [b"a", b"b"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 8])
    model = _model(tmp_path, [words], nodes, inputs=[x], sparse=[sparse])
    with open_stored(model) as stored:
        found = {p.name: p for p in stored.tensors}
        _checked(found["c"], whole)
        _checked(found["f"], numpy.array([1, 2], numpy.float32))
        _checked(found["s"], numpy.array([[0, 2], [0, 0], [0, 0], [3, 0]], numpy.float32))
        assert found["c"].layer == "add"
        assert found["f"].layer == "mul_1"
        assert "words" not in found
        assert stored.notes == ("tensor 'words' holds strings and no numbers; left out",)


def test_whose_tensors_they_are(tmp_path: Path) -> None:
    """Through operators on stored tensors alone, with scales and zero points behind weight and bias."""
    rng = numpy.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(rng.integers(-128, 127, (4, 3, 3, 3)).astype(numpy.int8), "q"),
        numpy_helper.from_array(rng.random(4).astype(numpy.float32), "s"),
        numpy_helper.from_array(numpy.zeros(4, numpy.int8), "z"),
        numpy_helper.from_array(rng.random(4).astype(numpy.float32), "b"),
        numpy_helper.from_array(rng.random((6, 4)).astype(numpy.float32), "w"),
        numpy_helper.from_array(numpy.array([1, 4], numpy.int64), "shape"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=0),
        helper.make_node("Conv", ["x", "d", "b"], ["y"], name="conv"),
        helper.make_node("GlobalAveragePool", ["y"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["r"]),
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("MatMul", ["r", "wt"], ["o"], name="fc"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    with open_stored(_model(tmp_path, tensors, nodes, inputs=[x])) as stored:
        found = {p.name: p for p in stored.tensors}
        assert {n: (p.layer, p.op, p.slot, p.role) for n, p in found.items()} == {
            "q": ("conv", "Conv", 0, "weight"),
            "s": ("conv", "Conv", 1, found["s"].role),
            "z": ("conv", "Conv", 2, found["z"].role),
            "b": ("conv", "Conv", 3, "weight"),
            "w": ("fc", "MatMul", 0, "weight"),
            "shape": ("reshape_1", "Reshape", 0, "constant"),
        }
        assert (found["q"].zero_point, found["q"].scale) == ("z", "s")
        assert found["w"].zero_point == ""


def test_a_graph_and_bytes_give_the_same_as_the_file(tmp_path: Path) -> None:
    array = numpy.random.default_rng(0).random((30, 30)).astype(numpy.float32)
    path = _model(tmp_path, [numpy_helper.from_array(array, "w")])
    for model in (path, Path(path), Path(path).read_bytes(), io.BytesIO(Path(path).read_bytes()), flopwise.read(path)):
        with open_stored(model) as stored:
            _checked(stored.tensors[0], array)


def test_views_outlive_the_file(tmp_path: Path) -> None:
    array = numpy.random.default_rng(0).random((30, 30)).astype(numpy.float32)
    with open_stored(_model(tmp_path, [numpy_helper.from_array(array, "w")])) as stored:
        raw = stored.tensors[0].raw()
    assert raw.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"location": "../w.bin"}, "outside the model's folder"),
        ({"location": "/etc/passwd"}, "outside the model's folder"),
        ({"location": "gone.bin"}, "tensor 'w' lies in the file 'gone.bin', and there is no such file"),
        ({"offset": "100000"}, "which has 3600"),
        ({"offset": "4"}, "which has 3600"),
        ({"offset": "-4"}, "which has 3600"),
        ({"length": "40"}, "takes 3600 bytes, not 40"),
        ({"length": "99999999999999"}, "takes 3600 bytes, not 99999999999999"),
        ({"length": "x"}, "no number as offset or length"),
    ],
)
def test_hostile_external_data(tmp_path: Path, change: dict[str, str], told: str) -> None:
    array = numpy.random.default_rng(0).random((30, 30)).astype(numpy.float32)
    saved = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    path = _model(tmp_path, [numpy_helper.from_array(array, "w")], saved=saved)
    model = onnx.load(path, load_external_data=False)
    entries = {e.key: e.value for e in model.graph.initializer[0].external_data} | change
    del model.graph.initializer[0].external_data[:]
    for key, value in entries.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    onnx.save(model, path)
    with pytest.raises(ModelError) as error:
        open_stored(path).tensors[0].array()
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_module() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2, bias=False))
    module[2].to(torch.bfloat16)
    stored = open_stored(module)
    state = module.state_dict()
    assert {p.name for p in stored.tensors} == set(state)
    for payload in stored.tensors:
        expected = state[payload.name]
        _checked(payload, (expected.float() if expected.is_floating_point() else expected).numpy())
        if payload.raw() is not None:
            assert payload.raw().tobytes() == expected.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    roles = {p.name: (p.layer, p.op, p.slot, p.role) for p in stored.tensors}
    assert roles["0.bias"] == ("0", "Conv2d", 1, "weight")
    assert roles["1.running_mean"] == ("1", "BatchNorm2d", 2, "buffer")


def test_a_module_that_is_not_contiguous_or_has_no_elements() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(5, 3)
    module.weight = torch.nn.Parameter(torch.rand(5, 3).t())
    payload = open_stored(module).tensors[0]
    assert payload.raw() is None
    _checked(payload, module.weight.detach().numpy().copy())
    with pytest.raises(ModelError, match="meta device"):
        open_stored(torch.nn.Linear(5, 3, device="meta")).tensors[0].array()


ARRAYS = {
    "a.weight": numpy.random.default_rng(0).random((40, 30)),
    "a.bias": numpy.arange(30, dtype=">f4"),
    "columns": numpy.asfortranarray(numpy.arange(24, dtype=numpy.int16).reshape(2, 3, 4)),
    "empty": numpy.zeros((0, 3), numpy.float32),
    "truth": numpy.array([True, False]),
    "half": numpy.arange(5, dtype=numpy.float16),
    "one": numpy.array(3, numpy.uint64),
}


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_npz(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "a.npz", **ARRAYS)
    with open_stored(tmp_path / "a.npz") as stored:
        found = {p.name: p for p in stored.tensors}
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            _checked(found[name], _numbers(array.astype(array.dtype.newbyteorder("="))))
            assert found[name].nbytes == array.nbytes
        assert (found["a.weight"].raw() is not None) == (save is numpy.savez)
        assert found["a.bias"].slot == 1
        streams = [p.blocks(7) for p in (found["a.weight"], found["a.bias"])]  # two at a time
        assert sum(len(b) for pair in itertools.zip_longest(*streams, fillvalue=()) for b in pair) == 1230


def test_npy(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", ARRAYS["columns"])
    with open_stored(tmp_path / "a.npy") as stored:
        _checked(stored.tensors[0], numpy.ascontiguousarray(ARRAYS["columns"]))


def _member(data: bytes, name: str = "a.npy") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    numpy.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "truncated or damaged"),
        (b"PK\x03\x04" + bytes(40), "truncated or damaged"),
        (_member(_npy(numpy.array([{}], object))), "holds Python objects, which are never loaded"),
        (_member(_npy(numpy.zeros(1000))[:-8]), "is truncated"),
        (_member(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"), "its header of 4,294,967,295 bytes is longer"),
        (_member(b"\x93NUMPY\x09\x00\xff\xff"), "unknown format version"),
        (_member(_npy(numpy.array(["text"]))), "which are not numbers"),
        (_member(_npy(numpy.zeros(10)).replace(b"(10,)", b"(10**9,)")), "cannot be read"),
    ],
)
def test_damaged_npz(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ModelError) as error:
        open_stored(tmp_path / "a.npz")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_compressed_array_whose_bytes_are_damaged(tmp_path: Path) -> None:
    data = bytearray(_member(_npy(numpy.random.default_rng(0).random(5000))))
    data[20000] ^= 255
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ModelError, match="cannot be read"):
        open_stored(tmp_path / "a.npz").tensors[0].array()


def test_caffemodel(tmp_path: Path) -> None:
    """A net with one blob written in one run, one as single numbers, and one layer of statistics."""
    rng = numpy.random.default_rng(0)
    weight, bias = rng.random((4, 3, 2)).astype("<f4"), rng.random(4).astype("<f4")
    runs = b"".join(b"\x2d" + value.tobytes() for value in bias)  # field 5, one number each
    blobs = [_blob(weight.shape, field(5, weight.tobytes())), _blob(bias.shape, runs)]
    layers = _layer("conv", "Convolution", blobs) + _layer("bn", "BatchNorm", [_blob((4,), field(8, bytes(32)))])
    (tmp_path / "a.caffemodel").write_bytes(field(1, b"net") + layers)
    with open_stored(tmp_path / "a.caffemodel") as stored:
        first, second, third = stored.tensors
        _checked(first, weight)
        _checked(second, bias)
        _checked(third, numpy.zeros(4))
        assert [(p.layer, p.op, p.slot, p.role) for p in stored.tensors] == [
            ("conv", "Convolution", 0, "weight"),
            ("conv", "Convolution", 1, "weight"),
            ("bn", "BatchNorm", 0, "buffer"),
        ]
        assert first.raw() is not None


def _blob(shape: tuple[int, ...], data: bytes) -> bytes:
    return field(7, field(7, field(1, b"".join(map(varint, shape)))) + data)


def _layer(name: str, kind: str, blobs: list[bytes]) -> bytes:
    return field(100, field(1, name.encode()) + field(2, kind.encode()) + b"".join(blobs))


def test_stored_tensors_need_no_input_shapes() -> None:
    with open_stored("examples/transformer_block.onnx") as free:
        assert all(p.layer for p in free.tensors)
        with open_stored("examples/transformer_block.onnx", dims={"batch": 2, "sequence": 3}) as bound:
            assert [(p.name, p.layer, p.slot, p.role) for p in free.tensors] == [
                (p.name, p.layer, p.slot, p.role) for p in bound.tensors
            ]
        for payload in free.tensors:
            assert payload.array().size == payload.numel


def test_tensors_in_the_bodies_of_control_flow(tmp_path: Path) -> None:
    """Found as well when the shapes of the inputs are open."""
    inner = numpy_helper.from_array(numpy.arange(400, dtype=numpy.float32).reshape(20, 20), "w")
    out = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
    bodies = {
        name: helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["o"], name="m")], name, [], [out], [inner])
        for name in ("then_branch", "else_branch")
    }
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 20])
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    model = _model(tmp_path, [], [helper.make_node("If", ["c"], ["y"], name="if", **bodies)], inputs=[x, c])
    for given in ({}, {"dims": {"n": 3}}):
        with open_stored(model, **given) as stored:
            assert len(stored.tensors) == 2
            assert {p.shape for p in stored.tensors} == {(20, 20)}
            assert all(p.array()[19, 19] == 399 for p in stored.tensors)
