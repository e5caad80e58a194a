"""A formula as text, Markdown, CSV, JSON and LaTeX, and its values at points as a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise._results import Json, fields
from flopwise.analyses.formula.extras.ways import pieces, regions
from flopwise.analyses.formula.rows import FIGURES, Group
from flopwise.analyses.formula.rows import OF_MODEL as WHOLE
from flopwise.errors import InputError, counted, entry
from flopwise.operators.counts import CLASSES
from flopwise.report.drawings import STYLE, as_bytes, styled
from flopwise.report.formats import latex, markdown, table
from flopwise.report.formats.format import Format
from flopwise.report.formats.table import pad, wrap
from flopwise.report.report import Report
from flopwise.report.sheet.columns import TITLES as OF_WHOLE
from flopwise.report.sheet.columns import count_title
from flopwise.report.sheet.listing import name_of
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Mark, Sheet, Value, is_gap
from flopwise.writers.atomic import write

if TYPE_CHECKING:
    from flopwise.analyses.formula.extras.solve import Budget
    from flopwise.analyses.formula.formula import Formula

#: Figure -> its title.
TITLES = {
    "count": "{count}",
    **OF_WHOLE,
    "backward": "backward {count}",
    "backward_macs": "backward MACs",
    "backward_flops": "backward FLOPs",
    "saved_bytes": "saved bytes",
    **{name: name for name in CLASSES},
}

#: Shown unless others are asked for: of the whole model, and of each line below it.
OF_MODEL = ("count", "macs", "flops", "params", "activations", "output_bytes")
OF_LINE = ("count",)

#: Grouping -> what a line is.
NAMED = {"layer": "layer", "op": "operator", "module": "module", "formula": "first layer", "block": "module"}

#: Points that are named below a formula.
POINTS_SHOWN = 4


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The part of a formula that a report shows."""

    by: str = "op"
    depth: int | None = None
    #: Keys of figures; None for those that suit.
    figures: Sequence[str] | None = None
    #: How many lines, the most expensive.
    top: int | None = None
    #: Sizes at which the larger of two summands, and of two lines, stands first.
    at: Mapping[str, int] | None = None

    def shown(self, usual: Sequence[str], formula: Formula) -> list[str]:
        """The figures to show; the count is left out where it is one of the others.

        Raises:
            InputError: a figure is unknown.
        """
        if self.figures is None:
            same = formula.convention.name
            return [f for f in usual if f != same] if len(usual) > 1 else list(usual)
        for figure in self.figures:
            entry(TITLES, figure)
        return list(self.figures)


#: So many inputs are named above the formulas.
FEW = 6


def formula_report(
    formula: Formula,
    by: str = "op",
    depth: int | None = None,
    columns: Sequence[str] | None = None,
    top: int | None = None,
    largest_at: Mapping[str, int] | None = None,
) -> Report:
    """The formulas of the whole model, where they hold, and those of each line; their JSON always holds all.

    Args:
        formula: what to write.
        by: one line for each "layer", "op", "module", all modules alike ("block"), or all layers with one "formula".
        depth: how many levels of modules; None for all.
        columns: keys of figures; None for what suits.
        top: how many lines to show, the most expensive.
        largest_at: a size of each symbol; the larger of two summands there, and of two lines, stands first.

    Raises:
        InputError: the grouping, a figure or a symbol is unknown, a size is missing, or sympy is not installed.
    """
    if largest_at is not None:
        formula.require_symbols(largest_at)
    choice = Choice(by, depth, columns, top, largest_at)

    def written(lines: Callable[[Formula, Choice, Look], Iterator[str]]) -> Callable[[Look], str]:
        return lambda look: "\n".join(lines(formula, choice, look)) + "\n"

    return Report(
        lambda format, look: [
            _sheet(formula, choice, look, FIGURES) if format.data else _whole_sheet(formula, choice, look)
        ],
        formula.to_dict,
        own={"table": written(_table), "markdown": written(_markdown), "latex": written(_latex)},
    )


