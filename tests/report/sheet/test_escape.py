"""Names come back from each format as they went in, whatever they mean to it."""

from __future__ import annotations

import csv
import io
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.report.graphs import NASTY, nasty, profiled

import flopwise
from flopwise.conventions import get
from flopwise.errors import FlopwiseError, InputError, ModelError, ShapeError, printable
from flopwise.graph import Graph, Node, Tensor
from flopwise.profiles.count import profile_graph
from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.flops import classes_report
from flopwise.report.commands.profile import profile_report, render
from flopwise.report.commands.shapes import layers_report, shapes_report
from flopwise.report.formats import latex, markdown
from flopwise.report.formats.csv import inert
from flopwise.report.formats.dot import quote
from flopwise.report.report import as_text
from flopwise.report.sheet.listing import GROUPINGS, Choice

SHOWN = [printable(name) for name in NASTY]


def test_markdown() -> None:
    markdown_it = pytest.importorskip("markdown_it")
    reader = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    cells: list[str] = []
    for before, token in pairwise(reader.parse(render(profiled(nasty()), "markdown", columns="name,op,count"))):
        if before.type == "td_open":
            assert {child.type for child in token.children} <= {"text", "text_special", "strong_open", "strong_close"}
            cells.append("".join(child.content for child in token.children))
    assert cells[::3] == [*SHOWN, "Total"]


LIVE = (
    "@octocat",
    "by @org/team.",
    "a@b.example",
    "fix #1",
    "GH-1",
    "org/repo#12",
    "https://evil.example/x",
    "HTTP://evil.example/a|b`c",
    "see www.evil.example",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
    "xmpp:a@b/c",
    "`@octocat`",
    "``@octocat",
    "\\@octocat\\",
    "(#1)[#2]<#3>",
    "<!-- @octocat -->",
    "&#64;octocat",
)


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("place", ["| {} |", "- {}", "{}"])
def test_nothing_in_markdown_is_a_link_or_a_mention(name: str, place: str) -> None:
    """GitHub makes these of plain text, however it is escaped; in code they are inert."""
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True}).enable(["table"])
    written = place.format(markdown.escape(name) if "|" in place else markdown.paragraph(name))
    tokens = reader.parse(f"| a |\n| :-- |\n{written}\n" if "|" in place else written)
    inner = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inner} <= {"text", "text_special", "code_inline"}
    plain = "".join(child.content if child.type != "code_inline" else " " for child in inner)
    assert not re.search(r"@\w|#\d|GH-\d|://|www\.|[0-9a-f]{40}", plain.replace("&#64;", ""))
    assert "".join(child.content for child in inner if child.content != "a").strip() == name


@pytest.mark.parametrize("name", ["# x", "- x", "+ x", "> x", "1. x", "2) x", "=== x", "    x", "---"])
def test_a_name_begins_nothing_but_a_paragraph(name: str) -> None:
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    assert [token.type for token in reader.parse(markdown.paragraph(name))][::2] == [
        "paragraph_open",
        "paragraph_close",
    ]
    net = profiled(nasty())
    shown = render(replace(net, graph=replace(net.graph, name=name, source=name)), "markdown")
    assert reader.parse(shown)[0].type == "paragraph_open"


def test_csv() -> None:
    for text in (render(profiled(nasty()), "csv"), as_text(layers_report(profiled(nasty())), "csv")):
        assert [row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [inert(name) for name in SHOWN]


def test_names_of_files_in_the_head_of_csv(tmp_path: Path) -> None:
    """A comparison has the names of its models in the keys of its columns."""
    paths = [tmp_path / f"{name}.onnx" for name in ("\x1b[31ma", "b\u202e", "c\rd", "e\x9b", "f\u2028", "=1+1")]
    for path in paths:
        shutil.copy("examples/tiny_resnet.onnx", path)
    text = as_text(comparison_report(flopwise.compare(*paths)), "csv")
    assert all(character.isprintable() for line in text.split("\n") for character in line)


@pytest.mark.parametrize("name", SHOWN)
def test_latex_leaves_no_special_character(name: str) -> None:
    escaped = latex.escape(name)
    commands = re.sub(r"\\text[a-z]+\{\}|\\ldots\{\}|\\[{}_#&%$]|\{[][*]\}|\{\}-|\$\\(times|geq|cdot)\$", "", escaped)
    assert not set(commands) & set("\\{}_#&%$~^<>|[]*")
    assert "--" not in escaped


def test_latex_has_as_many_cells_in_each_row() -> None:
    rows = [line for line in render(profiled(nasty()), "latex").splitlines() if line.endswith(r"\\")]
    assert len(rows) == len(SHOWN) + 2
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {6}


@pytest.mark.parametrize("name", SHOWN)
def test_dot_strings_end_where_they_should(name: str) -> None:
    inner = quote(name)[1:-1]
    assert not re.search(r'(?<!\\)(\\\\)*"', inner)
    assert inner.replace("&amp;", "&").replace('\\"', '"').replace("\\\\", "\\") == name


def test_dot_draws_a_layer_once_and_no_weights() -> None:
    text = as_text(layers_report(profiled(nasty())), "dot")
    assert text.count(" -> ") == len(SHOWN) + 1
    assert len(re.findall(r"^  n\d+ \[", text, re.M)) == len(SHOWN)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a_b", "a_b"), ("_a_", r"\_a\_"), ("a__b", r"a\_\_b"), ("x|y", r"x\|y"), ("/layers.0/Add_1", "/layers.0/Add_1")],
)
def test_markdown_escapes_no_more_than_it_must(name: str, shown: str) -> None:
    assert markdown.escape(name) == shown


#: What a spreadsheet may take for the beginning of a formula.
BEGINNINGS = [
    "=",
    "+",
    "-",
    "@",
    "\t=",
    "\r=",
    "＝",
    "＋",
    "－",
    "＠",
    "−",
    "﹢",
    "﹣",
    "﹦",
    "﹫",
    '"=',
    " =",
    ' " ＝',
    "\u00a0=",
]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_no_name_is_a_formula_in_a_spreadsheet(begin: str) -> None:
    """Names of layers and tensors, operators, the model's own name: nothing from a file begins as a formula does."""
    name = f'{begin}HYPERLINK("http://evil")'
    x, y = (Tensor(f"{name}{end}", (1, 4), "float32", "activation") for end in "xy")
    net = Graph(name, "onnx", name, (x,), (y,), (Node(f"acme::{name}", name, (x,), (y,), origin=name),))
    profile = profile_graph(net, get("flops"))
    reports = [profile_report(profile, Choice(by)) for by in GROUPINGS]
    reports += [layers_report(profile), shapes_report(profile), classes_report(profile, full=True)]
    for report in reports:
        for row in csv.reader(io.StringIO(as_text(report, "csv"), newline="")):
            for cell in row:
                assert not cell.lstrip(' "').startswith(tuple("=+-@\t\r＝＋－＠−﹢﹣﹦﹫")), cell


def test_numbers_stay_numbers() -> None:
    assert [inert(text) for text in ("-1", "+0.5", "-1e-05", "12")] == ["-1", "+0.5", "-1e-05", "12"]
    assert [inert(text) for text in ("-a", "+1+1", "--1")] == ["'-a", "'+1+1", "'--1"]


def test_errors_are_one_printable_line() -> None:
    for kind in (FlopwiseError, InputError, ModelError, ShapeError):
        for text in ("a\x1b[31mb\x00", "a\nb", "\u202egnp.exe", "\ud800"):
            assert str(kind(f"layer {text}: no")).isprintable()
    assert str(InputError("a  b: 1\u00d73")) == "a  b: 1\u00d73"
