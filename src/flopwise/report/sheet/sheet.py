"""A sheet: what a report says before it is decided how it is written; a format turns it into text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from flopwise.report.sheet.values import AtLeast, Kind, Look, Value, exact, human

T = TypeVar("T")

#: What sets a line apart: it is among the heaviest, it has no count, or it stands for lines that are not shown.
Mark: TypeAlias = Literal["", "heavy", "unknown", "rest"]


class Head(NamedTuple):
    """A column of a sheet."""

    key: str
    title: str
    kind: Kind
    rank: int = 9
    #: How the convention prints a number for people.
    human: Callable[[int], str] | None = None
    #: Whether the cells are sentences or formulas, which must not be cut.
    prose: bool = False
    #: What the column is called where its title says too little: away from the columns beside it.
    alone: str = ""

    @property
    def right(self) -> bool:
        """True where the cells are numbers, which stand at the right."""
        return self.kind in ("number", "bytes", "percent", "ratio")


class Line(NamedTuple):
    """A line of a sheet: one value for each column."""

    values: tuple[Value, ...]
    mark: Mark = ""
    #: In front of the first cell where lines are nested: spaces, or the branches of a tree.
    indent: str = ""
    #: The first cell where lines are nested and the ones above say the rest.
    short: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Field(Generic[T]):
    """A column of a sheet, and its value for a line."""

    head: Head
    value: Callable[[T], Value]
    #: What the column holds, for help texts.
    about: str = ""
    #: The cell of the total line.
    total: Value = ""


class Figure(NamedTuple):
    """A figure of the whole model: its title, with every digit, and in short."""

    title: str
    exact: str
    short: str


def figure(title: str, value: Value, unit: str, look: Look, short: Callable[[int], str] | None = None) -> Figure:
    """A figure of the whole model; ? when it is unknown.

    Args:
        title: what it is called.
        value: the figure.
        unit: its unit, for the short form.
        look: how it should look.
        short: the figure with a prefix; None for SI prefixes.
    """
    if not isinstance(value, int):
        return Figure(look.text(title), "?" if value is None else look.text(str(value)), "")
    bound = look.glyphs.at_least if isinstance(value, AtLeast) else ""
    return Figure(look.text(title), bound + exact(value), bound + (short(value) if short else human(value, unit)))


class Sheet(NamedTuple):
    """Columns, lines, a total line, and what stands above and below them."""

    heads: tuple[Head, ...]
    lines: tuple[Line, ...]
    total: Line | None = None
    #: The answer in a line, above everything else.
    verdict: str = ""
    #: What the figures are about: the model, its inputs, the convention and its unit.
    about: tuple[str, ...] = ()
    #: Figures of the whole model.
    summary: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    #: Shown after a long table on a terminal.
    hint: str = ""
    #: Whether names are shortened as far as they go before a column is left out.
    squeeze: bool = False
    #: Whether people see no columns that are empty in every line.
    skip_empty: bool = False
    #: Columns of programs that have one value in all lines, such as the convention, which people read above the table.
    constants: Mapping[str, str | int] = {}

    @classmethod
    def of(
        cls, fields: Sequence[Field[T]], items: Iterable[T], mark: Callable[[T], Mark] | None = None, **parts: Any
    ) -> Sheet:
        """A sheet with a line for each item, and the total where a column has one.

        Args:
            fields: the columns.
            items: what the lines are about.
            mark: what sets the line of an item apart.
            parts: the other parts of the sheet, by name.
        """
        lines = (Line(tuple(f.value(item) for f in fields), mark(item) if mark else "") for item in items)
        total = Line(tuple(f.total for f in fields)) if any(f.total != "" for f in fields) else None
        return cls(tuple(field.head for field in fields), tuple(lines), total, **parts)

    def texts(self, line: Line, look: Look) -> list[str]:
        """The cells of a line as people read them."""
        return [look.value(v, head.kind, head.human) for v, head in zip(line.values, self.heads, strict=True)]

    def only(self, shown: Callable[[int, Head], object]) -> Sheet:
        """The sheet with some of its columns.

        Args:
            shown: index and head of a column -> whether it stays.
        """
        indices = [i for i, head in enumerate(self.heads) if shown(i, head)]

        def lean(line: Line) -> Line:
            return line._replace(values=tuple(line.values[i] for i in indices))

        return self._replace(
            heads=tuple(self.heads[i] for i in indices),
            lines=tuple(map(lean, self.lines)),
            total=lean(self.total) if self.total else None,
        )

    def for_programs(self) -> Sheet:
        """Columns and lines alone, so that a program can add columns up."""
        more = (Head(k, k, "text" if isinstance(value, str) else "number") for k, value in self.constants.items())
        lines = (line for line in self.lines if line.mark != "rest")
        constants = tuple(self.constants.values())
        return Sheet((*self.heads, *more), tuple(line._replace(values=line.values + constants) for line in lines))

    def for_people(self) -> Sheet:
        """The sheet without the columns that people need not see."""
        return self._without_empty() if self.skip_empty else self

    def _without_empty(self) -> Sheet:
        """The sheet without columns that are empty in every line, such as the class of modules without classes.

        The first stays: it names the lines, and the total.
        """
        return self.only(lambda i, head: not i or head.right or any(line.values[i] for line in self.lines))


def data_sheet(keys: Sequence[str], texts: Collection[str], lines: Iterable[tuple[Value, ...]]) -> Sheet:
    """A sheet for programs: columns that are called by their keys, of text or of numbers."""
    return Sheet(tuple(Head(key, key, "text" if key in texts else "number") for key in keys), tuple(map(Line, lines)))


def is_gap(note: str) -> bool:
    """True for a note on missing figures."""
    return note.startswith(("unknown", "uncounted", "unresolved"))


def gaps_of(models: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """The notes on missing figures, each with its model."""
    pairs = ((name, note) for name, notes in models for note in notes if is_gap(note))
    return tuple(f"unknown in {name}: {note.removeprefix('unknown: ')}" for name, note in pairs)
