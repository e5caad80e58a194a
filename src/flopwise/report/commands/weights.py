"""The weights of a model as a table: one line for each layer or tensor, and the columns that there are."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.weights.result import PERCENTILES, Entry, Histogram
from flopwise.errors import InputError, counted, entry
from flopwise.graph.names import FreshNames
from flopwise.report.drawings import STYLE, write_all
from flopwise.report.formats.format import Format
from flopwise.report.formats.table import shorten
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Kind, Line, Look, Sheet, Value

if TYPE_CHECKING:
    from flopwise.analyses.weights.result import Weights
if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flopwise.analyses.weights.result import Weights

#: Heights of a bar in eighths of a line; the lowest is that of a bin with few elements, a space that of none.
BARS = " ▁▂▃▄▅▆▇█"

#: Bars of an inline histogram; a terminal of fewer cells than NARROW has none.
CELLS, NARROW = 20, 76


def _own(key: str, title: str, rank: int, kind: Kind = "number") -> Field[Entry]:
    """The column of a figure that entries have under that name."""
    return Field(Head(key, title, kind, rank), lambda entry: entry.figure(key))


COLUMNS: dict[str, Field[Entry]] = {
    field.head.key: field
    for field in (
        _own("name", "{one}", 0, "text"),
        _own("op", "op", 7, "text"),
        Field(Head("dtype", "dtype", "text", 7), lambda e: ", ".join(e.dtypes)),
        Field(Head("shape", "shape", "shapes", 8), lambda e: e.shapes),
        Field(Head("bytes", "bytes", "bytes", 9), lambda e: e.nbytes),
        _own("length", "length", 1),
        _own("max", "max", 2),
        _own("min", "min", 2),
        _own("mean", "mean", 6),
        _own("deviation", "deviation", 3),
        _own("zeros", "zeros", 6),
        _own("zero%", "zeros %", 9, "percent"),
        _own("nan", "NaN", 5),
        _own("infinite", "infinite", 5),
        _own("absmax", "abs. max", 10),
        _own("l1", "L1", 11),
        _own("l2", "L2", 11),
        *(_own(key, key, 12) for key in PERCENTILES),
        Field(Head("histogram", "histogram", "number", 8), lambda e: bars(e.histogram) if e.histogram else None),
    )
}

#: Columns that are shown where there are such elements, and one that is left to a table.
NOT_FINITE, DRAWN = ("nan", "infinite"), "histogram"

#: Grouping -> the columns of a table.
SHOWN: dict[str, tuple[str, ...]] = {
    "layer": ("name", "op", "length", "max", "min", "deviation", *NOT_FINITE, DRAWN),
    "tensor": (*(key for key in COLUMNS if key not in ("op", "zero%", *NOT_FINITE, DRAWN)), *NOT_FINITE, DRAWN),
}


def _chosen(keys: Sequence[str] | None, weights: Weights, drawn: bool) -> list[Field[Entry]]:
    """The columns to show.

    Raises:
        InputError: there is no column of that name.
    """
    if keys is None:
        keys = [key for key in SHOWN[weights.by] if key not in NOT_FINITE or getattr(weights.total, key)]
    return [column for column in (entry(COLUMNS, key) for key in keys) if drawn or column.head.key != DRAWN]


def weights_report(
    weights: Weights, columns: Sequence[str] | None = None, sort: str | None = None, top: int | None = None
) -> Report:
    """The statistics of the weights; their JSON always holds all.

    Args:
        weights: what to write.
        columns: keys of columns; None for those of the grouping.
        sort: key of the column to sort by, the largest first; None for the model's order.
        top: how many lines to show, the longest unless ``sort`` says otherwise.

    Raises:
        InputError: a column is unknown.
    """

    def sheets(format: Format, look: Look) -> list[Sheet]:
        wide = look.width is not None and look.width >= NARROW and not look.ascii
        drawn = wide and format.audience == "terminal" and bool(weights.bins)
        shown = _chosen(columns, weights, drawn)
        if not shown:
            raise InputError("a histogram is drawn only in a terminal that is wide enough and shows block characters")
        return [_sheet(weights, shown, sort, top, look, format.data)]

    return Report(sheets, weights.to_dict)


def _sheet(
    weights: Weights, shown: Sequence[Field[Entry]], sort: str | None, top: int | None, look: Look, data: bool
) -> Sheet:
    entries = _sorted(weights.entries, sort or ("length" if top is not None else None))
    hidden = [] if top is None else entries[top:]
    by_layer = weights.by == "layer"
    kind = "floating-point weights, one line per layer" if by_layer else "one line per tensor"
    more = "all columns with --by tensor or --columns" if by_layer else "other columns with --columns"
    sheet = Sheet.of(
        [Field(c.head, _written(c, repr)) if data else _short(c, weights) for c in shown],
        entries[:top],
        lambda e: "unknown" if e.nan or e.infinite else "",
        about=(look.text(weights.model or "model"), kind, "population standard deviation"),
        notes=look.texts(weights.notes),
        hint=f"{more}; figures with --figures DIR" if len(entries) > 20 else "",
    )
    rest: dict[str, Value] = {
        "name": f"{look.glyphs.cut} {counted(len(hidden), f'more {weights.by}')}",
        "length": sum(e.length for e in hidden),
        "bytes": sum(e.nbytes for e in hidden),
    }
    together = Line(tuple(rest.get(c.head.key, "") for c in shown), "rest")
    return sheet._replace(lines=(*sheet.lines, together)) if hidden else sheet


def _sorted(entries: Sequence[Entry], key: str | None) -> list[Entry]:
    """The entries, the largest first; those without a value last."""
    if key is None:
        return list(entries)
    column = entry(COLUMNS, key)
    if column.head.kind == "shapes" or key == DRAWN:
        raise InputError(f"cannot sort by {key}")
    if column.head.kind == "text":
        return sorted(entries, key=lambda e: str(column.value(e)))

    def size(entry: Entry) -> float:
        value = column.value(entry)
        return value if isinstance(value, (int, float)) else -math.inf

    return sorted(entries, key=size, reverse=True)


#: Columns whose total is a figure of the model in every digit, and those that have none.
_ADDED = ("name", "length", "bytes", "zeros", "zero%", *NOT_FINITE)
_NO_TOTAL = ("op", "dtype", "shape", DRAWN, *PERCENTILES)


def _short(column: Field[Entry], weights: Weights) -> Field[Entry]:
    """A column for people: real numbers with six digits, as text, because a sheet's floats are shares and quotients."""
    head, value = column.head, _written(column, number)
    total = column.value if head.key in _ADDED else value
    return Field(
        head._replace(title=head.title.format(one=weights.by)),
        value,
        total="" if head.key in _NO_TOTAL else total(weights.total),
    )


