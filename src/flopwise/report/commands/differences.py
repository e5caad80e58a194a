"""Where conventions differ on a model and why: the causes in words, or operator by operator, or layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flopwise.analyses.compare.causes import Cause, Difference, common_unit, factor, why
from flopwise.report.formats.format import Format
from flopwise.report.formats.json import fields
from flopwise.report.report import Report
from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, about, data_sheet, figure, only
from flopwise.report.sheet.units import count_title, human

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What a line of the report can be.
GROUPINGS = ("cause", "op", "layer")


def difference_report(profiles: Sequence[Profile], by: str = "cause") -> Report:
    """Why conventions differ from the first on a model, cause by cause, operator by operator or layer by layer.

    Args:
        profiles: one graph in two or more conventions.
        by: one of GROUPINGS.
    """

    def sheets(format: Format, look: Look) -> list[Sheet]:
        if by != "cause":
            return [_parts_sheet(profiles, by, look)]
        differences = [why(profiles[0], other) for other in profiles[1:]]
        if format.data:
            return [_data_sheet(differences)]
        return [cause_sheet(d, look, about(profiles[0], look, counted=False)) for d in differences]

    return Report(sheets, lambda: _content(profiles, by))


def overview_report(profiles: Sequence[Profile]) -> Report:
    """All conventions on one model: the count of each, in one unit, beside the first, and the main cause between."""
    return Report(lambda format, look: [_overview_sheet(profiles, look)], lambda: _overview(profiles))


def _content(profiles: Sequence[Profile], by: str) -> dict[str, Any]:
    first = profiles[0].to_dict()
    return {
        **{key: first[key] for key in ("model", "inputs")},
        "totals": {p.convention.name: p.sum.count for p in profiles},
        "units": {p.convention.name: p.convention.unit for p in profiles},
        "parts": difference(profiles, "layer" if by == "layer" else "op"),
        "differences": [why(profiles[0], other).to_dict() for other in profiles[1:]],
    }


def cause_sheet(difference: Difference, look: Look, above: tuple[str, ...] = ()) -> Sheet:
    """The causes of the difference between two conventions, the largest first.

    Args:
        difference: what to write.
        look: how it should look.
        above: what the figures are about.
    """
    names, whole = difference.names, difference.difference if difference.exact else None
    heads = (
        Head("name", "cause", "text", 0, prose=True),
        Head("layers", "layers", "number", 5),
        *(Head(name, count_title(difference.unit, name), "number", 6) for name in names),
        Head("difference", f"{names[1]} − {names[0]}", "number", 1),
        Head("percent", "%", "percent", 7),
        Head("reason", "because", "text", 2, prose=True),
    )
    lines = []
    for cause in difference.causes:
        share = 100 * cause.difference / whole if whole else ""
        figures = (cause.layers, *_counts(cause), None if cause.unknown else cause.difference, share)
        lines.append(Line((look.text(cause.what), *figures, cause.why), "unknown" if cause.unknown else ""))
    total = Line(("Total", "", "", "", whole, 100.0 if whole else "", "")) if lines else None
    if not lines:
        each = max(len({id(row.node) for row in p.rows}) for p in (difference.first, difference.other))
        which = "every layer" if difference.exact else "every layer that they can count"
        alike = f"{names[0]} and {names[1]} count the same in {which}"
        pairs = zip(difference.totals, (difference.first, difference.other), strict=True)
        bounds = (AtLeast(total) if profile.sum.unknown else total for total, profile in pairs)
        lines.append(Line(("all layers", each, *bounds, whole, "", alike)))
    sheet = Sheet(
        heads=heads,
        lines=tuple(lines),
        total=total,
        about=above,
        summary=tuple(_totals(difference, look)),
        notes=tuple(look.text(note) for note in _notes((difference.first, difference.other))),
        complete=True,
    )
    return sheet if whole else only(sheet, [i for i, head in enumerate(heads) if head.key != "percent"])


def _counts(cause: Cause) -> tuple[Value, ...]:
    """What each convention counts in the layers of a cause; None, or at least so much, where it cannot count some."""
    return tuple(map(_counted, cause.counts, cause.missing))


def _counted(count: int, missing: bool) -> Value:
    """A count; None, or at least so much, where some of it is missing."""
    return (AtLeast(count) if count else None) if missing else count


def _totals(difference: Difference, look: Look) -> list[Figure]:
    """The total of each convention in its own unit and, where another is common, in that; and the difference."""
    figures = []
    for profile, total in zip((difference.first, difference.other), difference.totals, strict=True):
        unit, count = profile.convention.unit, profile.sum.count
        bound = AtLeast if profile.sum.unknown else int
        one = figure(count_title(unit, profile.convention.name), bound(count), unit, look)
        if unit != difference.unit:
            one = one._replace(short=f"{one.short} = {human(total, difference.unit)} (1 MAC = 2 FLOP)")
        figures.append(one)
    gap = difference.difference if difference.exact else None
    return [*figures, figure("difference", gap, difference.unit, look)]


def _data_sheet(differences: Sequence[Difference]) -> Sheet:
    """The same for programs: one table, with the two conventions in each line."""
    lines = (
        (*d.names, d.unit, c.what, c.why, c.layers, *_counts(c), None if c.unknown else c.difference)
        for d in differences
        for c in d.causes
    )
    keys = ("first", "other", "unit", "layers", "reason", "number", "first_count", "other_count", "difference")
    return data_sheet(keys, keys[:5], lines)


def _notes(profiles: Sequence[Profile]) -> list[str]:
    """Notes on the figures: lower bounds, and the conventions' own notes."""
    notes = [f"{p.convention.name}: {note}" for p in profiles for note in p.convention.notes]
    missing = [p.convention.name for p in profiles if p.unknown or p.sum.unknown]
    if missing:
        notes.insert(0, f"some layers cannot be counted; the totals of {', '.join(missing)} are lower bounds")
    return notes


