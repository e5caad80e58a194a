"""Inputs, outputs and values of a graph with the types that are to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.types import tensor_type
from flopwise.writers.onnx.plan import GraphPlan, Value

#: Fields of GraphProto.
INPUT, OUTPUT, VALUE = 11, 12, 13


class Ends:
    """What is known about the values of one graph while its messages go by."""

    def __init__(self, plan: GraphPlan, outputs: Sequence[str]) -> None:
        """
        Args:
            plan: what is to be written.
            outputs: names of tensors that become outputs.
        """
        self.plan = plan
        self.outputs = dict.fromkeys(outputs)
        #: Entries that became outputs.
        self.moved: dict[str, onnx.ValueInfoProto] = {}
        self.seen: set[str] = set()

    def new(self) -> Iterator[tuple[int, onnx.ValueInfoProto]]:
        """What the graph gets when all its messages have gone by: the field, and the entry."""
        for name in self.outputs:
            value = self.plan.values.get(name)
            entry = self.moved.get(name) or onnx.ValueInfoProto(name=name, type=value.type if value else None)
            yield OUTPUT, entry
            self.seen.add(name)
        for name in self.plan.made:
            value = self.plan.values.get(name)
            if name not in self.seen and value is not None and _typed(value.type):
                yield VALUE, onnx.ValueInfoProto(name=name, type=value.type)


def put(ends: Ends, number: int, old: onnx.ValueInfoProto) -> onnx.ValueInfoProto | Literal[False] | None:
    """An entry of the file with its new type; None when it stays as it is, False when it is left out here.

    Args:
        ends: what is known about the graph; written on.
        number: the field that the entry is in.
        old: the entry; changed in place.
    """
    name, plan = old.name, ends.plan
    ends.seen.add(name)
    if number == VALUE and name in plan.stored:
        return None  # what exporters note on weights
    value = plan.values.get(name)
    before = old.SerializeToString()
    if name in plan.untouched:
        pass
    elif number == VALUE or plan.main:
        _settle(old, value, plan.stale)
    else:
        _correct(old, value, plan.stale)
    if number == VALUE and name in ends.outputs:
        ends.moved[name] = old
        return False
    if number == OUTPUT:
        ends.outputs.pop(name, None)
    return None if old.SerializeToString() == before else old


def _settle(old: onnx.ValueInfoProto, value: Value | None, stale: bool) -> None:
    """Write down what is known; keep what the file says where that is more, and holds."""
    if value is not None and (value.resolved or stale or not _complete(old.type)):
        _retype(old.type, value.type)
    elif stale:
        _open(old.type)


def _correct(old: onnx.ValueInfoProto, value: Value | None, stale: bool) -> None:
    """Correct the type of an input or output of a body where it is wrong."""
    declared = tensor_type(old.type)
    if declared is None or not declared.HasField("shape"):
        return
    ours = None if value is None or not value.resolved else tensor_type(value.type)
    if ours is None:
        if stale:
            _open(old.type)
        return
    pairs = zip(declared.shape.dim, ours.shape.dim, strict=False)
    wrong = len(declared.shape.dim) != len(ours.shape.dim)
    if value is not None and (wrong or any(a.HasField("dim_value") and a.dim_value != b.dim_value for a, b in pairs)):
        _retype(old.type, value.type)


def _typed(type_: TypeProto) -> bool:
    """Whether a type states the element type of a tensor, or is not a tensor type."""
    if type_.WhichOneof("value") != "tensor_type":
        return type_.WhichOneof("value") is not None
    return bool(type_.tensor_type.elem_type)


def _complete(type_: TypeProto) -> bool:
    """Whether a type states the element type and rank of a tensor, or is not a tensor type."""
    return _typed(type_) and (not type_.HasField("tensor_type") or type_.tensor_type.HasField("shape"))


def _retype(old: TypeProto, new: TypeProto) -> None:
    """Put the new type in place of the old one; what the file says about the meaning of each dim stays."""
    if not old.HasField("tensor_type") or not new.HasField("tensor_type"):
        old.CopyFrom(new)
        return
    kept, stated = old.tensor_type, new.tensor_type
    kept.elem_type = stated.elem_type or kept.elem_type
    if not kept.HasField("shape") or len(kept.shape.dim) != len(stated.shape.dim) or not stated.HasField("shape"):
        kept.ClearField("shape")
        if stated.HasField("shape"):
            kept.shape.CopyFrom(stated.shape)
        return
    for dim, size in zip(kept.shape.dim, stated.shape.dim, strict=True):
        if size.HasField("dim_value"):
            dim.dim_value = size.dim_value
        else:
            dim.ClearField("value")


def _open(type_: TypeProto) -> None:
    """Take the shape out of a type."""
    tensor = tensor_type(type_)
    if tensor is not None:
        tensor.ClearField("shape")
