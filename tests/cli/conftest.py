"""Running the command line in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest

from flopwise.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The exit code and what was printed for a list of arguments."""

    def call(*args: object) -> Result:
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy of the example network."""
    return Path(shutil.copy(EXAMPLES / "tiny_resnet.onnx", tmp_path / "tiny.onnx"))
