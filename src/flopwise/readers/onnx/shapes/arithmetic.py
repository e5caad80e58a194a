"""The arithmetic that a large model does on shapes: computed once for all cases that are alike.

Where all of it can be computed while types are inferred, neither onnx nor the second pass has to see the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
from onnx import numpy_helper

from flopwise.readers.onnx.listing import Initial, Listed
from flopwise.readers.onnx.shapes.context import Context
from flopwise.readers.onnx.shapes.evaluation import EVALUABLE, evaluable, evaluate
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import QUERIES, Shapes, array_of

#: The most elements of a value: shapes are shorter.
_LONGEST = 1 << 10


class Arithmetic:
    """The elements of small values, by the numbers that cases have."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes, context: Context) -> None:
        """
        Args:
            model: its operator sets are those in force.
            shapes: the types of all values so far.
            context: what is known from outside the graph.
        """
        #: The number of an input that is left out.
        self.left_out = 0
        alone = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        self._state = State(alone, shapes, context)
        #: Where elements come from that nobody has asked for yet: stored tensors and Constants.
        self.sources: dict[int, Initial | Listed] = {}
        self._values: dict[int, Any] = {}

    def value(self, number: int) -> Any:
        """The elements of a value as an array; None where they do not follow, or are too many."""
        if number in self.sources:
            source = self.sources.pop(number)
            self._values[number] = _short(
                array_of(source.proto) if isinstance(source, Initial) else self._computed(source, {})[0]
            )
        return self._values.get(number)

    def computes(self, op: str, domain: str, numbers: Sequence[int]) -> bool:
        """Whether the elements of what a node makes follow from those of what it takes."""
        if domain or op not in EVALUABLE:
            return False
        there = [number for number in numbers if number != self.left_out]
        return op in QUERIES or (bool(there) and all(self.value(number) is not None for number in there))

    def made(self, node: Listed, numbers: Sequence[int]) -> list[Any]:
        """The elements of each output of a node, None where they do not follow; the types of its outputs are there."""
        if not self.computes(node.op, node.domain, numbers):
            return [None] * len(node.outputs)
        inputs = () if node.op in QUERIES else zip(node.inputs, numbers, strict=True)
        return self._computed(node, {name: self.value(number) for name, number in inputs if name})

    def learn(self, number: int, value: Any) -> None:
        """Write down the elements of all values of a number."""
        self._values[number] = value

    def tensor(self, name: str, number: int) -> onnx.TensorProto | None:
        """A value as a stored tensor of a name; None where its elements do not follow."""
        value = self.value(number)
        return None if value is None else numpy_helper.from_array(value, name)

    def _computed(self, node: Listed, taken: dict[str, Any]) -> list[Any]:
        state, proto = self._state, node.proto
        state.values = dict(taken)
        try:
            if evaluable(proto, state):
                evaluate(proto, state)
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
            return [None] * len(node.outputs)
        return [None if name in taken else _short(state.values.get(name)) for name in node.outputs]


def _short(value: Any) -> Any:
    """The value, if it is an array of a few numbers."""
    fits = isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf" and value.size <= _LONGEST
    return value if fits else None
