"""What an operator costs: one table per family, merged here.

A rule reads the node's shapes and attributes and returns :class:`~flopwise.counts.Counts`. The canonical count is
what a plain, unfused kernel executes in the operator's own definition; ``docs/counting.md`` states the principles.
"""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.counts import Counts
from flopwise.graph import Node
from flopwise.ops import (
    aten_linear,
    aten_pointwise,
    aten_quantized,
    aten_recurrent,
    aten_reduction,
    aten_signals,
    attention,
    caffe,
    classical,
    control,
    detection,
    early,
    generation,
    linear,
    losses,
    microsoft,
    microsoft_attention,
    microsoft_cache,
    microsoft_layouts,
    microsoft_linear,
    microsoft_positions,
    microsoft_quantized,
    microsoft_state,
    microsoft_tokens,
    movement,
    normalization,
    optimizers,
    pointwise,
    pooling,
    program,
    quantized,
    recurrent,
    reduction,
    resize,
    sequence,
    spectral,
    text,
    trees,
)
from flopwise.ops.operator import Claim, Operator, Rule
from flopwise.ops.unruled import NOT_RULED

__all__ = ["FAMILIES", "NOT_RULED", "OPERATORS", "Claim", "Operator", "Rule", "count"]

#: Family name -> its table, in the order the documentation shows them.
FAMILIES: dict[str, Mapping[str, Operator]] = {
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
    "com.microsoft, products": microsoft_linear.OPERATORS,
    "com.microsoft, attention": microsoft_attention.OPERATORS,
    "com.microsoft, attention over a cache": microsoft_cache.OPERATORS,
    "com.microsoft, positions": microsoft_positions.OPERATORS,
    "com.microsoft, recurrent state": microsoft_state.OPERATORS,
    "com.microsoft, quantized": microsoft_quantized.OPERATORS,
    "com.microsoft, tokens": microsoft_tokens.OPERATORS,
    "com.microsoft, layouts": microsoft_layouts.OPERATORS,
    "com.microsoft, others": microsoft.OPERATORS,
    "caffe": caffe.OPERATORS,
    "aten, products": aten_linear.OPERATORS,
    "aten, quantized": aten_quantized.OPERATORS,
    "aten, recurrent": aten_recurrent.OPERATORS,
    "aten, pointwise": aten_pointwise.OPERATORS,
    "aten, reductions, losses and pooling": aten_reduction.OPERATORS,
    "aten, signals and linear algebra": aten_signals.OPERATORS,
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
