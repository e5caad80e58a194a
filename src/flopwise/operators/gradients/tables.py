"""All tables of gradients in one; a name in two tables is an error, because one of the two rows would silently win."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.operators.gradients import (
    aten_pointwise,
    aten_products,
    aten_recurrent,
    attention,
    caffe,
    linear,
    losses,
    movement,
    normalization,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resize,
)
from flopwise.operators.gradients.rule import Backward

#: Family name -> its table.
FAMILIES: dict[str, Mapping[str, Backward]] = {
    "linear": linear.BACKWARD,
    "attention": attention.BACKWARD,
    "recurrent": recurrent.BACKWARD,
    "pooling": pooling.BACKWARD,
    "normalization": normalization.BACKWARD,
    "reduction": reduction.BACKWARD,
    "pointwise": pointwise.BACKWARD,
    "resize": resize.BACKWARD,
    "losses": losses.BACKWARD,
    "movement": movement.BACKWARD,
    "caffe": caffe.BACKWARD,
    "aten, pointwise": aten_pointwise.BACKWARD,
    "aten, recurrent": aten_recurrent.BACKWARD,
    "aten, others": aten_products.BACKWARD,
}


def _merge(families: Mapping[str, Mapping[str, Backward]]) -> dict[str, Backward]:
    merged: dict[str, Backward] = {}
    for family, table in families.items():
        twice = merged.keys() & table.keys()
        if twice:
            raise ImportError(f"gradients in two families: {', '.join(sorted(twice))} (again in {family})")
        merged.update(table)
    return merged


#: Every operator whose gradient flopwise knows, by name.
BACKWARD: dict[str, Backward] = _merge(FAMILIES)
