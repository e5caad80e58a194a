"""Ctrl-C at any moment is one line and exit code 130."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

#: Runs the command line, and sends itself what Ctrl-C sends as soon as a module is asked for.
RUN = """
import os, signal, sys
awaited = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == awaited:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
if awaited == "end":
    import atexit
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from flopwise.__main__ import main
raise SystemExit(main())
"""


def interrupted(awaited: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a command and what it writes to stderr."""
    command = [sys.executable, "-c", RUN, awaited, *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr.lstrip()  # click ends the line of the terminal


@pytest.mark.parametrize(
    "moment",
    ["click", "flopwise.cli", "flopwise.cli.streams", "flopwise.cli.commands.profile", "flopwise.api.profile", "end"],
)
def test_an_interrupt_is_one_line(moment: str) -> None:
    assert interrupted(moment, "profile", str(EXAMPLES / "tiny_resnet.onnx")) == (130, "flopwise: interrupted\n")


def test_an_interrupt_that_becomes_another_error(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "try:\n    import awaited\nexcept KeyboardInterrupt:\n    pass\nraise RecursionError('out of order')\n"
    )
    model = f"{tmp_path / 'net.py'}:model"
    assert interrupted("awaited", "profile", model, "-i", "1x4") == (130, "flopwise: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_end_that_is_asked_for_leaves_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import os, signal, tempfile\n"
        "def model():\n"
        f"    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):\n"
        f"        os.kill(os.getpid(), signal.{name})\n"
    )
    command = [sys.executable, "-m", "flopwise", "profile", f"{tmp_path / 'net.py'}:model", "-i", "1x4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.lstrip()) == (130, "flopwise: interrupted\n")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == []


def test_an_interrupt_while_an_engine_starts(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = str(EXAMPLES / "tiny_resnet.onnx")
    command = ("bench", model, "--time", "0.1", "--store", str(tmp_path / "store"))
    assert interrupted("tempfile", *command) == (130, "flopwise: interrupted\n")
