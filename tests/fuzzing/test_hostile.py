"""Hostile files and texts end every command with a result or one line of error, and run nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import helper
from tests.fuzzing import make
from tests.fuzzing.hostile import FILES, INPUTS, REFUSED, write

from flopwise.cli import main

RESNET = str(Path(__file__).parents[2] / "examples/tiny_resnet.onnx")

#: Files that hold weights and no graph.
WEIGHTS = (".safetensors", ".json", ".gguf", ".npy", ".npz", ".pth", ".pt", ".pt2", ".caffemodel", ".h5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    write(folder)
    return folder


@pytest.fixture
def checked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """Exit codes to be checked when the test ends, with what was printed by then."""
    monkeypatch.chdir(tmp_path)
    codes: list[int] = []
    yield codes
    printed = capsys.readouterr()
    assert set(codes) <= {0, 1, 2}
    assert "bug in flopwise" not in printed.err
    assert "Traceback" not in printed.err
    assert printed.err.count("\n") <= len(codes)
    assert not {"\x1b", "\x07", "\r", "\u202e"} & {*printed.out, *printed.err}
    assert not list(tmp_path.iterdir())  # what the files want to run writes there


@pytest.mark.parametrize("name", FILES)
def test_a_file(name: str, folder: Path, checked: list[int]) -> None:
    if name.endswith("config.json"):
        pytest.importorskip("transformers")
    if not (folder / name).exists():
        pytest.skip("what writes it is not installed")
    checked.append(main(["profile", str(folder / name)]))
    if name.endswith(WEIGHTS) and not name.endswith("config.json"):
        checked.append(main(["weights", str(folder / name)]))
    if name in REFUSED:
        assert set(checked) == {2}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize("name", ["fifo.model.onnx", "loop.onnx", "zero.onnx", "pipe/config.json", "zero/config.json"])
def test_what_is_no_file(name: str, folder: Path, checked: list[int]) -> None:
    if not os.path.lexists(folder / name):
        pytest.skip("this file system has no such thing")
    for command in ("profile", "weights"):
        checked.append(main([command, str(folder / name)]))
    assert checked == [2, 2]


@pytest.mark.parametrize("name", ["sparse.onnx", "shared_data.onnx"])
def test_few_bytes_for_many_elements(name: str, folder: Path, checked: list[int]) -> None:
    for command in ("weights", "sparsity"):
        checked.append(main([command, str(folder / name)]))
    assert checked == [2, 2]


def test_a_pattern_that_matches_for_ever(folder: Path, checked: list[int]) -> None:
    pytest.importorskip("transformers")
    checked.append(main(["llm", str(folder / "pattern/config.json")]))
    assert checked == [2]


def test_a_convention_that_refuses_a_model_is_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    split = make.model([helper.make_node("Split", ["x"], [f"o{i}" for i in range(2500)], axis=0)], (2500, 3))
    (tmp_path / "m.onnx").write_bytes(split)
    assert main(["explain", "--all", str(tmp_path / "m.onnx")]) == 0
    printed = capsys.readouterr()
    assert "benanza is left out: benanza lists a layer once for each of its outputs" in printed.err
    assert "torchinfo" in printed.out
    assert main(["explain", "-c", "benanza", "-c", "macs", str(tmp_path / "m.onnx")]) == 2


def test_a_layer_of_many_outputs(folder: Path, checked: list[int]) -> None:
    model = str(folder / "many_outputs.onnx")
    checked.append(main(["profile", model, "-c", "benanza"]))
    checked.append(main(["profile", model, "-c", "macs", "--no-header", "--by", "op"]))
    assert checked == [2, 0]


@pytest.mark.parametrize("text", INPUTS, ids=range(len(INPUTS)))
def test_a_text_for_an_input(text: str, checked: list[int]) -> None:
    checked.append(main(["profile", RESNET, "-i", text]))


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".toml")])
def test_a_budget(name: str, folder: Path, checked: list[int]) -> None:
    checked.append(main(["check", RESNET, "--budget", str(folder / name)]))
    assert checked == [2]
