"""The state of one graph while its shapes are resolved: its tensors' types and values, and what to warn of."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
from onnx import TypeProto

from flopwise.readers.onnx.shapes.context import MADE, Context
from flopwise.readers.onnx.types import Facts, Interval, Shapes, array_of, concrete

#: Bytes that all values together may take.
ROOM = 64 << 20

#: The longest extent of a value; one without elements may claim any.
LONGEST = 1 << 16


class State:
    """One graph, and all that is certain about its tensors so far."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes, context: Context) -> None:
        """
        Args:
            model: a model without weights whose inputs have concrete shapes.
            shapes: the types of its inputs and stored tensors; everything that follows is written here.
            context: what is known from outside the graph.
        """
        self.graph = model.graph
        self.shapes = shapes
        self.context = context
        self.opsets = {o.domain: o.version for o in model.opset_import}
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.values: dict[str, Any] = shapes.values
        #: Bytes that further values may take.
        self.room = ROOM
        #: What to warn of: operators that have no shape.
        self.failures: list[str] = []
        for tensor in self.graph.initializer:
            value = array_of(tensor)
            if value is not None and max(value.shape, default=0) <= LONGEST:
                self.values.setdefault(tensor.name, value)

    def facts(self, name: str) -> Facts:
        """All facts about a value; none about an input that is left out."""
        return self.shapes.facts(name) if name else Facts()

    def learn(self, name: str, facts: Facts) -> None:
        """Write down what follows for a value, where nothing better is known."""
        if facts.items is not None and self.affords(MADE * len(facts.items)):
            self.shapes.items[name] = facts.items
        if facts.type is not None and (concrete(facts.type) is not None or self.shapes.shape(name) is None):
            self.shapes.set(name, facts.type)
            if facts.bound:
                self.shapes.bounds[name] = facts.bound
        if facts.value is not None:
            self.remember(name, facts.value)
        elif facts.interval is not None:
            self.remember_interval(name, facts.interval)

    def affords(self, members: int) -> bool:
        """Whether so many more members of sequences may be looked at; if so, they are taken off what the model has."""
        room = self.context.members
        if members > room[0]:
            return False
        room[0] -= members
        return True

    def interval(self, name: str) -> Interval | None:
        """The bounds of a value, the same twice where it is certain; None if nothing is known about it."""
        value = self.values.get(name)
        return Interval(value, value) if isinstance(value, numpy.ndarray) else self.shapes.intervals.get(name)

    def remember_interval(self, name: str, interval: Interval) -> None:
        """Write down the bounds of a value; as a value if they are the same."""
        if interval.exact:
            self.remember(name, interval.high)
        else:
            self.room -= interval.low.nbytes + interval.high.nbytes
            self.shapes.intervals[name] = interval

    def remember(self, name: str, value: Any) -> None:
        """Write down a value, and its shape or those of its members."""
        if isinstance(value, list):
            if all(isinstance(v, numpy.ndarray) for v in value) and self.affords(MADE * len(value)):
                self.values[name] = value
                self.shapes.items[name] = [_type_of(v) for v in value]
            return
        self.room -= value.nbytes
        if value.dtype != object:
            self.values[name] = value
        if self.shapes.shape(name) is None or name in self.shapes.bounds:
            self.shapes.bounds.pop(name, None)
            self.shapes.set(name, _type_of(value))


def _type_of(value: Any) -> TypeProto:
    """The type of an array."""
    strings = value.dtype == object or value.dtype.kind in "US"
    code = onnx.TensorProto.STRING if strings else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(code, value.shape)
