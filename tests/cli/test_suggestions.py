"""What was mistyped is answered with what was probably meant."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, Run

import flopwise
from flopwise.errors import InputError

TINY = str(EXAMPLES / "tiny_resnet.onnx")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("explain", TINY, "-c", "fvcore", "-c", "fvcore"), "fvcore is given 2 times"),
        (("explain", "Linaer"), "did you mean Linear"),
        (("explain", "MultiheadAttention"), "explain one of them: Gemm, Attention"),
        (("profile", TINY, "--by", "modul"), "did you mean 'module'?"),
        (("profile", TINY, "--convension"), "--convension'; did you mean '--convention'?"),
        (("llm", "--promt"), "--promt'; did you mean '--prompt'?"),
        (("count",), "did you mean 'flops'?"),
        (("summary",), "did you mean 'profile'?"),
        (("conventions", "fvcor"), "did you mean 'fvcore'?"),
        (("operators", "Linaer"), "did you mean Linear"),
        (("bound", TINY, "--columns", "flosp"), "did you mean 'flops'?"),
        (("explain", "Conf", "-c", "molchanov"), "'Conf' is neither a file nor an operator that has a rule"),
    ],
)
def test_mistyped(run: Run, line: tuple[str, ...], message: str) -> None:
    done = run(*line)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("command", ["flops", "profile"])
@pytest.mark.parametrize("format", ["dot", "dott"])
def test_no_format_is_suggested_that_the_command_does_not_write(run: Run, command: str, format: str) -> None:
    done = run(command, TINY, "-f", format)
    assert done.code == 2
    assert "did you mean" not in done.err


@pytest.mark.parametrize("name", ["exmples/tiny_resnet.onnx", "exmples/tiny_resnt.onnx", "examples/tiny_resnt.onnx"])
def test_path_with_a_typo(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    assert "no such file; did you mean 'examples/tiny_resnet.onnx'?" in run("profile", name).err


def test_language_model_with_a_typo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    assert "no such file; did you mean 'examples/tiny_llama'?" in run("llm", "examples/tiny_lama").err


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("resnet50",), "a model of this name is torchvision:resnet50 or timm:resnet50"),
        (("torchvison.models:resnet50",), "did you mean torchvision.models:resnet50?"),
        (("torchvision.model:resnet50",), "did you mean torchvision.models:resnet50?"),
        (("torchvision.models:resnet50", "--arg", "weigths=8"), "has no argument 'weigths'; did you mean 'weights'?"),
    ],
)
def test_callable_with_a_typo(run: Run, line: tuple[str, ...], message: str) -> None:
    done = run("profile", *line)
    assert done.code == 2
    assert message in done.err


def test_symbols_and_columns_of_formulas(run: Run) -> None:
    pytest.importorskip("sympy")
    opened = ("formula", TINY, "-i", "image:float32:Nx3x32x32")
    assert "did you mean 'macs'?" in run(*opened, "--columns", "mcs").err


def test_figure_of_a_profile() -> None:
    with pytest.raises(InputError, match="did you mean 'macs'"):
        flopwise.profile(TINY).total("mac s")


def test_empty_directory_names_each_ending_once(run: Run, tmp_path: Path) -> None:
    endings = run("profile", tmp_path).err.partition("ending in ")[2].rstrip(")\n").split(", ")
    assert {".onnx", ".pt2", ".safetensors", ".gguf"} <= set(endings)
    assert len(endings) == len(set(endings))


def test_output_without_an_ending(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report"
    done = run("profile", TINY, "-o", path)
    assert done.code == 2
    assert "has no ending" in done.err
    assert ".html" in done.err
    assert not path.exists()
    assert run("profile", TINY, "-o", path, "-f", "csv").code == 0


def test_help_as_a_command(run: Run) -> None:
    assert run("help").out == run("--help").out
    assert run("help", "profile").out == run("profile", "--help").out


def test_one_convention_and_one_operator(run: Run) -> None:
    assert "fvcore" in (out := run("conventions", "fvcore").out)
    assert "thop" not in out
    assert run("operators", "Conv").out == run("explain", "Conv").out


def test_operators_and_files_are_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import click

    from flopwise.cli.commands.explain import command

    (tmp_path / "Convnet.onnx").touch()
    monkeypatch.chdir(tmp_path)
    argument, context = command.params[0], click.Context(command)
    names = [item.value for item in argument.shell_complete(context, "Conv")]
    assert {"Conv", "ConvTranspose", "Convnet.onnx"} <= set(names)
    assert [item.type for item in argument.shell_complete(context, "./")] == ["file"]
