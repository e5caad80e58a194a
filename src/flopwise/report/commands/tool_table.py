"""The table of a convention that has columns of its own: its layers or submodules, and the figures of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._results import Json
from flopwise.conventions.convention import Column, Convention, Table
from flopwise.errors import FlopwiseError
from flopwise.report.formats.format import Format
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import AtLeast, Figure, Head, Kind, Line, Look, Sheet, Value, total_of
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Kinds of columns that add up.
ADDED = ("number", "bytes")

#: What a report calls the kinds of columns.
_KINDS: dict[str, Kind] = {"shape": "shapes", "ratio": "percent", "text": "text", "number": "number", "bytes": "bytes"}


class Entry(NamedTuple):
    """One line: its name, a value for each column of the table, and what it counts in the convention's unit."""

    name: str
    values: list[Any]
    count: Any


class Tool:
    """The table and the figures of a model as the tool of a convention prints them."""

    def __init__(self, profile: Profile, table: Table, full: bool) -> None:
        """
        Args:
            profile: the model in the convention.
            table: the convention's table.
            full: one line for each layer, although the tool sums them up.
        """
        self.profile, self.table = profile, table
        #: The layers that the tool lists, those without a count, and those that a rule of the user's counts.
        self.rows = [row for row in profile.rows if row.count != 0 or table.lists(row)]
        #: Whether each layer has a line of its own.
        self.layers = full or table.detailed
        #: The sum of each column that adds up, over all layers, by its key.
        columns = list(zip(*map(self._values, self.rows), strict=True)) or [()] * len(table.columns)
        pairs = zip(table.columns, columns, strict=True)
        self.sums: Json = {column.key: total_of(values) for column, values in pairs if column.kind in ADDED}
        #: Key, title and value of each figure that the tool prints of the model.
        self.totals: list[tuple[str, str, Value]] = [
            (t.key, t.title, t.value(profile.rows) if t.value else self.sums[t.key]) for t in table.totals
        ]
        #: The lines; None where the tool prints figures of the model alone.
        self.entries = self._entries()

    def _values(self, row: Row) -> list[object]:
        """A value for each column; None where it depends on an unknown shape."""
        values: list[Any] = []
        for column in self.table.columns:
            try:
                values.append(column.value(row, self.profile.graph))
            except (ArithmeticError, FlopwiseError, LookupError, TypeError, ValueError):  # a layer without sense
                values.append(None)
        return values

    def _entries(self) -> list[Entry] | None:
        if self.layers:
            entries = [Entry(row.name, self._values(row), row.count) for row in self.rows]
        elif self.table.collapse:
            entries, start = [], 0
            for name, many in self.table.collapse([row.name for row in self.rows]):
                entries.append(self._submodule(name, self.rows[start : start + many]))
                start += many
        else:
            return None
        for position, column in enumerate(self.table.columns):
            if column.kind == "ratio":
                _to_shares(entries, position)
        return entries

    def _submodule(self, name: str, rows: Sequence[Row]) -> Entry:
        """Several layers as one line; a single one as it is."""
        if len(rows) == 1:
            return Entry(name, self._values(rows[0]), rows[0].count)
        columns = zip(self.table.columns, zip(*map(self._values, rows), strict=True), strict=True)
        kind = f"submodule({len(rows) - 1})"
        added = (*ADDED, "ratio")
        values = [total_of(v) if c.kind in added else kind if c.key == "type" else "" for c, v in columns]
        return Entry(name, values, total_of([row.count for row in rows]))


def _to_shares(entries: Sequence[Entry], position: int) -> None:
    """Replace the figures of a column by percentages."""
    total = sum(entry.values[position] or 0 for entry in entries)
    for entry in entries:
        part = entry.values[position]
        entry.values[position] = None if part is None else 100 * part / total if total else 0.0


def content(tool: Tool) -> Json:
    """The JSON: the tool's figures by key, "total" in the unit of the convention, and the lines if there are any."""
    plain = tool.profile.to_dict()
    values: Json = {
        "schema": "flopwise.flops/1",
        **{key: plain[key] for key in ("model", "inputs", "convention")},
        **tool.sums,
        **{key: value for key, _, value in tool.totals},
        "total": plain["totals"]["count"],
        **{key: plain[key] for key in ("coverage", "notes")},
    }
    if tool.entries is not None:
        values["layers"] = [_plain(tool.table, entry) for entry in tool.entries]
    return values


