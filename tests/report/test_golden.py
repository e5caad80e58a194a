"""Each format as it was when a person last looked at it: ``golden/`` (written anew with UPDATE_GOLDEN=1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.report.graphs import MYSTERY, THREE, conv_net, mystery, profiled, transformer

from flopwise.profiles.profile import Profile
from flopwise.report.commands.flops import classes_report
from flopwise.report.commands.profile import render
from flopwise.report.commands.shapes import layers_report
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

GOLDEN = Path(__file__).parent / "golden"


def three() -> Profile:
    return profiled(conv_net(), THREE, MYSTERY)


def blocks() -> Profile:
    return profiled(transformer(), notes=())


REPORTS: dict[str, Callable[[], str]] = {
    "table_pipe.txt": lambda: render(mystery()),
    "table_80.txt": lambda: render(mystery(), width=80),
    "table_60.txt": lambda: render(blocks(), width=60),
    "table_200_human.txt": lambda: render(three(), width=200, human=True),
    "table_colour.txt": lambda: render(mystery(), width=80, color=True),
    "table_ascii.txt": lambda: render(mystery(), width=80, ascii=True),
    "table_no_header.txt": lambda: render(mystery(), width=80, header=False),
    "table_op.txt": lambda: render(mystery(), by="op", width=100),
    "table_module.txt": lambda: render(blocks(), by="module", width=100),
    "table_module_depth.txt": lambda: render(blocks(), by="module", depth=2, width=80),
    "table_module_sorted.txt": lambda: render(blocks(), by="module", sort="params", width=80),
    "table_top.txt": lambda: render(blocks(), top=3, width=80),
    "table_columns.txt": lambda: render(mystery(), columns="name,weights,cmp,macs%", sort="cmp", width=80),
    "table_columns_narrow.txt": lambda: render(
        blocks(), columns="name,op,inputs,weights,params,macs,flops,memory,memory%", width=80
    ),
    "tree.txt": lambda: render(blocks(), "tree"),
    "tree_top.txt": lambda: render(blocks(), "tree", top=1, width=80),
    "tree_depth.txt": lambda: render(blocks(), "tree", depth=2, width=80),
    "tree_flat.txt": lambda: render(mystery(), "tree", width=80),
    "markdown.md": lambda: render(mystery(), "markdown"),
    "markdown_module.md": lambda: render(blocks(), "markdown", by="module", human=True),
    "profile.csv": lambda: render(mystery(), "csv"),
    "profile_op.csv": lambda: render(mystery(), "csv", by="op"),
    "profile_top.csv": lambda: render(mystery(), "csv", top=2, columns="name,count,count%,outputs"),
    "profile.json": lambda: render(mystery(), "json"),
    "profile_op.json": lambda: render(mystery(), "json", by="op"),
    "profile.tex": lambda: render(mystery(), "latex"),
    "classes.txt": lambda: as_text(classes_report(mystery())),
    "classes_human.txt": lambda: as_text(classes_report(three()), look=Look(human=True, width=80)),
    "classes_full.txt": lambda: as_text(classes_report(mystery(), full=True), look=Look(width=80)),
    "classes_full_three.txt": lambda: as_text(classes_report(three(), full=True), look=Look(human=True, width=80)),
    "classes.md": lambda: as_text(classes_report(three()), "markdown"),
    "classes.csv": lambda: as_text(classes_report(three()), "csv", Look(human=True)),
    "classes_full.csv": lambda: as_text(classes_report(three(), full=True), "csv"),
    "classes.json": lambda: as_text(classes_report(three()), "json"),
    "classes_full.json": lambda: as_text(classes_report(three(), full=True), "json"),
    "classes.tex": lambda: as_text(classes_report(three()), "latex"),
    "layers.txt": lambda: as_text(layers_report(mystery())),
    "layers_80.txt": lambda: as_text(layers_report(mystery()), look=Look(width=80)),
    "layers.md": lambda: as_text(layers_report(mystery()), "markdown"),
    "layers.csv": lambda: as_text(layers_report(mystery()), "csv"),
    "layers.json": lambda: as_text(layers_report(mystery()), "json"),
    "layers.tex": lambda: as_text(layers_report(mystery()), "latex"),
    "layers.dot": lambda: as_text(layers_report(mystery()), "dot"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name: str) -> None:
    path, text = GOLDEN / name, REPORTS[name]()
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_bytes().decode()


def test_no_golden_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(REPORTS)