def values_report(
    formula: Formula, points: Sequence[Mapping[str, int]], columns: Sequence[str] | None = None
) -> Report:
    """The totals at each point, one line for each.

    Args:
        formula: what to evaluate.
        points: a size for each symbol.
        columns: keys of figures; None for what suits.

    Raises:
        InputError: a figure is unknown, or the formulas do not hold at a point.
    """
    others = [f for f in columns or () if f in WHOLE or f in CLASSES]
    values: list[tuple[dict[str, int], Mapping[str, int | None]]] = []
    for point in points:
        sizes = formula.named(point)
        totals = formula.evaluate(formula.whole, sizes)
        values.append((sizes, {**totals, **{f: formula.value(f, **sizes) for f in others}}))

    def sheets(format: Format, look: Look) -> list[Sheet]:
        figures = Choice(figures=columns).shown(FIGURES if format.data else OF_MODEL, formula)
        lacking = [figure for figure in figures if not formula.whole.exact(figure)]
        heads = [Head(d.name, look.text(d.name), "number", 0) for d in formula.domains]
        for rank, figure in enumerate(figures, 1):
            bound = look.glyphs.at_least if figure in lacking else ""
            heads.append(Head(figure, bound + _title(figure, formula, look), "number", rank))
        notes = [*formula.notes, *([f"uncounted: lower bounds: {', '.join(lacking)}"] if lacking else [])]
        lines = tuple(Line((*point.values(), *(totals[f] for f in figures))) for point, totals in values)
        return [Sheet(tuple(heads), lines, about=_about(formula, look), notes=look.texts(notes))]

    def content() -> Json:
        return {
            "schema": "flopwise.formula-values/1",
            "model": fields(formula.graph, "name source format"),
            "convention": fields(formula.convention, "name unit"),
            "values": [{"at": point, **totals} for point, totals in values],
            "lower_bounds": [figure for figure in formula.whole.terms if not formula.whole.exact(figure)],
            "notes": list(formula.notes),
        }

    return Report(sheets, content)


def solution_report(formula: Formula, limit: Budget, points: Sequence[Mapping[str, int]]) -> Report:
    """The largest size of a symbol within a budget, one line for each point of the others.

    Args:
        formula: what the model costs.
        limit: the budget.
        points: the sizes of the other symbols.

    Raises:
        InputError: a symbol or figure is unknown or missing.
    """
    from flopwise.analyses.formula.extras.solve import solve

    answers = [(formula.named(point), solve(formula, limit, point)) for point in points]
    symbol = answers[0][1].symbol

    def sheets(format: Format, look: Look) -> list[Sheet]:
        heads = [Head(name, look.text(name), "number", 0) for name in answers[0][0]]
        heads.append(Head(symbol, look.text(f"largest {symbol}"), "number", 1))
        titles = [f"{times}*" * (times > 1) + _title(figure, formula, look) for times, figure in limit.figures]
        heads.append(Head(limit.figure, " + ".join(titles), "number", 2))
        lines = [Line((*point.values(), answer.size, answer.value)) for point, answer in answers]
        notes = [f"within {limit.figure} <= {limit.most:,}"]
        (low,) = [d.low for d in formula.domains if d.name == symbol]
        tried = min((answer.profiled for _, answer in answers if answer.profiled is not None), default=low)
        if any(answer.size is None for _, answer in answers):
            smaller = f" from {symbol} = {tried} on" if tried > 1 else ""
            notes.append(f"where a line has no size, every size{smaller} costs more or is not taken")
        if any(answer.size is not None and answer.size < low for _, answer in answers):
            notes.append(f"the formula holds from {symbol} = {low} on; smaller sizes were profiled")
        if not all(answer.certain for _, answer in answers):
            notes.append("the cost may fall again: larger sizes than those tried may fit as well")
        return [Sheet(tuple(heads), tuple(lines), about=_about(formula, look), notes=look.texts(notes))]

    def content() -> Json:
        return {
            "schema": "flopwise.formula-solution/1",
            "model": fields(formula.graph, "name source format"),
            **fields(limit, "figure most"),
            "symbol": symbol,
            "solutions": [{"at": point, **fields(answer, "size value certain")} for point, answer in answers],
        }

    return Report(sheets, content)


def _title(figure: str, formula: Formula, look: Look) -> str:
    return look.text(TITLES[figure].format(count=count_title(formula.convention.unit, formula.convention.name)))


