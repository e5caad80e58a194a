"""``flopwise profile`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, LIGHT, Run


def test_json_is_the_contract(run: Run, tiny: Path) -> None:
    code, out, err = run("profile", tiny, "-f", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["schema"] == "flopwise.profile/1"
    assert found["totals"]["count"] == found["totals"]["flops"] == sum(row["flops"] for row in found["layers"])


def test_resnet50(run: Run) -> None:
    found = json.loads(run("profile", LIGHT / "light_resnet50.onnx", "-f", "json").out)
    assert found["totals"]["params"] == 25557032
    assert found["totals"]["buffers"] == 53120
    assert (
        found["totals"]["macs"] == sum(r["macs"] for r in found["layers"] if r["op"] in ("Conv", "Gemm")) == 4089184256
    )


def test_vgg19_params(run: Run) -> None:
    assert json.loads(run("profile", LIGHT / "light_vgg19.onnx", "-f", "json").out)["totals"]["params"] == 143667240


def test_symbols_are_asked_for_and_bound(run: Run) -> None:
    model = EXAMPLES / "transformer_block.onnx"
    code, out, err = run("profile", model)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--dim batch=1 --dim sequence=128" in err
    assert "-i hidden_states:float32:1x128x40" in err
    by_symbol = run("profile", model, "--dim", "batch=2", "--dim", "sequence=5", "-f", "json")
    by_input = run("profile", model, "-i", "hidden_states:f32:2x5x40", "-f", "json")
    by_batch = run("profile", model, "-b", 2, "--dim", "sequence=5", "-f", "json")
    assert by_symbol == by_input == by_batch
    assert by_symbol.code == 0


def test_batch_doubles_the_work(run: Run, tiny: Path) -> None:
    one = json.loads(
        run("profile", EXAMPLES / "transformer_block.onnx", "-b", 1, "--dim", "sequence=8", "-f", "json").out
    )
    two = json.loads(
        run("profile", EXAMPLES / "transformer_block.onnx", "-b", 2, "--dim", "sequence=8", "-f", "json").out
    )
    assert two["totals"]["macs"] == 2 * one["totals"]["macs"]
    assert two["totals"]["params"] == one["totals"]["params"]


def test_fixed_reshape_refuses_a_batch(run: Run) -> None:
    code, out, err = run("profile", LIGHT / "light_resnet50.onnx", "-b", 8)
    assert (code, out) == (2, "")
    assert "batch size 8 is impossible" in err
    assert "Reshape" in err


def test_unknown_operator(run: Run) -> None:
    model = EXAMPLES / "custom_op.onnx"
    code, out, _ = run("profile", model)
    assert code == 0
    assert "?" in next(line for line in out.splitlines() if "Spline" in line)
    assert "≥" in next(line for line in out.splitlines() if line.startswith("Total"))
    assert out.splitlines()[-1].startswith("unknown: com.example::Spline")
    assert run("profile", model, "--strict").code == 1
    assert json.loads(run("profile", model, "-f", "json").out)["coverage"]["unknown"] == {"com.example::Spline": 1}


def test_own_rules(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from flopwise import Counts\n"
        "RULES = {'com.example::Spline': lambda node: Counts(mul=5) * node.output().numel}\n"
    )
    code, out, _ = run("profile", EXAMPLES / "custom_op.onnx", "--rules", rules, "--strict", "-f", "json")
    assert code == 0
    assert {r["op"]: r["count"] for r in json.loads(out)["layers"]}["com.example::Spline"] == 5 * 32


@pytest.mark.parametrize(
    ("text", "told"),
    [("RULES = 3", "defines no RULES"), ("1/0", "ZeroDivisionError"), (None, "no such file")],
)
def test_bad_rules(run: Run, tmp_path: Path, text: str | None, told: str) -> None:
    rules = tmp_path / "rules.py"
    if text is not None:
        rules.write_text(text)
    code, _, err = run("profile", EXAMPLES / "custom_op.onnx", "--rules", rules)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("by", ["layer", "op", "module", "dtype"])
@pytest.mark.parametrize("format_", ["table", "tree", "markdown", "csv", "latex", "json"])
def test_every_format_and_grouping(run: Run, tiny: Path, format_: str, by: str) -> None:
    code, out, err = run("profile", tiny, "-f", format_, "--by", by)
    assert (code, err) == (0, "")
    assert {"layer": "Conv", "op": "Conv", "module": "stem", "dtype": "float32"}[by] in out


def test_depth_means_modules(run: Run, tiny: Path) -> None:
    out = run("profile", tiny, "--depth", 1, "-f", "csv").out
    names = [row["name"] for row in csv.DictReader(io.StringIO(out))]
    assert names[1:] == ["stem", "stage1", "stage2", "stage3", "head"]


def test_columns_sort_top(run: Run, tiny: Path) -> None:
    out = run("profile", tiny, "--columns", "name,params,macs", "--sort", "params", "--top", 3, "-f", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["name", "params", "macs"]
    params = [int(r["params"]) for r in rows]
    assert len(rows) == 3
    assert params == sorted(params, reverse=True)


def test_human(run: Run, tiny: Path) -> None:
    assert "1.86 M" in run("profile", tiny, "--human").out
    assert "1,859,904" in run("profile", tiny).out


def test_no_header(run: Run, tiny: Path) -> None:
    assert "convention" not in run("profile", tiny, "--no-header").out


def test_no_fold(run: Run) -> None:
    model = LIGHT / "light_bvlc_alexnet.onnx"
    assert "ConstantOfShape" not in run("profile", model).out
    assert "ConstantOfShape" in run("profile", model, "--no-fold").out


def test_constants_of_a_program_are_folded_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = tmp_path / "net.py"
    source.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, 3, bias=False)\n"
        "        self.register_buffer('grid', torch.zeros(2, 4))\n"
        "    def forward(self, x): return self.layer(self.grid) + x\n"
    )
    ways = ([], ["--no-fold"], ["--fold-constants"])
    found = [json.loads(run("profile", f"{source}:Net", "-i", "2x3", "-f", "json", *way).out) for way in ways]
    assert [profile["totals"]["macs"] for profile in found] == [24, 24, 0]


class TestOutput:
    @pytest.mark.parametrize(
        ("name", "start"),
        [("a.json", "{"), ("a.csv", "name,"), ("a.md", ""), ("a.tex", "%"), ("a.txt", "")],
    )
    def test_format_from_the_ending(self, run: Run, tiny: Path, tmp_path: Path, name: str, start: str) -> None:
        path = tmp_path / name
        assert run("profile", tiny, "-o", path) == (0, "", "")
        assert path.read_text().lstrip().startswith(start)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()

    def test_failure_leaves_the_old_file(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "out.json"
        path.write_text("old")
        assert run("profile", tmp_path / "none.onnx", "-o", path).code == 2
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["out.json"]

    def test_a_link_stays_a_link(self, run: Run, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "real.json").write_text("old")
        (tmp_path / "link.json").symlink_to("real.json")
        assert run("profile", tiny, "-o", tmp_path / "link.json").code == 0
        assert (tmp_path / "link.json").is_symlink()
        assert json.loads((tmp_path / "real.json").read_text())["schema"] == "flopwise.profile/1"

    def test_unwritable(self, run: Run, tiny: Path, tmp_path: Path) -> None:
        code, out, err = run("profile", tiny, "-o", tmp_path / "no" / "such" / "folder.json")
        assert (code, out) == (2, "")
        assert "cannot be written" in err

    def test_device(self, run: Run, tiny: Path) -> None:
        assert run("profile", tiny, "-o", os.devnull) == (0, "", "")


class TestDirectory:
    @pytest.fixture
    def models(self, tiny: Path, tmp_path: Path) -> Path:
        folder = tmp_path / "models"
        (folder / "deep").mkdir(parents=True)
        (folder / "a.onnx").write_bytes(tiny.read_bytes())
        (folder / "deep" / "b.ONNX").write_bytes(tiny.read_bytes())
        (folder / "readme.txt").write_text("no model")
        return folder

    def test_without_models(self, run: Run, tmp_path: Path) -> None:
        code, out, err = run("profile", tmp_path)
        assert (code, out) == (2, "")
        assert "no model and no weights in this directory" in err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["profile"], "Missing argument 'MODEL'"),
        (["profile", "x.onnx", "--nonsense"], "No such option"),
        (["profile", "missing.onnx"], "missing.onnx: no such file"),
        (["profile", "http://127.0.0.1:1/x.onnx"], "no connection to the server"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "-c", "none"], "unknown convention 'none'; known: flops, macs"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "--columns", "nmae"], "name"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "--sort", "nothing"], "nothing"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "-i", "y:f32:1x3x8x8"], "image"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "-i", "image:f32:1x3x8"], "image"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "-i", "image:f33:1x3x8x8"], "unknown element type 'f33'"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "--dim", "n=two"], "'n=two' is not NAME=VALUE"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "--dim", "n=2"], "no input has a dimension named 'n'"),
        (["profile", EXAMPLES / "tiny_resnet.onnx", "-b", "0"], "-b"),
        (["profle", "x"], "did you mean 'profile'?"),
        ([EXAMPLES / "tiny_resnet.onnx"], "to profile the model: flopwise profile"),
    ],
)
def test_errors_are_one_line(run: Run, args: list[object], told: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("flopwise: ")
    assert err.count("\n") == 1
    assert told in err


def test_hostile_names_are_shown_not_sent(run: Run, tmp_path: Path) -> None:
    code, out, err = run("profile", tmp_path / "a\x1b[31mb\nc.onnx")
    assert (code, out) == (2, "")
    assert "\x1b" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["", "profile", "flops", "layers", "explain", "conventions", "operators"])
def test_help(run: Run, command: str) -> None:
    code, out, err = run(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: flopwise")


def test_module_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "flopwise", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("flopwise ")


def test_closed_pipe() -> None:
    command = f"{sys.executable} -m flopwise operators | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "args",
    [
        ["profile", str(EXAMPLES / "tiny_resnet.onnx")],
        ["flops", str(EXAMPLES / "tiny_resnet.onnx")],
        ["explain", "Conv"],
    ],
)
def test_a_terminal_without_unicode(args: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "flopwise", *args], capture_output=True, env=environment, check=True)
    assert done.stdout.isascii()
    assert done.stderr == b""


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
