"""What follows although the value of an input is unknown, and which input it is that decides a shape."""

from __future__ import annotations

import math

import numpy
import onnx

from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import concrete, describe, elements, first_output

#: Operators that only change the form of a value.
_FORMS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

#: How far a value is followed back.
_DEEPEST = 16

#: Elements up to which an input may be a setting rather than data.
_SETTING = 16


#: Operators whose inputs are all settings; others take data first.
_SETTINGS_ALONE = frozenset({"ConstantOfShape", "Range"})


class OpenValues:
    """The values of one graph that inputs decide."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._makers: dict[str, onnx.NodeProto] | None = None

    @property
    def makers(self) -> dict[str, onnx.NodeProto]:
        """The node that makes a value, by the value's name."""
        if self._makers is None:
            self._makers = {o: node for node in self.state.graph.node for o in node.output if o}
        return self._makers

    def reshaped(self, node: onnx.NodeProto) -> tuple[int, ...] | None:
        """The shape that a Reshape makes when one extent of it is unknown: it follows from the number of elements."""
        shape = self.state.shapes.shape(node.input[0]) if len(node.input) > 1 else None
        target = None if shape is None else self._elements(node.input[1], _DEEPEST)
        if shape is None or target is None or target.count(None) != 1 or -1 in target:
            return None
        if 0 in target:
            keep = any(a.name == "allowzero" and a.i for a in node.attribute)
            if keep or (len(target) > len(shape) and any(d == 0 for d in target[len(shape) :])):
                return None
            target = [shape[i] if d == 0 else d for i, d in enumerate(target)]
        others = math.prod(d for d in target if d is not None)
        if others <= 0 or elements(shape) % others:
            return None
        return tuple(elements(shape) // others if d is None else d for d in target)

    def _elements(self, name: str, depth: int) -> list[int | None] | None:
        """The elements of a vector, None for each that is unknown; None if not even their number is known."""
        value = self.state.values.get(name)
        if isinstance(value, numpy.ndarray):
            return [int(v) for v in value.ravel()] if value.ndim < 2 and value.dtype.kind in "iu" else None
        shape, node = self.state.shapes.shape(name), self.makers.get(name)
        if shape is None or len(shape) > 1 or elements(shape) > _SETTING:
            return None
        if node is not None and depth and not node.domain:
            if node.op_type == "Concat":
                parts = [self._elements(i, depth - 1) for i in node.input]
                if all(part is not None for part in parts):
                    return [element for part in parts for element in part or ()]
            elif node.op_type in _FORMS and node.input:
                return self._elements(node.input[0], depth - 1)
        return [None] * elements(shape)

    def remark(self) -> str:
        """Which values of inputs the first unresolved shape depends on, and how to give them; "" if on none."""
        shapes = self.state.shapes
        for lost in self.state.graph.node:
            if lost.input and not shapes.sized(first_output(lost)):
                break
        else:
            return ""
        if lost.domain or first_output(lost) in shapes.faults or not all(shapes.sized(i) for i in lost.input if i):
            return ""
        deciding = []
        for value in self.state.graph.input:
            shape = concrete(value.type)
            if (
                shape is not None
                and len(shape) < 2
                and elements(shape) <= _SETTING
                and value.name not in self.state.values
                and not any(f.startswith(f"no shape for {describe(lost)}") for f in self.state.failures)
            ):
                deciding.append(value.name)
        behind = self._behind(lost)
        names = [name for name in deciding if name in behind]
        if not names:
            return ""
        return (
            f"the shape of {first_output(lost)!r} depends on the value of {', '.join(map(repr, names))}: "
            f"give the value: {' '.join('-i ' + self._example(name) for name in names)}"
        )

    def _behind(self, node: onnx.NodeProto) -> set[str]:
        """The values that the settings of a node follow from."""
        waiting = list(node.input if node.op_type in _SETTINGS_ALONE else node.input[1:])
        behind: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name and name not in behind and name not in self.state.values:
                behind.add(name)
                waiting.extend(self.makers[name].input if name in self.makers else ())
        return behind

    def _example(self, name: str) -> str:
        shape = self.state.shapes.shape(name) or ()
        dtype = {"int64": "i64", "int32": "i32", "float32": "f32"}.get(self.state.shapes.dtype(name) or "", "")
        data = ",".join(["5"] * elements(shape))
        return f"{name}:{dtype or self.state.shapes.dtype(name)}:{'x'.join(map(str, shape))}:{data}"
