"""TorchScript files: tensors are read with stand-ins for whatever their pickle names, and code runs when asked."""

from __future__ import annotations

import contextlib
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
from flopwise.readers.formats import open_stored


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