def _overview(profiles: Sequence[Profile]) -> dict[str, Any]:
    first = profiles[0].to_dict()
    return {
        **{key: first[key] for key in ("model", "inputs")},
        "base": profiles[0].convention.name,
        "conventions": [
            {
                **fields(p.convention, "name unit"),
                "count": _count(p),
                "unknown_layers": p.sum.unknown,
                "difference": None if _count(p) is None else why(profiles[0], p).to_dict(),
            }
            for p in profiles
        ],
    }


def _count(profile: Profile) -> int | None:
    """The count; None where the convention can count no layer, a lower bound where it cannot count some."""
    return None if profile.rows and profile.sum.unknown == len(profile.rows) else profile.sum.count


def _overview_sheet(profiles: Sequence[Profile], look: Look) -> Sheet:
    base, unit = profiles[0], "FLOP"
    heads = (
        Head("name", "convention", "text", 0),
        Head("count", "count", "number", 1),
        Head("unit", "unit", "text", 2),
        Head("flop", "as FLOPs", "number", 5),
        Head("ratio", f"of {base.convention.name}", "ratio", 3),
        Head("reason", f"main difference from {base.convention.name}", "text", 4, prose=True),
    )
    whole = base.sum.count * factor(base, unit)

    def line(profile: Profile) -> Line:
        name, own, count = profile.convention.name, profile.convention.unit, _count(profile)
        if count is None:
            return Line((name, None, own, None, None, "cannot count this model"), "unknown")
        bound = AtLeast if profile.sum.unknown else int
        total = count * factor(profile, unit)
        causes = why(base, profile).causes
        reason = f"{causes[0].what}: {causes[0].why}" if causes else ""
        reason += f" ({len(causes)} causes)" if len(causes) > 1 else ""
        unknown = bool(profile.sum.unknown or base.sum.unknown) and profile is not base
        ratio: Value = None if unknown else total / whole if whole else ""
        return Line((name, bound(count), own, bound(total), ratio, reason))

    return Sheet(
        heads=heads,
        lines=tuple(line(profile) for profile in profiles),
        about=about(base, look, counted=False),
        notes=(
            f"1 MAC = 2 FLOP; {look.glyphs.at_least.strip()} where a convention cannot count some layers; "
            "-c A -c B lists every cause",
        ),
        complete=True,
    )


