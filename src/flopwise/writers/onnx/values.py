"""Inputs, outputs and values of a graph with the types that are to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from flopwise.formats.onnx.file.model import TensorType, Type
from flopwise.formats.onnx.file.model import Value as Declared
from flopwise.formats.onnx.types import tensor_type
from flopwise.writers.onnx.plan import GraphPlan, Value
from flopwise.writers.onnx.types import entry, opened, retyped, with_type

#: Fields of GraphProto.
INPUT, OUTPUT, VALUE = 11, 12, 13


class Ends:
    """The values of one graph, followed while its messages go by."""

    def __init__(self, plan: GraphPlan, outputs: Sequence[str]) -> None:
        """
        Args:
            plan: what is to be written.
            outputs: names of tensors that become outputs.
        """
        self.plan = plan
        self.outputs = dict.fromkeys(outputs)
        #: Entries that became outputs.
        self.moved: dict[str, bytes] = {}
        self.seen: set[str] = set()

    def new(self) -> Iterator[tuple[int, bytes]]:
        """Fields to add once all messages of the graph have gone by: the field's number, and the entry."""
        for name in self.outputs:
            value = self.plan.values.get(name)
            yield OUTPUT, self.moved.get(name) or entry(name, value.type if value else None)
            self.seen.add(name)
        for name in self.plan.results:
            value = self.plan.values.get(name)
            if name not in self.seen and value is not None and _typed(value.type):
                yield VALUE, entry(name, value.type)


def put(ends: Ends, number: int, declared: Declared, data: bytes) -> bytes | Literal[False] | None:
    """An entry of the file with its new type; None when it stays as it is, False when it is left out here.

    Args:
        ends: what is known about the graph; written on.
        number: the field that the entry is in.
        declared: what it says.
        data: its bytes.
    """
    name, plan = declared.name, ends.plan
    ends.seen.add(name)
    if number == VALUE and name in plan.stored:
        return None  # what exporters note on weights
    value, entry = plan.values.get(name), data
    if name in plan.untouched:
        pass
    elif number == VALUE or plan.main:
        entry = _settled(data, declared.type, value, plan.stale)
    else:
        entry = _corrected(data, declared.type, value, plan.stale)
    if number == VALUE and name in ends.outputs:
        ends.moved[name] = entry
        return False
    if number == OUTPUT:
        ends.outputs.pop(name, None)
    return None if entry == data else entry


def _settled(data: bytes, type_: Type | None, value: Value | None, stale: bool) -> bytes:
    """An entry with what is known; what the file says stays where that is more, and holds."""
    if value is not None and (value.resolved or stale or not _complete(type_)):
        new = value.type
        return with_type(data, lambda old: retyped(old, new))
    return with_type(data, opened) if stale and type_ is not None else data


def _corrected(data: bytes, type_: Type | None, value: Value | None, stale: bool) -> bytes:
    """An input or output of a body with another type where its own is wrong."""
    declared = tensor_type(type_)
    if declared is None or declared.dims is None:
        return data
    ours = tensor_type(value.type) if value is not None and value.resolved else None
    if value is None or ours is None or ours.dims is None:
        return with_type(data, opened) if stale else data
    new = value.type
    wrong = len(declared.dims) != len(ours.dims)
    if wrong or any(isinstance(a, int) and a != b for a, b in zip(declared.dims, ours.dims, strict=True)):
        return with_type(data, lambda old: retyped(old, new))
    return data


def _typed(type_: Type | None) -> bool:
    """True where a type states the element type of a tensor, or is not a tensor type."""
    return type_.dtype is not None if type(type_) is TensorType else type_ is not None


def _complete(type_: Type | None) -> bool:
    """True where a type states the element type and rank of a tensor, or is not a tensor type."""
    return _typed(type_) and (type(type_) is not TensorType or type_.dims is not None)