def _about(formula: Formula, look: Look) -> tuple[str, ...]:
    graph, convention = formula.graph, formula.convention
    inputs = [
        f"{name} {dtype or '?'} {look.glyphs.times.join(_size(formula, dim) for dim in dims)}"
        for name, dtype, dims in formula.inputs[:FEW]
    ]
    if len(formula.inputs) > FEW:
        inputs.append(counted(len(formula.inputs) - FEW, "more input"))
    parts = (name_of(graph.name, graph.source), *inputs, f"convention {convention.name}, unit {convention.unit}")
    return look.texts(parts)


def _size(formula: Formula, term: Any) -> str:
    text = formula.text(term)
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def _cell(formula: Formula, group: Group, figure: str, look: Look, choice: Choice, data: bool) -> str | None:
    """A formula as text, None where nothing is known; for equal parts, a multiple of one."""
    one = group if data or group.one is None else group.one
    term = formula.term_of(one, figure)
    if term is None:
        return None
    text = formula.text(term, choice.at)
    if one is not group and text != "0":
        text = f"{group.times} {look.glyphs.times} {f'({text})' if ' ' in text else text}"
    return ("" if group.exact(figure) else look.glyphs.at_least) + look.text(text)


@dataclass(frozen=True, slots=True)
class _Total:
    """A formula of the whole model on one way through the program, or on several."""

    title: str
    formula: Formula
    figure: str
    #: On which, in words; "" where on all.
    where: str

    @property
    def term(self) -> Any:
        return self.formula.term(self.figure)

    @property
    def exact(self) -> bool:
        return self.term is None or self.formula.whole.exact(self.figure)


def _totals(formula: Formula, choice: Choice, look: Look) -> Iterator[_Total]:
    """The figures of the whole model; a figure that differs between ways through the program once for each way."""
    for figure in choice.shown(OF_MODEL, formula):
        title = _title(figure, formula, look)
        *parts, last = pieces(formula, figure)
        for first, ways in parts:
            yield _Total(title, first, figure, look.text("where " + " or ".join(regions(formula, ways))))
            title = ""
        others = "otherwise" if formula.closed else "where " + " or ".join(regions(formula, last[1]))
        yield _Total(title, last[0], figure, look.text(others) if parts else "")


def _written(total: _Total, choice: Choice, look: Look) -> tuple[str, str, str]:
    """Sign, formula and where it holds."""
    text = "?" if total.term is None else look.text(total.formula.text(total.term, choice.at))
    return "=" if total.exact else look.glyphs.at_least.strip(), text, total.where


def _groups(formula: Formula, choice: Choice) -> tuple[list[Group], bool]:
    """The lines to show; and whether the last stands for what is not shown."""
    groups = formula.by(choice.by, choice.depth)
    if choice.at is not None and choice.by in ("op", "formula"):
        groups = formula.most_expensive(groups, choice.at)
    if choice.top is None or choice.top >= len(groups):
        return groups, False
    groups = formula.most_expensive(groups, choice.at)
    hidden = groups[choice.top :]
    rows = {id(row): row for group in hidden for row in group.rows}  # a module's rows are its parent's, too
    together = Group(f"{len(hidden)} more", tuple(rows.values()), depth=hidden[0].depth)
    return [*groups[: choice.top], together], True


def _sheet(formula: Formula, choice: Choice, look: Look, usual: Sequence[str] = OF_LINE) -> Sheet:
    """The lines below the totals."""
    figures = [f for f in choice.shown(usual, formula) if f not in WHOLE]
    groups, cut = _groups(formula, choice)
    heads = [Head("name", NAMED[choice.by], "text", 0)]
    if choice.by != "op":
        heads.append(Head("op", "class" if choice.by in ("module", "block") else "op", "text", 1))
    if choice.by != "layer":
        heads.append(Head("layers", "layers", "number", 2))
    heads += [Head(figure, _title(figure, formula, look), "text", 3, prose=True) for figure in figures]

    def line(group: Group) -> Line:
        values: list[Value] = [group.name or "(model)"]
        values += [group.kind] if choice.by != "op" else []
        values += [len(group.rows)] if choice.by != "layer" else []
        cells = [_cell(formula, group, figure, look, choice, usual != OF_LINE) for figure in figures]
        unknown = any(cell is None for cell in cells)
        lost = None if usual != OF_LINE else "?"
        mark: Mark = "rest" if cut and group is groups[-1] else "unknown" if unknown else ""
        return Line((*values, *(lost if cell is None else cell for cell in cells)), mark)

    return Sheet(tuple(heads), tuple(map(line, groups)))


