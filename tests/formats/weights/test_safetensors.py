"""safetensors: headers of files that its own package writes, and files that cannot be right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.work import calls_at_most

import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.formats.table import open_stored

#: PyTorch's types -> how safetensors calls them.
TYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
TYPES += ("float8_e5m2fnuz", "float8_e8m0fnu", "int8", "uint8", "int16", "int32", "int64", "bool")


def test_every_type_as_the_package_writes_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("safetensors.torch")
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name in TYPES:
        dtype = getattr(torch, name)
        bits = torch.randint(0, 2 if name == "bool" else 256, (60 * dtype.itemsize,), generator=generator)
        tensors[f"layer.{name}"] = bits.to(torch.uint8).view(dtype).reshape(3, 4, 5)
    package.save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    with open_stored(tmp_path / "a.safetensors") as stored:
        assert {p.name for p in stored.tensors} == set(tensors)
        for payload in stored.tensors:
            tensor = tensors[payload.name]
            narrow = tensor.is_floating_point() and tensor.dtype is not torch.float64
            expected = (tensor.float() if narrow else tensor).numpy()
            assert payload.array().dtype == expected.dtype
            numpy.testing.assert_array_equal(payload.array(), expected)
            assert payload.nbytes == tensor.numel() * tensor.itemsize
            if payload.raw() is not None:
                assert payload.raw().tobytes() == tensor.view(torch.uint8).numpy().tobytes()


def _file(path: Path, header: Any, data: bytes = bytes(16), length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def _tensor(shape: list[int], start: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_packed_types(tmp_path: Path) -> None:
    header = {"a": _tensor([3], 0, 2, "F4"), "b": _tensor([5], 2, 6, "F6_E2M3"), "c": _tensor([0, 9], 6, 6, "F6_E3M2")}
    with open_stored(_file(tmp_path / "a.safetensors", header, bytes([0x21, 0x07, 1, 0, 0, 0]))) as stored:
        a, b, c = (p.array().tolist() for p in stored.tensors)
    assert (a, b, c) == ([0.5, 1.0, 6.0], [0.125, 0, 0, 0, 0], [])


DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

BAD: list[tuple[Any, bytes, int | None, str]] = [
    ({"a": _tensor([4], 0, 16)}, bytes(12), None, "truncated: tensor 'a' ends at byte"),
    ({"a": _tensor([4], 0, 16)}, bytes(20), None, "its last 4 bytes belong to no tensor"),
    ({"a": _tensor([4], 0, 16)}, bytes(16), 10**6, "its header should have 1,000,000 bytes"),
    ({"a": _tensor([4], 0, 16)}, bytes(16), 2**64 - 1, "its header should have"),
    ({"a": _tensor([2], 0, 8), "b": _tensor([3], 4, 16)}, bytes(16), None, "tensors 'a' and 'b' overlap"),
    (
        {"a": _tensor([2], 0, 8), "b": _tensor([1], 12, 16)},
        bytes(16),
        None,
        "the 4 bytes before 'b' belong to no tensor",
    ),
    ({"a": _tensor([2**62, 2**62], 0, 16)}, bytes(16), None, "takes"),
    ({"a": _tensor([2**64, 0], 0, 0)}, bytes(16), None, "has no shape"),
    ({"a": _tensor([-4], 0, 16)}, bytes(16), None, "has no shape"),
    ({"a": _tensor([4], 16, 0)}, bytes(16), None, "its data_offsets are 16 to 0"),
    ({"a": {**_tensor([4], 0, 16), "data_offsets": [-16, 0]}}, bytes(16), None, "has no data_offsets"),
    ({"a": _tensor([True], 0, 4)}, bytes(4), None, "has no shape"),
    ({"a": _tensor([4], 0, 16, "F31")}, bytes(16), None, "unknown element type 'F31'"),
    ({"a": [1]}, bytes(16), None, "is not described by dtype, shape and data_offsets"),
    (b'{"a":1,"a":1}', b"", None, "names 'a' twice"),
    (b'{"a":', b"", None, "is not JSON, or damaged"),
    (b'["a"]', b"", None, "not a safetensors file"),
    (DEEP, b"", None, "is not JSON, or damaged"),
    (b'{"a":' + b"9" * 10_000 + b"}", b"", None, "is not JSON, or damaged"),
]


@pytest.mark.parametrize(("header", "data", "length", "told"), BAD, ids=[b[3][:30] for b in BAD])
def test_files_that_cannot_be_right(tmp_path: Path, header: Any, data: bytes, length: int | None, told: str) -> None:
    path = _file(tmp_path / "a.safetensors", header, data, length)
    with calls_at_most(2_000_000):
        for ask in (open_stored, flopwise.profile):
            with pytest.raises(ModelError) as error:
                ask(str(path))
            assert told in str(error.value)
            assert str(error.value).startswith(str(path))
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 500


def test_a_long_header(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.safetensors", b"{" + b" " * 1000 + b"}", b"", None)
    with (
        flopwise.limits(header_bytes=1000),
        pytest.raises(ModelError, match="1,002 bytes, more than the limit"),
    ):
        open_stored(path)


def test_a_header_as_long_as_the_limit(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.safetensors", b"{" + b" " * 998 + b"}", b"", None)
    with flopwise.limits(header_bytes=1000):
        assert open_stored(path).tensors == ()


@pytest.mark.parametrize(("rank", "readable"), [(64, True), (65, False)])
def test_a_tensor_has_64_dimensions_at_most(tmp_path: Path, rank: int, readable: bool) -> None:
    path = _file(tmp_path / "a.safetensors", {"a": _tensor([1] * rank, 0, 4)}, bytes(4))
    if readable:
        assert open_stored(path).tensors[0].shape == (1,) * rank
    else:
        with pytest.raises(ModelError, match="has no shape of at most 64 dimensions"):
            open_stored(path)


@pytest.mark.parametrize(("extent", "readable"), [((1 << 63) - 1, True), (1 << 63, False)])
def test_an_extent_is_below_2_to_the_63(tmp_path: Path, extent: int, readable: bool) -> None:
    path = _file(tmp_path / "a.safetensors", {"a": _tensor([extent, 0], 0, 0)}, b"")
    if readable:
        assert open_stored(path).tensors[0].shape == (extent, 0)
    else:
        with pytest.raises(ModelError, match="has no shape"):
            open_stored(path)


@pytest.mark.parametrize("data", [b"", b"abc", b"<html>not found</html>"])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ModelError, match="not a safetensors file, or truncated"):
        open_stored(tmp_path / "a.safetensors")


def _sharded(folder: Path) -> dict[str, Any]:
    """Two shards and their index."""
    arrays = {f"model.{i}.weight": numpy.random.default_rng(i).random((4, i + 1)).astype("<f4") for i in range(4)}
    places = {}
    for shard in (0, 1):
        header, data = {}, b""
        for name, array in list(arrays.items())[2 * shard : 2 * shard + 2]:
            header[name] = _tensor(list(array.shape), len(data), len(data) + array.nbytes)
            data += array.tobytes()
            places[name] = f"model-{shard}.safetensors"
        _file(folder / f"model-{shard}.safetensors", header, data)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return arrays


def test_shards(tmp_path: Path) -> None:
    arrays = _sharded(tmp_path)
    for model in (tmp_path, tmp_path / "model.safetensors.index.json"):
        with open_stored(model) as stored:
            assert [p.name for p in stored.tensors] == list(arrays)
            for payload in stored.tensors:
                numpy.testing.assert_array_equal(payload.array(), arrays[payload.name])
                assert payload.layer == payload.name.removesuffix(".weight")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("../model-0.safetensors", "does not lie beside it; refused"),
        ("/etc/passwd", "does not lie beside it; refused"),
        ("..\\model-0.safetensors", "does not lie beside it; refused"),
        ("gone.safetensors", "a shard lies in the file 'gone.safetensors', and there is no such file"),
        ("model-1.safetensors", "has no tensor 'model.0.weight'"),
        ("model.safetensors.index.json", "is not a weights file"),
        (3, "has no weight_map"),
    ],
)
def test_an_index_that_cannot_be_right(tmp_path: Path, place: Any, told: str) -> None:
    _sharded(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    text = json.loads(index.read_text())
    text["weight_map"]["model.0.weight"] = place
    index.write_text(json.dumps(text))
    with pytest.raises(ModelError, match=re.escape(told)):
        open_stored(index)


def test_a_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    _sharded(tmp_path / "in")
    shard = tmp_path / "in" / "model-0.safetensors"
    shard.rename(tmp_path / "model-0.safetensors")
    shard.symlink_to(tmp_path / "model-0.safetensors")
    with pytest.raises(ModelError, match="outside the model's folder; refused"):
        open_stored(tmp_path / "in")


def test_the_profile_lists_tensors_and_says_that_it_knows_no_operations(tmp_path: Path) -> None:
    arrays = _sharded(tmp_path)
    profile = flopwise.profile(str(tmp_path / "model.safetensors.index.json"))
    assert [(r.name, r.params, r.weight_bytes, r.count, r.activations) for r in profile.rows] == [
        (name, array.size, array.nbytes, None, None) for name, array in arrays.items()
    ]
    assert not profile.exact
    totals = profile.to_dict()["totals"]
    for unknown in ("count", "macs", "flops", "ops", "activations", "output_bytes", "peak_activation_bytes"):
        assert totals[unknown] is None
    assert totals["params"] == sum(a.size for a in arrays.values())
    assert "holds weights only: name the architecture" in profile.notes[0]
    assert [s.name for s in profile.by("module", depth=2)][-1] == "model.3"
    with pytest.raises(InputError, match="does not apply to indexes of safetensors files, which hold"):
        flopwise.profile(str(tmp_path / "model.safetensors.index.json"), (1, 3))
