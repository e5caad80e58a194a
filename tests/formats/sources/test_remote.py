"""Models by URL: how little is read, and servers that behave badly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.sources.web import (
    CHANGING,
    HALF,
    LOGIN,
    LONGER_FILE,
    NO_RANGE_NAMED,
    OTHER_RANGE,
    SLOW_BODY,
    SLOW_HEADERS,
    WHOLE,
    WRONG_LENGTH,
    Web,
    serving,
)

import flopwise
from flopwise.cli import main
from flopwise.errors import FlopwiseError, ModelError
from flopwise.formats.sources.wire import message, number_field, varint
from flopwise.formats.table import open_stored

#: A model of 1.3 GB: so many matrices, so large.
LAYERS, WIDTH = 320, 1024


def _large_onnx(path: Path) -> None:
    """A model whose weights are a hole in the file."""
    names = ["x", *(f"y{i}" for i in range(LAYERS))]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:]).SerializeToString()
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString()
    size = 4 * WIDTH * WIDTH
    heads = []
    for i in range(LAYERS):
        head = number_field(1, WIDTH) + number_field(1, WIDTH) + number_field(2, 1) + message(8, [f"w{i}".encode()])
        head += varint(9 << 3 | 2) + varint(size)
        heads.append(varint(5 << 3 | 2) + varint(len(head) + size) + head)
    total = len(graph) + sum(len(head) + size for head in heads)
    with open(path, "wb") as file:
        file.write(model + varint(7 << 3 | 2) + varint(total) + graph)
        for head in heads:
            file.write(head)
            file.seek(size, 1)
        file.truncate()


def _large_shards(folder: Path) -> None:
    """A model of 1.3 GB in four shards, whose weights are holes in the files."""
    places = {}
    for shard in range(4):
        file, size = f"model-{shard}.safetensors", 4 * WIDTH * WIDTH
        header = {}
        for i in range(80):
            header[f"layer.{80 * shard + i}.weight"] = {
                "dtype": "F32",
                "shape": [WIDTH, WIDTH],
                "data_offsets": [i * size, (i + 1) * size],
            }
        places |= dict.fromkeys(header, file)
        text = json.dumps(header).encode()
        with open(folder / file, "wb") as opened:
            opened.write(len(text).to_bytes(8, "little") + text)
            opened.truncate(8 + len(text) + 80 * size)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with serving(tmp_path) as server:
        yield server


def test_of_a_large_onnx_file_only_the_graph_is_read(tmp_path: Path, web: Web) -> None:
    _large_onnx(tmp_path / "m.onnx")
    size = (tmp_path / "m.onnx").stat().st_size
    assert size > 1.3e9
    profile = flopwise.profile(f"{web.url}/m.onnx")
    assert profile.total("macs") == profile.total("params") == LAYERS * WIDTH * WIDTH
    assert web.sent < 1 << 20
    assert f"read {web.sent:,} of {size:,} bytes over the network in {len(web.log)} requests" in profile.notes
    local = flopwise.profile(tmp_path / "m.onnx")
    assert [(r.name, r.count, r.params) for r in profile.rows] == [(r.name, r.count, r.params) for r in local.rows]
    web.sent = 0
    with open_stored(f"{web.url}/m.onnx") as stored:
        before = web.sent
        assert next(stored.tensors[7].blocks()).size == 1 << 18
        assert web.sent - before == stored.tensors[7].nbytes


def test_of_large_shards_only_index_and_headers_are_read(
    tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    _large_shards(tmp_path)
    assert main(["profile", f"{web.url}/model.safetensors.index.json"]) == 0
    out = capsys.readouterr().out
    assert "335,544,320" in out
    assert f"read {web.sent:,} of 1,342,2" in out
    assert web.sent < 1 << 20
    assert len(web.log) < 12


def _onnx(folder: Path, location: str = "w.bin") -> numpy.ndarray[Any, Any]:
    array = numpy.random.default_rng(0).random((300, 200)).astype(numpy.float32)
    tensor = numpy_helper.from_array(array, "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d]) for n, d in (("x", 300), ("y", 200)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    model = helper.make_model(graph)
    onnx.save_model(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    if location != "w.bin":
        model = onnx.load(folder / "m.onnx", load_external_data=False)
        model.graph.initializer[0].external_data[0].value = location
        onnx.save(model, folder / "m.onnx")
    return array


def test_external_data_lie_beside_the_url(tmp_path: Path, web: Web) -> None:
    (tmp_path / "a b").mkdir()
    array = _onnx(tmp_path / "a b")
    graph = flopwise.read(f"{web.url}/a%20b/m.onnx")
    assert web.log == ["/a b/m.onnx bytes=0-16383"]
    numpy.testing.assert_array_equal(graph.weights["w"].array(), array)
    with open_stored(f"{web.url}/a%20b/m.onnx") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), array)


@pytest.mark.parametrize("location", ["../w.bin", "/w.bin", "C:\\w.bin", "a/../../w.bin"])
def test_external_data_outside_the_folder(tmp_path: Path, web: Web, location: str) -> None:
    (tmp_path / "a").mkdir()
    _onnx(tmp_path / "a", location)
    with pytest.raises(ModelError, match="outside the model's folder; refused"):
        flopwise.read(f"{web.url}/a/m.onnx")
    assert all(line.startswith("/a/m.onnx") for line in web.log)


def test_external_data_named_like_another_server(tmp_path: Path, web: Web) -> None:
    _onnx(tmp_path, "http:w.bin?x#y")
    with pytest.raises(ModelError, match="has no such file"):
        open_stored(f"{web.url}/m.onnx").tensors[0].array()
    assert {line.split(" ")[0] for line in web.log} == {"/m.onnx", "/http:w.bin?x#y"}


def test_every_format(tmp_path: Path, web: Web) -> None:
    rng = numpy.random.default_rng(0)
    arrays = {"a.weight": rng.random((300, 400)), "a.bias": rng.random(300).astype(numpy.float32)}
    numpy.savez(tmp_path / "a.npz", **arrays)
    numpy.savez_compressed(tmp_path / "b.npz", **arrays)
    numpy.save(tmp_path / "c.npy", arrays["a.weight"])
    for file in ("a.npz", "b.npz", "c.npy"):
        with open_stored(f"{web.url}/{file}") as far, open_stored(tmp_path / file) as near:
            assert far.tensors == near.tensors
            for one, other in zip(far.tensors, near.tensors, strict=True):
                numpy.testing.assert_array_equal(one.array(), other.array())
                assert one.raw() is None
            assert far.notes[0].startswith("read ")


def test_caffe_weights_in_hdf5(tmp_path: Path, web: Web) -> None:
    h5py = pytest.importorskip("h5py")
    array = numpy.random.default_rng(0).random((300, 400)).astype(numpy.float32)
    with h5py.File(tmp_path / "a.caffemodel.h5", "w") as file:
        file.create_group("data").create_group("fc")["0"] = array
    with open_stored(f"{web.url}/a.caffemodel.h5") as far, open_stored(tmp_path / "a.caffemodel.h5") as near:
        assert far.tensors == near.tensors
        assert web.sent < 1 << 15
        numpy.testing.assert_array_equal(far.tensors[0].array(), array)
        assert any(note.startswith("read ") for note in far.notes_by_now())


def test_what_the_reading_of_weights_cost_is_said(tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    array = _onnx(tmp_path)
    for command in ("weights", "sparsity", "profile"):
        web.sent = 0
        web.log.clear()
        columns = ["--columns", "name,sparsity"] if command == "profile" else []
        assert main([command, f"{web.url}/m.onnx", *columns]) == 0
        assert web.sent > array.nbytes
        out = capsys.readouterr().out
        assert out.count(" over the network in ") == 1
        assert f"note: read {web.sent:,} of {web.sent:,} bytes over the network in {len(web.log)} requests" in out


def _refused(ask: Callable[[], Any], told: str) -> str:
    began = time.monotonic()
    with pytest.raises(FlopwiseError) as error:
        ask()
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - began < 20
    return str(error.value)


@pytest.mark.parametrize(
    ("mode", "most", "told"),
    [
        (WHOLE, 1 << 22, "does not send parts of a file (no range requests); download it first"),
        (OTHER_RANGE, 1 << 15, "sends another range than it was asked for"),
        (CHANGING, 1 << 17, "changed while it was read"),
        (HALF, 1 << 16, "the connection broke 3 times (8,192 of 16,384 bytes are missing)"),
        (WRONG_LENGTH, 1 << 15, "16,384 bytes are 1000000016384"),
        (NO_RANGE_NAMED, 1 << 15, "does not say which range it sends"),
        (LOGIN, 0, "asks for a login"),
    ],
)
def test_servers_that_behave_badly(tmp_path: Path, web: Web, mode: int, most: int, told: str) -> None:
    _large_onnx(tmp_path / "m.onnx")
    web.mode = mode
    _refused(lambda: flopwise.profile(f"{web.url}/m.onnx"), told)
    assert web.sent <= most


@pytest.mark.parametrize("mode", [SLOW_HEADERS, SLOW_BODY])
def test_a_server_that_takes_its_time(tmp_path: Path, web: Web, mode: int) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros(5000))
    web.mode = mode
    with flopwise.limits(request_seconds=0.3):
        _refused(lambda: flopwise.profile(f"{web.url}/a.npy"), "longer than 0.3 seconds (the limit request_seconds)")
    with flopwise.limits(silent_seconds=0.01):
        _refused(lambda: flopwise.profile(f"{web.url}/a.npy"), "(the limit silent_seconds)")


def test_redirects_and_tries_share_the_time_of_a_request(tmp_path: Path, web: Web) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros(5000))
    web.pause = 0.2
    web.moved = {f"/{i}.npy": f"/{i + 1}.npy" for i in range(8)}
    with flopwise.limits(request_seconds=0.5):
        _refused(lambda: flopwise.profile(f"{web.url}/0.npy"), "longer than 0.5 seconds (the limit request_seconds)")
        assert len(web.log) <= 4
        web.mode, web.log[:] = HALF, []
        _refused(lambda: flopwise.profile(f"{web.url}/a.npy"), "longer than 0.5 seconds (the limit request_seconds)")
        assert len(web.log) <= 4


def test_limits_on_the_command_line(tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros(5000))
    web.mode = SLOW_HEADERS
    assert main(["--limit", "request_seconds=0.2", "profile", f"{web.url}/a.npy"]) == 2
    assert "took longer than 0.2 seconds" in capsys.readouterr().err
    for wrong, said in (
        ("request_seconds=x", "a number above 0"),
        ("request_seconds", "above 0"),
        ("a=1", "no limit"),
    ):
        assert main(["--limit", wrong, "profile", f"{web.url}/a.npy"]) == 2
        assert said in capsys.readouterr().err


def test_a_server_that_says_the_file_is_longer(tmp_path: Path, web: Web) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros(5000))
    web.mode = LONGER_FILE
    with open_stored(f"{web.url}/a.npy") as stored:
        _refused(stored.tensors[0].array, "sends another range than it was asked for")


def test_a_small_file_may_come_whole(tmp_path: Path, web: Web) -> None:
    numpy.save(tmp_path / "a.npy", numpy.arange(5000))
    web.mode = WHOLE
    with open_stored(f"{web.url}/a.npy") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), numpy.arange(5000))
    assert len(web.log) == 1


def test_redirects(tmp_path: Path, web: Web) -> None:
    numpy.save(tmp_path / "a.npy", numpy.arange(50_000))
    web.moved = {
        "/there": "/again/x.npy",
        "/again/x.npy": f"{web.url}/a.npy",
        "/file.npy": f"file://{tmp_path}/a.npy",
        "/ftp.npy": "ftp://127.0.0.1/a.npy",
        "/data.npy": "data:,x",
        "/round.npy": "/round.npy",
        "/x.npy": "/there",
    }
    with open_stored(f"{web.url}/x.npy") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), numpy.arange(50_000))
    _refused(lambda: open_stored(f"{web.url}/file.npy"), "redirects to file://, which is not followed")
    _refused(lambda: open_stored(f"{web.url}/ftp.npy"), "redirects to ftp://, which is not followed")
    _refused(lambda: open_stored(f"{web.url}/data.npy"), "redirects to data://, which is not followed")
    _refused(lambda: open_stored(f"{web.url}/round.npy"), "more than 10 redirects")


def test_a_login_goes_to_its_server_alone_and_is_never_shown(tmp_path: Path, web: Web) -> None:
    numpy.save(tmp_path / "a.npy", numpy.arange(50))
    secret = web.url.replace("://", "://me:hush@")
    with serving(tmp_path) as other:
        web.moved["/b.npy"] = f"{other.url}/a.npy"
        for file in ("a.npy", "b.npy"):
            with open_stored(f"{secret}/{file}?token=hush") as stored:
                assert stored.tensors[0].array().size == 50
                assert stored.model == f"{web.url}/{file}"
        assert set(web.logins) == {"Basic bWU6aHVzaA=="}
        assert other.logins == [None]
    said = _refused(lambda: flopwise.profile(f"{secret}/gone.onnx?token=hush"), "has no such file (HTTP 404)")
    assert said.startswith(f"{web.url}/gone.onnx: ")
    assert "hush" not in said
    profile = flopwise.profile(f"{secret}/a.npy?token=hush")
    assert "hush" not in json.dumps(profile.to_dict())


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:1/m.onnx", "no connection to the server"),
        ("http:///m.onnx", "has no host name"),
        ("http://127.0.0.1:x/m.onnx", "is not the URL of a server"),
        ("nothing://a/m.onnx", "nothing"),
        ("http://127.0.0.1:1/m.pt", "no connection to the server"),
        ("http://127.0.0.1:1/m.pt2", "download it first"),
    ],
)
def test_urls_that_lead_nowhere(url: str, told: str) -> None:
    _refused(lambda: flopwise.profile(url), told)


def test_the_command_line(tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    _onnx(tmp_path)
    assert main(["layers", f"{web.url}/m.onnx", "-f", "json"]) == 0
    assert "300" in capsys.readouterr().out
    assert main(["profile", f"{web.url}/gone.onnx"]) == 2
    assert capsys.readouterr().err == f"flopwise: {web.url}/gone.onnx: the server has no such file (HTTP 404)\n"


@pytest.mark.upstream
def test_other_file_systems(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    array = _onnx(tmp_path)
    memory = fsspec.filesystem("memory")
    for file in ("m.onnx", "w.bin"):
        memory.pipe_file(f"/folder/{file}", (tmp_path / file).read_bytes())
    with open_stored("memory://folder/m.onnx") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), array)
    assert any("over the network" in note for note in flopwise.profile("memory://folder/m.onnx").notes)
    _refused(lambda: open_stored("memory://folder/gone.onnx"), "no such file")


def test_a_file_by_url(tmp_path: Path) -> None:
    array = _onnx(tmp_path)
    with open_stored(f"file://{tmp_path}/m.onnx") as stored:
        numpy.testing.assert_array_equal(stored.tensors[0].array(), array)
        assert stored.tensors[0].raw() is not None
