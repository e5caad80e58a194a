"""Code of the user's own: what it prints is no part of a report; however it ends, that is one line and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, Run

import flopwise
from flopwise.errors import ModelError, one_line

pytest.importorskip("torch")

NET = """\
import os
import sys

from torch import nn

print("imported")


class Net(nn.Module):
    def __init__(self, ends=False, fails=False):
        super().__init__()
        self.layer = nn.Linear(20, 30)
        print("made")
        if ends:
            sys.exit("no more")
        if fails:
            raise AssertionError("bad width")

    def forward(self, x):
        sys.__stdout__.write("ran\\n")
        os.write(1, b"below Python\\n")
        return self.layer(x)


class Ends(Net):
    def forward(self, x):
        raise SystemExit(3)


class Fails(Net):
    def forward(self, x):
        return self.layer(x[:, :, 0])


class Asserts(Net):
    def forward(self, x):
        assert x.shape[1] == 3, "bad width"
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_what_it_prints_is_no_part_of_the_report(net: Path) -> None:
    rules = net.with_name("rules.py")
    rules.write_text("print('rules')\nRULES = {}")
    line = ["profile", f"{net}:Net", "-i", "1x20", "-f", "json", "--rules", str(rules)]
    done = subprocess.run([sys.executable, "-m", "flopwise", *line], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["totals"]["macs"] == 600
    assert sorted(done.stderr.splitlines()) == ["below Python", "imported", "made", "ran", "rules"]


def test_a_stream_that_is_not_a_file_is_kept_apart_too(net: Path, run: Run) -> None:
    before = sys.stdout, sys.argv
    code, out, err = run("profile", f"{net}:Net", "-i", "1x20", "-f", "json")
    assert (code, json.loads(out)["totals"]["macs"]) == (0, 600)
    assert "imported\nmade\n" in err
    assert (sys.stdout, sys.argv) == before


def test_in_python_it_prints_where_it_prints(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import flopwise

    flopwise.profile(f"{net}:Net", (1, 20))
    assert "imported\nmade\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("Ends", [], "Ends: ended itself with SystemExit(3) while it ran (net.py:27)"),
        ("Net", ["--arg", "ends=1"], "ended itself with SystemExit('no more') while it made the module (net.py:15)"),
        ("Net", ["--arg", "fails=1"], "failed with AssertionError: bad width (net.py:17)"),
        ("Fails", [], "too many indices for tensor of dimension 2 (net.py:32)"),
        ("Asserts", [], "Asserts: given 1×20: AssertionError: bad width (net.py:37)"),
    ],
)
def test_an_end_and_a_failure_say_where(net: Path, run: Run, name: str, more: list[str], said: str) -> None:
    code, out, err = run("profile", f"{net}:{name}", "-i", "1x20", *more)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].endswith(said)
    assert err.count("imported") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(0)", "ended itself with SystemExit(0) while it was imported (ends.py:2)"),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args()",
            "ended itself with SystemExit(2) while it was imported (ends.py:4)",
        ),
        ("from nowhere_at_all import x", "cannot be imported (No module named 'nowhere_at_all') (ends.py:1)"),
    ],
)
def test_a_file_that_ends_or_fails_while_it_is_imported(tmp_path: Path, run: Run, text: str, said: str) -> None:
    path = tmp_path / "ends.py"
    path.write_text(text)
    code, out, err = run("profile", f"{path}:Net", "-i", "1x20")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"flopwise: {path}: {said}"


def test_arguments_of_flopwise_are_not_those_of_the_file(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "parses.py"
    path.write_text(
        "import argparse\nfrom torch import nn\nargparse.ArgumentParser().parse_args()\n"
        "def net(): return nn.Linear(2, 3)"
    )
    assert run("profile", f"{path}:net", "-i", "1x2").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(0)", "ended itself with SystemExit(0) while it was executed (rules.py:1)"),
        ("\n1 / 0", "failed with ZeroDivisionError: division by zero (rules.py:2)"),
    ],
)
def test_a_file_of_rules_that_ends_or_fails(tmp_path: Path, run: Run, text: str, said: str) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(text)
    code, out, err = run("profile", EXAMPLES / "custom_op.onnx", "--rules", rules)
    assert (code, out) == (2, "")
    assert err == f"flopwise: {rules}: {said}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RULES = {'com.example::Spline': lambda n: 5}", "the rule of com.example::Spline returned an int, not Counts"),
        (
            "def rule(node):\n    return node.attrs['none']\nRULES = {'com.example::Spline': rule}",
            "the rule of com.example::Spline failed with KeyError: 'none' (rules.py:2)",
        ),
    ],
)
def test_a_mistake_in_a_rule(tmp_path: Path, run: Run, text: str, said: str) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(text)
    assert run("profile", EXAMPLES / "custom_op.onnx", "--rules", rules) == (2, "", f"flopwise: rules.py: {said}\n")


def test_a_rule_that_counts_nothing(tmp_path: Path, run: Run) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("RULES = {'com.example::Splin': lambda n: 5, 'Tanh': lambda n: 5}")
    code, _, err = run("profile", EXAMPLES / "custom_op.onnx", "--rules", rules)
    told = "no operator is called com.example::Splin, so its rule counts nothing; did you mean 'com.example::Spline'?"
    assert (code, err) == (0, f"flopwise: {rules}: {told}\n")


@pytest.mark.parametrize(
    ("layer", "parameters", "said"),
    [
        ("nn.Linear(20, 30)", "x", "its input 'x': give -i x:f32:1x20"),
        ("nn.Embedding(9, 4)", "ids", "its input 'ids': give -i ids:i64:1x128"),
        ("nn.Conv1d(5, 6, 3)", "x, scale=1", "its input 'x': give -i x:f32:1x5x224"),
        ("nn.LSTM(5, 6)", "x", "its input 'x': give -i x:DTYPE:SHAPE (DTYPE:SHAPE as f32:1x3x224x224)"),
        (
            "nn.Conv2d(3, 6, 3)",
            "image, scale",
            "its inputs 'image', 'scale': give -i image:f32:1x3x224x224 -i scale:DTYPE:SHAPE "
            "(DTYPE:SHAPE as f32:1x3x224x224)",
        ),
    ],
)
def test_a_hint_that_works_when_it_is_followed(
    tmp_path: Path, run: Run, layer: str, parameters: str, said: str
) -> None:
    path = tmp_path / "hinted.py"
    path.write_text(
        "from torch import nn\nclass Net(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.first = {layer}\n"
        f"    def forward(self, {parameters}):\n        return self.first({parameters.partition(',')[0]})\n"
    )
    code, _, err = run("profile", f"{path}:Net")
    assert (code, err) == (2, f"flopwise: Net needs the shape of {said}\n")
    if "DTYPE" not in said:
        assert run("profile", f"{path}:Net", "-i", said.rpartition(" ")[2]).code == 0


@pytest.mark.parametrize("base", [Exception, RuntimeError, ImportError, KeyError, ModelError])
def test_an_error_that_fails_as_it_is_asked_what_it_says(base: type[Exception]) -> None:
    torch = pytest.importorskip("torch")

    class Own(base):  # type: ignore[valid-type, misc] # of several
        def __str__(self) -> str:
            raise ZeroDivisionError

    class Net(torch.nn.Module):  # type: ignore[name-defined, misc] # where PyTorch is there
        def forward(self, x: object) -> object:
            raise Own

    with pytest.raises(flopwise.FlopwiseError) as caught:
        flopwise.profile(Net(), inputs=(2, 3))
    assert one_line(caught.value).isprintable()
    assert issubclass(base, ModelError) or "Own" in str(caught.value)
