"""Arrow tables and Parquet files hold the figures of the JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.report.graphs import NASTY
from tests.report.html.test_page import chain

import flopwise
from flopwise.cli import cli, main
from flopwise.profiles.arrow import METADATA, parquet, stacked

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

RESNET = "examples/tiny_resnet.onnx"


def test_the_table_has_the_columns_and_figures_of_the_json() -> None:
    profile = flopwise.profile(RESNET)
    table, expected = profile.to_arrow(), profile.to_dict()
    assert table.column_names == list(expected["layers"][0])
    assert table.to_pylist() == expected["layers"]
    rest = json.loads(table.schema.metadata[METADATA])
    assert rest["convention"] == {"name": "flops", "unit": "FLOP"}
    assert rest["totals"] == expected["totals"]
    assert pyarrow.compute.sum(table["macs"]).as_py() == expected["totals"]["macs"]


def test_what_is_unknown_is_null() -> None:
    table = flopwise.profile("examples/custom_op.onnx").to_arrow()
    assert table["count"].null_count == 1
    assert table["macs"].to_pylist() == [512, None, 128]
    assert table["ops"].to_pylist()[1] is None


def test_a_file_of_parquet_reads_back(tmp_path: Path) -> None:
    import pyarrow.parquet

    out = tmp_path / "layers.parquet"
    assert main(["profile", RESNET, "-o", str(out)]) == 0
    assert pyarrow.parquet.read_table(out).equals(flopwise.profile(RESNET).to_arrow())


def test_pandas_reads_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    out = tmp_path / "layers.parquet"
    assert main(["profile", RESNET, "-f", "parquet", "-o", str(out)]) == 0
    frame = pandas.read_parquet(out)
    assert frame["params"].sum() == flopwise.profile(RESNET).total("params")


def test_names_of_any_kind_fit() -> None:
    table = flopwise.profile(chain(list(NASTY))).to_arrow()
    assert table["name"].to_pylist()[:-1] == list(NASTY[:-1])


def test_figures_beyond_64_bits_are_refused_in_words() -> None:
    with pytest.raises(flopwise.FlopwiseError, match="64-bit"):
        flopwise.profile(chain(["huge"], 2**33)).to_arrow()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_models_side_by_side_those_without_loops_run_once(order: tuple[int, int]) -> None:
    """A layer that runs nobody knows how often stays one."""
    plain = flopwise.profile("examples/custom_op.onnx").to_dict()
    looped = {**plain, "layers": [{**row, "times": n} for row, n in zip(plain["layers"], (1, None, 7), strict=True)]}
    parts = [[("plain", parquet(plain)), ("looped", parquet(looped))][place] for place in order]
    table = pyarrow.parquet.read_table(io.BytesIO(stacked(parts)))
    times = {name: table.filter(pyarrow.compute.field("model") == name)["times"].to_pylist() for name, _ in parts}
    assert times == {"plain": [1, 1, 1], "looped": [1, None, 7]}


def test_a_model_without_layers_is_an_empty_table() -> None:
    table = flopwise.profile(flopwise.Graph("nothing", "hand", "", (), (), ())).to_arrow()
    assert table.num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "message"), [([RESNET, "-f", "parquet"], "-o"), (["examples", "-f", "parquet"], "-o")]
)
def test_bytes_need_a_file(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_layers_of_a_directory_make_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "examples", "--each", "-f", "html"]) == 2
    assert "takes one" in capsys.readouterr().err


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["profile", RESNET, "-o", str(tmp_path / "no" / "x.parquet")])
    assert result.exit_code != 0
    assert not (tmp_path / "no").exists()
