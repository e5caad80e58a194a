"""``flopwise compare`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.analyses.compare.variants import NUMBERED, network, save
from tests.cli.conftest import LIGHT, Run


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """A network, and the same with other names and one convolution more."""
    one = save(network(), tmp_path / "one.onnx")
    return one, save(network(namer=NUMBERED, extra=0), tmp_path / "other.onnx")


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex", "html"])
@pytest.mark.parametrize("by", ["all", "total", "op", "layer"])
def test_every_format(run: Run, models: tuple[Path, Path], format_: str, by: str) -> None:
    code, out, err = run("compare", *models, "-b", 1, "-f", format_, "--by", by)
    assert (code, err) == (0, "")
    assert out.endswith("\n")


def test_the_table_shows_what_changed(run: Run, models: tuple[Path, Path]) -> None:
    out = run("compare", *models, "-b", 1).out
    assert "A = " in out
    assert "one.onnx (x 1×3×16×16)" in out
    assert "14 layers are the same in all" in out or "15 layers are the same in all" in out
    full = run("compare", *models, "-b", 1, "--full").out
    assert "are the same in all" not in full
    assert "structure" in full


def test_csv_has_a_line_for_each_layer(run: Run, models: tuple[Path, Path]) -> None:
    lines = list(csv.DictReader(io.StringIO(run("compare", *models, "-b", 1, "-f", "csv", "--columns", "macs").out)))
    assert len(lines) == 18
    assert sum(int(line["macs:one.onnx"] or 0) for line in lines) < sum(
        int(line["macs:other.onnx"] or 0) for line in lines
    )


def test_three_models(run: Run, models: tuple[Path, Path]) -> None:
    found = json.loads(run("compare", *models, models[0], "-b", 1, "-f", "json").out)
    assert len(found["models"]) == 3
    assert found["totals"]["macs"]["values"][0] == found["totals"]["macs"]["values"][2]


def test_conventions(run: Run) -> None:
    args = ("compare", LIGHT / "light_resnet50.onnx", "-c", "flops", "-c", "onnx-tool", "-f", "json")
    assert json.loads(run(*args).out)["totals"]["count"]["values"] == [8217772080, 4450789512]


def test_batch_and_input_sizes(run: Run, models: tuple[Path, Path]) -> None:
    found = json.loads(run("compare", models[0], "-b", "1,8", "-f", "json").out)
    assert [m["label"] for m in found["models"]] == ["batch 1", "batch 8"]
    found = json.loads(run("compare", models[0], "-i", "x:f32:1x3x16x16|1x3x32x32", "-f", "json").out)
    assert [m["inputs"][0]["shape"] for m in found["models"]] == [[1, 3, 16, 16], [1, 3, 32, 32]]
    assert all(way == "name" for layer in found["layers"] for way in layer["matched_by"][1:])


def test_fail_on(run: Run, models: tuple[Path, Path]) -> None:
    code, out, err = run("compare", *models, "-b", 1, "--fail-on", "macs>+1%,params>0,layers>9")
    assert code == 1
    assert "total" in out
    assert [line.split(": ")[1] for line in err.splitlines()] == ["macs>+1%", "params>0"]
    assert run("compare", *models, "-b", 1, "--fail-on", "macs>1000%").code == 0
    assert run("compare", *reversed(models), "-b", 1, "--fail-on", "macs>0").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("one.onnx",), "give a second model"),
        (("one.onnx", "none.onnx"), "none.onnx: no such file"),
        (("one.onnx", "."), "is a directory"),
        (("one.onnx", "other.onnx", "-c", "flops", "-c", "macs"), "one thing at a time"),
        (("one.onnx", "-c", "flops", "-c", "fvcoer"), "unknown convention 'fvcoer'"),
        (("one.onnx", "other.onnx", "--fail-on", "parms>0"), "did you mean 'params'"),
        (("one.onnx", "other.onnx", "--columns", "mac"), "unknown figure 'mac'"),
        (("one.onnx", "other.onnx", "-o", "no/such/folder.md"), "cannot be written"),
        (("one.onnx", "-b", "1,0"), "not a list of whole numbers"),
        (("one.onnx", "-i", "x:1x3x8x8|1x3x9x9", "-i", "y:1|2|3"), "the same number of sizes"),
    ],
)
def test_bad_usage(
    run: Run, models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(models[0].parent)
    before = sorted(models[0].parent.iterdir())
    shapes = () if "-b" in args or "-i" in args else ("-b", 1)
    code, out, err = run("compare", *args, *shapes)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(models[0].parent.iterdir()) == before


def test_options_of_programs_reach_all_models(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = "return nn.Sequential(nn.Linear(8, int(width)), nn.Dropout())"
    (tmp_path / "net.py").write_text(f"from torch import nn\n\n\ndef net(width=4):\n    {text}\n")
    model = f"{tmp_path / 'net.py'}:net"
    for command in ("compare", "explain"):
        line = (command, model, "-i", "2x8", "-c", "flops", "-c", "macs", "-f", "json", "--arg")
        plain, wide = (json.loads(run(*line, f"width={width}").out) for width in (4, 16))
        key = (lambda c: c["totals"]["count"]["values"][1]) if command == "compare" else (lambda c: c["totals"]["macs"])
        assert (key(plain), key(wide)) == (2 * 8 * 4, 2 * 8 * 16)
    trained = json.loads(run(*line, "width=4", "--mode", "train").out)
    assert trained["totals"]["macs"] == 64
    (tmp_path / "budget.toml").write_text("[model]\nmacs = 100\n")
    line = ("check", model, "--budget", tmp_path / "budget.toml", "-i", "2x8", "--arg")
    assert [run(*line, f"width={width}").code for width in (4, 16)] == [0, 1]
