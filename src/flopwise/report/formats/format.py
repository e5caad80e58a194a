"""The formats of reports: one table, which every command, every ending of ``-o`` and every help text asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import Literal, NamedTuple, TypeAlias

from flopwise import _extensions
from flopwise.errors import InputError, did_you_mean
from flopwise.report.sheet import Audience

#: What a format can write. Of a "sheet" (columns and lines, which nearly every report has) and of "content" (the plain
#: values of a JSON schema) it writes any; a "profile", its "layers", a "comparison", a "bound", a request to a
#: language model ("llm"), a data set of models ("zoo"), a "trace", two "traces" or the events of one ("timeline") it
#: draws in a way of its own.
Kind: TypeAlias = Literal[
    "sheet", "content", "profile", "layers", "comparison", "bound", "llm", "zoo", "trace", "traces", "timeline"
]


class Format(NamedTuple):
    """One format; the file of its name in this package has a function ``render_KIND`` for each kind that it writes.

    ``render_sheet`` takes a sheet and a look (``render_sheets`` all sheets), ``render_content`` values and a look, the
    others what a report hands them (see ``flopwise.report.report``) and a look. Each returns text, or bytes where
    ``binary`` says so. Of several models ``join`` makes one text of their texts, and ``stack`` one file of the path and
    the bytes of each.
    """

    name: str
    #: Endings of file names that ask for it.
    endings: tuple[str, ...]
    kinds: tuple[Kind, ...]
    audience: Audience
    binary: bool = False
    #: Whether the reports of several models fit into one file; those of sheets for programs always do.
    several: bool = True
    #: The module that writes it; "" for the file of its name in this package.
    module: str = ""

    @property
    def data(self) -> bool:
        """True where programs read it."""
        return self.audience == "program"

    @property
    def code(self) -> ModuleType:
        """The file that writes it, imported when it is needed."""
        return import_module(self.module or f"flopwise.report.formats.{self.name}")


#: Every format, in the order in which help texts list them.
TABLE = (
    Format("table", (".txt", ".text"), ("sheet",), "terminal"),
    Format("tree", (), ("profile",), "terminal"),
    Format("markdown", (".md", ".markdown"), ("sheet",), "document"),
    Format("csv", (".csv",), ("sheet",), "program"),
    Format("json", (".json",), ("content",), "program"),
    Format("latex", (".tex",), ("sheet",), "document"),
    Format(
        "html",
        (".html", ".htm"),
        ("profile", "comparison", "bound", "llm", "zoo", "trace", "traces", "sheet"),
        "document",
        several=False,
        module="flopwise.report.html.pages",
    ),
    Format("parquet", (".parquet",), ("profile", "sheet"), "program", binary=True),
    Format("xlsx", (".xlsx",), ("sheet",), "program", binary=True),
    Format("dot", (".dot", ".gv"), ("layers",), "document"),
    Format("perfetto", (".perfetto",), ("timeline",), "program", several=False),
)

#: Formats of figures, which matplotlib draws.
FIGURES = ("png", "svg", "pdf")

#: The formats of the table by name.
FORMATS: dict[str, Format] = {format.name: format for format in TABLE}

#: Other names of a format: its endings, so that ``-f md`` is ``-f markdown``.
ALIASES: dict[str, str] = {ending[1:]: format.name for format in FORMATS.values() for ending in format.endings}


def aliases_of(formats: Collection[str]) -> list[str]:
    """The other names of some formats."""
    return [alias for alias, name in ALIASES.items() if name in formats]


def formats_of(kinds: Collection[str], formats: Iterable[Format] = TABLE) -> list[Format]:
    """The formats that write one of these kinds."""
    return [format for format in formats if not set(format.kinds).isdisjoint(kinds)]


def _installed() -> Iterator[Format]:
    """The formats that other installed packages add."""
    return _extensions.loaded("report_formats", Format)


def endings_of(kinds: Collection[str]) -> list[str]:
    """The endings of file names that ask for a format of these kinds."""
    return [ending for format in formats_of(kinds) for ending in format.endings]


def format_named(name: str, kinds: Collection[str]) -> Format:
    """The format of a name, or of an ending without its point.

    Raises:
        InputError: there is none, or it writes nothing of these kinds.
    """
    format = FORMATS.get(ALIASES.get(name.lower(), name.lower()))
    formats = formats_of(kinds)
    if format is None or format not in formats:
        formats += formats_of(kinds, _installed())
        ending = f".{name.lower()}"
        format = next((f for f in formats if f.name == name.lower() or ending in f.endings), None)
    if format is None:
        names = [f.name for f in formats]
        near = did_you_mean(name.lower(), [*names, *aliases_of(names)])
        raise InputError(f"unknown format {name!r}{near}; choose {', '.join(names)}")
    return format


def format_for_path(path: str, kinds: Collection[str], others: Sequence[str] = ()) -> Format:
    """The format that the ending of a file name asks for; a table for a name without an ending.

    Args:
        path: the name.
        kinds: what is to be written.
        others: endings that ask for something else than a report, for the error.

    Raises:
        InputError: no format has this ending, or none of these kinds.
    """
    ending = PurePath(path).suffix.lower()
    if not ending:
        return FORMATS["table"]
    format = next((format for format in TABLE if ending in format.endings), None)
    if format is None:
        format = next((format for format in _installed() if ending in format.endings), None)
    if format is None:
        endings = [*others, *endings_of(kinds)]
        raise InputError(f"{path}: unknown ending {ending}; known: {', '.join(endings)}; or add -f FORMAT")
    if not formats_of(kinds, (format,)):
        names = ", ".join(f.name for f in formats_of(kinds))
        raise InputError(f"{path}: this report cannot be written as {format.name}; choose {names}, or another ending")
    return format
