"""Operations by class, in total or layer by layer: the classes of the convention, or flopwise's own.

A convention that has a table of its own shows that instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.operators.counts import CLASSES, Counts
from flopwise.report.commands import tool_table
from flopwise.report.commands.tool_table import named
from flopwise.report.report import Report
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import AtLeast, Head, Line, Look, Sheet, Value
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


def classes_report(profile: Profile, full: bool = False) -> Report:
    """The operations of each class and their total; with ``full`` one line for each layer."""
    table = profile.convention.display.table
    if table is not None:
        tool = tool_table.Tool(profile, table, full)
        return Report(lambda format, look: [tool_table.sheet(tool, look, format)], lambda: tool_table.content(tool))
    sheet = _per_layer if full else _in_total
    return Report(lambda format, look: [sheet(profile, look, format.data)], lambda: _content(profile, full))


def classes_of(profile: Profile) -> Mapping[str, Counts]:
    """The classes to show: label -> weight of each of flopwise's classes in it; none where a tool has its own table."""
    if profile.convention.display.table is not None:
        return {}
    return profile.convention.display.classes or {name: Counts(**{name: 1}) for name in CLASSES}


def formula(profile: Profile) -> str:
    """The total as a sum of the classes, as in "total = 2 mac + add"; "" where they do not add up to it."""
    weights, terms, total = profile.convention.weights.to_dict(), [], Counts()
    for label, merged in classes_of(profile).items():
        factors = {weights[name] / part for name, part in merged.items() if part}
        factor = int(min(factors, default=0))
        if factors - {factor}:
            return ""
        total += merged * factor
        terms += [label if factor == 1 else f"{factor} {label}"] if factor else []
    return f"total = {' + '.join(terms)}" if total == profile.convention.weights else ""


def _figures(item: Row | Sum, profile: Profile) -> list[Value]:
    """The classes and the total: AtLeast where some layers are unknown, None where all are."""
    view, labels = item.view, classes_of(profile)
    rows = 1 if isinstance(item, Row) else len(item.rows)
    if view is None or (rows and item.unknown == rows):
        return [None] * (len(labels) + 1)
    values: list[Value] = [*(view.dot(merged) for merged in labels.values()), item.count]
    return [AtLeast(v) if isinstance(v, int) else v for v in values] if item.unknown else values


def _notes(profile: Profile, look: Look) -> tuple[str, ...]:
    terms = formula(profile)
    return tuple(map(look.text, [*([terms] if terms else []), *profile.notes]))


def _in_total(profile: Profile, look: Look, data: bool) -> Sheet:
    """One line for each class and one for the total; for programs all lines are alike."""
    convention = profile.convention
    labels = [*map(look.text, classes_of(profile)), "total" if data else look.text(f"Total {convention.unit}s")]
    *lines, total = map(Line, zip(labels, _figures(profile.sum, profile), strict=True))
    return Sheet(
        heads=(
            Head("class", "operation class", "text", 0),
            Head("count", "count", "number", 1, convention.display.human),
        ),
        lines=(*lines, total) if data else tuple(lines),
        total=total,
        about=about(profile, look),
        notes=_notes(profile, look),
        constants={"unknown": profile.sum.unknown, **named(convention)},
    )


def _per_layer(profile: Profile, look: Look, data: bool) -> Sheet:
    """One line for each layer and a column for each class; of flopwise's own classes, those that the model uses."""
    convention = profile.convention
    human = convention.display.human
    sheet = Sheet(
        heads=(
            Head("name", "layer", "text", 0),
            Head("type", "type", "text", 4),
            *(Head(label, look.text(label), "number", 5, human) for label in classes_of(profile)),
            Head("total", look.text(f"total {convention.unit}s"), "number", 1, human),
        ),
        lines=tuple(
            Line((row.name, row.type, *_figures(row, profile)), "unknown" if row.unknown else "")
            for row in profile.rows
        ),
        total=Line(("Total", "", *_figures(profile.sum, profile))),
        about=about(profile, look),
        notes=_notes(profile, look),
        squeeze=True,
        constants=named(convention),
    )
    return sheet if convention.display.classes or data else _without_zeros(sheet)


def _without_zeros(sheet: Sheet) -> Sheet:
    """The sheet without the classes that the model does not use, and a note that says so."""
    total = sheet.total.values if sheet.total else ()
    zero = [i for i, v in enumerate(total) if v == 0 and sheet.heads[i].key in CLASSES]
    if not zero:
        return sheet
    note = f"no operations of these classes: {', '.join(sheet.heads[i].title for i in zero)}"
    return sheet.only(lambda i, _: i not in zero)._replace(notes=(note, *sheet.notes))


def _content(profile: Profile, full: bool) -> Json:
    """The JSON: every number an integer or null; a total is a lower bound when "unknown" names operators."""
    plain, labels = profile.to_dict(), classes_of(profile)

    def figures(item: Row | Sum) -> dict[str, Value]:
        return dict(zip([*labels, "total"], _figures(item, profile), strict=True))

    content: Json = {
        "schema": "flopwise.flops/1",
        **{key: plain[key] for key in ("model", "inputs", "convention")},
        **figures(profile.sum),
        **{key: plain[key] for key in ("coverage", "notes")},
    }
    if full:
        content["layers"] = [{"name": row.name, "type": row.type, **figures(row)} for row in profile.rows]
    return content
