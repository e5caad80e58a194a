"""No output is an input of its command: not by another name, a link, or as a part of a model that lies beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import onnx
import pytest
from tests.cli.conftest import EXAMPLES, Run

from flopwise.cli import COMMANDS, module_of
from flopwise.cli.places import Model, Written

#: What a command needs beside the model.
MORE: dict[str, list[str]] = {
    "check": ["--budget", "budget.toml"],
    "compare": ["-b", "1,2"],
    "formula": ["-i", "image:f32:N,3,64,64"],
}


def takes_a_model(name: str) -> bool:
    """Whether an argument of a command is a model of any format, and it writes a report."""
    command = import_module(module_of(name)).command
    types = [param.type for param in command.params]
    return all(any(isinstance(each, kind) for each in types) for kind in (Model, Written))


#: Each command with the arguments that make it read ``m.onnx``.
LINES = {name: [name, "m.onnx", *MORE.get(name, [])] for name in COMMANDS if takes_a_model(name)}


def test_the_commands_are_found() -> None:
    assert {"profile", "flops", "compare", "check", "memory", "table", "weights", "shapes", "explain"} <= LINES.keys()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model under several names, and with a budget."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "tiny_resnet.onnx", "m.onnx")
    Path("budget.toml").write_text("params = 1_000_000\n")
    os.symlink("m.onnx", "link.csv")
    os.link("m.onnx", "hard.csv")
    Path("folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", LINES)
def test_the_model_is_never_written_over(run: Run, folder: Path, name: str) -> None:
    before = (folder / "m.onnx").read_bytes()
    files = sorted(os.listdir())
    for place in ("m.onnx", "./folder/../m.onnx", "link.csv", "hard.csv"):
        code, out, err = run(*LINES[name], "-o", place, *([] if name == "shapes" else ["-f", "csv"]))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{place}: --output would overwrite" in err
    for place in ("folder/", "folder", "new/"):
        code, out, err = run(*LINES[name], "-o", place, "-f", "csv")
        assert (code, out) == (2, "")
        assert f"{place}: is a directory" in err
    assert (folder / "m.onnx").read_bytes() == before
    assert sorted(os.listdir()) == files


@pytest.mark.parametrize("name", ["m.onnx", "./m.onnx", "link.onnx", "hard.onnx"])
def test_standard_output_is_not_appended_to_the_model(tmp_path: Path, name: str) -> None:
    model = tmp_path / "m.onnx"
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", model)
    (tmp_path / "link.onnx").symlink_to(model)
    os.link(model, tmp_path / "hard.onnx")
    before = model.read_bytes()
    with open(model, "ab") as file:
        done = subprocess.run(
            [sys.executable, "-m", "flopwise", "profile", name],
            cwd=tmp_path,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, model.read_bytes()) == (2, before)
    assert "standard output would overwrite the file that is read" in done.stderr
    with open(tmp_path / "report", "wb") as file:
        assert (
            subprocess.run([sys.executable, "-m", "flopwise", "table", "."], cwd=tmp_path, stdout=file).returncode == 0
        )


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["profile", "m.onnx", "--rules", "rules.py"], "rules.py"),
        (["check", "m.onnx", "--budget", "budget.toml"], "budget.toml"),
        (["profile", "m.onnx", "-i", "image:f32:1x3x64x64:@data.npy"], "data.npy"),
        (["profile", "folder"], "folder/inner.onnx"),
        (["table", "m.onnx", "other.onnx"], "other.onnx"),
        (["compare", "m.onnx", "other.onnx"], "other.onnx"),
        (["profile", "net.prototxt"], "net.caffemodel"),
        (["profile", "net.prototxt", "--weights", "elsewhere.bin"], "elsewhere.bin"),
        (["profile", "module.py:make"], "module.py"),
        (["profile", "module:make"], "module.py"),
        (["profile", "package.module:make"], "package/module.py"),
        (["profile", "file:///HERE/m.onnx"], "m.onnx"),
        (["profile", "file://localhost/HERE/m.onnx"], "m.onnx"),
        (["profile", "solver.prototxt"], "net.prototxt"),
        (["profile", "model/config.json"], "model/model.safetensors"),
        (["profile", "model/config.json"], "model/generation_config.json"),
        (["profile", "model/config.json"], "model/modeling_own.py"),
        (["weights", "parts.safetensors.index.json"], "part-1.safetensors"),
        (["compare", "m.onnx", "-i", "a:f32:1:@data.npy|a:f32:1:@more.npy"], "more.npy"),
        (["bound", "m.onnx"], "times.db"),
        (["bound", "m.onnx", "--store", "other.db"], "other.db"),
        (["bench", "m.onnx", "--store", "other.db"], "other.db"),
        (["zoo", "report", "zoo"], "zoo/models/0.parquet"),
        (["zoo", "query", "zoo", "FROM models"], "zoo/models/0.parquet"),
    ],
)
def test_nor_is_anything_else_that_is_read(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], place: str
) -> None:
    monkeypatch.setenv("FLOPWISE_STORE", "times.db")
    arguments = [argument.replace("/HERE", folder.as_posix()) for argument in arguments]
    for name in ("package", "model", "zoo/models"):
        Path(name).mkdir(parents=True)
    Path("solver.prototxt").write_text('net: "net.prototxt"')
    Path("model/config.json").write_text("{}")
    shutil.copy("m.onnx", "other.onnx")
    shutil.copy("m.onnx", "folder/inner.onnx")
    Path("parts.safetensors.index.json").write_text('{"weight_map": {"a": "part-1.safetensors"}}')
    shutil.copy(EXAMPLES / "alexnet.prototxt", "net.prototxt")
    if not os.path.exists(place):
        Path(place).write_bytes(b"read by the command")
    before = Path(place).read_bytes()
    code, out, err = run(*arguments, "-o", place, "-f", "csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{place}: --output would overwrite" in err or f"{place}: --output and --store name the same file" in err
    assert Path(place).read_bytes() == before


def test_external_data_is_part_of_the_model(run: Run, folder: Path) -> None:
    model = onnx.load("m.onnx")
    onnx.save(model, "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    shutil.copy("big.onnx", "big.of_any_name")
    before = Path("big.data").read_bytes()
    for name, place in (("big.onnx", "big.data"), ("big.onnx", "big.onnx"), ("big.of_any_name", "big.data")):
        code, out, err = run("profile", name, "-o", place, "-f", "csv")
        assert (code, out) == (2, "")
        assert "would overwrite" in err
    assert Path("big.data").read_bytes() == before


def test_figures_and_plots(run: Run, folder: Path) -> None:
    before = (folder / "m.onnx").read_bytes()
    os.symlink(folder / "m.onnx", "folder/overview.png")
    for line in (
        ["weights", "m.onnx", "--figures", "folder"],
        ["formula", "m.onnx", "-i", "image:f32:N,3,64,64", "--at", "N=1,2", "--plot", "folder/overview.png"],
    ):
        code, _, err = run(*line)
        assert (code, err.count("\n")) == (2, 1)
        assert f"folder/overview.png: {line[-2]} would overwrite" in err
    assert (folder / "m.onnx").read_bytes() == before


def test_old_figures_below_the_models_are_replaced(run: Run, folder: Path) -> None:
    Path("folder/figures").mkdir()
    for name in ("overview.png", "Conv_stem.png"):
        Path("folder/figures", name).write_bytes(b"old")
    code, _, err = run("weights", ".", "--layers", "*conv*", "--figures", "folder/figures")
    assert (code, err) == (0, "")
    assert Path("folder/figures/overview.png").read_bytes().startswith(b"\x89PNG")


def test_code_that_a_module_imports(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    Path("own_blocks.py").write_text("import torch\ndef make(): return torch.nn.Linear(4, 2)\n")
    Path("own_net.py").write_text("from own_blocks import make\n")
    before = Path("own_blocks.py").read_text()
    line = ["formula", "own_net.py:make", "-i", "N,4", "--source", "python", "-o"]
    code, _, err = run(*line, "own_blocks.py")
    assert (code, err) == (2, "flopwise: own_blocks.py: --output would overwrite code that the model needs\n")
    assert Path("own_blocks.py").read_text() == before
    assert run(*line, "formula.py").code == 0


def test_two_outputs_are_two_files(run: Run, folder: Path) -> None:
    Path("a.json").write_text("old")
    os.link("a.json", "b.json")
    code, _, err = run("profile", "m.onnx", "-o", "a.json", "--netron", "b.json")
    assert code == 2
    assert "b.json: --netron and --output name the same file" in err
    assert Path("a.json").read_text() == "old"


def test_an_old_report_is_replaced(run: Run, folder: Path) -> None:
    Path("report.csv").write_text("old")
    assert run("profile", "m.onnx", "-o", "report.csv").code == 0
    assert Path("report.csv").read_text().startswith("name,op")


def test_a_nul_in_the_name_of_an_output(run: Run, folder: Path) -> None:
    assert run("profile", "m.onnx", "-o", "a\0b") == (2, "", "flopwise: 'a\\x00b': no such file\n")
    for _ in range(2):  # also where it lies among the models
        assert run("profile", ".", "-o", "of_all.csv").code == 0


def test_an_index_that_is_none(run: Run, folder: Path) -> None:
    Path("report.csv").write_text("old")
    for text in ("[" * 100_000, '{"weight_map": {"a": [], "b": 5}}', '{"weight_map": 3}', "[]"):
        Path("m.safetensors.index.json").write_text(text)
        code, _, err = run("weights", "m.safetensors.index.json", "-o", "report.csv")
        assert (code, err.count("\n"), "bug" in err) == (2, 1, False)
