"""Directories of models on the command line: a line for each, and what is broken among what is not."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests.cli.conftest import EXAMPLES, Run

pq = pytest.importorskip("pyarrow.parquet")


def product(path: Path, *shape: str | int) -> None:
    """Write a model that multiplies an input of this shape with an 8 x 4 weight."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [0.0] * 16 + [1.0] * 16)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [*shape, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, 4])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], path.stem, [x], [y], [weight])
    onnx.save(helper.make_model(graph), path)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two models, one of them below, and a text."""
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    product(folder / "a.onnx", 2)
    product(folder / "deep" / "b.ONNX", 10)
    (folder / "readme.txt").write_text("no model")
    return folder


@pytest.fixture
def broken(models: Path) -> Path:
    """The same with a file that is no model."""
    (models / "broken.onnx").write_bytes(b"\x08\x08nonsense")
    return models


class TestProfile:
    def test_is_a_line_for_each_and_a_total(self, run: Run, models: Path) -> None:
        code, out, err = run("profile", models)
        lines = [line.split() for line in out.splitlines()]
        assert (code, err) == (0, "")
        assert ["a.onnx", "1", "32", "64", "128", "128", "96"] in lines
        assert ["deep/b.ONNX", "1", "32", "320", "640", "128", "480"] in lines
        assert ["Total", "2", "64", "384", "768", "256"] in lines

    def test_of_one_model_is_a_line_too(self, run: Run, tiny: Path) -> None:
        out = run("profile", tiny.parent).out
        assert "tiny.onnx" in out
        assert "1 model " in out

    @pytest.mark.parametrize("args", [("--each",), ("--by", "op"), ("-f", "tree")])
    def test_in_full(self, run: Run, models: Path, args: tuple[str, ...]) -> None:
        code, out, _ = run("profile", models, *args)
        assert code == 0
        assert out.count("MatMul") >= 2
        assert out.count("peak activation bytes") == 2

    def test_as_csv(self, run: Run, models: Path) -> None:
        rows = list(csv.DictReader(io.StringIO(run("profile", models, "-f", "csv").out)))
        assert [(Path(r["model"]).name, r["macs"], r["exact"]) for r in rows] == [
            ("a.onnx", "64", "yes"),
            ("b.ONNX", "320", "yes"),
        ]

    def test_layers_as_csv(self, run: Run, models: Path) -> None:
        rows = list(csv.DictReader(io.StringIO(run("profile", models, "--each", "-f", "csv").out)))
        assert [(Path(r["model"]).name, r["op"]) for r in rows] == [("a.onnx", "MatMul"), ("b.ONNX", "MatMul")]

    def test_as_json(self, run: Run, broken: Path) -> None:
        code, out, _ = run("profile", broken, "-f", "json")
        report = json.loads(out)
        assert code == 2
        assert report["schema"] == "flopwise.profiles/1"
        assert [(m["model"]["name"], m["totals"]["macs"], m["coverage"]["exact"]) for m in report["models"]] == [
            ("a", 64, True),
            ("b", 320, True),
        ]
        assert report["totals"]["macs"] == 384
        assert report["exact"] is False
        assert len(report["errors"]) == 1

    def test_layers_as_json_are_a_list_of_profiles(self, run: Run, models: Path) -> None:
        profiles = json.loads(run("profile", models, "--each", "-f", "json").out)
        assert [p["schema"] for p in profiles] == ["flopwise.profile/1"] * 2

    def test_as_parquet(self, run: Run, models: Path, tmp_path: Path) -> None:
        assert run("profile", models, "-o", tmp_path / "m.parquet").code == 0
        table = pq.read_table(tmp_path / "m.parquet")
        assert table["macs"].to_pylist() == [64, 320]
        assert [Path(path).name for path in table["model"].to_pylist()] == ["a.onnx", "b.ONNX"]

    def test_layers_as_parquet(self, run: Run, models: Path, tmp_path: Path) -> None:
        shutil.copy(EXAMPLES / "tiny_resnet.onnx", models / "tiny.onnx")
        assert run("profile", models, "--each", "-o", tmp_path / "m.parquet").code == 0
        table = pq.read_table(tmp_path / "m.parquet")
        names = [Path(path).name for path in table["model"].to_pylist()]
        assert (names.count("a.onnx"), names.count("b.ONNX"), names.count("tiny.onnx")) == (1, 1, 54)
        assert table["macs"].to_pylist()[:2] == [64, 320]
        assert [p["model"]["name"] for p in json.loads(table.schema.metadata[b"flopwise"])] == ["a", "b", "tiny"]

    @pytest.mark.parametrize(("format", "text"), [("markdown", "| **Total** |"), ("latex", "deep/b.ONNX &")])
    def test_as_a_document(self, run: Run, models: Path, format: str, text: str) -> None:
        assert text in run("profile", models, "-f", format).out

    def test_sorted_and_cut(self, run: Run, models: Path) -> None:
        out = run("profile", models, "--top", "1", "--columns", "macs,peak").out
        assert "b.ONNX" in out
        assert "a.onnx" not in out
        assert next(line.split() for line in out.splitlines() if "more model" in line)[-1] == "64"

    def test_columns_of_layers_are_refused(self, run: Run, models: Path) -> None:
        code, _, err = run("profile", models, "--columns", "op")
        assert code == 2
        assert "--each" in err

    def test_unknown_counts_are_bounds(self, run: Run, models: Path) -> None:
        shutil.copy(EXAMPLES / "custom_op.onnx", models / "custom.onnx")
        code, out, _ = run("profile", models, "--strict")
        assert code == 1
        assert "unknown in custom.onnx: com.example::Spline" in out
        assert "≥ 1,024" in out or ">= 1,024" in out

    def test_a_broken_file_costs_one_line(self, run: Run, broken: Path) -> None:
        code, out, err = run("profile", broken)
        assert code == 2
        assert "not in the table: 1 file that failed" in out
        assert err.count("\n") == 1
        assert "broken.onnx" in err

    def test_nothing_but_broken_files(self, run: Run, tmp_path: Path) -> None:
        for name in "ab":
            (tmp_path / f"{name}.onnx").write_bytes(b"\x08\x08nonsense")
        code, out, err = run("profile", tmp_path, "-o", tmp_path / "out.csv")
        assert (code, out) == (2, "")
        assert err.count("\n") == 2
        assert not (tmp_path / "out.csv").exists()

    def test_a_directory_with_weights_alone_is_one_model(self, run: Run, tmp_path: Path) -> None:
        numpy = pytest.importorskip("numpy")
        numpy.savez(tmp_path / "net.npz", w=numpy.zeros((3, 4), "float32"))
        assert "12" in run("profile", tmp_path).out


class TestDimensions:
    @pytest.fixture
    def open_models(self, models: Path) -> Path:
        product(models / "c.onnx", "batch")
        product(models / "d.onnx", "rows")
        return models

    def test_each_model_takes_its_own(self, run: Run, open_models: Path) -> None:
        code, out, err = run("profile", open_models, "--dim", "batch=3", "--dim", "rows=5", "-f", "csv")
        macs = [row["macs"] for row in csv.DictReader(io.StringIO(out))]
        assert (code, err) == (0, "")
        assert macs == ["64", "96", "160", "320"]

    @pytest.mark.parametrize("command", ["profile", "table", "flops", "layers", "sparsity", "weights"])
    def test_a_name_that_no_model_has(self, run: Run, open_models: Path, command: str) -> None:
        code, out, err = run(command, open_models, "--dim", "batch=3", "--dim", "rows=5", "--dim", "time=7")
        assert (code, out) == (2, "")
        assert "--dim time: no model has a dimension of this name; the symbolic dimensions are: batch, rows" in err

    def test_a_dimension_without_a_size_costs_its_model(self, run: Run, open_models: Path) -> None:
        code, out, err = run("profile", open_models, "--dim", "batch=3")
        assert code == 2
        assert "c.onnx" in out
        assert "d.onnx: input 'x' has open dimensions" in err

    def test_of_one_model_as_before(self, run: Run, open_models: Path) -> None:
        err = run("profile", open_models / "c.onnx", "--dim", "rows=3").err
        assert "no input has a dimension named 'rows'; the symbolic dimensions are: batch" in err


class TestTable:
    def test_skips_what_is_broken(self, run: Run, broken: Path) -> None:
        code, out, err = run("table", broken, "-f", "csv")
        assert code == 2
        assert [row["name"] for row in csv.DictReader(io.StringIO(out))] == ["a", "b"]
        assert err.count("\n") == 1

    def test_names_stay_with_their_models(self, run: Run, broken: Path) -> None:
        args = [part for name in ("first", "none", "last") for part in ("--name", name)]
        out = run("table", broken, "-f", "csv", *args).out
        assert [row["name"] for row in csv.DictReader(io.StringIO(out))] == ["first", "last"]

    def test_a_model_by_its_name_must_be_there(self, run: Run, broken: Path) -> None:
        code, out, err = run("table", broken / "a.onnx", broken / "broken.onnx")
        assert (code, out) == (2, "")
        assert "broken.onnx" in err


class TestStoredTensors:
    def test_weights_of_every_model(self, run: Run, broken: Path) -> None:
        code, out, err = run("weights", broken, "-f", "csv")
        assert code == 2
        assert [Path(row["model"]).name for row in csv.DictReader(io.StringIO(out))] == ["a.onnx", "b.ONNX"]
        assert err.count("\n") == 1

    def test_weights_of_files_without_a_graph(self, run: Run, models: Path) -> None:
        numpy = pytest.importorskip("numpy")
        for name in "pq":
            numpy.savez(models / f"{name}.npz", w=numpy.ones((3, 4), "float32"))
        rows = list(csv.DictReader(io.StringIO(run("weights", models, "-f", "csv").out)))
        assert [Path(row["model"]).name for row in rows] == ["a.onnx", "b.ONNX", "p.npz", "q.npz"]

    def test_weights_beside_one_model_are_its_own(self, run: Run, tiny: Path) -> None:
        numpy = pytest.importorskip("numpy")
        numpy.savez(tiny.parent / "net.npz", only=numpy.ones((3, 4), "float32"))
        assert "only" in run("weights", tiny.parent).out

    @pytest.mark.parametrize("option", ["--figures", "--bins-json"])
    def test_what_takes_one_model(self, run: Run, models: Path, tmp_path: Path, option: str) -> None:
        code, _, err = run("weights", models, option, tmp_path / "out")
        assert code == 2
        assert f"holds 2 models; {option} takes one" in err

    def test_sparsity_of_every_model(self, run: Run, broken: Path) -> None:
        code, out, err = run("sparsity", broken, "-f", "csv")
        assert code == 2
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [(Path(row["model"]).name, row["zeros"]) for row in rows] == [("a.onnx", "16"), ("b.ONNX", "16")]
        assert err.count("\n") == 1

    def test_without_any(self, run: Run, tmp_path: Path) -> None:
        code, _, err = run("weights", tmp_path)
        assert code == 2
        assert "no model and no weights in this directory" in err


@pytest.mark.parametrize("ending", [".xml", ".onnx", ".tflite", ".pb", ".h5", ".keras", ".json", ".pte", ".mlir"])
def test_a_pipe_in_a_folder_is_not_waited_for(ending: str, tmp_path: Path, run: Run) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes with names")
    os.mkfifo(tmp_path / f"net{ending}")
    shutil.copy(EXAMPLES / "tiny_resnet.onnx", tmp_path)
    shown = run("profile", tmp_path)
    assert "tiny_resnet.onnx" in shown.out
