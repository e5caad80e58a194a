"""``flopwise sparsity``, and the columns of ``flopwise profile`` that read weights."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy
import pytest
from tests.cli.conftest import Run
from tests.sparse_models import conv, in_blocks, matmul, model, node_of, scattered

import flopwise
from flopwise.formats.kit import tensors as onnx_weights


@pytest.fixture
def blocky(tmp_path: Path) -> Path:
    """A matrix of 96 inputs and 128 outputs with zeros in blocks of 4 × 4."""
    path = tmp_path / "blocky.onnx"
    path.write_bytes(matmul(in_blocks((96, 128), (4, 4), 0.8)))
    return path


@pytest.mark.parametrize("by", ["tensor", "layer"])
@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
def test_every_format(run: Run, blocky: Path, format_: str, by: str) -> None:
    code, out, err = run("sparsity", blocky, "-f", format_, "--by", by, "--block", "4x1,1x4", "--pattern", "2:4")
    assert (code, err) == (0, "")
    assert out


def test_json(run: Run, blocky: Path) -> None:
    weight = in_blocks((96, 128), (4, 4), 0.8)
    zeros = int((weight == 0).sum())
    found = json.loads(run("sparsity", blocky, "--block", "4x4", "--block", "1x3", "-f", "json").out)
    assert found["schema"] == "flopwise.sparsity/1"
    assert found["totals"]["zeros"] == zeros
    (tensor,) = found["tensors"]
    assert tensor["search"] == {"block": [4, 4], "ratio": zeros / weight.size}
    assert [b["block"] for b in tensor["blocks"]] == ["4x4", "1x3"]
    assert found["totals"]["effective_macs"]["blocks"]["4x4"] == 3 * (weight.size - zeros)


def test_csv_has_full_numbers(run: Run, blocky: Path) -> None:
    (line,) = csv.DictReader(io.StringIO(run("sparsity", blocky, "-f", "csv", "--block", "4x4").out))
    assert (line["name"], line["layer"], line["op"], line["zero_block"]) == ("w", "fc", "MatMul", "4x4")
    assert float(line["4x4"]) == pytest.approx(100 * float((in_blocks((96, 128), (4, 4), 0.8) == 0).mean()))


def test_the_table(run: Run, blocky: Path) -> None:
    out = run("sparsity", blocky, "--pattern", "2:4").out
    row = next(line for line in out.splitlines() if line.startswith("w "))
    assert row.split()[:4] == ["w", "fc", "MatMul", "96×128"]
    assert "more than 4096 elements" in out
    assert "MACs without zeros" in out


def test_top(run: Run, tmp_path: Path) -> None:
    nodes = [node_of("MatMul", ["x", "v"], "h"), node_of("MatMul", ["h", "w"], "y")]
    path = tmp_path / "two.onnx"
    path.write_bytes(model(nodes, {"x": (5, 8)}, {"v": scattered((8, 8), 0.2), "w": scattered((8, 8), 0.9)}))
    out = run("sparsity", path, "--top", 1).out
    assert "1 more" in out
    assert any(line.startswith("w ") for line in out.splitlines())
    assert not any(line.startswith("v ") for line in out.splitlines())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--block", "0x4"), "'0x4' is not a block"),
        (("--block", "4"), "'4' is not a block"),
        (("--block", "2x2x2"), "'2x2x2' is not a block"),
        (("--block", "ax4"), "'ax4' is not a block"),
        (("--block", "99999999x1"), "larger than"),
        (("--pattern", "5:4"), "'5:4' is not a pattern"),
        (("--pattern", "4:4"), "'4:4' is not a pattern"),
        (("--pattern", "2"), "'2' is not a pattern"),
        (("--tensor", "ww"), "no weight is named 'ww'; did you mean 'w'"),
        (("--tensor", "w", "--by", "layer"), "--tensor"),
        (("--tolerance", "2"), "between 0 and 1"),
        (("--min-ratio", "nan"), "between 0 and 1"),
        (("--min-size", "-1"), "below 0"),
        (("--ranks", "x"), "list of ranks"),
        (("--ranks", "1"), "ranks of 2 or more"),
        (("--order", "sideways"), "sideways"),
    ],
)
def test_bad_questions_are_one_line(run: Run, blocky: Path, options: tuple[str, ...], words: str) -> None:
    code, out, err = run("sparsity", blocky, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_file_without_operators(run: Run, tmp_path: Path) -> None:
    weight = scattered((64, 128), 0.5)
    numpy.savez(tmp_path / "w.npz", w=weight)
    found = json.loads(run("sparsity", tmp_path / "w.npz", "-f", "json").out)
    assert found["totals"]["zeros"] == int((weight == 0).sum())
    assert (found["totals"]["macs"], found["totals"]["effective_macs"], found["layers"]) == (None, None, [])
    assert any("no effective MACs" in note for note in found["notes"])
    assert run("sparsity", tmp_path / "w.npz", "--by", "layer").code == 2


def test_strict(run: Run, tmp_path: Path, blocky: Path) -> None:
    assert run("sparsity", blocky, "--strict").code == 0
    path = tmp_path / "unknown.onnx"
    nodes = [node_of("MatMulInteger", ["x", "w", "", "z"], "y")]
    weights = {"w": numpy.zeros((12, 6), numpy.uint8)}
    path.write_bytes(model(nodes, {"x": (2, 12), "z": ()}, weights, dtype=2))
    code, out, _ = run("sparsity", path, "--strict")
    assert code == 1
    assert "unknown" in out
    found = json.loads(run("sparsity", path, "-f", "json").out)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(found, flopwise.schema("sparsity"))
    assert (found["totals"]["ratio"], found["layers"][0]["ratio"], found["layers"][0]["zeros"]) == (None, None, None)


def test_columns_of_profile(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "conv.onnx"
    weight = scattered((64, 32, 3, 3), 0.5)
    weight[::2] = 0
    path.write_bytes(conv(weight))
    columns = "name,macs,sparsity,zero_block,zero_block%,effective_macs"
    (line,) = csv.DictReader(io.StringIO(run("profile", path, "--columns", columns, "-f", "csv").out))
    zeros = int((weight == 0).sum())
    macs = int(line["macs"])
    assert float(line["sparsity"]) == pytest.approx(100 * zeros / weight.size)
    assert int(line["effective_macs"]) == macs - macs // weight.size * zeros
    assert line["zero_block"] == "1x1"
    total = run("profile", path, "--columns", columns, "--exact").out.splitlines()
    assert f"{int(line['effective_macs']):,}" in next(text for text in total if text.startswith("Total"))


def test_profile_reads_no_weights_unless_asked(run: Run, blocky: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flopwise.answers.sparsity import measuring

    def read(*args: object, **kwargs: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(measuring._Tally, "bands", read)
    monkeypatch.setattr(onnx_weights, "load", read)
    assert run("profile", blocky).code == 0
    with pytest.raises(AssertionError, match="weights were read"):
        run("profile", blocky, "--columns", "name,sparsity")
