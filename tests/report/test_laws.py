"""What holds for every report: columns add up, nothing is lost, nothing is too wide, nothing escapes."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from tests.cases import each
from tests.report.graphs import THREE, conv_net, mystery, nasty, profiled, transformer, unresolved
from tests.work import calls_at_most

from flopwise.errors import InputError
from flopwise.graph import Graph, Tensor
from flopwise.profiles.profile import Profile
from flopwise.report.commands.flops import classes_report
from flopwise.report.commands.profile import profile_report, render
from flopwise.report.commands.shapes import layers_report
from flopwise.report.formats.format import format_for_path, formats_of
from flopwise.report.formats.table import cells
from flopwise.report.report import Report, as_text
from flopwise.report.sheet.columns import COLUMNS
from flopwise.report.sheet.listing import GROUPINGS, Choice, listing
from flopwise.report.sheet.sheet import Look

PROFILES = {
    "mystery": mystery(),
    "three": profiled(conv_net(), THREE),
    "transformer": profiled(transformer()),
    "unresolved": profiled(unresolved()),
    "nasty": profiled(nasty()),
    "benanza": profiled(conv_net("MaxPool"), "benanza"),
    **{name: profiled(conv_net(), name) for name in ("caffe", "netscope", "convnet-burden")},
    "nasty netscope": profiled(nasty(), "netscope"),
}
NUMBERS = [key for key, column in COLUMNS.items() if column.kind in ("number", "bytes") and key != "depth"]


def every_report(profile: Profile, **look: object) -> dict[str, str]:
    """Every format and grouping of every command."""
    every = {by: profile_report(profile, Choice(by)) for by in GROUPINGS}
    every |= {"top": profile_report(profile, Choice(top=2)), "layers": layers_report(profile)}
    every |= {f"classes-{full}": classes_report(profile, full) for full in (False, True)}
    return {
        f"{name}-{format.name}": as_text(report, format.name, Look(**look))  # type: ignore[arg-type]
        for name, report in every.items()
        for format in formats_of(report.kinds)
        if not format.binary
    }


@each("name", PROFILES)
@each("by", ["layer", "op"])
@each("top", [None, 1, 3, 100])
@each("sort", [None, "name", "count", "params%", "outputs"])
def test_columns_add_up_to_the_total(name: str, by: str, top: int | None, sort: str | None) -> None:
    profile = PROFILES[name]
    sheet = listing(profile, Choice(by, columns=NUMBERS, sort=sort, top=top), Look(), "terminal")
    assert sheet.total is not None
    for i, head in enumerate(sheet.heads):
        parts = [line.values[i] for line in sheet.lines]
        total = sheet.total.values[i]
        if head.key != "times":  # how often layers run is no figure that adds up
            assert sum(p for p in parts if isinstance(p, int)) == (total or 0), head.key


@each("name", PROFILES)
@each("key", COLUMNS)
def test_sorting_keeps_every_row(name: str, key: str) -> None:
    profile = PROFILES[name]
    names = ["name", key]
    plain, ordered = (listing(profile, Choice(columns=names, sort=s), Look(), "terminal").lines for s in (None, key))
    assert sorted(map(repr, plain)) == sorted(map(repr, ordered))
    column = COLUMNS[key]
    if column.kind in ("number", "bytes", "percent"):
        values = [line.values[-1] for line in ordered]
        known = [v for v in values if v not in (None, "")]
        unknown, nothing = values.count(None), values.count("")
        assert values == [None] * unknown + sorted(known, reverse=True) + [""] * nothing


@pytest.mark.parametrize("name", PROFILES)
def test_csv_reads_back(name: str) -> None:
    profile = PROFILES[name]
    rows = list(csv.DictReader(io.StringIO(render(profile, "csv"), newline="")))
    assert len(rows) == len(profile.rows)
    for found, row in zip(rows, profile.rows, strict=True):
        assert found["count"] == ("" if row.count is None else str(row.count))
        assert found["params"] == str(row.params)
        assert None not in found
    assert len(render(profile, "csv", header=False).splitlines()) == len(profile.rows)


def numbers_of(content: object) -> list[object]:
    if isinstance(content, dict):
        return [n for value in content.values() for n in numbers_of(value)]
    if isinstance(content, list):
        return [n for value in content for n in numbers_of(value)]
    return [content]


@pytest.mark.parametrize("name", PROFILES)
def test_json_reads_back_and_every_number_is_an_integer(name: str) -> None:
    profile = PROFILES[name]
    reports = every_report(profile)
    assert json.loads(reports["layer-json"]) == profile.to_dict()
    for key, text in reports.items():
        if "json" in key:
            assert text.isascii()
            assert {type(n) for n in numbers_of(json.loads(text))} <= {int, str, bool, type(None)}


@each("name", PROFILES)
@each("human", [False, True])
@each("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(name: str, width: int, human: bool) -> None:
    profile = PROFILES[name]
    texts = [render(profile, "table", by, width=width, human=human) for by in GROUPINGS]
    texts += [render(profile, "tree", width=width, human=human)]
    texts += [render(profile, columns=list(COLUMNS), width=width, human=human)]
    look = Look(human=human, width=width)
    texts += [as_text(classes_report(profile, full), look=look) for full in (False, True)]
    texts += [as_text(layers_report(profile), look=look)]
    assert max(cells(line) for text in texts for line in text.splitlines()) <= width


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("width", [None, 80])
def test_nothing_escapes(name: str, width: int | None) -> None:
    for key, text in every_report(PROFILES[name], width=width).items():
        assert text.endswith("\n"), key
        assert text.replace("\n", "").isprintable(), key
        text.encode()


@pytest.mark.parametrize("name", PROFILES)
def test_ascii(name: str) -> None:
    look = {"width": 80, "ascii": True}
    for key, text in every_report(PROFILES[name], **look).items():
        assert text.isascii(), key


@pytest.mark.parametrize("name", PROFILES)
def test_colour_changes_nothing_else(name: str) -> None:
    plain = every_report(PROFILES[name], width=100)
    for key, text in every_report(PROFILES[name], width=100, color=True).items():
        assert re.sub(r"\x1b\[\d+m", "", text) == plain[key]
        assert "\x1b" not in plain[key]


@pytest.mark.parametrize("name", PROFILES)
def test_every_report_names_its_convention(name: str) -> None:
    profile = PROFILES[name]
    for key, text in every_report(profile).items():
        if not key.startswith("layers"):
            assert profile.convention.name in text, key


def test_unknown_operators_are_named_at_the_end() -> None:
    for format in ("table", "tree", "markdown"):
        assert "acme::Mystery" in render(mystery(), format).splitlines()[-1]
    assert "acme::Mystery" in render(mystery(), "latex")


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("a.csv", "csv"),
        ("a.b/c.JSON", "json"),
        ("x.md", "markdown"),
        ("x.tex", "latex"),
        ("g.dot", "dot"),
        ("x", "table"),
        ("a.b/x", "table"),
    ],
)
def test_format_for_path(path: str, format: str) -> None:
    assert format_for_path(path, ("sheet", "content", "layers")).name == format


def test_an_unknown_ending_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"x.ods: unknown ending .ods; known: .txt, .*.csv, .json, .tex"):
        format_for_path("x.ods", ("sheet", "content"))
    with pytest.raises(InputError, match=r"x.dot: this report cannot be written as dot; choose table, markdown"):
        format_for_path("x.dot", ("sheet", "content"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "unknown format 'xml'; choose table, tree, markdown, csv, json, latex"),
        ({"by": "colour"}, "cannot group by 'colour'; choose layer, op, module, dtype"),
        ({"top": 0}, "--top 0: give 1 or more"),
        ({"sort": "flop"}, "unknown column 'flop'; did you mean 'flops'?"),
    ],
)
def test_what_cannot_be_shown(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        render(mystery(), **arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("report", [classes_report(mystery()), layers_report(mystery())])
def test_other_commands_know_their_formats(report: Report) -> None:
    with pytest.raises(InputError, match="unknown format 'tree'; choose table, markdown, csv, json, latex"):
        as_text(report, "tree")
    with pytest.raises(InputError, match="parquet is not text"):
        as_text(report, "parquet")


def test_a_long_table_says_how_to_shorten_it() -> None:
    profile = profiled(transformer(40))
    hint = "to shorten this: --top 20, --by op, --by module --depth 2"
    assert render(profile, width=80).splitlines()[-1] == hint
    assert hint not in render(profile)
    assert hint not in render(profile, width=80, top=100)
    assert hint not in render(profiled(transformer()), width=80)


def test_two_thousand_layers_at_once() -> None:
    profile = profiled(transformer(500))
    with calls_at_most(700 * len(profile.rows)):
        render(profile, width=80)


def test_a_name_of_a_megabyte_widens_its_own_line_only() -> None:
    from dataclasses import replace

    profile = profiled(transformer())
    long = replace(profile, rows=(replace(profile.rows[0], name="x" * 1_000_000), *profile.rows[1:]))
    assert len(render(long)) < 1_100_000


@each("format", ["table", "tree", "markdown", "csv", "json", "latex", "html"])
@each("by", ["layer", "op", "module", "dtype"])
def test_a_model_without_layers_is_reported(format: str, by: str) -> None:
    same = Tensor("x", (1, 3), "float32")
    profile = profiled(Graph("empty", "hand", "", (same,), (same,), ()))
    assert render(profile, format, by=by)
    if format == "table":
        assert "note: the model has no layers" in render(profile, by=by)
