"""Loading a stored tensor when somebody asks, from wherever it lies, and never from outside the model's folder."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import array, fields, ints, kinds, model, node, number, shapes, value

import flopwise
from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.graph import Graph

CONTENT = numpy.random.default_rng(0).standard_normal((30, 40)).astype(numpy.float32)


def loaded(graph: Graph, name: str = "w") -> Any:
    return graph.weights[name].array()


def sparse(indices: Any) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(
        values=array("w", [1, 2, 3]), indices=array("i", indices, numpy.int64), dims=[4, 5]
    )  # fmt: skip


def dense() -> Any:
    whole = numpy.zeros((4, 5), numpy.float32)
    whole[0, 1], whole[2, 3], whole[3, 4] = 1, 2, 3
    return whole


def places(tensor: TensorProto) -> dict[str, onnx.ModelProto]:
    use = node("Add", "x w", "y")
    inputs = {"x": (30, 40)}
    constant = node("Constant", "", "w", value=tensor)
    function = helper.make_function(
        "my", "F", ["x"], ["o"], [constant, node("Add", "x w", "o")], [helper.make_opsetid("", 17)]
    )
    return {
        "initialiser": model([use], inputs, [tensor]),
        "constant": model([constant, use], inputs),
        "function": model([node("F", "x", "y", domain="my")], inputs, functions=[function], domains={"my": 1}),
    }


@pytest.mark.parametrize("place", ["initialiser", "constant", "function"])
@pytest.mark.parametrize("small", [False, True])
def test_inline(place: str, small: bool, tmp_path: Path) -> None:
    content = CONTENT[:1, :4] if small else CONTENT
    net = places(numpy_helper.from_array(content, "w"))[place]
    data = net.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for source in (path, str(path), data, io.BytesIO(data), net):
        graph = read(source)
        assert [w.array().tolist() for w in graph.weights.values()] == [content.tolist()]


LISTS = {
    "float_data": (TensorProto.FLOAT, [1.5, -2, 3]),
    "double_data": (TensorProto.DOUBLE, [1.5, -2, 3]),
    "int32_data": (TensorProto.INT32, [1, -2, 3]),
    "int64_data": (TensorProto.INT64, [1, -2, 1 << 40]),
    "uint64_data": (TensorProto.UINT64, [1, 2, 1 << 63]),
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("times", [1, 2000])
def test_lists_packed_or_element_by_element(kind: str, packed: bool, times: int) -> None:
    code, some = LISTS[kind]
    content = [v for v in some for _ in range(times)]
    tensor = TensorProto(name="w", data_type=code, dims=[len(content)])
    getattr(tensor, kind).extend(content)
    data = tensor.SerializeToString()
    if not packed:
        form = {"float_data": (4, "<f"), "double_data": (10, "<d")}.get(kind)
        if form:
            tag = form[0] << 3 | (5 if form[1] == "<f" else 1)
            elements = b"".join(bytes([tag]) + struct.pack(form[1], v) for v in content)
        else:
            field = {"int32_data": 5, "int64_data": 7, "uint64_data": 11}[kind]
            elements = b"".join(number(field, int(v)) for v in content)
        half = len(elements) // 2 if kind in ("float_data", "double_data") else 0
        half -= half % len(elements[: 5 if kind == "float_data" else 9]) if half else 0
        head = number(1, len(content)) + number(2, code)
        data = head + elements[:half] + fields(8, "w") + elements[half:]  # with the name in the middle
    graph = read(number(1, 8) + fields(8, number(2, 17)) + fields(7, fields(5, data) + fields(1, relu())))
    assert loaded(graph).tolist() == content


def relu() -> bytes:
    return node("Relu", "w", "y").SerializeToString()


TYPES = {code: name for name, code in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")}
OTHER_NAMES = {"float": "float32", "double": "float64"}


@pytest.mark.parametrize("code", TYPES, ids=TYPES.get)
def test_every_type(code: int) -> None:
    name = TYPES[code].lower()
    some = [1, 2 if name == "float8e8m0" else 0, 1, 1, 1] * 300
    tensor = helper.make_tensor("w", code, [5, 300], some)
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    for form in (tensor, raw):
        graph = read(model([node("Identity", "w", "y")], {}, [form], opset=23, ir=11).SerializeToString())
        stored = graph.nodes[0].input(0)
        assert stored.dtype == OTHER_NAMES.get(name, name)
        assert stored.nbytes == len(raw.raw_data)
        assert loaded(graph).astype(numpy.complex128).ravel().tolist() == some


@pytest.mark.parametrize("indices", [[1, 13, 19], [[0, 1], [2, 3], [3, 4]]])
def test_sparse(indices: Any) -> None:
    add = node("Add", "x w", "y")
    initialiser = model([add], {"x": (4, 5)}, sparse=[sparse(indices)])
    constant = model([node("Constant", "", "w", sparse_value=sparse(indices)), add], {"x": (4, 5)})
    for net in (initialiser, constant):
        for source in (net, net.SerializeToString()):
            graph = read(source)
            assert shapes(graph)["y"] == (4, 5)
            assert loaded(graph).tolist() == dense().tolist()
            assert kinds(graph)["w"] == "weight"
            assert profile(graph).total("params") == 20


def test_sparse_indices_that_are_not_in_the_tensor() -> None:
    net = model([node("Add", "x w", "y")], {"x": (4, 5)}, sparse=[sparse([1, 2, 99])])
    with pytest.raises(ModelError, match="tensor 'w' cannot be loaded"):
        loaded(read(net))


def test_constants_of_other_forms() -> None:
    nodes = [
        node("Constant", "", "f", value_floats=[1.0, 2.0, 3.0]),
        node("Constant", "", "i", value_ints=[1, 2, 3]),
        node("ConstantOfShape", "s", "c", value=array("v", [0.5])),
        node("Mul", "x f", "a"),
        node("Mul", "a c", "y"),
    ]
    graph = read(model(nodes, {"x": (2, 3)}, [ints("s", 2, 3)], outputs=["y", "i"]))
    assert loaded(graph, "f").tolist() == [1, 2, 3]
    assert loaded(graph, "i").tolist() == [1, 2, 3]
    assert loaded(graph, "c").tolist() == [[0.5] * 3] * 2
    assert profile(graph).total("params") == 3 + 6


# --- external data ---


def external(dims: tuple[int, ...] = (30, 40), code: int = TensorProto.FLOAT, **keys: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=code, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in keys.items():
        tensor.external_data.add(key=key, value=text)
    return model([node("Add", "x w", "y")], {"x": dims}, [tensor])


def saved(net: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(net.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({}, 0, 0),
        ({"offset": "0", "length": "4800"}, 0, 100),
        ({"offset": "64", "length": "4800"}, 64, 1000),
        ({"offset": "64"}, 64, 0),
        ({"offset": "64", "length": "4800", "checksum": "?"}, 64, 8),
    ],
)
def test_external_data(keys: dict[str, str], before: int, after: int, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\1" * before + CONTENT.tobytes() + b"\2" * after)
    path = saved(external(location="sub/w.bin", **keys), tmp_path)
    for source in (path, open(path, "rb")):  # noqa: SIM115 - closed with the process
        assert loaded(read(source)).tolist() == CONTENT.tolist()


def test_external_data_need_not_be_there(tmp_path: Path) -> None:
    path = saved(external(location="gone.bin"), tmp_path)
    assert profile(path).total("params") == 1200
    with pytest.raises(ModelError, match=r"tensor 'w' lies in the file 'gone\.bin', and there is no such file"):
        loaded(read(path))


def test_external_data_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(CONTENT.tobytes())
    path = saved(external(location="w.bin"), tmp_path)
    opened: list[str] = []
    real = os.path.isfile
    monkeypatch.setattr(os.path, "isfile", lambda p: opened.append(str(p)) or real(p))
    profile(path)
    assert str(path) in opened
    assert str(tmp_path / "w.bin") not in opened


def test_the_data_of_a_model_in_memory(tmp_path: Path) -> None:
    net = external(location="w.bin")
    (tmp_path / "w.bin").write_bytes(CONTENT.tobytes())
    for source, told in (
        (net, "g: tensor 'w' lies in the file 'w.bin' beside the model; give the model as a path"),
        (net.SerializeToString(), "tensor 'w' lies in the file 'w.bin' beside the model; give the model as a path"),
    ):
        assert profile(source).total("params") == 1200
        with pytest.raises(ModelError, match=told):
            loaded(read(source))
    whole = onnx.load(saved(net, tmp_path))
    assert loaded(read(whole)).tolist() == CONTENT.tolist()


def test_external_shapes_are_read_where_they_are_there(tmp_path: Path) -> None:
    """Some tools move everything out of the file, the integers included that a Reshape takes."""
    tensor = TensorProto(name="t", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="t.bin")
    net = model([node("Reshape", "x t", "y")], {"x": (2, 6)}, [tensor])
    path = saved(net, tmp_path)
    assert shapes(read(path))["y"] is None
    for content in (b"", b"1234", struct.pack("<3q", 1, 2, 3)):
        (tmp_path / "t.bin").write_bytes(content)
        assert shapes(read(path))["y"] is None
    (tmp_path / "t.bin").write_bytes(struct.pack("<2q", 3, 4))
    assert shapes(read(path))["y"] == (3, 4)
    assert shapes(read(net))["y"] is None


OUTSIDE = [
    "../w.bin",
    "sub/../../w.bin",
    "sub/..",
    "/etc/passwd",
    "//host/share/w.bin",
    "\\\\host\\share\\w.bin",
    "\\w.bin",
    "C:\\w.bin",
    "C:w.bin",
    "..\\w.bin",
    "sub\\..\\..\\w.bin",
]


@pytest.mark.parametrize("location", OUTSIDE)
def test_data_outside_the_folder_is_refused_at_once(location: str, tmp_path: Path) -> None:
    told = r"the data of .* are in .*, outside the model's folder; refused"
    tensor = external(location=location).graph.initializer[0]
    body = helper.make_graph([node("Add", "x w", "o")], "b", [], [value("o", None)], [tensor])
    for net in (*places(tensor).values(), model([node("If", "c", "y", then_branch=body)], {"x": (1,), "c": ()})):
        with pytest.raises(ModelError, match=told):
            read(saved(net, tmp_path))


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./w.bin", "sub//w.bin", "..w.bin", "w..bin", "sub/...bin"])
def test_data_inside_the_folder_is_not(location: str, tmp_path: Path) -> None:
    read(saved(external(location=location), tmp_path))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"location": "away"}, "outside the model's folder; refused"),
        ({"location": "link/w.bin"}, "outside the model's folder; refused"),
        ({"location": ""}, "outside the model's folder; refused"),
        ({"location": "."}, "outside the model's folder; refused"),
        ({"location": "sub"}, "is a directory"),
        ({"location": "w.bin", "offset": "many"}, "gives no number as offset or length of its data"),
        ({"location": "w.bin", "offset": "-1"}, "begin at byte -1 of 'w.bin', which has 4800"),
        ({"location": "w.bin", "offset": "9999"}, "begin at byte 9999 of 'w.bin', which has 4800"),
        ({"location": "w.bin", "length": "4801"}, "takes 4800 bytes, not 4801"),
        ({"location": "w.bin", "length": str(1 << 62)}, "takes 4800 bytes, not 4611686018427387904"),
        ({"location": "w.bin", "length": "100"}, "takes 4800 bytes, not 100"),
        ({"location": "w.bin", "length": "9" * 5000}, "gives no number"),
        ({}, "outside the model's folder; refused"),
    ],
)
def test_data_that_cannot_be_loaded(keys: dict[str, str], told: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(CONTENT.tobytes())
    (tmp_path / "w.bin").write_bytes(CONTENT.tobytes())
    (folder / "away").symlink_to("../w.bin")
    (folder / "link").symlink_to("..")
    graph = read(saved(external(**keys), folder))
    if not keys:
        return  # nothing says where it is, so there is nothing to load
    with pytest.raises(ModelError, match=told) as raised:
        loaded(graph)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("small", [False, True])
def test_a_location_that_no_file_has(small: bool, tmp_path: Path) -> None:
    net = external(location="a\0b")
    if small:  # one that steers shapes is read at once
        net.graph.initializer[0].data_type = TensorProto.INT64
        net.graph.initializer[0].dims[:] = [2]
    with pytest.raises(ModelError, match=r"are in 'a\\x00b', and there is no such file"):
        read(saved(net, tmp_path))


def test_a_hard_link_is_not_read_silently(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(CONTENT.tobytes())
    os.link(tmp_path / "secret", folder / "w.bin")
    path = saved(external(location="w.bin"), folder)
    said = "the data file 'w.bin' is a hard link: the same file has 1 more name, perhaps outside the model's folder"
    assert said in read(path).warnings
    assert said in flopwise.profile(path).notes
    assert said in flopwise.weights(path).notes
    (tmp_path / "secret").unlink()
    assert read(path).warnings == ()


def test_a_file_that_is_gone_or_changed(tmp_path: Path) -> None:
    path = saved(places(numpy_helper.from_array(CONTENT, "w"))["initialiser"], tmp_path)
    graph = read(path)
    os.truncate(path, 1000)
    with pytest.raises(ModelError, match="but it has 1,000"):
        loaded(graph)
    path.unlink()
    with pytest.raises(ModelError, match="no such file"):
        loaded(graph)


def test_contents_that_do_not_fit() -> None:
    for tensor in (
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[30, 40]),
        TensorProto(name="w", data_type=TensorProto.INT64, dims=[3000], int64_data=[1, 2]),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], int64_data=[1, 2]),
    ):
        net = model([node("Identity", "w", "y")], {}, [tensor])
        for source in (net, net.SerializeToString()):
            with pytest.raises(ModelError, match="tensor 'w' cannot be loaded"):
                loaded(read(source))
