"""Tables for papers: one line for each model, one scale for each column, the convention in the caption."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.formats.tensorflow.protobuf import graph, node, placeholder
from tests.report.graphs import NASTY
from tests.report.html.test_page import chain

import flopwise
from flopwise.cli import main
from flopwise.profiles.profile import Profile
from flopwise.report.commands.table import paper_report
from flopwise.report.report import as_text

RESNET, SPLINE = "examples/tiny_resnet.onnx", "examples/custom_op.onnx"

PREAMBLE = r"\documentclass{article}\usepackage{booktabs}\usepackage{siunitx}\begin{document}"


def profiles() -> list[Profile]:
    return [flopwise.profile(RESNET), flopwise.profile(SPLINE)]


def test_latex_has_rules_units_and_the_convention() -> None:
    text = as_text(paper_report([flopwise.profile(RESNET)], ["params", "macs", "peak"]), "latex")
    assert r"\caption{Convention flops, unit FLOP; input 1$\times$3$\times$64$\times$64.}" in text
    assert r"Model & {Parameters {[}k{]}} & {MACs {[}M{]}} & {Peak activations {[}kB{]}} \\" in text
    assert r"tiny\_resnet & 44.4 & 1.86 & 81.9 \\" in text
    assert "{lS[table-format=2.1]S[table-format=1.2]S[table-format=2.1]}" in text
    for rule in ("toprule", "midrule", "bottomrule"):
        assert rf"\{rule}" in text


def test_lower_bounds_are_marked_and_named() -> None:
    for format, mark in (("latex", r"{$\geq 640$}"), ("table", "≥ 640"), ("markdown", "≥ 640")):
        text = as_text(paper_report([flopwise.profile(SPLINE)], ["macs"]), format)
        assert mark in text, format
        assert "Spline" in text


def test_csv_has_every_digit_and_the_convention() -> None:
    rows = list(csv.DictReader(io.StringIO(as_text(paper_report(profiles(), ["params", "macs", "peak"]), "csv"))))
    expected = flopwise.profile(RESNET).to_dict()["totals"]
    assert [row["name"] for row in rows] == ["tiny_resnet", "custom_op"]
    assert int(rows[0]["macs"]) == expected["macs"]
    assert int(rows[0]["peak"]) == expected["peak_activation_bytes"]
    assert [row["convention"] for row in rows] == ["flops", "flops"]
    assert [row["complete"] for row in rows] == ["yes", "no"]


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ({}, "44.4"),
        ({"": "M"}, "0.044"),
        ({"params": ""}, "44,370"),
        ({"params": "M", "": "G"}, "0.044"),
        ({"": "G"}, "<0.001"),
    ],
)
def test_a_column_has_one_prefix(units: dict[str, str], expected: str) -> None:
    text = as_text(paper_report([flopwise.profile(RESNET)], ["params"], units=units))
    assert expected in text.splitlines()[4]


def test_all_figures_of_a_column_share_prefix_and_decimals() -> None:
    models = [flopwise.profile(chain(["a"], size)) for size in (100, 1000, 3000)]
    text = as_text(paper_report(models, ["params"], ["s", "m", "l"]), "latex")
    figures = [line.split(" & ")[1].removesuffix(r" \\") for line in text.splitlines() if " & " in line]
    assert figures[1:] == ["0.01", "1.00", "9.00"]


def test_every_digit_on_request() -> None:
    text = as_text(paper_report([flopwise.profile(RESNET)], ["macs"], human=False), "latex")
    assert "group-separator={,}" in text
    assert "1859904" in text


def test_json_has_every_digit_and_the_convention() -> None:
    found = json.loads(as_text(paper_report(profiles(), ["macs", "peak"]), "json"))
    expected = flopwise.profile(RESNET).to_dict()["totals"]
    assert found["schema"] == "flopwise.table/1"
    assert found["models"][0]["macs"] == expected["macs"]
    assert found["models"][0]["convention"] == {"name": "flops", "unit": "FLOP"}
    assert [model["exact"] for model in found["models"]] == [True, False]


def test_names_are_given_and_escaped() -> None:
    text = as_text(paper_report(profiles(), ["params"], ["100% a_b", r"{\x}"]), "latex")
    assert r"100\% a\_b" in text
    assert r"\{\textbackslash{}x\}" in text
    with pytest.raises(flopwise.FlopwiseError, match="1 name for 2 models"):
        paper_report(profiles(), names=["one"])


@pytest.mark.parametrize("format", ["table", "markdown", "latex"])
def test_notes_with_names_of_a_file_are_printable(format: str, tmp_path: Path) -> None:
    (tmp_path / "net.pb").write_bytes(
        graph(placeholder("x", 2), node("y", "Odd\x1b[31m\n", "x"), node("z", "Relu", "y"))
    )
    text = as_text(paper_report([flopwise.profile(tmp_path / "net.pb")], ["params"]), format)
    assert "Odd" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--columns", "parms"], "did you mean 'params'"),
        (["--unit", "X"], "unknown prefix 'X'"),
        (["--unit", "peak=M", "--columns", "params"], "no column 'peak'"),
        (["--name", "a", "--name", "b"], "2 names for 1 model"),
        (["nofile.onnx"], "nofile.onnx"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", RESNET, *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.tex"
    assert main(["table", RESNET, SPLINE, "--name", "A", "--name", "B", "--unit", "params=M", "-o", str(out)]) == 0
    assert "\\toprule" in out.read_text()
    assert main(["table", RESNET, "-c", "benanza"]) == 0
    assert "convention benanza" in capsys.readouterr().out
    assert main(["table", RESNET, SPLINE, "--strict"]) == 1


def test_no_figure_is_rounded_to_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """640 MACs are a lower bound here: 0.00 M would say nothing; thousands are set apart before decimals, too."""
    alexnet = str(Path(RESNET).with_name("alexnet.prototxt"))
    assert main(["table", alexnet, SPLINE, RESNET]) == 0
    said = capsys.readouterr().out
    assert "≥ 0.0006 " in said
    assert "0.00 " not in said
    assert "60,965.224" in said


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_tex_takes_it(tmp_path: Path) -> None:
    found = subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True)
    if found.returncode:
        pytest.skip("needs siunitx")
    names = [*NASTY[:8], "a"]  # pdflatex has no glyphs for the others
    table = as_text(paper_report([*[flopwise.profile(RESNET)] * 8, flopwise.profile(SPLINE)], names=names), "latex")
    exact = as_text(paper_report(profiles(), human=False), "latex")
    (tmp_path / "t.tex").write_text(f"{PREAMBLE}\n{table}\n{exact}\\end{{document}}\n")
    run = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-2000:]
