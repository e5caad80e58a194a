"""Programs in files as data: limits hold at their ends, tensors lie within what is stored, and no code runs unasked."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import flopwise
from flopwise.cli import main
from flopwise.errors import FlopwiseError, ModelError
from flopwise.formats.sources.source import FileSource
from flopwise.formats.table import open_stored
from flopwise.formats.torch.stored import Content, Place, at_place, fits, last_element
from flopwise.formats.weights.storage import SourceStorage

PROGRAM = "net/models/model.json"
WEIGHTS = "net/data/weights/model_weights_config.json"


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> str:
    """Path of an archive with these members."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return str(path)


@pytest.mark.parametrize(
    ("method", "limit", "told"),
    [
        (zipfile.ZIP_STORED, "header_bytes", "has 101 bytes, more than the limit header_bytes of 100"),
        (zipfile.ZIP_DEFLATED, "header_bytes", "has 101 bytes, more than the limit header_bytes of 100"),
        (zipfile.ZIP_DEFLATED, "unpacked_bytes", "unpacks to 101 bytes, more than the limit unpacked_bytes of 100"),
    ],
)
def test_a_program_is_as_long_as_a_limit_at_most(tmp_path: Path, method: int, limit: str, told: str) -> None:
    path = archive(tmp_path / "a.pt2", {PROGRAM: b"{}".ljust(101)}, method)
    with flopwise.limits(**{limit: 101}):
        assert Content(path).program() == {}
    with flopwise.limits(**{limit: 100}), pytest.raises(ModelError, match=told):
        Content(path).program()


def test_a_program_that_is_not_compressed_unpacks_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt2", {PROGRAM: b"{}".ljust(101)})
    with flopwise.limits(unpacked_bytes=100):
        assert Content(path).program() == {}


def test_a_program_with_the_highest_byte_first_is_refused(tmp_path: Path) -> None:
    members = {PROGRAM: b"{}", "net/byteorder": b"big"}
    with pytest.raises(ModelError, match="is big-endian"):
        Content(archive(tmp_path / "a.pt2", members))


@pytest.mark.parametrize(
    ("number", "fitting"),
    [(0, True), ((1 << 63) - 1, True), (1 << 63, False), (-1, False), (True, False), (1.0, False), ("1", False)],
)
def test_a_size_is_a_whole_number_below_2_to_the_63(number: Any, fitting: bool) -> None:
    assert fits(number) is fitting


def stored(path: Path, rank: int = 1, method: int = zipfile.ZIP_STORED, **changes: Any) -> Any:
    """The places of the tensors of a program with one weight of four numbers."""
    sizes = [{"as_int": 4}, *[{"as_int": 1}] * (rank - 1)]
    meta = {"dtype": 7, "layout": 7, "sizes": sizes, "strides": [{"as_int": 1}] * rank, "storage_offset": {"as_int": 0}}
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": {**meta, **changes}}
    members = {PROGRAM: b"{}", WEIGHTS: json.dumps({"config": {"w": entry}}).encode()}
    members["net/data/weights/weight_0"] = numpy.arange(4, dtype="<f4").tobytes()
    return Content(archive(path / "a.pt2", members, method)).tensors()[0]


def test_a_tensor_has_64_dimensions_at_most(tmp_path: Path) -> None:
    assert stored(tmp_path, 64)["w"].shape == (4, *[1] * 63)
    with pytest.raises(ModelError, match="does not match its archive"):
        stored(tmp_path, 65)


def test_a_tensor_has_a_stride_for_each_size(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not match its archive"):
        stored(tmp_path, strides=[{"as_int": 1}, {"as_int": 1}])


@pytest.mark.parametrize("change", [{"method": zipfile.ZIP_DEFLATED}, {"layout": 1}])
def test_a_tensor_is_neither_compressed_nor_sparse(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="is compressed, encrypted or sparse"):
        stored(tmp_path, **change)


def test_elements_in_front_of_a_tensor_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(numpy.arange(8, dtype="<f4").tobytes())
    place = Place("a", 0, 32, "float32", (2, 2), (3, 1), 2)
    assert last_element(place) == 2 + 1 + 3 + 1
    assert last_element(place._replace(shape=(2, 0))) == 2
    storage = SourceStorage.from_source(FileSource(str(tmp_path / "a")))
    assert at_place("a", place, "weight", storage).array().tolist() == [[2, 3], [5, 6]]


@pytest.mark.parametrize(("offset", "start"), [(5, 0), (4, 4)], ids=["beyond its member", "beyond the file"])
def test_a_tensor_ends_where_what_is_stored_ends(tmp_path: Path, offset: int, start: int) -> None:
    (tmp_path / "a").write_bytes(numpy.arange(8, dtype="<f4").tobytes())
    place = Place("a", 0, 32, "float32", (2, 2), (2, 1), 4)
    storage = SourceStorage.from_source(FileSource(str(tmp_path / "a")))
    assert at_place("a", place, "weight", storage).array().tolist() == [[4, 5], [6, 7]]
    with pytest.raises(ModelError, match="is longer than what is stored"):
        at_place("a", place._replace(offset=offset, start=start), "weight", storage)


def test_example_inputs_that_are_compressed_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    inner = archive(tmp_path / "inner.pt", {"a/data.pkl": bytes(1000)}, zipfile.ZIP_DEFLATED)
    members = {PROGRAM: b"{}", "net/data/sample_inputs/model.pt": Path(inner).read_bytes()}
    with pytest.raises(ModelError, match=r"model\.pt: 'a/data\.pkl' is compressed; load and save it again"):
        Content(archive(tmp_path / "a.pt2", members)).example()


def test_a_program_without_example_inputs_has_none(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert Content(archive(tmp_path / "a.pt2", {PROGRAM: b"{}"})).example() is None


# TorchScript files: tensors are read with stand-ins for whatever their pickle names, and code runs when asked.


def _net() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False)).eval()
    net[2].weight = nn.Parameter(torch.randn(2, 2).T)
    return net