def _written(column: Field[Entry], text: Callable[[float], str]) -> Callable[[Entry], Value]:
    """The values of a column, real numbers as text; those of tensors of integers stay integers."""

    def value(entry: Entry) -> Value:
        value = column.value(entry)
        if not isinstance(value, float) or column.head.kind != "number":
            return value
        integers = any(d.startswith(("int", "uint", "bool")) for d in entry.dtypes)
        return int(value) if integers and value.is_integer() and abs(value) < 2**53 else text(value)

    return value


def number(value: float) -> str:
    """A real number with six significant digits.

    >>> number(0.44255533814430237), number(0.0), number(1e-20), number(-3.0)
    ('0.442555', '0', '1e-20', '-3')
    """
    return f"{value:.6g}"


def bars(histogram: Histogram, cells: int = CELLS) -> str:
    """The histogram in block characters, a bar for several bins; its height grows with the root of the count.

    >>> bars(Histogram((0.0, 1.0, 2.0, 3.0, 4.0), (0, 1, 25, 100)), 4)
    ' ▁▄█'
    """
    bins = len(histogram.counts)
    cells = min(cells, bins)
    sums = [sum(histogram.counts[k * bins // cells : (k + 1) * bins // cells]) for k in range(cells)]
    most = max(sums)
    return "".join(BARS[math.ceil(math.sqrt(s / most) * 8 - 0.5) or 1] if s else " " for s in sums) if most else ""


# Figures of weights by matplotlib, the extra ``figures``: a histogram for each entry, and an overview of the model.


#: Panels of a page of the overview: columns and rows, so that a panel stays legible in print.
ACROSS, DOWN = 4, 8

#: Colours that stay apart in grey and for colour-blind readers: bars, zeros, mean and deviation, frames.
FILL, ZERO, CENTRE, FRAME = "#4477AA", "#CC3311", "#222222", "#999999"

#: Names in figures and of files are cut to this many characters.
LONG, LONGEST_FILE = 44, 80

#: Settings of matplotlib while figures are drawn.
_STYLE = {
    **STYLE,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": FRAME,
    "axes.linewidth": 0.6,
    "xtick.color": CENTRE,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 0,
    "svg.fonttype": "none",
    "savefig.dpi": 150,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
}


def draw(
    weights: Weights, directory: str, format: str = "png", progress: Callable[[str], None] | None = None
) -> list[str]:
    """Draw a histogram for each entry and an overview, and write them into a directory; the paths of the files.

    A file is named by operator and layer, "overview", or "overview-1" and so on; each is written whole or not at all.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    return write_all(_figures(weights, progress), directory, format, _STYLE)


def _figures(weights: Weights, progress: Callable[[str], None] | None) -> Iterator[tuple[str, Figure]]:
    """File name without ending -> figure, one at a time."""
    drawn = [entry for entry in weights.entries if entry.histogram is not None]
    pages = [drawn[i : i + ACROSS * DOWN] for i in range(0, len(drawn), ACROSS * DOWN)]
    names, common = file_names("overview"), _common([entry.name for entry in drawn])
    for position, page in enumerate(pages, start=1):
        name = "overview" if len(pages) == 1 else f"overview-{position}"
        names.add(name)
        yield name, _overview(weights, page, position, len(pages), common)
    for position, each in enumerate(drawn, start=1):
        if progress is not None:
            progress(f"drawing figure {position} of {len(drawn)}")
        assert each.histogram is not None
        yield file_name(each, names), _single(each, each.histogram)


def file_names(*taken: str) -> FreshNames:
    """Names of files; some file systems take a and A for the same."""
    return FreshNames(taken, lambda name, number: f"{name}-{number + 1}", str.lower)


def file_name(entry: Entry, names: FreshNames) -> str:
    """A name for a file that every file system takes and that is not taken yet.

    >>> file_name(Entry("/a/b:0", "Conv", (), (), 0, 0, 0, 0, 0, *[None] * 7), file_names())
    'Conv_a_b_0'
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{entry.op} {entry.name}").strip("._-") or "layer"
    plain = plain if len(plain) <= LONGEST_FILE else f"{plain[: LONGEST_FILE // 2]}_{plain[-LONGEST_FILE // 2 :]}"
    return names.fresh(plain)


def _new(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as New

    figure = New(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _text(text: str, longest: int = 1000) -> str:
    """A name that may come from a hostile file."""
    return shorten(Look().text(text), longest)


def _single(entry: Entry, histogram: Histogram) -> Figure:
    """The histogram of one entry with its figures."""
    figure = _new(6.4, 4.2)
    axes = figure.add_axes((0.12, 0.22, 0.85, 0.58))
    power = _bars(axes, histogram, entry)
    figure.text(0.02, 0.95, _text(_titled(entry), 70), fontsize=11, fontweight="bold", va="center")
    figure.text(0.02, 0.87, "\n".join(_caption(entry)), fontsize=8, va="center", color="#444444", linespacing=1.4)
    unit = f" in units of 1e{power}" if power else ""
    bins = f"{len(histogram.counts)} bins of width {number(histogram.edges[1] - histogram.edges[0])}"
    axes.set_xlabel(f"value of the weights ({', '.join(entry.dtypes)}){unit}, {bins}")
    axes.set_ylabel("elements in a bin, log scale")
    _key(figure, entry)
    return figure


def _titled(entry: Entry) -> str:
    """The name, with the operator where the name does not say it."""
    if not entry.op or entry.op.lower() in entry.name.lower():
        return entry.name
    return f"{entry.name} ({entry.op})"


def _caption(entry: Entry) -> list[str]:
    names = {"min": entry.min, "max": entry.max, "mean": entry.mean, "population deviation": entry.deviation}
    *first, deviation = (f"{name} {'?' if value is None else number(value)}" for name, value in names.items())
    second = [deviation, f"{entry.zeros:,} exactly zero"]
    if entry.nan or entry.infinite:
        second.append(f"{entry.nan:,} NaN and {entry.infinite:,} infinite not drawn")
    return ["    ".join([f"{entry.length:,} elements", *first]), "    ".join(second)]


def _key(figure: Figure, entry: Entry) -> None:
    """The key to the lines and bands of a figure."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Artist] = [
        Line2D([], [], color=CENTRE, lw=1, label="mean"),
        Patch(facecolor=CENTRE, alpha=0.12, label="mean ± deviation"),
    ]
    if entry.zeros:
        marks.append(Line2D([], [], color=ZERO, lw=1, marker="o", ms=4, label="exact zeros"))
    figure.legend(handles=marks, loc="lower center", ncols=3, frameon=False, fontsize=8)


def _bars(axes: Axes, histogram: Histogram, entry: Entry, fine: bool = True) -> int:
    """Counts on a logarithmic axis, mean, deviation and zeros; the power of ten that values are divided by.

    It is 0 but where values are so large or so small that they cannot be drawn as they are.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    largest = max(abs(histogram.edges[0]), abs(histogram.edges[-1]))
    power = math.floor(math.log10(largest)) if largest > 1e100 or 0 < largest < 1e-30 else 0

    def drawn(value: float) -> float:
        return value / 10.0**power if power >= -300 else value * 1e300 / 10.0 ** (power + 300)

    edges = [drawn(edge) for edge in histogram.edges]
    axes.stairs(histogram.counts, edges, fill=True, baseline=0.5, color=FILL, lw=0)
    axes.set_yscale("log")
    axes.set_ylim(0.5, max(*histogram.counts, entry.zeros) * (3 if fine else 6))
    axes.yaxis.set_major_locator(LogLocator(numticks=8 if fine else 4))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    if fine:
        axes.xaxis.set_major_locator(MaxNLocator(7))
    margin = (edges[-1] - edges[0]) * 0.01
    axes.set_xlim(edges[0] - margin, edges[-1] + margin)
    if entry.mean is not None and entry.deviation is not None:
        mean, deviation = drawn(entry.mean), drawn(entry.deviation)
        axes.axvspan(mean - deviation, mean + deviation, color=CENTRE, alpha=0.12, lw=0)
        axes.axvline(mean, color=CENTRE, lw=1 if fine else 0.7)
    if entry.zeros:
        axes.plot([0, 0], [0.5, entry.zeros], color=ZERO, lw=1.2 if fine else 0.8)
        axes.plot([0], [entry.zeros], color=ZERO, marker="o", ms=4 if fine else 2.5, lw=0, clip_on=False)
    return power


def _count(value: float) -> str:
    """A power of ten on the axis of counts: 1, 10, 100, 1 k ..."""
    prefixes = ("", " k", " M", " G", " T")
    group = min(int(math.log10(max(value, 1)) + 1e-9) // 3, len(prefixes) - 1)
    return f"{value / 1000**group:.0f}{prefixes[group]}"


def _overview(weights: Weights, page: Sequence[Entry], position: int, pages: int, common: int) -> Figure:
    """A page of small multiples, each on its own range, read in rows."""
    across = min(ACROSS, max(2, math.ceil(math.sqrt(len(page)))))
    down = math.ceil(len(page) / across)
    above, below, height, width = 0.5, 0.75, 1.55, 11.7
    tall = above + below + height * down
    figure = _new(width, tall)
    for index, each in enumerate(page):
        row, column = divmod(index, across)
        left, cell = 0.01 + column * 0.985 / across, 0.985 / across
        bottom = 1 - (above + (row + 1) * height - 0.32) / tall
        axes = figure.add_axes((left + 0.035, bottom, cell - 0.05, (height - 0.54) / tall))
        assert each.histogram is not None
        _panel(axes, each, each.histogram, common)
    total = weights.total
    model = _text(os.path.basename(weights.model) or "model", 60)
    figure.text(0.01, 1 - 0.25 / tall, model, fontsize=13, fontweight="bold", va="center")
    counted = f"{total.length:,} weights in {len(weights.entries):,} {weights.by}s"
    bare = sum(entry.histogram is None for entry in weights.entries)
    counted += f", of which {bare:,} without finite elements {'is' if bare == 1 else 'are'} not drawn" if bare else ""
    counted += f", page {position} of {pages}" if pages > 1 else ""
    figure.text(0.99, 1 - 0.25 / tall, counted, fontsize=9, va="center", ha="right")
    figure.text(0.01, 0.35 / tall, _legend(weights), fontsize=8, va="center", color="#444444", linespacing=1.4)
    return figure


def _legend(weights: Weights) -> str:
    return (
        f"Across: value of the weights, {weights.bins} bins from the least to the greatest of each panel, in the "
        "weights' own unit. Up: elements in a bin, log scale; top right: all elements.\n"
        "Black line: mean. Grey band: one population standard deviation to each side. "
        "Red: how many elements are exactly zero."
    )


def _panel(axes: Axes, entry: Entry, histogram: Histogram, common: int) -> None:
    power = _bars(axes, histogram, entry, fine=False)
    name = _titled(entry)
    if len(name) > LONG and common:
        name = "…" + name[common:]
    axes.set_title(_text(name, LONG), loc="left", fontsize=7.5, pad=3, x=-0.03)
    axes.tick_params(labelsize=6.5, length=2, pad=1.5)
    low, high = axes.get_xlim()
    margin = (high - low) / 102
    ends = [low + margin, high - margin]
    values = (histogram.edges[0], histogram.edges[-1])
    texts = [f"{value:.3g}" for value in values]
    middle = power == 0 and low + (high - low) * 0.2 < 0 < high - (high - low) * 0.2
    axes.set_xticks([ends[0], 0, ends[1]] if middle else ends, [texts[0], "0", texts[1]] if middle else texts)
    labels = axes.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
    axes.text(0.995, 0.98, f"{entry.length:,}", transform=axes.transAxes, fontsize=6.5, ha="right", va="top")


def _common(names: Sequence[str]) -> int:
    """The length of the beginning that all names share, up to a separator.

    >>> _common(["model.layers.0.up", "model.layers.1.up"])
    13
    """
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return max((i + 1 for i, c in enumerate(first[:same]) if c in "./:"), default=0)
