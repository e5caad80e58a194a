"""An operator's formula, and how each convention counts it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from flopwise._results import Json, fields
from flopwise.conventions import CONVENTIONS, get
from flopwise.errors import InputError
from flopwise.formats.format import late
from flopwise.graph.names import LAYERS
from flopwise.operators.tables import FAMILIES, NOT_RULED, OPERATORS
from flopwise.report.reference import prose_report, spec_url, weighed
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Head, Line, Sheet


def operator_report(name: str, conventions: Sequence[str] = ()) -> Report:
    """An operator's formula, and what conventions make of it.

    Args:
        name: of the operator, or what PyTorch calls it (Linear, SDPA, silu, torch.nn.BatchNorm2d).
        conventions: names of those that are shown; none: all.

    Raises:
        InputError: no operator of that name has a rule.
    """
    content = operator(name, conventions)
    heads = (
        Head("convention", "convention", "text"),
        Head("count", "operations", "text", prose=True),
        Head("unit", "unit", "text"),
        Head("weights", "weighed", "text", prose=True),
    )
    alias = f"PyTorch's {content['alias']} is counted as " if content["alias"] else ""
    formula = f"{alias}{content['operator']} ({content['family']}, {content['claim']}): {content['formula']}"
    backward = f"backward: {content['backward']}" if content["backward"] else ""
    sheet = Sheet(
        heads=heads,
        lines=tuple(Line((c["convention"], c["count"], c["unit"], c["weights"])) for c in content["conventions"]),
        about=tuple(filter(None, (formula, backward, content["source"]))),
    )
    return prose_report(sheet, lambda: content)


#: Operators that PyTorch's are counted as, that one of them becomes, and the names of all.
_counted_as, _several, _all_names = (
    late(f"torch.lower.operators:{name}") for name in ("counted_as", "several", "all_names")
)


def operator(name: str, conventions: Sequence[str] = ()) -> Json:
    """The facts about an operator: family, claim, formula, source, and how conventions count it; none named: all.

    Raises:
        InputError: no operator of that name has a rule.
    """
    match = next((op for op in OPERATORS if op.lower() == name.lower()), None)
    alias = match is None and bool(match := _counted_as(name)) and match in OPERATORS
    if match is None or match not in OPERATORS:
        if why := next((why for op, why in NOT_RULED.items() if op.lower() == name.lower()), None):
            raise InputError(f"{name!r} has no rule on purpose: it {why}")
        if parts := _several(name):
            raise InputError(f"{name!r} is several operators; explain one of them: {', '.join(parts)}")
        raise InputError(f"{name!r} is neither a file nor an operator that has a rule; {_hint(name)}")
    row = OPERATORS[match]
    return {
        "operator": match,
        "alias": name if alias else None,
        "family": next(family for family, table in FAMILIES.items() if match in table),
        **fields(row, "claim formula"),
        "backward": row.gradient.formula if row.gradient else None,
        "source": spec_url(match),
        "conventions": [
            {"convention": c.name, "unit": c.unit, "count": c.describe(match), "weights": weighed(c.weights)}
            for c in ([get(convention) for convention in conventions] or CONVENTIONS.values())
        ],
    }


def _hint(name: str) -> str:
    """The operators and the names of PyTorch nearest to a name, regardless of case."""
    for candidates, cutoff in (((*LAYERS.values(), *OPERATORS), 0.7), ((*_all_names(), *OPERATORS), 0.6)):
        own = {each.lower(): each for each in candidates}
        if near := [own[each] for each in get_close_matches(name.lower(), own, 3, cutoff)]:
            return f"did you mean {' or '.join(near)}?"
    return "flopwise operators lists those that have one"
