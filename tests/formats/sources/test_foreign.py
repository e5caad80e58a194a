"""Files of other programs are told by their content, or by their names, in one line that says what to do."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from tests.formats.models import model, node

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.sources.source import FOREIGN
from flopwise.formats.table import FORMATS

ENDINGS = [ending for one in FOREIGN for ending in one.endings]


@pytest.mark.parametrize("ending", ENDINGS)
def test_by_name(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{ending}"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError) as raised:
        flopwise.profile(path)
    (own,) = (one for one in FOREIGN if ending in one.endings)
    what = own.what.partition("{")[0]
    assert str(raised.value).startswith(f"{path}: not an ONNX model but, by its name, {what}")
    assert "{" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_model_may_have_any_name(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{ending}"
    path.write_bytes(model([node("Relu", "x", "y")], {"x": (2, 3)}).SerializeToString())
    assert [n.op for n in flopwise.read(path).nodes] == ["Relu"]


#: TensorFlow Lite models are read under any name but one of ONNX models.
BY_CONTENT = [one for one in FOREIGN if one.starts or one.identifier not in (b"", b"TFL3")]


@pytest.mark.parametrize("one", BY_CONTENT, ids=lambda one: one.what[:30])
def test_by_content(one: object, tmp_path: Path) -> None:
    assert isinstance(one, tuple)
    what, _, starts, identifier = one
    path = tmp_path / "net"
    for head in (*starts, *([bytes(4) + identifier] if identifier else [])):
        path.write_bytes(head + bytes(64))
        with pytest.raises(ModelError) as raised:
            flopwise.profile(path)
        assert str(raised.value).startswith(f"{path}: not an ONNX model but {what.partition('{')[0]}")


def test_an_archive_is_what_its_name_says(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("Manifest.json", "{}")
    (tmp_path / "net.mlpackage").write_bytes(held.getvalue())
    with pytest.raises(ModelError, match="a Core ML package in a ZIP archive; unpack it first"):
        flopwise.profile(tmp_path / "net.mlpackage")


@pytest.mark.parametrize("name", ["$(reboot).pdmodel", "a b.pdmodel", "'; reboot '.pdmodel"])
def test_no_command_holds_what_a_shell_would_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError) as raised:
        flopwise.profile(tmp_path / name)
    told = str(raised.value).removeprefix(f"{tmp_path / name}: ")
    assert "FILE" in told
    assert Path(name).stem not in told


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "net.mlmodelc").mkdir()
    with pytest.raises(
        ModelError, match=r"net.mlmodelc: a Core ML model that was compiled for a device; give the .mlpack"
    ):
        flopwise.profile(tmp_path / "net.mlmodelc")


def test_no_format_of_ours_is_foreign() -> None:
    assert not {*ENDINGS}.intersection(ending for format in FORMATS for ending in format.endings)