def _whole_sheet(formula: Formula, choice: Choice, look: Look) -> Sheet:
    """The lines with all that other formats write around them."""
    written = ((total.title, *_written(total, choice, look)) for total in _totals(formula, choice, look))
    notes = [f"holds for {condition}" for condition in _conditions(formula, look)]
    notes += [_of_one_way(formula)] if formula.ways else []
    return _sheet(formula, choice, look)._replace(
        about=_about(formula, look),
        summary=tuple(Figure(title, f"{sign} {text}", where) for title, sign, text, where in written),
        notes=look.texts([*notes, _verified(formula, look), *formula.notes]),
    )


def _conditions(formula: Formula, look: Look) -> Iterator[str]:
    """Where the formulas hold, on any of their ways."""
    ways = (formula, *formula.ways)
    least = {0: "0 or more", 1: "1 or more"}
    bounds = {d.name: [o for way in ways for o in way.domains if o.name == d.name] for d in formula.domains}
    for low, words in least.items():
        names = [
            name
            for name, domains in bounds.items()
            if min(d.low for d in domains) == low and any(d.high is None and d.step == 1 for d in domains)
        ]
        if names:
            yield look.text(f"{', '.join(names)}: {words}")
    if not formula.ways:
        yield from map(look.text, formula.conditions)
    elif not formula.closed:
        yield look.text("; or ".join(region for region in regions(formula, ways)))


def _verified(formula: Formula, look: Look) -> str:
    points = [" ".join(f"{n}={s}" for n, s in p.items()) for p in formula.verified_at]
    more = f" and {len(points) - POINTS_SHOWN} more" if len(points) > POINTS_SHOWN else ""
    first = ", ".join(points[:POINTS_SHOWN])
    return look.text(f"checked against the profile at {counted(len(points), 'point')}: {first}{more}")


def _table(formula: Formula, choice: Choice, look: Look) -> Iterator[str]:
    if look.header:
        yield from wrap(look.glyphs.dot.join(_about(formula, look)), look.width)
        yield ""
    totals = list(_totals(formula, choice, look))
    width = max(len(total.title) for total in totals)
    for total in totals:
        sign, text, where = _written(total, choice, look)
        yield from wrap(f"{pad(total.title, width)} {sign} {text}", look.width, " " * (width + 3))
        if where:
            yield from wrap(" " * (width + 3) + where, look.width, " " * (width + 5))
    yield ""
    for condition in _conditions(formula, look):
        yield from wrap(f"holds for {condition}", look.width)
    yield ""
    if formula.ways:
        yield from wrap(look.text(_of_one_way(formula)), look.width)
        yield ""
    yield from table.render_sheet(_sheet(formula, choice, look), look).splitlines()
    yield ""
    yield from wrap(_verified(formula, look), look.width)
    for note in formula.notes:
        yield from wrap(look.text(note if is_gap(note) else f"note: {note}"), look.width)


def _of_one_way(formula: Formula) -> str:
    """The sizes for which the lines below the totals hold."""
    return f"where {' or '.join(regions(formula, [formula]))}:"


def _markdown(formula: Formula, choice: Choice, look: Look) -> Iterator[str]:
    if look.header:
        yield markdown.paragraph(look.glyphs.dot.join(_about(formula, look)))
        yield ""
    title = ""
    for total in _totals(formula, choice, look):
        title = total.title or title
        sign, text, where = _written(total, choice, look)
        yield f"- {markdown.escape(title)} {sign} `{text}`" + (f" {markdown.escape(where)}" if where else "")
    yield ""
    if formula.ways:
        yield markdown.escape(look.text(_of_one_way(formula)))
        yield ""
    yield from markdown.render_sheet(_sheet(formula, choice, look), Look(header=True)).splitlines()[2:]
    yield ""
    yield from (f"- holds for {markdown.escape(condition)}" for condition in _conditions(formula, look))
    yield f"- {markdown.escape(_verified(formula, look))}"
    yield from (f"- {markdown.paragraph(look.text(note))}" for note in formula.notes)


