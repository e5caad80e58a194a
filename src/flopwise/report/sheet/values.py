"""Values of a report and their text: the one place where a value becomes what people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

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

    >>> duration(7.4512), duration(0.0126), duration(59e-6), duration(3e-9), duration(1234.5), duration(0)
    ('7.45 s', '12.6 ms', '59.0 us', '3.00 ns', '1,234 s', '0 s')
    """
    if not seconds:
        return "0 s"
    unit = next((unit for unit, least in (("s", 1), ("ms", 1e-3), ("us", 1e-6)) if seconds >= 0.9995 * least), "ns")
    number = seconds * {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
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
