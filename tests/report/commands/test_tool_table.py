"""Tables with a tool's own columns: as text, in short, and what is unknown in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.report.graphs import MYSTERY, THREE, conv_net, profiled, unresolved

from flopwise.conventions import Display
from flopwise.conventions.convention import Column, Table, Total
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile
from flopwise.report.commands.flops import classes_of, classes_report, formula
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

#: A table with every kind of column.
EVERYTHING = Table(
    name="what",
    columns=(
        Column("type", "kind", "text", lambda row, graph: row.type),
        Column("shape", "result", "shape", lambda row, graph: row.node.output().dims, lambda s: "/".join(map(str, s))),
        Column("work", "Work", "number", lambda row, graph: row.count, human=lambda n: f"{n // 1000}K"),
        Column("bytes", "Bytes", "bytes", lambda row, graph: row.output_bytes, str),
        Column("part", "Part", "ratio", lambda row, graph: row.count, lambda share: f"{share:.2f}"),
    ),
    lists=lambda row: row.node.op != "Flatten",
    totals=(Total("many", "How many", len), Total("work", "All work")),
    detailed=True,
)


def in_twos(names: Sequence[str]) -> list[tuple[str, int]]:
    return [(f"{names[i]}+", min(2, len(names) - i)) for i in range(0, len(names), 2)]


def tool(table: Table = EVERYTHING) -> Profile:
    return profiled(
        conv_net(), replace(THREE, name="tool", display=Display(table=table, human=THREE.display.human)), MYSTERY
    )


def told(table: Table = EVERYTHING, full: bool = False, format: str = "table", human: bool = False) -> list[str]:
    """The lines of the table that bear anything, with single spaces."""
    text = as_text(classes_report(tool(table), full), format, Look(human))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip("─ ")]


def test_every_kind_of_column() -> None:
    assert told() == [
        "models/convnet.onnx · image float32 1×3×8×8 · convention tool, unit OP",
        "what kind result Work Bytes Part",
        "conv1 Conv 1/4/8/8 14,080 1024 92.77",
        "bn1 BatchNormalization 1/4/8/8 512 1024 3.37",
        "relu1 Relu 1/4/8/8 256 1024 1.69",
        "pool1 acme::Mystery 1/4/2/2 ? 64 ?",
        "fc Gemm 1/10 330 40 2.17",
        "How many 6",
        "All work ≥ 15,178 ≥ 15K",
        *MYSTERY,
    ]


def test_in_short() -> None:
    lines = told(human=True)
    assert lines[2] == "conv1 Conv 1/4/8/8 14K 1024 92.77"
    assert lines[8] == "All work ≥ 15,178 ≥ 15K"


def test_collapsed_lines_and_a_line_of_totals() -> None:
    table = EVERYTHING._replace(totals=(), detailed=False, collapse=in_twos)
    assert told(table)[2:] == [
        "conv1+ submodule(1) 14,592 2048 96.14",
        "relu1+ submodule(1) ≥ 256 1088 1.69",
        "fc+ Gemm 1/10 330 40 2.17",
        "Total ≥ 15,178 3176",
        *MYSTERY,
    ]
    assert told(table, full=True)[2] == "conv1 Conv 1/4/8/8 14,080 1024 92.77"


def test_figures_of_the_model_alone() -> None:
    table = EVERYTHING._replace(detailed=False)
    assert told(table)[1:] == ["figure tool", "How many 6", "All work ≥ 15,178", *MYSTERY]
    assert told(table, human=True)[3] == "All work ≥ 15K"
    assert told(table, format="csv") == [
        "figure,count,unknown,convention,unit",
        "many,6,1,tool,OP",
        "work,15178,1,tool,OP",
    ]
    content = json.loads(as_text(classes_report(tool(table)), "json"))
    assert (content["many"], content["work"], content["bytes"], content["total"]) == (6, 15178, 3176, 15178)
    assert "layers" not in content


def test_json_has_the_lines_of_the_table() -> None:
    content = json.loads(as_text(classes_report(tool()), "json"))
    assert list(content) == [
        *("schema", "model", "inputs", "convention", "work", "bytes", "many", "total", "coverage", "notes", "layers")
    ]
    assert content["layers"][3] == {
        "name": "pool1",
        "type": "acme::Mystery",
        "shape": [1, 4, 2, 2],
        "work": None,
        "bytes": 64,
        "total": None,
    }


def test_csv_has_every_digit() -> None:
    lines = told(format="csv", human=True)
    assert lines[0] == "name,type,shape,work,bytes,part,convention,unit"
    assert lines[1] == "conv1,Conv,1x4x8x8,14080,1024,92.7658,tool,OP"
    assert lines[4] == "pool1,acme::Mystery,1x4x2x2,,64,,tool,OP"


@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_documents_tell_the_totals(format: str) -> None:
    text = as_text(classes_report(tool()), format)
    assert "How many: 6" in text
    assert "All work: ≥ 15,178" in text
    assert text.count("15,178") == 2


def test_a_shape_that_nobody_knows() -> None:
    profile = profiled(unresolved(), replace(THREE, display=Display(table=EVERYTHING, human=THREE.display.human)))
    content = json.loads(as_text(classes_report(profile), "json"))
    assert content["layers"][1] == {"name": "lost", "type": "acme::Lost", "shape": None} | dict.fromkeys(
        ("work", "bytes", "total")
    )
    assert "?" in as_text(classes_report(profile))


def test_there_are_no_classes_beside_a_table() -> None:
    assert classes_of(tool()) == {}
    assert formula(tool()) == ""
    with pytest.raises(InputError, match="unknown format 'tree'"):
        as_text(classes_report(tool()), "tree")
