"""No public function writes over what it reads: not by another name, a link, or as a part that lies beside a model."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest

import flopwise
from flopwise import compat
from flopwise.api.places import check, check_folder
from flopwise.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions that take a model and more."""
    homes = {"flopwise": flopwise, "zoo": flopwise.zoo}
    homes |= {name: import_module(f"flopwise.compat.{name}") for name in compat.__all__}
    for home, module in homes.items():
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            function = getattr(module, name)
            if inspect.isfunction(function) and function.__module__.startswith("flopwise."):
                yield f"{home}.{name}", function


#: Function and parameter that may take the name of a file, beside the model.
PLACES = [
    pytest.param(function, parameter.name, id=f"{name}-{parameter.name}")
    for name, function in functions()
    for parameter in [*inspect.signature(function).parameters.values()][1:]
    if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    and any(kind in str(parameter.annotation) for kind in ("str", "Path", "object", "Any", "Written"))
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, its data beside it, and other names of both."""
    monkeypatch.chdir(tmp_path)
    model = onnx.load(EXAMPLES / "tiny_resnet.onnx")
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.data.onnx", size_threshold=0)
    shutil.copy(EXAMPLES / "alexnet.prototxt", "net.prototxt")
    Path("net.caffemodel").write_bytes(b"its weights")
    numpy.save("data.npy", numpy.zeros((1, 3, 64, 64), "f"))
    Path("inner").mkdir()
    for name in ("m.onnx", "m.data.onnx"):
        os.symlink(tmp_path / name, f"inner/link_{name}")
        os.link(name, f"inner/HARD_{name.upper()}.onnx")
    os.link("data.npy", "data.onnx")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


#: Other ways to write the names of the model and of its data.
NAMES = [
    *("m.onnx", "./inner/../m.onnx", "./none/../m.onnx", "inner/link_m.onnx", "inner/HARD_M.ONNX.onnx"),
    *("m.data.onnx", "inner/link_m.data.onnx", "inner/HARD_M.DATA.ONNX.onnx"),
]


@pytest.mark.parametrize(("function", "parameter"), PLACES)
def test_no_argument_makes_a_function_write_over_the_model(
    folder: Path, function: Callable[..., Any], parameter: str
) -> None:
    before = contents(folder)
    for name in NAMES:
        with contextlib.suppress(Exception):  # how it refuses is the business of other tests
            function("m.onnx", **{parameter: name})
    assert contents(folder).items() >= before.items()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["m.onnx", Path("m.onnx")])
def test_shapes(folder: Path, name: str, model: str | Path) -> None:
    before = contents(folder)
    with pytest.raises(InputError, match="path= would overwrite") as error:
        flopwise.write_shapes(model, name, copy_data=True)
    assert str(error.value).startswith(f"{name}: ")
    assert contents(folder) == before


def test_an_open_file(folder: Path) -> None:
    shutil.copy(EXAMPLES / "tiny_resnet.onnx", "whole.onnx")
    with open("whole.onnx", "rb") as file, pytest.raises(InputError, match="path= would overwrite the file that is"):
        flopwise.write_shapes(file, "inner/../whole.onnx")


def test_the_data_of_an_input(folder: Path) -> None:
    with pytest.raises(InputError, match=r"data\.onnx: path= would overwrite data\.npy, which image.* reads"):
        flopwise.write_shapes("m.onnx", "data.onnx", ["image:f32:1x3x64x64:@data.npy"])


def test_onnx_tool(folder: Path) -> None:
    from flopwise.compat.onnx_tool import model_profile

    before = contents(folder)
    for argument in ("save_profile", "save_model"):
        for name in NAMES:
            with pytest.raises(InputError, match=f"{argument}= would overwrite"):
                model_profile("m.onnx", **{argument: name})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="save_model= and save_profile= name the same file"):
        model_profile("m.onnx", save_profile="new.onnx", save_model="new.onnx")
    assert contents(folder) == before


def test_the_store_of_a_measurement(folder: Path) -> None:
    with pytest.raises(InputError, match="store= would overwrite the file that is read"):
        flopwise.bench("m.onnx", store="inner/link_m.onnx")


def test_a_file_that_is_not_read_is_replaced(folder: Path) -> None:
    Path("old.onnx").write_bytes(b"old")
    flopwise.write_shapes("m.onnx", "old.onnx")
    assert onnx.load("old.onnx", load_external_data=False).graph.value_info


def test_a_folder_of_figures(folder: Path) -> None:
    check_folder("--figures", "none", (".png",), "m.onnx")
    check_folder("--figures", "inner", (".png",), "m.onnx")
    os.symlink(folder / "m.onnx", "inner/overview.png")
    check_folder("--figures", "inner", (".pdf",), "m.onnx")
    with pytest.raises(InputError, match=r"inner/overview\.png: --figures would overwrite \./m\.onnx, which \. reads"):
        check_folder("--figures", "inner", (".png",), ".")
    with pytest.raises(InputError, match=r"overview\.png: --figures would overwrite the file that is read"):
        check_folder("--figures", "inner", (".png",), "m.onnx")


def test_objects_that_are_no_files(folder: Path) -> None:
    check({"path=": "m.onnx", "none=": None}, b"m.onnx", None, 5, {"x": (1, 3)}, "\0")
    with pytest.raises(InputError, match="no such file"):
        check({"path=": "a\0b"}, "m.onnx")
