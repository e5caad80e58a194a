"""Standard streams that are closed or full end in one line or a quiet right exit, never in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES

from flopwise.cli.streams import Progress

MODEL = str(EXAMPLES / "tiny_resnet.onnx")
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def shell(line: str) -> tuple[int, str, str]:
    """The exit code of a line of the shell with flopwise in it as $F, and what it printed."""
    done = subprocess.run(
        ["sh", "-c", line],
        env={**os.environ, "F": f"{sys.executable} -m flopwise", "M": MODEL},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("$F profile $M >&-", 2, "standard output is closed"),
        ("$F conventions >&-", 2, "standard output is closed"),
        pytest.param("$F profile $M >/dev/full", 2, "standard output cannot be written (No space left", marks=FULL),
        pytest.param("$F --help >/dev/full", 2, "standard output cannot be written (No space left", marks=FULL),
        pytest.param("$F profile $M -o /dev/full", 2, "/dev/full: cannot be written (No space left", marks=FULL),
        ("$F profile $M -f csv 2>&- | head -n 1", 0, ""),
        ("$F profile none.onnx 2>&-", 2, ""),
        pytest.param("$F profile none.onnx 2>/dev/full", 2, "", marks=FULL),
        pytest.param("$F compare $M -b 1,2 --fail-on 'macs>0' 2>/dev/full >/dev/null", 1, "", marks=FULL),
        ("$F profile $M <&- >&- 2>&-", 2, ""),
    ],
)
def test_a_stream_that_takes_nothing(line: str, code: int, said: str) -> None:
    found, _, err = shell(line)
    assert found == code
    assert said in err
    assert err.count("\n") == bool(said)


@pytest.mark.parametrize(
    "words", ["--help", "--version", "", "profile --help", "profile $M", "operators", "devices -f json", "conventions"]
)
def test_a_reader_that_closes_the_pipe_is_enough(words: str) -> None:
    """It has closed it before the first byte is written: nothing is said, and the status is that of success."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "flopwise", *words.replace("$M", MODEL).split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_written_all_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert shell(f"$F profile $M -o {out} <&- >&- 2>&-")[0] == 0
    assert out.read_text().startswith("name,op")


@pytest.mark.parametrize(("terminal", "starts"), [("xterm-256color", True), ("dumb", False)])
def test_a_dumb_terminal_gets_no_sign_of_life(terminal: str, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress() as shown:
        assert shown._timer.is_alive() is starts
