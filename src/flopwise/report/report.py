"""A report before a format writes it: the result of a command, in each form that a format may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from flopwise.errors import InputError
from flopwise.report.formats.format import Format, Kind, format_named, formats_of
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, Value

#: One model's part of a report: a sheet that can be put below others, or what is written already.
Part: TypeAlias = "Sheet | str | bytes"


class Report(NamedTuple):
    """The result of a command; each form is made when a format asks for it."""

    #: Its tables for a format: one below the other for people, and a single one for programs.
    sheets: Callable[[Format, Look], Sequence[Sheet]]
    #: The plain values of its JSON schema; None where it has none.
    content: Callable[[], Any] | None = None
    #: What formats draw in a way of their own, with the arguments of their ``render_KIND`` before the look.
    subjects: Mapping[Kind, tuple[object, ...]] = {}
    #: Formats by name for which the report itself has a better text than a sheet.
    own: Mapping[str, Callable[[Look], str]] = {}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that it can be written as."""
        return ("sheet", *(("content",) if self.content else ()), *self.subjects)


def as_text(report: Report, format: str = "table", look: Look | None = None) -> str:
    """The report in a format of text; it ends with a line end.

    Raises:
        InputError: the format is unknown, cannot write this report, or is not text.
    """
    chosen, look = format_named(format, report.kinds), look or Look()
    if chosen.binary:
        raise InputError(f"{chosen.name} is not text; the command line writes it with -o FILE{chosen.endings[0]}")
    return str(combined([("", part(report, chosen, look))], chosen, look))


def part(report: Report, format: Format, look: Look) -> Part:
    """One model's report in a format, still a sheet where programs can take several models as one.

    Raises:
        InputError: the format writes nothing of what the report has.
    """
    if format.name in report.own:
        return report.own[format.name](look)
    if not formats_of(report.kinds, (format,)):
        names = ", ".join(other.name for other in formats_of(report.kinds))
        raise InputError(f"this report cannot be written as {format.name}; choose {names}")
    for kind, arguments in report.subjects.items():
        if kind in format.kinds:
            return getattr(format.code, f"render_{kind}")(*arguments, look)  # type: ignore[no-any-return]
    if report.content is not None and "content" in format.kinds:
        return format.code.render_content(report.content(), look)  # type: ignore[no-any-return]
    sheets = report.sheets(format, look)
    if format.data:
        return sheets[0].for_programs()
    if hasattr(format.code, "render_sheets"):
        return format.code.render_sheets([sheet.for_people() for sheet in sheets], look)  # type: ignore[no-any-return]
    return "\n\n".join(format.code.render_sheet(sheet.for_people(), look).rstrip("\n") for sheet in sheets) + "\n"


def combined(parts: Sequence[tuple[str, Part]], format: Format, look: Look) -> str | bytes:
    """The reports of several models as one text or file; that of a single model as it is.

    Raises:
        InputError: several reports of this format do not make one file.
    """
    sheets = [(path, part) for path, part in parts if isinstance(part, Sheet)]
    if sheets:
        sheet = sheets[0][1] if len(parts) == 1 else _stacked(sheets, look)
        return format.code.render_sheet(sheet, look)  # type: ignore[no-any-return]
    written = [part for _, part in parts if not isinstance(part, Sheet)]
    if len(written) == 1:
        return written[0]
    if not format.several:
        raise InputError(f"-f {format.name} takes one model")
    if format.binary:
        return format.code.stack([(path, part) for path, part in parts])  # type: ignore[no-any-return]
    texts = [str(part).rstrip("\n") for part in written]
    join: Callable[[Sequence[str]], str] = getattr(format.code, "join", "\n\n\n".join)
    return join(texts) + "\n"


def _stacked(sheets: Sequence[tuple[str, Sheet]], look: Look) -> Sheet:
    """The lines of all sheets below each other, each with its model; a column that a sheet lacks is empty there."""
    heads = {head.key: head for _, sheet in sheets for head in sheet.heads}
    lines = []
    for path, sheet in sheets:
        for line in sheet.lines:
            values: dict[str, Value] = dict(zip((head.key for head in sheet.heads), line.values, strict=True))
            row = (look.text(path), *(values.get(key, "") for key in heads))
            lines.append(Line(row, line.mark))
    return sheets[0][1]._replace(heads=(Head("model", "model", "text"), *heads.values()), lines=tuple(lines))