def _plain(table: Table, entry: Entry) -> Json:
    """A line of the JSON: every number an integer or null; a ratio follows from the figures."""
    values: Json = {"name": entry.name}
    for column, value in zip(table.columns, entry.values, strict=True):
        if column.kind == "shape":
            values[column.key] = None if value is None else [d if isinstance(d, int) else str(d) for d in value]
        elif column.kind != "ratio":
            values[column.key] = value
    return {**values, "total": entry.count}


def named(convention: Convention) -> dict[str, str]:
    """The columns by which programs know the convention of a sheet."""
    return {"convention": convention.name, "unit": convention.unit}


def sheet(tool: Tool, look: Look, format: Format) -> Sheet:
    """The tool's lines, and its figures of the model beside them or as a line of totals."""
    profile = tool.profile
    if tool.entries is None:
        return _figures_only(tool, look, format.data)
    columns, data = tool.table.columns, format.data

    def line(name: str, values: Sequence[object]) -> Line:
        cells = [_cell(c, v, look, data) for c, v in zip(columns, values, strict=True)]
        figures = [v for c, v in zip(columns, values, strict=True) if c.kind in ADDED]
        return Line((name, *cells), "unknown" if figures and set(figures) == {None} else "")

    beside = bool(tool.totals) and format.audience == "terminal"
    figures = tuple(_figure(tool, *total, look) for total in tool.totals)
    totals = [f"{f.title}: {f.exact}" for f in figures if not beside]
    sums = (_cell(c, tool.sums.get(c.key, ""), look, data) for c in columns)
    return Sheet(
        heads=(
            Head("name", look.text(tool.table.name), "text", 0),
            *(_head(column, rank, look) for rank, column in enumerate(columns, start=1)),
        ),
        lines=tuple(line(entry.name, entry.values) for entry in tool.entries),
        total=None if beside else Line(("Total", *sums)),
        about=about(profile, look),
        summary=figures if beside else (),
        notes=(*totals, *look.texts(profile.notes)),
        squeeze=True,
        constants=named(profile.convention),
    )


def _figures_only(tool: Tool, look: Look, data: bool) -> Sheet:
    """One line for each figure of the model."""
    profile, convention = tool.profile, tool.profile.convention
    heads = {column.key: _head(column, 0, look) for column in tool.table.columns}

    def line(key: str, title: str, value: Value) -> Line:
        head = heads.get(key) or Head(key, title, "number")
        return Line((key, value) if data else (look.text(title), look.value(value, head.kind, head.human)))

    return Sheet(
        heads=(Head("figure", "figure", "text", 0), Head("count", convention.name, "number", 1)),
        lines=tuple(line(*total) for total in tool.totals),
        about=about(profile, look),
        notes=look.texts(profile.notes),
        constants={"unknown": profile.sum.unknown, **named(convention)},
    )


def _figure(tool: Tool, key: str, title: str, value: Value, look: Look) -> Figure:
    """A figure of the model with every digit, and in short where the tool has a short form."""
    column = next((c for c in tool.table.columns if c.key == key), None)
    if value is None or column is None:
        return Figure(look.text(title), "?" if value is None else str(value), "")
    head = _head(column, 0, look)
    bound = look.glyphs.at_least if isinstance(value, AtLeast) else ""
    plain = Look(ascii=look.ascii)
    exact = bound + column.show(value) if column.show else plain.value(value, head.kind)
    short = plain._replace(human=True).value(value, head.kind, column.human) if column.human else ""
    return Figure(look.text(title), exact, short)


def _head(column: Column, rank: int, look: Look) -> Head:
    return Head(column.key, look.text(column.title), _KINDS[column.kind], rank, column.human)


def _cell(column: Column, value: Any, look: Look, data: bool) -> Value:
    """A value as the tool shows it; for programs as it is."""
    if value is None or value == "":
        return value  # type: ignore[no-any-return] # None or ""
    if column.show and not data and not (look.human and column.human):
        return (look.glyphs.at_least if isinstance(value, AtLeast) else "") + column.show(value)
    shown: Value = (value,) if column.kind == "shape" else value
    return shown
