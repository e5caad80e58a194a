"""Values of a report and their text: the one place where a value becomes what people read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from flopwise.errors import escaped, printable
from flopwise.graph import Shape

Shapes: TypeAlias = "tuple[Shape | None, ...]"
#: A value of a column. None is unknown.
Value: TypeAlias = "str | int | float | Shapes | None"
Kind: TypeAlias = Literal["text", "shapes", "number", "bytes", "percent", "ratio"]

#: A cell shows this many shapes, and how many more there are; more of them where lines are at least so wide.
FEW, MANY, WIDE = 1, 2, 120

PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")


class AtLeast(int):
    """A sum over rows of which some are unknown: the true figure is this or more."""


def bounded(value: int | None, exact: bool) -> int | None:
    """A figure, AtLeast unless it is exact."""
    return value if exact or value is None else AtLeast(value)


def total_of(figures: Iterable[int | None]) -> int | None:
    """The sum of the known values: AtLeast where some are unknown, None where all are."""
    figures = list(figures)
    numbers = [figure for figure in figures if figure is not None]
    if not numbers and figures:
        return None
    return bounded(sum(numbers), len(numbers) == len(figures) and not any(isinstance(n, AtLeast) for n in numbers))


def by_size(value: Value) -> tuple[int, float | str]:
    """A sort key: the unknown first, then the largest, then text by the alphabet."""
    if value is None:
        return (0, 0)
    return (1, -value) if isinstance(value, int | float) else (2, str(value))


class Glyphs(NamedTuple):
    """The characters a report draws with, besides names."""

    times: str = "×"
    at_least: str = "≥ "
    cut: str = "…"
    dot: str = " · "
    rule: str = "─"
    pipe: str = "│  "
    tee: str = "├─ "
    corner: str = "└─ "


UNICODE = Glyphs()
ASCII = Glyphs(times="x", at_least=">= ", cut="...", dot=", ", rule="-", pipe="|  ", tee="|- ", corner="`- ")


class Look(NamedTuple):
    """The look of a report, independent of its content."""

    #: Three digits and an SI prefix instead of every digit.
    human: bool = False
    #: Whether the model and the titles of the columns are named above the lines.
    header: bool = True
    #: Terminal cells in a line; None when there is no terminal, and lines may be as long as they like.
    width: int | None = None
    color: bool = False
    #: Draw and write with ASCII characters only.
    ascii: bool = False

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return ASCII if self.ascii else UNICODE

    def text(self, text: str) -> str:
        """A name or a note, safe to print."""
        return ascii_only(printable(text)) if self.ascii else printable(text)

    def texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Names or notes, safe to print."""
        return tuple(map(self.text, texts))

    def shape(self, shape: Shape | None) -> str:
        """A shape such as 1×3×224×224; ? when it is unknown, "scalar" without dimensions."""
        if shape is None:
            return "?"
        return self.glyphs.times.join(self.text(str(d)) for d in shape) or "scalar"

    def value(self, value: Value, kind: Kind, short: Callable[[int], str] | None = None) -> str:
        """A value as people read it.

        Args:
            value: of a cell.
            kind: of its column.
            short: an integer of the column with a prefix; None for SI prefixes.
        """
        if isinstance(value, tuple):
            return self._shapes(value)
        if value is None:
            return "" if kind == "text" else "?"
        if isinstance(value, float):
            return ratio(value) if kind == "ratio" else percent(value)
        if not isinstance(value, int):
            return self.text(str(value))
        bound = self.glyphs.at_least if isinstance(value, AtLeast) else ""
        if not self.human:
            return bound + exact(value)
        return bound + (short(value) if short else human(value, "B" if kind == "bytes" else ""))

    def _shapes(self, shapes: Shapes) -> str:
        shown = MANY if self.width is None or self.width >= WIDE else FEW
        more = f" +{len(shapes) - shown}" if len(shapes) > shown else ""
        return ", ".join(map(self.shape, shapes[:shown])) + more


def ascii_only(text: str) -> str:
    """The text with characters outside ASCII shown as escapes, and x for ×."""
    text = text.replace(UNICODE.times, ASCII.times)
    return text if text.isascii() else "".join(c if c.isascii() else escaped(c) for c in text)


def exact(number: int, unit: str = "") -> str:
    """Every digit, in groups of three.

    >>> exact(4089184256), exact(96, "B")
    ('4,089,184,256', '96 B')
    """
    return f"{number:,}" + (f" {unit}" if unit else "")


def human(number: int, unit: str = "") -> str:
    """Three significant digits and an SI prefix (k = 1000), or a power of ten beyond them; below 1000 every digit.

    >>> human(4089184256), human(8211110912, "FLOP"), human(999950), human(12), human(2 * 10**33, "FLOP")
    ('4.09 G', '8.21 GFLOP', '1.00 M', '12', '2.00e33 FLOP')
    """
    if abs(number) < 1000:
        return exact(number, unit)
    mantissa, _, power = f"{Decimal(number):.2e}".partition("e")
    group = int(power) // 3
    if group >= len(PREFIXES):
        return f"{mantissa}e{int(power)} {unit}".rstrip()
    digits = f"{Decimal(mantissa).scaleb(int(power) - 3 * group):.{max(2 - (int(power) - 3 * group), 0)}f}"
    return f"{digits} {PREFIXES[group]}{unit}"


def duration(seconds: float) -> str:
    """A time with three significant digits, in seconds, or in the largest part of one of which there are some.

    >>> duration(7.4512), duration(0.0126), duration(59e-6), duration(3e-9), duration(4e-13), duration(1234.5)
    ('7.45 s', '12.6 ms', '59.0 us', '3.00 ns', '0.000400 ns', '1,234 s')
    """
    if not seconds:
        return "0 s"
    unit = next((unit for unit, least in (("s", 1), ("ms", 1e-3), ("us", 1e-6)) if seconds >= 0.9995 * least), "ns")
    number = seconds * {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    if number < 0.9995:
        return f"{ratio(number)} {unit}"
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:,.{digits}f} {unit}"


def percent(share: float) -> str:
    """A share of 100 with one decimal; what is there but would round to nothing is "<0.1" or "> -0.1".

    >>> percent(12.345), percent(0.01), percent(0), percent(-0.01)
    ('12.3', '<0.1', '0.0', '> -0.1')
    """
    if -0.05 < share < 0:
        return "> -0.1"
    return "<0.1" if 0 < share < 0.05 else f"{share:.1f}"


def ratio(value: float) -> str:
    """A quotient with three significant digits, and no fraction from 100 on.

    >>> ratio(0), ratio(0.0834), ratio(3.14159), ratio(41.66), ratio(1234.5)
    ('0', '0.0834', '3.14', '41.7', '1,234')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{Decimal(value):.3g}" if value else "0"


# A sheet: what a report says before it is decided how it is written; a format turns it into text.


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
