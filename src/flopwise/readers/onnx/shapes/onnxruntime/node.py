"""What the rules for onnxruntime's shapes share: a node with what is known about its inputs, and onnx's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
import onnx
from onnx import TypeProto, defs, numpy_helper, shape_inference

from flopwise.readers.onnx.types import TOO_MANY, concrete, elements, tensor_type

#: What is known about the type of a value, and its elements if they are few and known; else None.
TypeOf = Callable[[str], "TypeProto | None"]
ValueOf = Callable[[str], Any]

Shape = tuple[int, ...]

FLOAT, INT32, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64
INT8, UINT8, BOOL = onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.BOOL

#: The operator set whose rules are asked; its operators take what onnxruntime's take.
OPSET = 17

#: An attribute of a node: its value, or the message that holds it.
Attributes = Iterable[onnx.AttributeProto]


class Place:
    """A node, and what is known about its inputs."""

    def __init__(self, node: onnx.NodeProto, type_of: TypeOf, value_of: ValueOf, graph: onnx.GraphProto) -> None:
        self.node = node
        self.graph = graph
        self._type_of = type_of
        self._value_of = value_of

    def at(self, node: onnx.NodeProto) -> Place:
        """Another node of the same graph."""
        return Place(node, self._type_of, self._value_of, self.graph)

    def name(self, index: int) -> str:
        """The name of an input; "" when it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def type(self, index: int) -> TypeProto | None:
        return self._type_of(self.name(index)) if self.name(index) else None

    def shape(self, index: int) -> Shape | None:
        found = self.type(index)
        return None if found is None else concrete(found)

    def ranked(self, index: int, *ranks: int) -> Shape:
        """The shape of an input that has one of these ranks.

        Raises:
            UnresolvedError: it is not known, or has another rank.
        """
        shape = self.shape(index)
        if shape is None or (ranks and len(shape) not in ranks):
            raise UnresolvedError
        return shape

    def code(self, index: int) -> int:
        """The element type of an input, as ONNX numbers them; float where nobody knows."""
        found = self.type(index)
        tensor = None if found is None else tensor_type(found)
        return FLOAT if tensor is None or not tensor.elem_type else int(tensor.elem_type)

    def value(self, index: int) -> Any:
        """The elements of a small input as an array; None when they are not known."""
        value = self._value_of(self.name(index)) if self.name(index) else None
        return value if isinstance(value, numpy.ndarray) else None

    def number(self, index: int) -> int | None:
        """The one element of an input; None when it is not known."""
        value = self.value(index)
        return int(value.ravel()[0]) if value is not None and value.size == 1 else None

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute, of the type of its default.

        Raises:
            UnresolvedError: it is of another type.
        """
        value = next((onnx.helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)
        if not isinstance(value, type(default)):
            raise UnresolvedError(f"its attribute {name!r} is of the wrong type")
        return value

    def positive(self, name: str) -> int:
        """An attribute that counts something.

        Raises:
            UnresolvedError: it is missing, or counts nothing.
        """
        count: int = self.attribute(name, 0)
        if count < 1:
            raise UnresolvedError
        return count

    def attributes(self, *without: str) -> list[onnx.AttributeProto]:
        """The attributes but these."""
        return [a for a in self.node.attribute if a.name not in without]


class UnresolvedError(ValueError):
    """Something that the shape of a result needs is not known, or makes no sense."""


#: The types of a node's outputs in order, None for those that nothing is known about.
Rule = Callable[[Place], "Sequence[TypeProto | None]"]


def make(code: int, dims: Iterable[int]) -> TypeProto | None:
    """A tensor type; None for extents that no tensor has."""
    listed = list(dims)
    if min(listed, default=0) < 0 or elements(listed) >= TOO_MANY:
        return None
    made: TypeProto = onnx.helper.make_tensor_type_proto(code, listed)
    return made


def ask(
    op: str,
    inputs: Sequence[TypeProto | None],
    attributes: Attributes = (),
    values: Sequence[Any] = (),
    outputs: int = 1,
) -> list[Shape | None]:
    """The shapes of the outputs of a standard operator, as onnx infers them.

    Args:
        op: the operator, of the operator set ``OPSET``.
        inputs: types of its inputs, None for one that is left out.
        attributes: its attributes.
        values: elements of its inputs, None where they are not known.
        outputs: how many outputs it has.

    Raises:
        UnresolvedError: onnx does not take these types.
    """
    names = ["" if t is None else f"x{i}" for i, t in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    made = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(op, names, made)
    node.attribute.extend(attributes)
    types = {name: t for name, t in zip(names, inputs, strict=False) if name and t is not None}
    data = {name: numpy_helper.from_array(v, name) for name, v in zip(names, values, strict=False) if v is not None}
    try:
        found = shape_inference.infer_node_outputs(
            defs.get_schema(op, OPSET), node, types, data, opset_imports=[onnx.helper.make_opsetid("", OPSET)]
        )
    except (RuntimeError, shape_inference.InferenceError) as error:
        raise UnresolvedError(str(error)) from error
    return [concrete(found[name]) if name in found else None for name in made]


def floats(shape: Shape) -> TypeProto | None:
    """A tensor of floats: shapes do not hang on the type, and onnx's rules take no others for many operators."""
    return make(FLOAT, shape)


def channels_first(shape: Shape) -> Shape:
    return (shape[0], shape[-1], *shape[1:-1])


def channels_last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])
