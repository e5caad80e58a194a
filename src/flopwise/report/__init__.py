"""Profile -> text: one file for each format, over one list of columns.

A new format is a file here and a line in FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flopwise.errors import InputError
from flopwise.report import csv, json, latex, markdown, table, tree
from flopwise.report.listing import Choice, listing
from flopwise.report.sheet import Look, Sheet

if TYPE_CHECKING:
    from flopwise.profiles import Profile

__all__ = ["EXTENSIONS", "FORMATS", "Choice", "Format", "Look", "format_for_path", "render"]

Render: TypeAlias = "Callable[[Profile, Choice, Look], str]"


class Format(NamedTuple):
    """How a profile is written, and the endings of file names that ask for it."""

    render: Render
    extensions: tuple[str, ...]


def _sheet(name: str, write: Callable[[Sheet, Look], str]) -> Render:
    """A format that writes the sheet of a profile."""
    return lambda profile, choice, look: write(listing(profile, choice, look, name), look)


#: Every format by name.
FORMATS: dict[str, Format] = {
    "table": Format(_sheet("table", table.write), (".txt",)),
    "tree": Format(tree.render, ()),
    "markdown": Format(_sheet("markdown", markdown.write), (".md", ".markdown")),
    "csv": Format(_sheet("csv", csv.write), (".csv",)),
    "json": Format(json.render, (".json",)),
    "latex": Format(_sheet("latex", latex.write), (".tex",)),
}

#: Ending of a file name -> format; dot is a format of the layers alone.
EXTENSIONS: dict[str, str] = {
    ".dot": "dot",
    ".gv": "dot",
    **{ending: name for name, format in FORMATS.items() for ending in format.extensions},
}


def render(
    profile: Profile,
    format: str = "table",
    by: str = "layer",
    depth: int | None = None,
    columns: str | Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    human: bool = False,
    header: bool = True,
    width: int | None = None,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """The profile as text that ends with a line end.

    Args:
        profile: what to write.
        format: a name from FORMATS.
        by: one line for each "layer", "op" or "module".
        depth: how many levels of modules; None for all.
        columns: keys of columns, as a list or with commas between them; None for what suits the format. JSON always
            holds all.
        sort: key of the column to sort by, the largest (and before it the unknown) first; None for the order of
            execution.
        top: how many lines to show, those of the largest count unless ``sort`` says otherwise; the rest is one line.
        human: three digits and an SI prefix instead of every digit, where the format is for people.
        header: whether the model and the columns are named above the lines.
        width: cells of the terminal; None when there is none and nothing needs to be shortened.
        color: whether to use the terminal's colours.
        ascii: whether to draw and write with ASCII characters only.

    Raises:
        InputError: the format, the grouping or a column is unknown.
    """
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    choice, look = Choice(by, depth, columns, sort, top), Look(human, header, width, color, ascii)
    return FORMATS[format].render(profile, choice, look)


def format_for_path(path: str) -> str | None:
    """The format that a file's ending asks for; None when it asks for none."""
    return EXTENSIONS.get(PurePath(path).suffix.lower())
