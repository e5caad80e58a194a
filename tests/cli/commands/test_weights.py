"""``flopwise weights``: Benanza's view of AlexNet, by tensor, files, figures, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flopwise.cli import main

#: Layer -> operator, shapes of weight and bias, and Benanza's length.
ALEXNET = {
    "conv_1": ("Conv", (96, 3, 11, 11), 1, 34944),
    "conv2_2": ("Conv", (256, 48, 5, 5), 2, 307456),
    "conv_3": ("Conv", (384, 256, 3, 3), 1, 885120),
    "conv4_2": ("Conv", (384, 192, 3, 3), 2, 663936),
    "conv5_2": ("Conv", (256, 192, 3, 3), 2, 442624),
    "gemm_1": ("Gemm", (4096, 9216), 1, 37752832),
    "gemm_2": ("Gemm", (4096, 4096), 1, 16781312),
    "gemm_3": ("Gemm", (1000, 4096), 1, 4097000),
}


def _save(path: Path, layers: dict[str, tuple[str, tuple[int, ...], int]], dtype: str = "float32") -> Path:
    """Layers with random weights, each on an input of its own: the weights are what matters."""
    rng = np.random.default_rng(0)
    nodes, weights, inputs, outputs = [], [], [], []
    for name, (op, shape, group) in layers.items():
        for part, extent in (("weight", shape), ("bias", shape[:1])):
            values = rng.standard_normal(extent, dtype=np.float32) * 0.02
            weights.append(numpy_helper.from_array(values.astype(dtype), f"{name}.{part}"))
        given = (1, shape[1] * group, 16, 16) if op == "Conv" else (1, shape[1])
        attributes = {"group": group} if op == "Conv" else {"transB": 1}
        kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.FLOAT16
        inputs.append(helper.make_tensor_value_info(f"{name}.x", kind, given))
        outputs.append(helper.make_tensor_value_info(f"{name}.y", kind, None))
        ends = [f"{name}.x", f"{name}.weight", f"{name}.bias"], [f"{name}.y"]
        nodes.append(helper.make_node(op, *ends, name=name, **attributes))
    graph = helper.make_graph(nodes, "alexnet", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.fixture(scope="module")
def alexnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layers = {name: (op, shape, group) for name, (op, shape, group, _) in ALEXNET.items()}
    return _save(tmp_path_factory.mktemp("weights") / "alexnet.onnx", layers)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return _save(tmp_path / "small.onnx", {"a/b": ("Gemm", (3, 4), 1), "a_b": ("Gemm", (3, 4), 1)})


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["weights", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_alexnet_has_the_form_of_benanza(alexnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(_run(capsys, alexnet, "-f", "csv"))))
    assert [(r["name"], r["op"], int(r["length"])) for r in rows] == [(n, v[0], v[3]) for n, v in ALEXNET.items()]
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(alexnet)).graph.initializer}
    for row in rows:
        parts = (stored[f"{row['name']}.weight"], stored[f"{row['name']}.bias"])
        together = np.concatenate([part.ravel() for part in parts]).astype(np.float64)
        assert float(row["max"]) == together.max()
        assert float(row["min"]) == together.min()
        assert float(row["deviation"]) == pytest.approx(together.std(), rel=1e-12)


def test_by_tensor_has_every_column(alexnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _run(capsys, alexnet, "--by", "tensor", "--layers", "conv_1.*", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(found)))
    assert [row["name"] for row in rows] == ["conv_1.weight", "conv_1.bias"]
    assert rows[0]["shape"] == "96x3x11x11"
    assert rows[0]["dtype"] == "float32"
    assert int(rows[0]["bytes"]) == 4 * int(rows[0]["length"]) == 4 * 34848
    keys = {"mean", "zeros", "nan", "infinite", "absmax", "l1", "l2", "p50"}
    assert keys - set(rows[0]) == {"nan", "infinite"}  # there are none


def test_sort_top_and_columns(alexnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = _run(capsys, alexnet, "--top", "2", "--columns", "name,length", "-f", "csv").splitlines()
    assert lines == ["name,length", "gemm_1,37752832", "gemm_2,16781312"]
    table = _run(capsys, alexnet, "--top", "2", "--sort", "length", "--no-histogram")
    assert "6 more" in table
    assert "60,965,224" in table


def test_json_has_numbers_and_null_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, bad=np.float32([np.nan, np.inf]), good=np.float32([1, 2, np.nan]), none=np.zeros(0, np.float32))
    content = json.loads(_run(capsys, path, "-f", "json", "--by", "tensor", "--bins", "4"), parse_constant=pytest.fail)
    assert content["schema"] == "flopwise.weights/1"
    bad, good, none = content["entries"]
    assert (bad["min"], bad["mean"], bad["nan"], bad["infinite"], bad["histogram"]) == (None, None, 1, 1, None)
    assert (good["min"], good["max"], good["mean"], good["histogram"]) == (1.0, 2.0, 1.5, [1, 0, 0, 1])
    assert (none["length"], none["max"]) == (0, None)
    assert content["totals"]["nan"] == 2
    assert "NaN" in _run(capsys, path, "--by", "tensor")


def test_bins_json(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(capsys, small, "--bins", "5", "--bins-json", tmp_path / "bins.json")
    content = json.loads((tmp_path / "bins.json").read_text())
    assert content["schema"] == "flopwise.histograms/1"
    for found in content["histograms"]:
        assert len(found["edges"]) == 6
        assert sum(found["counts"]) == found["length"] == 15


@pytest.mark.parametrize("format_", ["png", "svg", "pdf"])
def test_figures_are_named_by_layer(
    small: Path, tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    _run(capsys, small, "--figures", tmp_path / "f" / "g", "--figure-format", format_)
    names = sorted(os.listdir(tmp_path / "f" / "g"))
    assert names == sorted(f"{name}.{format_}" for name in ("Gemm_a_b", "Gemm_a_b-2", "overview"))
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert all((tmp_path / "f" / "g" / name).read_bytes().startswith(starts[format_]) for name in names)


def test_half_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _save(tmp_path / "half.onnx", {"fc": ("Gemm", (30, 40), 1)}, "float16")
    row = next(csv.DictReader(io.StringIO(_run(capsys, path, "-f", "csv"))))
    stored = [numpy_helper.to_array(t).ravel() for t in onnx.load(str(path)).graph.initializer]
    assert float(row["deviation"]) == pytest.approx(np.concatenate(stored).astype(np.float64).std(), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--columns", "depth"], "unknown column 'depth'; known: name, op"),
        (["--sort", "depth"], "unknown column 'depth'"),
        (["--sort", "shape"], "cannot sort by shape"),
        (["--layers", "zzz"], "no layer is called zzz; the first are a/b, a_b"),
        (["--bins", "0"], "a histogram has 1 to 65,536 bins, not 0"),
        (["--bins", "999999999"], "a histogram has 1 to 65,536 bins"),
        (["--no-histogram", "--bins-json", "x.json"], "--bins-json needs the histograms; leave --no-histogram out"),
        (["--no-histogram", "--columns", "name,p50"], "p50 needs the histograms; leave --no-histogram out"),
        (
            ["-o", "x.dot"],
            "x.dot: this report cannot be written as dot; choose table, markdown, csv, json",
        ),
        (["--columns", "histogram"], "a histogram is drawn only in a terminal"),
    ],
)
def test_bad_usage_is_one_line(
    small: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["weights", str(small), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_directory_that_cannot_be_made(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    assert main(["weights", str(small), "--figures", str(tmp_path / "file" / "x")]) == 2
    assert "the directory cannot be made" in capsys.readouterr().err
    assert main(["weights", str(small), "--bins-json", str(small)]) == 2
    assert "--bins-json would overwrite the file that is read" in capsys.readouterr().err
