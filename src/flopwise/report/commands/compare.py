"""A comparison as tables: totals, operators, layers; what differs and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.compare.comparison import OF_MODEL, Change, Values, difference, percent
from flopwise.analyses.quantities import FIGURES
from flopwise.errors import InputError, counted
from flopwise.graph.names import layer_kind
from flopwise.report.commands.differences import cause_sheet
from flopwise.report.formats.format import Format
from flopwise.report.formats.table import SPARE, cells, shorten
from flopwise.report.report import Report
from flopwise.report.sheet.columns import TITLES, count_title
from flopwise.report.sheet.listing import about, model_name
from flopwise.report.sheet.sheet import Head, Kind, Line, Look, Mark, Sheet, Value, bounded
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Break, Comparison, Group

#: What a report shows; "all" is one table for each.
PARTS = ("total", "op", "layer")

#: The same for one model in several conventions: why they differ.
CAUSES = ("total", "cause")

#: Figures in the tables of operators and layers unless others are asked for.
SHOWN = ("count", "params")

#: The rank of columns of which there are others that say the same.
LEAST = 5

#: The rank of what is the same for A and for B by definition, since they are one model.
SAME = SPARE + 1

#: The rank of the first figure, whose differences are what a comparison is for.
MAIN = 2

#: About how many cells of the table of totals a title, a figure and a share take.
NAMES, FIGURE, SHARE = 22, 16, 8

#: A path is not made shorter than this.
SHORT = 24

_TITLES = {**TITLES, "unknown": "layers without a count"}


def comparison_report(
    comparison: Comparison, by: str = "all", figures: Sequence[str] | None = None, full: bool = False
) -> Report:
    """The comparison as tables of totals, operators and layers.

    Args:
        comparison: what to write.
        by: one of PARTS, or "all"; for programs, which get one table, "all" is the layers. JSON and HTML always hold
            all.
        figures: of operators and layers; None for SHOWN.
        full: whether layers that are the same in all models are shown.

    Raises:
        InputError: the part or a figure is unknown.
    """
    if by not in (*PARTS, "all"):
        raise InputError(f"cannot compare by {by!r}; choose {', '.join(PARTS)} or all")
    chosen = tuple(dict.fromkeys(figures or SHOWN))
    for figure in chosen:
        if figure not in FIGURES:
            raise InputError(f"unknown figure {figure!r}; known: {', '.join(FIGURES)}")
    return Report(
        lambda format, look: _sheets(comparison, by, chosen, full, format, look),
        comparison.to_dict,
        {"comparison": (comparison, chosen, full, _TITLES)},
    )


def _sheets(
    comparison: Comparison, by: str, figures: Sequence[str], full: bool, format: Format, look: Look
) -> list[Sheet]:
    parts = (by,) if by != "all" else CAUSES if comparison.differences else PARTS
    if format.data:
        parts = parts[-1:] if by != "all" else PARTS[-1:]
    makers = {
        "total": lambda: _totals(comparison, look),
        "op": lambda: _operators(comparison, figures, look),
        "layer": lambda: _layers(comparison, figures, full or format.data, look),
    }
    sheets, notes = [makers[part]() for part in parts if part in makers], list(_notes(comparison, look))
    if "cause" in parts:
        sheets += [cause_sheet(each, look)._replace(summary=(), notes=()) for each in comparison.differences]
        notes.append("--by op and --by layer list every operator and layer")
    if len(sheets) > 1 and not sheets[-1].lines:
        notes[:0] = sheets.pop().notes
    sheets[0] = sheets[0]._replace(about=_about(comparison, look))
    sheets[-1] = sheets[-1]._replace(notes=(*sheets[-1].notes, *notes))
    return sheets


def _about(comparison: Comparison, look: Look) -> tuple[str, ...]:
    """Each model with its inputs and convention; what all have in common is said once."""
    if len({id(p.graph) for p in comparison.profiles}) == 1:
        return _about_conventions(comparison, look)
    models = []
    for model, (label, profile) in enumerate(zip(comparison.labels, comparison.profiles, strict=True)):
        inputs = ", ".join(f"{look.text(t.name)} {look.shape(t.shape)}" for t in profile.graph.inputs)
        name = model_name(profile, look)
        around = (
            f"{_letter(model)} = ",
            "" if name.endswith(label) else f"{look.text(label)}: ",
            f" ({inputs or 'no inputs'})",
        )
        if look.width is not None:  # what a long path leaves to the rest
            name = shorten(name, max(look.width - sum(map(cells, around)) - 2, SHORT), look.glyphs.cut)
        models.append("".join((*around[:2], name, around[2])))
    conventions = dict.fromkeys(
        f"convention {p.convention.name}, unit {p.convention.unit}" for p in comparison.profiles
    )
    return (*models, *map(look.text, conventions), *_units_apart(comparison))


def _about_conventions(comparison: Comparison, look: Look) -> tuple[str, ...]:
    """One model with its inputs, and what each letter stands for."""
    conventions = []
    for model, (label, profile) in enumerate(zip(comparison.labels, comparison.profiles, strict=True)):
        name = profile.convention.name
        named = name if label == name else f"{label}: {name}"
        conventions.append(look.text(f"{_letter(model)} = {named} ({profile.convention.unit})"))
    return (*about(comparison.profiles[0], look, counted=False), *conventions, *_units_apart(comparison))


def _units_apart(comparison: Comparison) -> tuple[str, ...]:
    """A note on counts in different units, where there are any."""
    units = dict.fromkeys(p.convention.unit for p in comparison.profiles)
    if len(units) == 1:
        return ()
    if comparison.convertible:
        return ("differences of counts are in FLOP: 1 MAC = 2 FLOP",)
    return (f"counts in {' and '.join(units)} are not subtracted from each other",)


def _notes(comparison: Comparison, look: Look) -> tuple[str, ...]:
    """The notes of the models, with the label in front where they are not the same."""
    notes: dict[str, list[str]] = {}
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        for note in profile.notes:
            notes.setdefault(note, []).append(label)
    models = len(comparison.profiles)
    return tuple(look.text(n if len(who) == models else f"{n} [{', '.join(who)}]") for n, who in notes.items())


def _title(figure: str, comparison: Comparison, model: int | None = None) -> str:
    if figure != "count":
        return _TITLES.get(figure, figure)
    if model is None and len({p.convention.name for p in comparison.profiles}) > 1:
        return "count"
    convention = comparison.profiles[model or 0].convention
    return count_title(convention.unit, convention.name)


def _kind(figure: str) -> Kind:
    return "bytes" if figure.endswith("bytes") else "number"


def _letter(model: int) -> str:
    """The letter of a model in the titles of columns.

    >>> [_letter(model) for model in (0, 25, 26)]
    ['A', 'Z', 'A1']
    """
    return chr(ord("A") + model % 26) + (str(model // 26) if model >= 26 else "")


def _heads(figure: str, comparison: Comparison, look: Look, rank: int = MAIN) -> Iterator[Head]:
    """A figure in each model, and after each but the first how it differs; without a figure, the totals.

    Where there is no room, what is the same by definition is left out first, then the differences of all figures but
    the first, whose difference stays longest.
    """
    same = bool(comparison.differences) and figure not in ("", "count")
    main = rank <= MAIN
    room = NAMES + sum(max(cells(label) + 5, FIGURE) for label in comparison.labels)
    named = look.width is None or room + (FIGURE + SHARE) * (len(comparison.labels) - 1) <= look.width
    comparable, common = comparison.comparable(figure), _title(figure, comparison)
    for model, label in enumerate(comparison.labels):
        convention = comparison.profiles[model].convention
        human = convention.display.human if figure == "count" else None
        letter = _letter(model)
        total = f"{letter}: {label}" if named else letter
        title = f"{_title(figure, comparison, model)} {letter}" if figure else total
        key = f"{figure}:{label}" if figure else label
        yield Head(key, look.text(title), _kind(figure), SAME if same else rank, human)
        if model and figure != "layers" and comparable[model]:
            of = look.text(f" of {common}") if figure else ""
            ranks = (SAME, SAME) if same else (rank - 1, rank + 1) if main else (LEAST, rank)
            yield Head(f"{key}:difference", f"{letter} - A", _kind(figure), ranks[0], alone=f"{letter} - A{of}")
            yield Head(f"{key}:percent", "%", "percent", ranks[1], alone=f"%{of}")


def _cells(
    values: Values, exact: Sequence[bool], changes: Sequence[Change], comparable: Sequence[bool]
) -> list[list[Value]]:
    """For each model the cells of a figure: AtLeast where it is a bound, and the differences; "" in other units."""
    cells: list[list[Value]] = []
    for model, (value, sure, change) in enumerate(zip(values, exact, changes, strict=True)):
        cells.append([bounded(value, sure)])
        if model and not comparable[model]:
            cells[-1] += ["", ""]
        elif model:
            no_share = change.percent is None and change.difference is not None
            cells[-1] += [change.difference, "" if no_share else change.percent]
    return cells


def _of_group(comparison: Comparison, group: Group, figures: Sequence[str]) -> list[Value]:
    """The cells of a layer or an operator: "" where a model has none; what only one of two has differs by all of it."""
    values: list[Value] = []
    for figure in figures:
        changes, comparable = comparison.of_group(group, figure), comparison.comparable(figure)
        columns = _cells(group.values(figure), group.exact(figure), changes, comparable)
        for item, column, alike in zip(group.items, columns, comparable, strict=True):
            neither = item is None and group.items[0] is None
            shown = [""] * len(column) if neither else ["", *column[1:]] if item is None else column
            values += shown if alike and figure != "layers" else shown[:1]
    return values


def _totals(comparison: Comparison, look: Look) -> Sheet:
    same = {p.convention.name for p in comparison.profiles} & {"flops", "macs"}
    one = len({p.convention.name for p in comparison.profiles}) == 1
    lines = []
    alike = comparison.differences and [f for f in (*FIGURES[1:], *OF_MODEL) if len(set(comparison.total(f))) == 1]
    for figure in (*FIGURES, *OF_MODEL):
        if (one and figure in same) or figure in alike:  # the count says it already, or one model is the same model
            continue
        changes = comparison.changes(figure, comparison.subtracted(figure))
        cells = _cells(comparison.total(figure), comparison.exact(figure), changes, comparison.comparable(figure))
        lines.append(Line((look.text(_title(figure, comparison)), *(value for each in cells for value in each))))
    return Sheet(
        heads=(Head("figure", "total", "text", 0), *_heads("", comparison, look)),
        lines=tuple(lines),
        squeeze=True,
    )


def _operators(comparison: Comparison, figures: Sequence[str], look: Look) -> Sheet:
    shown = ("layers", *figures)
    return Sheet(
        heads=(
            Head("name", "operator", "text", 0),
            *_heads("layers", comparison, look, LEAST - 1),
            *(head for rank, figure in enumerate(figures, MAIN) for head in _heads(figure, comparison, look, rank)),
        ),
        lines=tuple(Line((look.text(g.op), *_of_group(comparison, g, shown)), _mark(g)) for g in comparison.operators),
        squeeze=True,
    )


def _layers(comparison: Comparison, figures: Sequence[str], full: bool, look: Look) -> Sheet:
    """The layers that differ, or all; a layer that is called differently is named in each model."""

    def changed(group: Group) -> bool:
        """True where conventions on one model differ in the figures that are shown."""
        if not comparison.differences:
            return group.changed
        return any(len(set(group.values(figure))) > 1 for figure in figures)

    groups = [g for g in comparison.layers if full or changed(g)]
    models = range(1, len(comparison.labels))
    renamed = [m for m in models if any(g.names[m] not in (None, g.names[0]) for g in groups)]
    matched = any(way in ("structure", "weights", "order") for g in groups for way in g.ways)

    def line(group: Group) -> Line:
        others = (group.names[m] for m in renamed)
        names = [group.names[0] or "", *("" if name in (None, group.names[0]) else str(name) for name in others)]
        ways = [" ".join(dict.fromkeys(way for way in group.ways if way not in (None, "same")))] if matched else []
        pairs = zip(comparison.profiles, group.items, strict=True)
        # what people call the layer, in the first model that has it
        kind = next((layer_kind(i.node, p.graph) for p, i in pairs if isinstance(i, Row)), group.op)
        about = (*map(look.text, names), kind, *ways)
        return Line((*about, *_of_group(comparison, group, figures)), _mark(group))

    hidden = len(comparison.layers) - len(groups)
    same = f"{counted(hidden, 'layer')} {'is' if hidden == 1 else 'are'} the same in all models (--full shows "
    return Sheet(
        heads=(
            Head("name", "layer in A", "text", 0),
            *(Head(f"name:{comparison.labels[m]}", f"in {_letter(m)}", "text", 1) for m in renamed),
            Head("op", "op", "text", LEAST - 1),
            *([Head("matched_by", "matched by", "text", 8)] if matched else []),
            *(head for rank, figure in enumerate(figures, MAIN) for head in _heads(figure, comparison, look, rank)),
        ),
        lines=tuple(map(line, groups)),
        notes=(f"{same}{'it' if hidden == 1 else 'them'})",) if hidden else (),
        squeeze=True,
    )


def _mark(group: Group) -> Mark:
    return "heavy" if group.missing else ""


def breaks_text(breaks: Sequence[Break]) -> list[str]:
    """One line for each condition that holds, or may hold because a figure is unknown."""
    lines = []
    for broken in breaks:
        figure, values = broken.condition.figure, (broken.first, broken.other)
        change = f"not known, because {figure} is a lower bound or unknown"
        if None not in values:
            share = percent(values, 1)
            relative = "" if share is None else f", {share:+.2f} %"
            change = f"{figure} {broken.first:,} -> {broken.other:,} ({difference(values, 1) or 0:+,}{relative})"
        lines.append(f"{broken.label}: {broken.condition.text}: {change}")
    return lines
