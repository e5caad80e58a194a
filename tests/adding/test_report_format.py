"""The section "A report format" of ``adding.md``, carried out: one file and one line, used in several commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.adding.page import ROOT, built, check_commands

TITLE = "A report format"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the format of the page."""
    return built(TITLE, tmp_path_factory.mktemp("package"))


def test_the_section_works(package: Path) -> None:
    check_commands(TITLE, package)


#: Run in one process, which is started once for all command lines.
SCRIPT = """
import json, sys
from flopwise.cli import main
for arguments in json.loads(sys.argv[1]):
    assert main(arguments) == 0, arguments
"""

COMMANDS = [
    ["flops", "examples/tiny_resnet.onnx"],
    ["layers", "FOLDER"],
    ["memory", "examples/tiny_resnet.onnx"],
    ["sparsity", "examples/tiny_resnet.onnx", "--by", "layer"],
    ["weights", "examples/tiny_resnet.onnx"],
    ["compare", "examples/tiny_resnet.onnx", "-b", "1,2"],
    ["formula", "examples/tiny_resnet.onnx", "-i", "image:f32:N,3,64,64"],
    ["explain", "Conv"],
    ["conventions"],
]


def test_every_command_writes_it(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("a", "b"):
        shutil.copy(ROOT / "examples" / "tiny_resnet.onnx", folder / f"{name}.onnx")
    files = [tmp_path / f"{number}.wiki" for number in range(len(COMMANDS))]
    lines = [
        [*(str(folder) if a == "FOLDER" else a for a in command), "-o", str(file)]
        for command, file in zip(COMMANDS, files, strict=True)
    ]
    done = _run(package, "-c", SCRIPT, json.dumps(lines))
    assert (done.returncode, done.stderr) == (0, "")
    for file in files:
        written = file.read_text("utf-8")
        assert written.startswith('{| class="wikitable"')
        assert written.rstrip().endswith("|}")


def test_help_and_errors_name_it(package: Path) -> None:
    text = _run(package, "-m", "flopwise", "flops", "--help").stdout
    assert "wiki|" in text
    assert ".wiki" in text
    assert ".wiki" in _run(package, "-m", "flopwise", "flops", "x.onnx", "-o", "x.unknown").stderr


def _run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
