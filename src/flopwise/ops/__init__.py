"""What an operator costs: one table per family, merged here.

A rule reads the node's shapes and attributes and returns :class:`~flopwise.counts.Counts`. The canonical count is
what a plain, unfused kernel executes in the operator's own definition; ``docs/counting.md`` states the principles.
"""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.counts import Counts
from flopwise.graph import Node
from flopwise.ops import (
    attention,
    control,
    linear,
    movement,
    normalization,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resize,
)
from flopwise.ops.operator import Claim, Operator, Rule

__all__ = ["FAMILIES", "OPERATORS", "Claim", "Operator", "Rule", "count"]

#: Family name -> its table, in the order the documentation shows them.
FAMILIES: dict[str, Mapping[str, Operator]] = {
    "linear": linear.OPERATORS,
    "attention": attention.OPERATORS,
    "recurrent": recurrent.OPERATORS,
    "pooling": pooling.OPERATORS,
    "normalization": normalization.OPERATORS,
    "reduction": reduction.OPERATORS,
    "pointwise": pointwise.OPERATORS,
    "resize": resize.OPERATORS,
    "movement": movement.OPERATORS,
    "control": control.OPERATORS,
}


def _merge(families: Mapping[str, Mapping[str, Operator]]) -> dict[str, Operator]:
    """All tables in one; a name in two families is an error, because one of the two rows would silently win."""
    merged: dict[str, Operator] = {}
    for family, table in families.items():
        twice = merged.keys() & table.keys()
        if twice:
            raise ImportError(f"operators in two families: {', '.join(sorted(twice))} (again in {family})")
        merged.update(table)
    return merged


#: Every operator that flopwise knows, by name.
OPERATORS: dict[str, Operator] = _merge(FAMILIES)


def count(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Canonical operations of one node; None when neither the user's rules nor the tables know the operator.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    if rules and node.op in rules:
        return rules[node.op](node)
    known = OPERATORS.get(node.op)
    return known.rule(node) if known else None
