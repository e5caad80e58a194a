"""``flopwise formula``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.analyses.formula import models
from tests.cli.conftest import EXAMPLES, Run


@pytest.fixture
def past(tmp_path: Path) -> Path:
    path = tmp_path / "past.onnx"
    path.write_bytes(models.past())
    return path


def test_text(run: Run, past: Path) -> None:
    code, out, err = run("formula", past)
    assert (code, err) == (0, "")
    assert "MACs                = 32*batch*seq*(past_length + seq + 32)" in out
    assert "checked against the profile at" in out


def test_json(run: Run, past: Path) -> None:
    found = json.loads(run("formula", past, "-f", "json", "-c", "macs").out)
    assert found["schema"] == "flopwise.formula/1"
    assert found["convention"] == {"name": "macs", "unit": "MAC"}
    assert found["totals"]["count"] == found["totals"]["macs"] == "32*batch*seq*(past_length + seq + 32)"


def test_at(run: Run, past: Path) -> None:
    out = run("formula", past, "--at", "batch=1,2 seq=1", "--at", "past_length=0:128:64", "-f", "csv").out
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0][:4] == ["batch", "seq", "past_length", "count"]
    assert [line[:3] for line in lines[1:]] == [[b, "1", p] for b in "12" for p in ("0", "64", "128")]
    profile = run(
        "profile",
        past,
        "--dim",
        "batch=2",
        "--dim",
        "seq=1",
        "--dim",
        "past_length=64",
        "--dim",
        "past_length + seq=65",
        "-f",
        "json",
    )
    assert int(lines[5][3]) == json.loads(profile.out)["totals"]["count"]


def test_output_file(run: Run, past: Path, tmp_path: Path) -> None:
    assert run("formula", past, "-o", tmp_path / "f.tex") == (0, "", "")
    assert r"\begin{align*}" in (tmp_path / "f.tex").read_text()


def test_dims_and_symbols(run: Run, past: Path, tmp_path: Path) -> None:
    assert (
        "MACs                = 32*seq*(seq + 132)"
        in run("formula", past, "--dim", "batch=1", "--dim", "past_length=100").out
    )
    path = tmp_path / "closed.onnx"
    path.write_bytes(models.closed())
    out = run("formula", path, "-i", "image:f32:N,3,H,W", "--columns", "macs").out
    assert out.splitlines()[2].startswith("MACs = 72*N*(8*ceil(H/4)*ceil(W/4)")


def test_another_element_type_halves_the_bytes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "closed.onnx"
    path.write_bytes(models.closed())
    line = ("formula", path, "-i", "image:f32:N,3,H,W", "--at", "N=1 H=8 W=8", "-f", "json")
    own, half = (json.loads(run(*line, *dtype).out)["values"][0] for dtype in ([], ["--dtype", "FP16"]))
    assert half["macs"] == own["macs"]
    assert (2 * half["output_bytes"], 2 * half["weight_bytes"]) == (own["output_bytes"], own["weight_bytes"])
    assert "image float16 N×3×H×W" in run("formula", *line[1:4], "--dtype", "fp16").out


def test_strict(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mystery.onnx"
    path.write_bytes(models.mystery())
    assert run("formula", path).code == 0
    assert run("formula", path, "--strict").code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "batch=1"], "a size for seq is missing"),
        (["--at", "batch=1:99999999 seq=1:9"], "more than 100,000 points"),
        (["--at", "batch"], "cannot understand 'batch'; write NAME=VALUES"),
        (["-c", "none"], "unknown convention 'none'"),
        (["--dim", "k=1"], "no input has a dimension named 'k'"),
        (["--columns", "x"], "unknown column 'x'"),
        (
            ["-i", "x:f32:1x1x16", "--dim", "batch=1", "--dim", "past_length=2", "-i", "mask:f32:1x3"],
            "no open dimension",
        ),
    ],
)
def test_errors(run: Run, past: Path, arguments: list[str], message: str) -> None:
    code, out, err = run("formula", past, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_closed_model_says_how_to_name_dims(run: Run, tiny: Path) -> None:
    code, _, err = run("formula", tiny)
    assert code == 2
    assert "no open dimension" in err
    assert "-i " in err


def test_a_directory_is_refused(run: Run, past: Path) -> None:
    code, _, err = run("formula", past.parent)
    assert (code, err.count("\n")) == (2, 1)
    assert "is a directory" in err


def test_a_module_is_named_as_in_a_profile(run: Run) -> None:
    pytest.importorskip("transformers")
    model = str(EXAMPLES / "tiny_llama")
    title = f"LlamaForCausalLM ({model}) "
    assert run("formula", model, "--columns", "macs").out.startswith(title)
    assert run("profile", model, "--top", "1").out.startswith(title)


@pytest.mark.parametrize(("language", "ending"), [("c", ".h"), ("c", ".c"), ("javascript", ".js"), ("python", ".py")])
def test_source_in_files_of_its_language(run: Run, past: Path, tmp_path: Path, language: str, ending: str) -> None:
    path = tmp_path / f"cost{ending}"
    code, out, err = run("formula", past, "--source", language, "-c", "macs", "-o", path)
    assert (code, out, err) == (0, "", "")
    assert "holds(" in path.read_text()


def test_source_says_what_is_a_lower_bound(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mystery.onnx"
    path.write_bytes(models.mystery())
    code, out, err = run("formula", path, "--source", "python")
    assert code == 0
    assert "def holds(" in out
    assert "as some layer has no formula: " in err


def test_solve_says_that_nothing_fits(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "resized.onnx"
    path.write_bytes(models.resized())
    out = run("formula", path, "--solve", "output_bytes <= 1 for W", "--at", "N=1 H=8").out
    assert "where a line has no size, every size costs more or is not taken" in out