def _latex(formula: Formula, choice: Choice, look: Look) -> Iterator[str]:
    """Two align* environments: the totals, and the lines below them."""
    yield "% needs \\usepackage{amsmath}"
    for part in (*_about(formula, look), *_conditions(formula, look), _verified(formula, look), *formula.notes):
        yield f"% {look.text(part)}"
    totals, title = [], ""
    for total in _totals(formula, choice, look):
        title = total.title or title
        name = f"{title}, {total.where}" if total.where else title
        totals.append((name, total.formula, total.formula.whole, total.figure))
    yield from _aligned(totals, choice)
    if formula.ways:
        yield f"% {look.text(_of_one_way(formula))}"
    groups, _ = _groups(formula, choice)
    figures = [f for f in choice.shown(OF_LINE, formula) if f not in WHOLE]
    lines = []
    for group in groups:
        layers = f" ({len(group.rows)} layers)" if len(group.rows) > 1 else ""
        for figure in figures:
            of = f", {_title(figure, formula, look)}" if len(figures) > 1 else ""
            lines.append((look.text((group.name or "model") + layers + of), formula, group, figure))
    if lines:
        yield from _aligned(lines, choice)


def _aligned(lines: Sequence[tuple[str, Formula, Group, str]], choice: Choice) -> Iterator[str]:
    yield "\\begin{align*}"
    for number, (title, formula, group, figure) in enumerate(lines, 1):
        one = group.one or group
        term = formula.term_of(one, figure)
        text = "\\text{unknown}" if term is None else formula.latex(term, choice.at)
        if one is not group and text not in ("0", "\\text{unknown}"):
            text = f"{group.times} \\times \\left({text}\\right)"
        sign = "=" if term is None or group.exact(figure) else "\\geq"
        end = " \\\\" if number < len(lines) else ""
        yield f"  \\text{{{latex.escape(title)}}} &{sign} {text}{end}"
    yield "\\end{align*}"


def source_report(formula: Formula, language: str, columns: Sequence[str] | None = None) -> Report:
    """Functions of the symbols as source code.

    Args:
        formula: what the model costs.
        language: "python", "c" or "javascript".
        columns: keys of figures; None for all.

    Raises:
        InputError: a figure is unknown.
    """
    text = formula.source(language, columns)
    lines = tuple(Line((line,)) for line in text.splitlines())
    return Report(
        lambda format, look: [Sheet((Head("source", language, "text", 0),), lines)],
        lambda: {"schema": "flopwise.formula-source/1", "language": language, "source": text},
        own={"table": lambda look: text},
    )


def plotted(formula: Formula, points: Sequence[Mapping[str, int]], columns: Sequence[str] | None, path: str) -> None:
    """Write a drawing of figures against the one symbol that has several sizes.

    Args:
        formula: what the model costs.
        points: sizes of the symbols, as ``--at`` lists them.
        columns: keys of figures; None for the MACs.
        path: the file; its ending says the format.

    Raises:
        InputError: not exactly one symbol has several sizes, matplotlib is missing, or the file cannot be written.
    """
    several = [name for name in points[0] if len({point[name] for point in points}) > 1]
    if len(several) != 1:
        raise InputError('give several sizes of one symbol to draw, such as --at "N=1 W=224 H=32:1024:32"')
    sizes = [point[several[0]] for point in points]
    others = {name: size for name, size in points[0].items() if name != several[0]}
    with styled({"svg.hashsalt": STYLE["svg.hashsalt"]}):
        drawn = formula.plot(several[0], sizes, columns or ("macs",), **others)
        kind = os.path.splitext(path)[1].lower().lstrip(".")
        if kind not in drawn.canvas.get_supported_filetypes():
            raise InputError(f"{path}: plots are written as .png, .svg or .pdf")
        content = as_bytes(drawn, kind)
    write(content, path)
