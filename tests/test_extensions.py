"""A second distribution adds a model format, a convention, a report format and a command by its entry points."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "flopwise-chain"
version = "1.0"

[project.entry-points."flopwise.formats"]
chain = "flopwise_chain:CHAIN"

[project.entry-points."flopwise.conventions"]
additions = "flopwise_chain:ADDITIONS"
broken = "flopwise_chain:MISSING"

[project.entry-points."flopwise.report_formats"]
wiki = "flopwise_chain:WIKI"

[project.entry-points."flopwise.commands"]
widest = "flopwise_chain:widest"
"""

CODE = '''\
"""Chains of linear layers as lines of two widths, and what else a package can add."""

import click

from flopwise.conventions import Convention
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.formats.format import Format
from flopwise.report.formats.format import Format as ReportFormat


def _read(model, inputs, dims, batch_size, progress, options):
    widths = [int(word) for word in open(model).read().split()]
    tensors = [Tensor(f"x{i}", (1, width), "float32", "activation") for i, width in enumerate(widths)]
    nodes = [Node("Relu", f"relu{i}", (a,), (b,)) for i, (a, b) in enumerate(zip(tensors, tensors[1:]))]
    return Graph(str(model), "chain", str(model), tuple(tensors[:1]), tuple(tensors[-1:]), nodes=tuple(nodes))


CHAIN = Format("chain", "chains of layers", _read, endings=(".chain",), in_directories=(".chain",))
ADDITIONS = Convention("additions", "addition", "comparisons alone", "own", Counts(cmp=1))
WIKI = ReportFormat("wiki", (".wiki",), ("sheet",), "document", module="flopwise_chain")


def render_sheet(sheet, look):
    return "== " + " ".join(head.title for head in sheet.heads) + " ==\\n"


@click.command()
def widest():
    """The widest layer of a chain."""
    print("seven")
'''


@pytest.fixture(scope="module")
def flopwise(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line where the wheel of the package is installed."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "flopwise_chain.py").write_text(CODE)
    (folder / "pyproject.toml").write_text(PROJECT)
    quiet = {"check": True, "capture_output": True}
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", str(folder)], **quiet)  # type: ignore[call-overload]
    [wheel] = (folder / "dist").glob("*.whl")
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(pip, **quiet)  # type: ignore[call-overload]
    (folder / "net.chain").write_text("5 5 5")

    def run(*arguments: str, installed: bool = True, inside: Path = folder) -> subprocess.CompletedProcess[str]:
        path = {"PYTHONPATH": str(site)} if installed else {}
        command = [sys.executable, str(Path(sys.executable).with_name("flopwise")), *arguments]
        return subprocess.run(command, cwd=inside, env=os.environ | path, capture_output=True, text=True, timeout=120)

    return run


def test_a_model_format(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    content = json.loads(flopwise("profile", "net.chain", "-f", "json").stdout)
    assert (content["model"]["format"], content["totals"]["ops"]["cmp"]) == ("chain", 10)
    assert re.search(r"model\.chain +chains of layers", flopwise("--help").stdout)


def test_a_convention(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    content = json.loads(flopwise("profile", "net.chain", "-c", "additions", "-f", "json").stdout)
    assert (content["convention"], content["totals"]["count"]) == ({"name": "additions", "unit": "addition"}, 10)


def test_a_report_format(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    printed = flopwise("profile", "net.chain", "-f", "wiki").stdout
    assert printed.startswith("== layer op")
    assert flopwise("profile", "net.chain", "-o", "page.wiki").returncode == 0


def test_a_command(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert flopwise("widest").stdout == "seven\n"
    assert "Commands of other packages:\n  widest  The widest layer of a chain." in flopwise("--help").stdout


def test_a_package_that_does_not_load_is_one_line(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    refused = flopwise("profile", "net.chain", "-c", "broken")
    assert refused.returncode == 2
    assert refused.stderr.startswith("flopwise: broken: flopwise-chain 1.0 adds it to flopwise.conventions, but ")
    assert refused.stderr.count("\n") == 1


def test_without_the_package_nothing_is_there(flopwise: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert "no command 'widest'" in flopwise("widest", installed=False).stderr


def test_the_current_folder_is_no_package(
    flopwise: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    information = tmp_path / "evil-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[flopwise.commands]\nwidest = evil:command\n")
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    command = [sys.executable, "-c", "from flopwise.__main__ import main; main()", "widest"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "no command 'widest'" in run.stderr
    assert not (tmp_path / "ran").exists()
