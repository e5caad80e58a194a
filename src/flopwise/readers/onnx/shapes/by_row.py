"""The types of a node's outputs by the shape rule in the row of its operator, where onnx does not infer them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import onnx
from onnx import TypeProto, defs, numpy_helper, shape_inference

from flopwise.operators.shape import Call, Dims, ShapeRule, UnresolvedError
from flopwise.operators.tables import row
from flopwise.readers.onnx.file.skeleton import CODES, DTYPES
from flopwise.readers.onnx.shapes.checks import correct_windows
from flopwise.readers.onnx.types import TOO_MANY, concrete, elements, tensor_type

#: The type of a value by its name, and its elements if they are few and known; else None.
TypeOf = Callable[[str], "TypeProto | None"]
ValueOf = Callable[[str], Any]

#: The operator set whose rules are asked; its operators take what onnxruntime's take.
OPSET = 17


def rule_of(node: onnx.NodeProto) -> ShapeRule | None:
    """The shape rule of a node's operator; None where there is none."""
    return row(f"{node.domain}::{node.op_type}" if node.domain else node.op_type).shape


def infer(
    rule: ShapeRule,
    node: onnx.NodeProto,
    type_of: TypeOf,
    value_of: ValueOf,
    graph: onnx.GraphProto | None = None,
) -> dict[str, TypeProto]:
    """The types of a node's outputs; empty when nothing is known.

    Args:
        rule: the shape rule of its operator.
        node: a node.
        type_of: the type of a value by name.
        value_of: the elements of a small value by name.
        graph: the graph around the node.

    Raises:
        ValueError: its attributes or inputs make no sense to onnx's own rule.
    """
    try:
        types = rule(NodeCall(node, type_of, value_of, graph or onnx.GraphProto()))
    except UnresolvedError as error:
        if error.args:
            raise
        return {}
    return {o: t for o, t in zip(node.output, types, strict=False) if o and t is not None}


class NodeCall(Call):
    """A node, and what is known about its inputs."""

    def __init__(self, node: onnx.NodeProto, type_of: TypeOf, value_of: ValueOf, graph: onnx.GraphProto) -> None:
        self.node = node
        self.graph = graph
        self._type_of = type_of
        self._value_of = value_of

    @property
    def op(self) -> str:
        return self.node.op_type

    @property
    def inputs(self) -> int:
        return len(self.node.input)

    def has(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def type(self, place: int) -> TypeProto | None:
        return self._type_of(self.node.input[place]) if self.has(place) else None

    def type_of(self, name: str) -> TypeProto | None:
        return self._type_of(name)

    def shape(self, place: int) -> Dims | None:
        type_ = self.type(place)
        return None if type_ is None else concrete(type_)

    def dtype(self, place: int) -> str:
        type_ = self.type(place)
        tensor = None if type_ is None else tensor_type(type_)
        return "float32" if tensor is None else DTYPES.get(tensor.elem_type, "float32")

    def value(self, place: int) -> Any:
        value = self._value_of(self.node.input[place]) if self.has(place) else None
        return value if isinstance(value, numpy.ndarray) else None

    def number(self, place: int) -> int | None:
        value = self.value(place)
        return int(value.ravel()[0]) if value is not None and value.size == 1 else None

    def attribute(self, name: str, default: Any) -> Any:
        value = next((onnx.helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)
        if not isinstance(value, type(default)):
            raise UnresolvedError(f"its attribute {name!r} is of the wrong type")
        return value

    def type_attribute(self, name: str, default: str) -> str:
        code = self.attribute(name, CODES[default])
        if code not in DTYPES:
            raise UnresolvedError(f"its attribute {name!r} is not an element type")
        return DTYPES[code]

    def tensor(self, dtype: str, dims: Iterable[int] | None) -> TypeProto | None:
        if dims is None:
            return None
        extents = list(dims)
        if min(extents, default=0) < 0 or elements(extents) >= TOO_MANY:
            return None
        return onnx.helper.make_tensor_type_proto(CODES[dtype], extents)

    def ask(
        self,
        op: str,
        inputs: Sequence[TypeProto | None],
        *,
        without: Sequence[str] = (),
        only: Sequence[str] | None = None,
        more: Mapping[str, Any] | None = None,
        values: Sequence[Any] = (),
    ) -> Dims | None:
        names = ["" if t is None else f"x{i}" for i, t in enumerate(inputs)]
        while names and not names[-1]:
            names.pop()
        node = onnx.helper.make_node(op, names, ["y"], **(more or {}))
        node.attribute.extend(
            a for a in self.node.attribute if a.name not in without and (only is None or a.name in only)
        )
        types = {name: t for name, t in zip(names, inputs, strict=False) if name and t is not None}
        data = {n: numpy_helper.from_array(v, n) for n, v in zip(names, values, strict=False) if v is not None}
        try:
            results = shape_inference.infer_node_outputs(
                defs.get_schema(op, OPSET), node, types, data, opset_imports=[onnx.helper.make_opsetid("", OPSET)]
            )
        except (RuntimeError, shape_inference.InferenceError) as error:
            raise UnresolvedError(str(error)) from error
        correct_windows(node, inputs[0] if inputs else None, results)
        return concrete(results["y"]) if "y" in results else None

    def others(self, op: str) -> Iterator[NodeCall]:
        for node in self.graph.node:
            if node.op_type == op and node.domain == self.node.domain:
                yield NodeCall(node, self._type_of, self._value_of, self.graph)

    def feeds(self, other: Call) -> bool:
        return isinstance(other, NodeCall) and other.node.input[0] == self.node.output[0]
