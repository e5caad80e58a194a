"""Parquet holds what CSV holds, with types: numbers as numbers, what is unknown as null."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES

from flopwise.cli import main

pytest.importorskip("pyarrow")

RESNET = str(EXAMPLES / "tiny_resnet.onnx")
SPLINE = str(EXAMPLES / "custom_op.onnx")
ALEXNET = str(EXAMPLES / "alexnet.prototxt")


@pytest.mark.parametrize(
    "arguments",
    [
        ["flops", RESNET, "--full"],
        ["flops", SPLINE, "--full"],
        ["flops", ALEXNET, "-c", "caffe"],
        ["layers", RESNET],
        ["memory", RESNET],
        ["weights", RESNET, "--by", "tensor"],
        ["sparsity", RESNET, "--block", "4x1", "--by", "layer"],
        ["shapes", RESNET],
        ["table", RESNET, SPLINE],
        ["compare", RESNET, "-b", "1,2"],
        ["compare", RESNET, "-b", "1,2", "--by", "total"],
        ["profile", RESNET, "-b", "1,2"],
        ["explain", RESNET],
        ["explain", "Conv"],
        ["conventions"],
        ["operators"],
    ],
)
def test_the_same_as_csv(arguments: list[str], tmp_path: Path) -> None:
    import pyarrow.parquet

    assert main([*arguments, "-o", str(tmp_path / "a.parquet")]) == 0
    assert main([*arguments, "-o", str(tmp_path / "a.csv")]) == 0
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text("utf-8"), newline="")))
    assert table.num_rows == len(rows)
    assert table.column_names == list(rows[0])
    for own, row in zip(table.to_pylist(), rows, strict=True):
        for key, value in own.items():
            if isinstance(value, float):
                assert float(row[key]) == pytest.approx(value, abs=1e-4)
            elif isinstance(value, int):
                assert int(row[key]) == value
            elif value is None:
                assert row[key] == ""
            else:
                assert row[key] in (value, f"'{value}")


def test_a_directory_is_one_table_in_csv_and_an_array_in_json(tmp_path: Path) -> None:
    import json

    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("a", "b"):
        shutil.copy(RESNET, folder / f"{name}.onnx")
    assert main(["flops", str(folder), "-o", str(tmp_path / "all.csv")]) == 0
    assert main(["flops", RESNET, "-o", str(tmp_path / "one.csv")]) == 0
    every = list(csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text("utf-8"), newline="")))
    one = list(csv.DictReader(io.StringIO((tmp_path / "one.csv").read_text("utf-8"), newline="")))
    assert every == [{"model": str(folder / f"{name}.onnx"), **row} for name in ("a", "b") for row in one]
    assert main(["flops", str(folder), "-o", str(tmp_path / "all.json")]) == 0
    assert [r["schema"] for r in json.loads((tmp_path / "all.json").read_text("utf-8"))] == ["flopwise.flops/1"] * 2
