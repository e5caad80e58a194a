"""The formulas of a model in the stable JSON schema ``flopwise.formula/1``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise._results import Json
from flopwise.analyses.formula.groups import OF_MODEL, Group
from flopwise.analyses.formula.rows import NO_FORMULA
from flopwise.analyses.formula.terms.expressions import identifiers
from flopwise.analyses.formula.terms.polynomial import Term


def formula_json(formula: Any) -> Json:
    """A ``Formula`` as the JSON object ``flopwise.formula/1``, its formulas as text; ``Formula.to_dict`` returns it."""
    text, names = formula.text, identifiers([d.name for d in formula.domains])
    unknown: dict[str, int] = {}
    for row in formula.rows:
        if row.missing == "rule":
            unknown[row.node.op] = unknown.get(row.node.op, 0) + 1
    return {
        "schema": "flopwise.formula/1",
        "model": {"name": formula.graph.name, "source": formula.graph.source, "format": formula.graph.format},
        "inputs": [{"name": n, "dtype": d, "shape": [_number(text(t)) for t in s]} for n, d, s in formula.inputs],
        "convention": {"name": formula.convention.name, "unit": formula.convention.unit},
        "symbols": [
            {"name": d.name, "written": names[d.name], "low": d.low, "high": d.high, "step": d.step}
            for d in formula.domains
        ],
        "conditions": list(formula.conditions),
        "totals": _totals(formula),
        **({"ways": [_way(way) for way in formula.ways], "closed": formula.closed} if formula.ways else {}),
        "layers": [
            {
                "name": row.name,
                "op": row.node.op,
                "scope": row.node.module,
                **{f: _text(text, t) for f, t in layer.terms.items()},
                "ops": _operations(text, layer),
            }
            for row, layer in zip(formula.rows, formula.layers, strict=True)
        ],
        "coverage": {
            "nodes": len(formula.rows),
            "unknown": unknown,
            "without_formula": [row.name for row in formula.rows if row.note == NO_FORMULA],
            "unresolved": list(formula.unresolved),
        },
        "verified_at": [dict(p) for p in formula.verified_at],
        "notes": list(formula.notes),
    }


def _totals(formula: Any) -> Json:
    """Figure of the whole model -> its formula as text, None if it has none; operations by class under "ops"."""
    return {
        **{f: _text(formula.text, t) for f, t in formula.whole.terms.items()},
        **{f: _text(formula.text, formula.term(f)) for f in OF_MODEL},
        "ops": _operations(formula.text, formula.whole),
    }


def _way(way: Any) -> Json:
    """Conditions and totals of a way: formulas at sizes at which the program takes another branch."""
    return {
        "conditions": list(way.conditions),
        "totals": _totals(way),
        "verified_at": [dict(p) for p in way.verified_at],
    }


def _operations(text: Callable[[Term], str], group: Group) -> dict[str, str | None] | None:
    """Class of operations ("mac", "add" ...) -> its formula as text; None if no layer has a rule."""
    counted = any(row.counts is not None for row in group.rows)
    return {name: _text(text, term) for name, term in group.classes.items()} if counted else None


def _text(text: Callable[[Term], str], term: Term | None) -> str | None:
    return None if term is None else text(term)


def _number(text: str) -> int | str:
    """An extent: a number where it is fixed, else its formula as text."""
    return int(text) if text.isdigit() else text