@pytest.mark.parametrize("how", ["script", "trace"])
def test_elements_and_roles(tmp_path: Path, how: str) -> None:
    net = _net()
    made = torch.jit.script(net) if how == "script" else torch.jit.trace(net, torch.randn(2, 3))
    torch.jit.save(made, tmp_path / "a.pt")
    with open_stored(tmp_path / "a.pt") as stored:
        found = {tensor.name: tensor for tensor in stored.tensors}
        assert set(found) == set(net.state_dict())
        for name, tensor in net.state_dict().items():
            numpy.testing.assert_array_equal(found[name].array(), tensor.numpy())
        assert found["0.weight"].op == "Linear"
        assert (found["0.weight"].role, found["1.running_var"].role) == ("weight", "buffer")
        assert [t.slot for t in stored.tensors if t.layer == "0"] == [0, 1]


def test_it_runs_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.ts")
    torch.jit.save(torch.jit.script(nn.Linear(4, 5)), path)
    with pytest.raises(ModelError, match="--trust-code"):
        flopwise.profile(path, (3, 4))
    assert flopwise.profile(path, (3, 4), trust_code=True).total("macs") == 60
    assert main(["profile", path, "-i", "3x4"]) == 2
    assert "a TorchScript file is code, which is not run unasked; --trust-code" in capsys.readouterr().err
    assert main(["profile", path, "-i", "3x4", "--trust-code"]) == 0
    assert main(["weights", path]) == 0
    assert flopwise.sparsity(path).to_dict()["totals"]["elements"] == 25


class _Runs:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def _with_pickle(path: Path, data: bytes) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(4, 5)), path)
    with zipfile.ZipFile(path) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members:
            new.writestr(name, data if name.endswith("/data.pkl") else content)


def test_a_pickle_that_wants_to_run_something(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    _with_pickle(tmp_path / "a.pt", pickle.dumps(_Runs(str(mark))))
    for ask in (open_stored, flopwise.weights, flopwise.profile):
        with pytest.raises(ModelError) as error:
            ask(tmp_path / "a.pt")
        assert "\n" not in str(error.value)
        assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        # BUILD on the function that makes tensors, on a class, on a type of Python's: nothing of ours may change
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x0c\x00\x00\x00__defaults__Ns\x86b.",
        b"\x80\x02c__torch__\nA\n}X\x01\x00\x00\x00ak\x01sb.",
        b"\x80\x02ccollections\nOrderedDict\nN}X\x03\x00\x00\x00getNs\x86b.",
        b"\x80\x02cbuiltins\neval\n.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",
        b"\x80\x02(lp0\nh0\na.",
        b"",
    ],
)
def test_pickles_that_are_no_modules(tmp_path: Path, data: bytes) -> None:
    _with_pickle(tmp_path / "a.pt", data)
    with contextlib.suppress(FlopwiseError):
        assert not open_stored(tmp_path / "a.pt").tensors
    torch.jit.save(torch.jit.script(nn.Linear(4, 5)), tmp_path / "b.pt")
    assert len(open_stored(tmp_path / "b.pt").tensors) == 2


def test_damaged_pickles(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(4, 5)), tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        whole = archive.read("a/data.pkl")
    assert list(pickletools.genops(whole))
    rng = numpy.random.default_rng(0)
    for _ in range(100):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        _with_pickle(tmp_path / "a.pt", bytes(data))
        with contextlib.suppress(FlopwiseError), open_stored(tmp_path / "a.pt") as stored:
            for tensor in stored.tensors:
                tensor.array()
