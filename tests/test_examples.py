"""The examples: the models are made anew byte for byte, they run, and the commands in the README print what it says.

After a change of the output: python tests/test_examples.py writes the README anew.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import flopwise
from flopwise.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples"
README = EXAMPLES / "README.md"
MODELS = sorted(EXAMPLES.glob("*.onnx"))

#: A command in the README and its output.
CONSOLE = re.compile(r"```console\n\$ (.*)\n((?:(?!```).*\n)*)```")


def test_the_script_makes_the_committed_models(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "make_models.py"))["main"](tmp_path)
    assert [p.name for p in sorted(tmp_path.iterdir())] == [p.name for p in MODELS]
    for path in MODELS:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    assert sum(p.stat().st_size for p in MODELS) < 500_000


@pytest.mark.parametrize(
    ("name", "feeds", "shape"),
    [
        ("tiny_resnet", {"image": (1, 3, 64, 64)}, (1, 10)),
        ("transformer_block", {"hidden_states": (2, 7, 40)}, (2, 7, 40)),
    ],
)
def test_models_run(name: str, feeds: dict[str, tuple[int, ...]], shape: tuple[int, ...]) -> None:
    model = onnx.load(EXAMPLES / f"{name}.onnx")
    values = {k: numpy.ones(s, dtype=numpy.float32) for k, s in feeds.items()}
    (result,) = ReferenceEvaluator(model).run(None, values)
    assert result.shape == shape
    assert numpy.isfinite(result).all()


def test_transformer_block_by_hand() -> None:
    batch, sequence, width, hidden = 2, 128, 40, 160
    profile = flopwise.profile(
        EXAMPLES / "transformer_block.onnx", dims={"batch": batch, "sequence": sequence}, convention="macs"
    )
    projections = batch * sequence * (4 * width * width + 2 * width * hidden)
    attention = 2 * batch * sequence * sequence * width
    products = [r for r in profile.rows if r.node.op == "MatMul"]
    assert sum(r.count for r in products) == projections + attention
    assert profile.total("params") == 4 * (width * width + width) + 2 * width * hidden + hidden + width + 4 * width
    assert profile.exact


def test_custom_operator_is_unknown() -> None:
    profile = flopwise.profile(EXAMPLES / "custom_op.onnx")
    assert profile.unknown == {"com.example::Spline": 1}
    assert profile.total("macs") == 16 * 32 + 32 * 4


def test_strict_says_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(EXAMPLES / "custom_op.onnx")]) == 0
    assert main(["profile", str(EXAMPLES / "custom_op.onnx"), "--strict"]) == 1
    assert main(["profile", str(EXAMPLES / "tiny_resnet.onnx"), "--strict"]) == 0


def output_of(command: str) -> str:
    """What a command of the README prints in the folder of the examples."""
    program, *arguments = shlex.split(command)
    start = [sys.executable, *(["-m", "flopwise"] if program == "flopwise" else [])]
    done = subprocess.run(
        [*start, *arguments], cwd=EXAMPLES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


@pytest.mark.parametrize(("command", "shown"), CONSOLE.findall(README.read_text()))
def test_readme(command: str, shown: str) -> None:
    assert output_of(command) == shown.rstrip("\n")


if __name__ == "__main__":
    README.write_text(CONSOLE.sub(lambda m: f"```console\n$ {m[1]}\n{output_of(m[1])}\n```", README.read_text()))