@dataclass
class _Part:
    """One operator, or one layer, and its count in each convention."""

    name: str
    #: What each convention counts, by its name, without what it cannot count; and which cannot count some of it.
    counts: dict[str, int]
    missing: set[str] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)

    @property
    def gap(self) -> int:
        """How far the conventions are apart."""
        return max(self.counts.values()) - min(self.counts.values())


def difference(profiles: Sequence[Profile], by: str = "op") -> list[dict[str, Any]]:
    """Where conventions differ on a model, the widest gap first, each in its own unit.

    Args:
        profiles: one graph in two or more conventions.
        by: "op" or "layer".

    Returns:
        For each operator or layer its name, how many layers it has, and the count in each convention by its name; None
        where the convention cannot count it.
    """
    return [
        {
            "name": part.name,
            "layers": len(part.nodes),
            "counts": {name: None if name in part.missing else count for name, count in part.counts.items()},
        }
        for part in _parts(profiles, by)
    ]


def _parts(profiles: Sequence[Profile], by: str) -> list[_Part]:
    parts: dict[str | int, _Part] = {}
    for profile in profiles:
        name = profile.convention.name
        for row in profile.rows:
            key, title = (row.node.op, row.node.op) if by == "op" else (id(row.node), row.name)
            part = parts.setdefault(key, _Part(title, {p.convention.name: 0 for p in profiles}))
            part.nodes.add(id(row.node))
            part.counts[name] += row.count or 0
            if row.count is None:
                part.missing.add(name)
    return sorted(parts.values(), key=lambda part: (-part.gap, not part.missing))


def _parts_sheet(profiles: Sequence[Profile], by: str, look: Look) -> Sheet:
    """The same as a table in one unit, without what all count alike: counts, and differences from the first."""
    unit = common_unit(profiles)
    scales = [factor(p, unit) for p in profiles]
    first, *others = [p.convention for p in profiles]
    heads = [Head("name", "operator" if by == "op" else "layer", "text", 0)]
    heads += [Head("layers", "layers", "number", 3)] if by == "op" else []
    heads += [Head(p.convention.name, count_title(unit, p.convention.name), "number", 1) for p in profiles]
    heads += [Head(f"{c.name}-{first.name}", f"{c.name} − {first.name}", "number", 2) for c in others]
    lines: list[tuple[int, bool, Line]] = []
    for part in _parts(profiles, by):
        counts = [count * scale for count, scale in zip(part.counts.values(), scales, strict=True)]
        gap = max(counts) - min(counts)
        if not gap and len(part.missing) in (0, len(profiles)):
            continue
        missing = [name in part.missing for name in part.counts]
        gaps = [None if missing[0] or gone else c - counts[0] for c, gone in zip(counts[1:], missing[1:], strict=True)]
        shown = [_counted(count, gone) for count, gone in zip(counts, missing, strict=True)]
        own = [len(part.nodes)] if by == "op" else []
        line = Line((part.name, *own, *shown, *gaps), "unknown" if part.missing else "")
        lines.append((-gap, not part.missing, line))
    totals = [p.sum.count * scale for p, scale in zip(profiles, scales, strict=True)]
    bounds = [AtLeast(t) if p.sum.unknown else t for p, t in zip(profiles, totals, strict=True)]
    total: list[Value] = [
        "Total",
        *([len(profiles[0].rows)] if by == "op" else []),
        *bounds,
        *(None if AtLeast in (type(t), type(bounds[0])) else t - bounds[0] for t in bounds[1:]),
    ]
    each = "operator" if by == "op" else "layer"
    which = f"{each} that they can count" if any(p.sum.unknown for p in profiles) else each
    same = f"{' and '.join(p.convention.name for p in profiles)} count the same in every {which}"
    own_units = any(p.convention.unit != unit for p in profiles)
    return Sheet(
        heads=tuple(heads),
        lines=tuple(line for *_, line in sorted(lines, key=lambda item: item[:2])),
        total=Line(tuple(total)),
        about=(*about(profiles[0], look, counted=False), *([f"in {unit}s: 1 MAC = 2 FLOP"] if own_units else [])),
        notes=tuple(look.text(note) for note in (*([] if lines else [same]), *_notes(profiles))),
    )
