"""Where conventions differ on a model and why: the causes in words, or operator by operator, or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.analyses.compare.causes import Cause, Difference, common_unit, factor, why
from flopwise.report.formats.format import Format
from flopwise.report.formats.json import parts_of
from flopwise.report.report import Report
from flopwise.report.sheet.columns import count_title
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import (
    AtLeast,
    Field,
    Figure,
    Head,
    Line,
    Look,
    Sheet,
    Value,
    bounded,
    data_sheet,
    figure,
    human,
)

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What a line of the report can be.
GROUPINGS = ("cause", "op", "layer")

#: Grouping -> what a line is called.
NOUNS = {"op": "operator", "layer": "layer"}


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


def _content(profiles: Sequence[Profile], by: str) -> Json:
    return {
        **parts_of(profiles[0], "model inputs"),
        "totals": {p.convention.name: p.sum.count for p in profiles},
        "units": {p.convention.name: p.convention.unit for p in profiles},
        "parts": [_plain(part, profiles) for part in _parts(profiles, "layer" if by == "layer" else "op")],
        "differences": [why(profiles[0], other).to_dict() for other in profiles[1:]],
    }


def cause_sheet(difference: Difference, look: Look, above: tuple[str, ...] = ()) -> Sheet:
    """The causes of the difference between the two numbers that are printed: a factor of two first, then the largest.

    Args:
        difference: what to write.
        look: how it should look.
        above: what the figures are about.
    """
    (first, other), whole = difference.names, difference.printed_difference if difference.exact else None
    causes = _causes(difference)
    gap = Head("difference", f"{other} − {first}", "number", 1)
    columns: list[Field[Cause]] = [
        Field(Head("name", "cause", "text", 0, prose=True), lambda c: look.text(c.what), total="Total"),
        Field(Head("layers", "layers", "number", 5), lambda c: c.layers),
        Field(Head(first, count_title(difference.unit, first), "number", 6), lambda c: _counts(c)[0]),
        Field(Head(other, count_title(difference.unit, other), "number", 6), lambda c: _counts(c)[1]),
        Field(gap, lambda c: None if c.unknown else c.difference, total=whole),
        Field(Head("percent", "%", "percent", 7), lambda c: 100 * c.difference / (whole or 1), total=100.0),
        Field(Head("reason", "because", "text", 2, prose=True), lambda c: c.why),
    ]
    columns = columns if whole else [column for column in columns if column.head.key != "percent"]
    sheet = Sheet.of(
        columns,
        causes,
        lambda cause: "unknown" if cause.unknown else "",
        about=above,
        summary=tuple(_totals(difference, look)),
        notes=look.texts([*_signs(difference), *_notes((difference.first, difference.other))]),
    )
    return sheet if causes else sheet._replace(lines=(_same(difference),), total=None)


def _causes(difference: Difference) -> tuple[Cause, ...]:
    """The causes with the factor of two, which stands first."""
    first = difference.factor_of_two
    return (first, *difference.causes) if first else difference.causes


def _signs(difference: Difference) -> list[str]:
    """A note where causes work against each other, so that one of them is more than the whole difference."""
    gaps = [cause.difference for cause in _causes(difference)]
    opposite = difference.exact and difference.printed_difference and min(gaps) < 0 < max(gaps)
    return ["some causes work against others, so shares of the difference exceed 100 %"] if opposite else []


def _same(difference: Difference) -> Line:
    """The line of a difference without causes."""
    profiles = (difference.first, difference.other)
    layers = max(len({id(row.node) for row in p.rows}) for p in profiles)
    which = "every layer" if difference.exact else "every layer that they can count"
    bounds = (bounded(total, not p.sum.unknown) for total, p in zip(difference.totals, profiles, strict=True))
    gap = difference.difference if difference.exact else None
    return Line(("all layers", layers, *bounds, gap, f"{' and '.join(difference.names)} count the same in {which}"))


def _counts(cause: Cause) -> tuple[Value, ...]:
    """The count of each convention in the layers of a cause; None or a lower bound where it cannot count some."""
    return tuple(map(_counted, cause.counts, cause.missing))


def _counted(count: int, missing: bool) -> Value:
    """A count; None or a lower bound where some of it is missing."""
    return (AtLeast(count) if count else None) if missing else count


def _totals(difference: Difference, look: Look) -> Iterator[Figure]:
    """The total of each convention in its own unit and, where another is common, in that; and the difference."""
    for profile, total in zip((difference.first, difference.other), difference.totals, strict=True):
        unit = profile.convention.unit
        count = bounded(profile.sum.count, not profile.sum.unknown)
        own = figure(count_title(unit, profile.convention.name), count, unit, look)
        if unit != difference.unit:
            own = own._replace(short=f"{own.short} = {human(total, difference.unit)} (1 MAC = 2 FLOP)")
        yield own
    unit = "" if difference.factor_of_two else difference.unit
    yield figure("difference", difference.printed_difference if difference.exact else None, unit, look)


def _data_sheet(differences: Sequence[Difference]) -> Sheet:
    """The same for programs: one table, with the two conventions in each line."""
    lines = (
        (*d.names, d.unit, c.what, c.why, c.layers, *_counts(c), None if c.unknown else c.difference)
        for d in differences
        for c in _causes(d)
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


def _overview(profiles: Sequence[Profile]) -> Json:
    """The overview for JSON: each convention's total in its own unit, and its differences from the first one."""
    return {
        **parts_of(profiles[0], "model inputs"),
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
    """A convention's total in its own unit: a lower bound if it cannot count some layers, None if it can count none."""
    return None if profile.rows and profile.sum.unknown == len(profile.rows) else profile.sum.count


def _overview_sheet(profiles: Sequence[Profile], look: Look) -> Sheet:
    """A line for each convention: its total, the same in FLOP, the ratio to the first one's, and why it differs."""
    base, unit = profiles[0], "FLOP"
    flops = base.sum.count * factor(base, unit)

    def count(profile: Profile, scale: int = 1) -> int | None:
        own = _count(profile)
        return None if own is None else bounded(own * scale, not profile.sum.unknown)

    def ratio(profile: Profile) -> Value:
        own, unknown = _count(profile), profile.sum.unknown or base.sum.unknown
        if own is None or (unknown and profile is not base):
            return None
        return own * factor(profile, unit) / flops if flops else ""

    def reason(profile: Profile) -> str:
        if _count(profile) is None:
            return "cannot count this model"
        causes = why(base, profile).causes
        more = f" ({len(causes)} causes)" if len(causes) > 1 else ""
        return f"{causes[0].what}: {causes[0].why}{more}" if causes else ""

    name = base.convention.name
    columns: list[Field[Profile]] = [
        Field(Head("name", "convention", "text", 0), lambda p: p.convention.name),
        Field(Head("count", "count", "number", 1), count),
        Field(Head("unit", "unit", "text", 2), lambda p: p.convention.unit),
        Field(Head("flop", "as FLOPs", "number", 5), lambda p: count(p, factor(p, unit))),
        Field(Head("ratio", f"of {name}", "ratio", 3), ratio),
        Field(Head("reason", f"main difference from {name}", "text", 4, prose=True), reason),
    ]
    return Sheet.of(
        columns,
        profiles,
        lambda p: "unknown" if _count(p) is None else "",
        about=about(base, look, counted=False),
        notes=(
            f"1 MAC = 2 FLOP; {look.glyphs.at_least.strip()} where a convention cannot count some layers; "
            "-c A -c B lists every cause",
        ),
    )


@dataclass
class _Part:
    """One operator, or one layer, and its count in each convention."""

    name: str
    #: The count of each convention, without what it cannot count; and whether it cannot count some of it.
    counts: list[int]
    missing: list[bool]
    nodes: set[int] = field(default_factory=set)

    @property
    def gap(self) -> int:
        """The largest count less the smallest."""
        return max(self.counts) - min(self.counts)

    @property
    def rank(self) -> tuple[int, bool]:
        """A sort key: the widest gap first, and of equal gaps those that some convention cannot count."""
        return -self.gap, not any(self.missing)

    def difference(self, index: int) -> int | None:
        """A convention's count less that of the first; None where one of them cannot count some of it."""
        return None if self.missing[0] or self.missing[index] else self.counts[index] - self.counts[0]


def _plain(part: _Part, profiles: Sequence[Profile]) -> Json:
    """A part for JSON: its name, how many layers it has, and its count in each convention."""
    counts = [None if missing else count for count, missing in zip(part.counts, part.missing, strict=True)]
    names = [p.convention.name for p in profiles]
    return {"name": part.name, "layers": len(part.nodes), "counts": dict(zip(names, counts, strict=True))}


def _parts(profiles: Sequence[Profile], by: str) -> list[_Part]:
    """Operators ("op") or layers with their counts, each in its convention's own unit; the widest gap first."""
    parts: dict[str | int, _Part] = {}
    for index, profile in enumerate(profiles):
        for row in profile.rows:
            key, name = (row.node.op, row.node.op) if by == "op" else (id(row.node), row.name)
            part = parts.setdefault(key, _Part(name, [0] * len(profiles), [False] * len(profiles)))
            part.nodes.add(id(row.node))
            part.counts[index] += row.count or 0
            part.missing[index] |= row.count is None
    return sorted(parts.values(), key=lambda part: part.rank)


def _parts_sheet(profiles: Sequence[Profile], by: str, look: Look) -> Sheet:
    """A line for each operator or layer that the conventions count differently: counts, and gaps to the first one's.

    All are in one unit (FLOP if the conventions' units differ); the widest gap comes first.

    Args:
        profiles: one graph in two or more conventions.
        by: "op" or "layer".
        look: how it is printed.
    """
    unit, names = common_unit(profiles), [p.convention.name for p in profiles]
    scales = [factor(p, unit) for p in profiles]
    parts = _parts(profiles, by)
    for part in parts:
        part.counts = [count * scale for count, scale in zip(part.counts, scales, strict=True)]
    parts = sorted((p for p in parts if p.gap or any(p.missing) != all(p.missing)), key=lambda part: part.rank)
    known = not any(p.sum.unknown for p in profiles)
    same = f"{' and '.join(names)} count the same in every {NOUNS[by]}{'' if known else ' that they can count'}"
    own_units = any(p.convention.unit != unit for p in profiles)
    return Sheet.of(
        _part_columns(profiles, by, unit, scales),
        parts,
        lambda part: "unknown" if any(part.missing) else "",
        about=(*about(profiles[0], look, counted=False), *([f"in {unit}s: 1 MAC = 2 FLOP"] if own_units else [])),
        notes=look.texts([*([] if parts else [same]), *_notes(profiles)]),
    )


def _part_columns(profiles: Sequence[Profile], by: str, unit: str, scales: Sequence[int]) -> list[Field[_Part]]:
    """Columns: name, layers (by operator only), a count for each convention, and its difference from the first one's.

    Args:
        profiles: one graph in two or more conventions.
        by: "op" or "layer".
        unit: the unit of all counts.
        scales: factor of each convention from its own unit to it.
    """
    names = [p.convention.name for p in profiles]
    totals = [p.sum.count * scale for p, scale in zip(profiles, scales, strict=True)]
    unknown = [bool(p.sum.unknown) for p in profiles]
    whole = _Part("Total", totals, unknown)

    def count(index: int) -> Field[_Part]:
        head = Head(names[index], count_title(unit, names[index]), "number", 1)
        total = bounded(totals[index], not unknown[index])
        return Field(head, lambda part: _counted(part.counts[index], part.missing[index]), total=total)

    def gap(index: int) -> Field[_Part]:
        head = Head(f"{names[index]}-{names[0]}", f"{names[index]} − {names[0]}", "number", 2)
        return Field(head, lambda part: part.difference(index), total=whole.difference(index))

    layers: Field[_Part] = Field(
        Head("layers", "layers", "number", 3), lambda part: len(part.nodes), total=len(profiles[0].rows)
    )
    return [
        Field(Head("name", NOUNS[by], "text", 0), lambda part: part.name, total="Total"),
        *([layers] if by == "op" else []),
        *map(count, range(len(profiles))),
        *map(gap, range(1, len(profiles))),
    ]
