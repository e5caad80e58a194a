"""Why a number is what it is: an operator's formula in every convention, and where conventions differ on a model."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flopwise.conventions import CONVENTIONS
from flopwise.errors import InputError
from flopwise.operators.tables import FAMILIES, NOT_RULED, OPERATORS
from flopwise.report.reference.tables import prose_report, spec_url, weighed
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, about
from flopwise.report.sheet.units import count_title

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


def operator_report(name: str) -> Report:
    """An operator's formula, and what each convention makes of it.

    Raises:
        InputError: no operator of that name has a rule.
    """
    return prose_report(operator_sheet(name), lambda: operator(name))


def difference_report(profiles: Sequence[Profile], by: str = "op") -> Report:
    """Where conventions differ on a model, operator by operator or layer by layer, and by how much."""

    def content() -> dict[str, Any]:
        first = profiles[0].to_dict()
        return {
            **{key: first[key] for key in ("model", "inputs")},
            "totals": {p.convention.name: p.sum.count for p in profiles},
            "units": {p.convention.name: p.convention.unit for p in profiles},
            "parts": difference(profiles, by),
        }

    return Report(lambda format, look: [difference_sheet(profiles, by, look)], content)


def operator(name: str) -> dict[str, Any]:
    """What there is to say about an operator: family, claim, formula, source, and each convention's view of it.

    Raises:
        InputError: no operator of that name has a rule.
    """
    found = next((op for op in OPERATORS if op.lower() == name.lower()), None)
    if found is None:
        if why := next((why for op, why in NOT_RULED.items() if op.lower() == name.lower()), None):
            raise InputError(f"{name!r} has no rule on purpose: it {why}")
        near = difflib.get_close_matches(name, OPERATORS, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "flopwise operators lists those that have one"
        raise InputError(f"{name!r} is neither a file nor an operator that has a rule; {hint}")
    row = OPERATORS[found]
    return {
        "operator": found,
        "family": next(family for family, table in FAMILIES.items() if found in table),
        "claim": row.claim,
        "formula": row.formula,
        "backward": row.gradient.formula if row.gradient else None,
        "source": spec_url(found),
        "conventions": [
            {"convention": c.name, "unit": c.unit, "count": c.describe(found), "weights": weighed(c.weights)}
            for c in CONVENTIONS.values()
        ],
    }


def operator_sheet(name: str) -> Sheet:
    """The same as a table with a row for each convention."""
    content = operator(name)
    heads = (
        Head("convention", "convention", "text"),
        Head("count", "operations", "text", prose=True),
        Head("unit", "unit", "text"),
        Head("weights", "weighed", "text", prose=True),
    )
    formula = f"{content['operator']} ({content['family']}, {content['claim']}): {content['formula']}"
    rest = [f"backward: {content['backward']}" if content["backward"] else "", content["source"]]
    return Sheet(
        heads=heads,
        lines=tuple(Line((c["convention"], c["count"], c["unit"], c["weights"])) for c in content["conventions"]),
        about=(formula, *filter(None, rest)),
    )


@dataclass
class _Part:
    """One operator, or one layer: what each convention makes of it."""

    name: str
    counts: dict[str, int | None]
    nodes: set[int] = field(default_factory=set)

    @property
    def gap(self) -> float:
        """How far the conventions are apart; what one of them cannot count may be anything."""
        known = [c for c in self.counts.values() if c is not None]
        return float(max(known) - min(known)) if len(known) == len(self.counts) else math.inf


def difference(profiles: Sequence[Profile], by: str = "op") -> list[dict[str, Any]]:
    """Where conventions differ on a model, the widest gap first.

    Args:
        profiles: one graph in two or more conventions.
        by: "op" or "layer".

    Returns:
        For each operator or layer its name, how many layers it has, and the count in each convention by its name; None
        where the convention cannot count it.
    """
    return [{"name": part.name, "layers": len(part.nodes), "counts": part.counts} for part in _parts(profiles, by)]


def _parts(profiles: Sequence[Profile], by: str) -> list[_Part]:
    parts: dict[str | int, _Part] = {}
    for profile in profiles:
        name = profile.convention.name
        for row in profile.rows:
            key, title = (row.node.op, row.node.op) if by == "op" else (id(row.node), row.name)
            part = parts.setdefault(key, _Part(title, {p.convention.name: 0 for p in profiles}))
            part.nodes.add(id(row.node))
            known = part.counts[name]
            part.counts[name] = None if known is None or row.count is None else known + row.count
    return sorted(parts.values(), key=lambda part: -part.gap)


def difference_sheet(profiles: Sequence[Profile], by: str, look: Look) -> Sheet:
    """The same as a table: a count for each convention, and the difference of each from the first."""
    first, *others = [p.convention for p in profiles]
    heads = [Head("name", "operator" if by == "op" else "layer", "text", 0)]
    heads += [Head("layers", "layers", "number", 3)] if by == "op" else []
    heads += [Head(p.convention.name, count_title(p.convention.unit, p.convention.name), "number", 1) for p in profiles]
    heads += [Head(f"{c.name}-{first.name}", f"{c.name} − {first.name}", "number", 2) for c in others]
    lines = []
    for part in _parts(profiles, by):
        base, *rest = part.counts.values()
        gaps = [None if c is None or base is None else c - base for c in rest]
        own = [len(part.nodes)] if by == "op" else []
        lines.append(Line((part.name, *own, base, *rest, *gaps), "unknown" if part.gap == math.inf else ""))
    totals = [p.sum.count for p in profiles]
    total: list[Value] = [
        "Total",
        *([len(profiles[0].rows)] if by == "op" else []),
        *totals,
        *(t - totals[0] for t in totals[1:]),
    ]
    notes = [f"{p.convention.name}: {note}" for p in profiles for note in p.convention.notes]
    missing = [p.convention.name for p in profiles if p.unknown]
    if missing:
        notes.insert(0, f"? cannot be counted; the totals of {', '.join(missing)} are lower bounds")
    return Sheet(
        heads=tuple(heads),
        lines=tuple(lines),
        total=Line(tuple(total)),
        about=about(profiles[0], look, counted=False),
        notes=tuple(look.text(note) for note in notes),
    )
