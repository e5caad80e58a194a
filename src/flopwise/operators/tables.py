"""What is known about each operator: one table per family, merged here.

A rule reads the node's shapes and attributes and returns :class:`~flopwise.operators.counts.Counts`. The canonical
count is what a plain, unfused kernel executes in the operator's own definition;
``docs/counting.md`` states the principles.
"""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.graph import Node
from flopwise.operators import program
from flopwise.operators.aten import linear as aten_linear
from flopwise.operators.aten import pointwise as aten_pointwise
from flopwise.operators.aten import quantized as aten_quantized
from flopwise.operators.aten import recurrent as aten_recurrent
from flopwise.operators.aten import reduction as aten_reduction
from flopwise.operators.aten import signals
from flopwise.operators.caffe import layers
from flopwise.operators.counts import Counts
from flopwise.operators.onnx import (
    attention,
    classical,
    control,
    detection,
    domains,
    early,
    generation,
    linear,
    losses,
    movement,
    normalization,
    optimizers,
    pointwise,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    sequence,
    spectral,
    text,
    trees,
)
from flopwise.operators.onnxruntime import attention as microsoft_attention
from flopwise.operators.onnxruntime import cache, layouts, positions, state, tokens
from flopwise.operators.onnxruntime import linear as microsoft_linear
from flopwise.operators.onnxruntime import movement as microsoft_movement
from flopwise.operators.onnxruntime import normalization as microsoft_normalization
from flopwise.operators.onnxruntime import pointwise as microsoft_pointwise
from flopwise.operators.onnxruntime import quantized as microsoft_quantized
from flopwise.operators.onnxruntime import signals as microsoft_signals
from flopwise.operators.operator import Claim, Effect, Operator, Rule, unknown
from flopwise.operators.own import OWN

__all__ = [
    "FAMILIES",
    "NOT_RULED",
    "OPERATORS",
    "ROWS",
    "TABLES",
    "Claim",
    "Operator",
    "Rule",
    "count",
    "find",
    "needed",
    "row",
    "with_effect",
]

#: Family name -> its table, in the order the documentation shows them.
TABLES: Mapping[str, Mapping[str, Operator]] = {
    "linear": linear.OPERATORS,
    "attention": attention.OPERATORS,
    "quantized": quantized.OPERATORS,
    "recurrent": recurrent.OPERATORS,
    "pooling": pooling.OPERATORS,
    "normalization": normalization.OPERATORS,
    "reduction": reduction.OPERATORS,
    "pointwise": pointwise.OPERATORS,
    "resize": resize.OPERATORS,
    "detection": detection.OPERATORS,
    "spectral": spectral.OPERATORS,
    "losses": losses.OPERATORS,
    "optimizers": optimizers.OPERATORS,
    "classical": classical.OPERATORS,
    "trees": trees.OPERATORS,
    "generation": generation.OPERATORS,
    "movement": movement.OPERATORS,
    "sequence": sequence.OPERATORS,
    "text": text.OPERATORS,
    "control": control.OPERATORS,
    "early": early.OPERATORS,
    "other domains": domains.OPERATORS,
    "com.microsoft, products": microsoft_linear.OPERATORS,
    "com.microsoft, attention": microsoft_attention.OPERATORS,
    "com.microsoft, attention over a cache": cache.OPERATORS,
    "com.microsoft, positions": positions.OPERATORS,
    "com.microsoft, recurrent state": state.OPERATORS,
    "com.microsoft, quantized": microsoft_quantized.OPERATORS,
    "com.microsoft, tokens": tokens.OPERATORS,
    "com.microsoft, layouts": layouts.OPERATORS,
    "com.microsoft, pointwise": microsoft_pointwise.OPERATORS,
    "com.microsoft, normalization": microsoft_normalization.OPERATORS,
    "com.microsoft, sampling, signals and linear algebra": microsoft_signals.OPERATORS,
    "com.microsoft, movement": microsoft_movement.OPERATORS,
    "caffe": layers.OPERATORS,
    "aten, products": aten_linear.OPERATORS,
    "aten, quantized": aten_quantized.OPERATORS,
    "aten, recurrent": aten_recurrent.OPERATORS,
    "aten, pointwise": aten_pointwise.OPERATORS,
    "aten, reductions, losses and pooling": aten_reduction.OPERATORS,
    "aten, signals and linear algebra": signals.OPERATORS,
    "programs": program.OPERATORS,
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


#: Every operator that flopwise knows something about, by name.
ROWS: dict[str, Operator] = _merge(TABLES)

#: Every operator that has a count.
OPERATORS: dict[str, Operator] = {op: row for op, row in ROWS.items() if row.counted}

#: Family name -> those of its operators that have a count.
FAMILIES: dict[str, dict[str, Operator]] = {
    family: {op: row for op, row in table.items() if row.counted} for family, table in TABLES.items()
}

#: Operator that stays without a count on purpose -> why.
NOT_RULED: dict[str, str] = {op: row.formula for op, row in ROWS.items() if not row.counted}

#: The row of an operator that nobody knows.
NOBODY_KNOWS = unknown("no rule")


def find(op: str) -> Operator | None:
    """The row of an operator: the user's own, else that of the tables; None where there is none."""
    return OWN.get().get(op) or ROWS.get(op)


def row(op: str) -> Operator:
    """The row of an operator; one that says nothing where there is none."""
    return find(op) or NOBODY_KNOWS


def with_effect(effect: Effect) -> frozenset[str]:
    """The operators of the tables that have an effect."""
    return frozenset(op for op, operator in ROWS.items() if effect in operator.effects)


def needed(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Canonical operations of an attention on the pairs of queries and keys that its masks leave.

    None for every other operator, and where the user's rules count it.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    known = None if rules and node.op in rules else OPERATORS.get(node.op)
    return None if known is None or known.needed is None else known.needed(node)


def count(node: Node, rules: Mapping[str, Rule] | None = None) -> Counts | None:
    """Canonical operations of one node; None when neither the user's rules nor the tables know the operator.

    Raises:
        ShapeError: a shape that the rule needs is unresolved.
    """
    if rules and node.op in rules:
        return rules[node.op](node)
    known = OPERATORS.get(node.op)
    return known.rule(node) if known else None
