"""The page of all report formats, made from their table."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.report.formats.format import FORMATS, Audience
from flopwise.report.reference.tables import GENERATED

#: Audience -> who reads a format, and what they get.
READERS: dict[Audience, str] = {
    "terminal": "people, in a terminal: fits its width, thousands separated",
    "document": "people, in a document",
    "program": "programs: every digit and all lines",
}

#: Kind -> the reports that are written so.
REPORTS = {
    "sheet": "every report that is a table",
    "content": "every report with a JSON schema",
    "profile": "`profile`",
    "layers": "`layers`",
    "comparison": "`compare`",
}


def formats_page() -> str:
    """docs/reference/formats.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield GENERATED
    yield "# Report formats"
    yield ""
    yield (
        "`-f NAME` asks for a format, and so does the ending of `-o FILE`; an ending is a name too (`-f md`). "
        "Without either a report is a table. An ending that no format has is refused with a list of the known ones, "
        "and so is, without `-f`, a name without one."
    )
    yield ""
    yield "| format | endings | written for | of |"
    yield "|---|---|---|---|"
    for format in FORMATS.values():
        endings = " ".join(f"`{ending}`" for ending in format.endings)
        kinds = ", ".join(REPORTS.get(kind, f"`{kind}`") for kind in format.kinds)
        yield f"| `{format.name}` | {endings} | {READERS[format.audience]} | {kinds} |"
    yield ""
    alone = " and ".join(f"`{format.name}`" for format in FORMATS.values() if not format.several)
    yield from (
        "- A file is written whole or not at all, and never over something that the command reads: the model, by",
        "  another name or a link, the files that belong to it, rules, budgets and data; nor is a directory a file.",
        "- Of a directory `profile` has a line for each model and their total, in every format but `tree` and",
        "  `html`; with `--each`, and in other commands, CSV and Parquet are one table with a column `model`, JSON is",
        f"  an array, and text one report below the other. {alone} takes one model. A file that cannot be read costs a",
        "  line on stderr and exit code 2; the others are reported. Each model takes the sizes of `--dim` that it has",
        "  a dimension for.",
        "- Tables for programs have no line of totals, so that columns add up. In CSV an apostrophe stands before",
        "  a name that a spreadsheet would take for a formula (`=`, `+`, `-`, `@`); numbers stay numbers.",
        "- Names are shown without control characters in every format.",
        "- Parquet of `profile MODEL` holds the layers as in JSON; the totals are in its metadata (`flopwise`).",
        "- [adding.md](../contributing/adding.md) shows how a format is added.",
    )
