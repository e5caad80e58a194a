"""``flopwise layers``, ``explain``, ``conventions`` and ``operators``."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.conftest import LIGHT, Run

import flopwise


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex", "dot"])
def test_layers(run: Run, tiny: Path, format_: str) -> None:
    code, out, err = run("layers", tiny, "-f", format_)
    assert (code, err) == (0, "")
    assert "/stem/conv/Conv" in out or format_ == "latex"


def test_layers_names_and_shapes(run: Run, tiny: Path) -> None:
    first = next(csv.DictReader(io.StringIO(run("layers", tiny, "-f", "csv").out)))
    assert first["op"] == "Conv"
    assert "image" in first["input_names"]
    assert "1x3x64x64" in first["input_shapes"]


def test_dot_is_a_graph(run: Run, tiny: Path) -> None:
    out = run("layers", tiny, "-f", "dot").out
    assert out.startswith("digraph")
    assert out.rstrip().endswith("}")
    assert out.count("{") == out.count("}")


def test_explain_operator(run: Run) -> None:
    code, out, _ = run("explain", "Conv")
    assert code == 0
    for name in flopwise.CONVENTIONS:
        assert name in out
    told = json.loads(run("explain", "conv", "-f", "json").out)
    assert told["operator"] == "Conv"
    assert told["source"] == "https://onnx.ai/onnx/operators/onnx__Conv.html"


def test_every_operator_is_explained(run: Run) -> None:
    for op in flopwise.OPERATORS:
        told = json.loads(run("explain", op, "-f", "json").out)
        assert told["formula"], op
        assert all(c["count"] for c in told["conventions"]), op


def test_explain_model(run: Run) -> None:
    args = ("explain", LIGHT / "light_resnet50.onnx", "-c", "flops", "-c", "onnx-tool")
    found = json.loads(run(*args, "-f", "json").out)
    assert found["totals"] == {"flops": 8217772080, "onnx-tool": 4450789512}
    for name, total in found["totals"].items():
        assert sum(part["counts"][name] for part in found["parts"]) == total
    gaps = [max(p["counts"].values()) - min(p["counts"].values()) for p in found["parts"]]
    assert gaps == sorted(gaps, reverse=True)
    assert "onnx-tool − flops" in run(*args).out
    layers = json.loads(run(*args, "--by", "layer", "-f", "json").out)["parts"]
    assert len(layers) == 176
    assert sum(part["counts"]["flops"] for part in layers) == found["totals"]["flops"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["Covn"], "did you mean Conv"),
        (["no.onnx", "-c", "flops", "-c", "macs"], "no such file"),
        ([LIGHT / "light_vgg19.onnx", "-c", "flops"], "give -c twice"),
        ([LIGHT, "-c", "flops", "-c", "macs"], "is a directory"),
    ],
)
def test_explain_errors(run: Run, args: list[object], told: str) -> None:
    code, out, err = run("explain", *args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["conventions", "operators"])
@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
def test_lists(run: Run, command: str, format_: str) -> None:
    code, out, err = run(command, "-f", format_)
    assert (code, err) == (0, "")
    assert ("benanza" if command == "conventions" else "Conv") in out


def test_operators_lists_all(run: Run) -> None:
    rows = json.loads(run("operators", "-f", "json").out)
    assert {row["operator"] for row in rows} == set(flopwise.OPERATORS)
    assert {row["claim"] for row in rows} == {"exact", "bound", "nothing"}


def test_a_bug_is_one_line_and_no_answer(run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ValueError("a\nbug")

    monkeypatch.setattr("flopwise.profiles.profile.Profile.to_dict", broken)
    with pytest.raises(ValueError, match="bug"):  # FLOPWISE_TRACEBACK is set in all tests
        run("profile", tiny, "-f", "json")
    monkeypatch.delenv("FLOPWISE_TRACEBACK")
    code, out, err = run("profile", tiny, "-f", "json")
    assert (code, out) == (2, "")
    assert err == (
        "flopwise: a bug in flopwise: ValueError: a bug; FLOPWISE_TRACEBACK=1 shows where, please report it\n"
    )


@pytest.mark.parametrize(
    ("name", "op"), [("Linear", "Gemm"), ("SDPA", "Attention"), ("SiLU", "aten::silu"), ("view", "Reshape")]
)
def test_explain_knows_the_names_of_pytorch(run: Run, name: str, op: str) -> None:
    done = run("explain", name)
    assert done.code == 0
    assert done.out.startswith(f"PyTorch's {name} is counted as {op} (")


def test_an_option_of_devices_reaches_the_reader() -> None:
    from flopwise.cli.run import reading_of

    assert reading_of({"inputs": (), "dims": {}, "per_device": True})["per_device"] is True
