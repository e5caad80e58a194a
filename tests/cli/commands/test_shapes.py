"""``flopwise shapes``."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy
import onnx
import pytest
from tests.cli.conftest import EXAMPLES, Run
from tests.formats.models import model, node

import flopwise


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
def test_formats(run: Run, tiny: Path, format_: str) -> None:
    code, out, err = run("shapes", tiny, "-f", format_)
    assert (code, err) == (0, "")
    assert "image" in out


def test_every_tensor_once(run: Run, tiny: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("shapes", tiny, "-f", "csv").out)))
    assert list(rows[0].values()) == ["image", "input", "float32", "1x3x64x64", "", "", ""]
    assert {r["kind"] for r in rows} == {"input", "activation", "output"}
    names = [r["name"] for r in rows]
    graph = onnx.load(tiny).graph
    assert names == ["image", *(o for n in graph.node for o in n.output if n.op_type != "Constant")]
    assert rows[-1]["shape"] == "1x10"


def test_what_nobody_knows(run: Run, tmp_path: Path) -> None:
    net = model(
        [node("Mystery", "x", "a", domain="acme"), node("NonZero", "x", "y")],
        {"x": ("N", 3)},
        outputs=["y"],
        domains={"acme": 1},
    )
    onnx.save(net, tmp_path / "m.onnx")
    code, out, _ = run("shapes", tmp_path / "m.onnx", "--dim", "N=2", "-f", "csv")
    assert code == 0
    rows = {r["name"]: r for r in csv.DictReader(io.StringIO(out))}
    assert (rows["a"]["shape"], rows["a"]["dtype"]) == ("?", "?")
    assert (rows["y"]["shape"], rows["y"]["note"]) == ("2x6", "upper bound")
    told = json.loads(run("shapes", tmp_path / "m.onnx", "-b", 2, "-f", "json").out)
    assert told["schema"] == "flopwise.shapes/1"
    assert told["unresolved"] == ["a"]
    assert [(t["name"], t["shape"], t.get("bound")) for t in told["tensors"]] == [
        ("x", [2, 3], None),
        ("a", None, None),
        ("y", [2, 6], True),
    ]


def test_members_of_a_sequence(run: Run, tmp_path: Path) -> None:
    net = model(
        [node("SplitToSequence", "x", "s", axis=0), node("ConcatFromSequence", "s", "y", axis=1)], {"x": (2, 3)}
    )
    onnx.save(net, tmp_path / "m.onnx")
    rows = list(csv.DictReader(io.StringIO(run("shapes", tmp_path / "m.onnx", "-f", "csv").out)))
    assert (rows[1]["shape"], rows[1]["note"]) == ("1x3; 1x3", "2 tensors")
    assert json.loads(run("shapes", tmp_path / "m.onnx", "-f", "json").out)["tensors"][1]["items"] == [[1, 3], [1, 3]]


def test_a_report_into_a_file(run: Run, tiny: Path) -> None:
    assert run("shapes", tiny, "-o", tiny.with_suffix(".json")) == (0, "", "")
    assert json.loads(tiny.with_suffix(".json").read_text())["tensors"]


def test_a_directory(run: Run, tiny: Path) -> None:
    other = shutil.copy(tiny, tiny.parent / "other.onnx")
    rows = list(csv.DictReader(io.StringIO(run("shapes", tiny.parent, "-f", "csv").out)))
    assert {r["model"] for r in rows} == {str(tiny), str(other)}


# --- models ---


def test_a_model(run: Run, tiny: Path) -> None:
    new = tiny.parent / "new.onnx"
    assert run("shapes", tiny, "-o", new, "-i", "image:f32:2x3x64x64") == (0, "", "")
    onnx.checker.check_model(str(new), full_check=True)
    graph = onnx.load(new).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    assert len(graph.value_info) == 53
    assert graph.initializer == onnx.load(tiny).graph.initializer


def test_options(run: Run, tiny: Path) -> None:
    names = [n.output[0] for n in onnx.load(tiny).graph.node[:3]]
    args = ["--tensors", f"{names[0]},{names[1]}", "--tensors", names[2], "--no-weights", "--annotate"]
    new = tiny.parent / "new.onnx"
    assert run("shapes", tiny, "-o", new, *args) == (0, "", "")
    graph = onnx.load(new).graph
    assert [o.name for o in graph.output][1:] == names
    assert new.stat().st_size < 40_000
    conv = next(n for n in graph.node if n.name == "/stem/conv/Conv")
    assert conv.metadata_props[0].key == "flopwise.params"


def test_what_is_missing_is_told(run: Run, tmp_path: Path) -> None:
    net = model([node("Mystery", "x", "a", domain="acme"), node("Relu", "a", "y")], {"x": (3,)}, domains={"acme": 1})
    onnx.save(net, tmp_path / "m.onnx")
    code, out, err = run("shapes", tmp_path / "m.onnx", "-o", tmp_path / "n.onnx")
    assert (code, out) == (0, "")
    assert err == "flopwise: unresolved: 2 tensors have no known shape in the file; the first is 'a'\n"


def test_own_rules(run: Run, tmp_path: Path) -> None:
    """The example's operator has no count without its rule."""
    for rules, known in (([], False), (["--rules", EXAMPLES / "spline_rule.py"], True)):
        new = tmp_path / "new.onnx"
        assert run("shapes", EXAMPLES / "custom_op.onnx", "-o", new, "--annotate", *rules).code == 0
        texts = {e.key: e.value for e in onnx.load(new).graph.node[1].metadata_props}
        assert texts["flopwise.flops"].isdigit() is known


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-o", "x.pb"], "x.pb: unknown ending .pb; known: .onnx, .txt, .text, .md"),
        (["-o", "x"], "x: has no ending to say the format; known: .onnx, .txt"),
        (["--annotate"], "--annotate changes the model that is written; add -o FILE.onnx"),
        (["--tensors", "a", "-o", "x.csv"], "--tensors changes the model"),
        (["--no-weights", "-f", "json"], "--no-weights changes the model"),
        (["--copy-data"], "--copy-data changes the model"),
        (["-f", "json", "-o", "x.onnx"], "-f json writes a report, not a model (.onnx)"),
        (["-o", "x.onnx", "--tensors", "/stem/conv/Conv_output"], "did you mean '/stem/conv/Conv_output_0'"),
        (["-o", "none/x.onnx"], "none/x.onnx: there is no such directory"),
        (["-o", "x.onnx", "-i", "image:f32:1x4x64x64"], "the input shapes are impossible"),
        (["-o", "x.onnx", "--dtype", "fp16"], "the model that is written keeps its types"),
        (["-o", "x.onnx", "--rules", "none.py"], "none.py: no such file"),
    ],
)
def test_refused(run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], told: str) -> None:
    monkeypatch.chdir(tiny.parent)
    code, out, err = run("shapes", tiny.name, *args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert os.listdir() == [tiny.name]


def test_one_model_from_one_model(run: Run, tiny: Path) -> None:
    assert "is a directory; a model is written from one model" in run("shapes", tiny.parent, "-o", "x.onnx").err


def test_data_in_a_file(run: Run, tmp_path: Path) -> None:
    net = model([node("Expand", "x size", "y")], {"x": (1,)})
    net.graph.input.append(onnx.helper.make_tensor_value_info("size", onnx.TensorProto.INT64, (3,)))
    onnx.save(net, tmp_path / "m.onnx")
    numpy.save(tmp_path / "size.npy", numpy.array([2, 3, 4]))
    code, out, err = run("shapes", tmp_path / "m.onnx", "-i", f"size:i64:3:@{tmp_path / 'size.npy'}", "-f", "csv")
    assert (code, err) == (0, "")
    assert "y,output,float32,2x3x4" in out
    assert flopwise.read(net, [f"size:@{tmp_path / 'size.npy'}"]).outputs[0].shape == (2, 3, 4)
