"""Profile -> text: one file for each format, over one list of columns.

A new format is a file here and a line in FORMATS.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from flopwise.errors import InputError
from flopwise.report.formats import writers
from flopwise.report.sheet.listing import Choice, listing
from flopwise.report.sheet.sheet import Look

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

__all__ = ["EXTENSIONS", "FORMATS", "Choice", "Format", "Look", "format_for_path", "render"]


class Format(NamedTuple):
    """What a format needs to know of a profile, and the endings of file names that ask for it."""

    #: Whether it writes the sheet of a profile; else its file has ``render(profile, choice, look)``.
    sheet: bool
    extensions: tuple[str, ...]


#: Every format by name; the file of that name in this package writes it, and is imported when it is asked for.
FORMATS: dict[str, Format] = {
    "table": Format(True, (".txt",)),
    "tree": Format(False, ()),
    "markdown": Format(True, (".md", ".markdown")),
    "csv": Format(True, (".csv",)),
    "json": Format(False, (".json",)),
    "latex": Format(True, (".tex",)),
    "html": Format(False, (".html", ".htm")),
}

#: The files of the formats that write a profile in a way of their own.
_HOMES: dict[str, str] = {
    "tree": "flopwise.report.formats.tree",
    "json": "flopwise.report.formats.json",
    "html": "flopwise.report.html.page",
}

#: Ending of a file name -> format; dot is a format of the layers alone, and parquet one of bytes (see ``frames``).
EXTENSIONS: dict[str, str] = {
    ".dot": "dot",
    ".gv": "dot",
    ".parquet": "parquet",
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
        by: one line for each "layer", "op", "module" or "dtype".
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
    choice, look = Choice(by, depth, columns, sort, top), Look(human, header, width, color, ascii)
    if FORMATS[format].sheet:
        return writers.write(listing(profile, choice, look, format), format, look)
    text: str = import_module(_HOMES[format]).render(profile, choice, look)
    return text


def format_for_path(path: str) -> str | None:
    """The format that a file's ending asks for; None when it asks for none."""
    return EXTENSIONS.get(PurePath(path).suffix.lower())
