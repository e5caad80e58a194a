"""The members of ONNX sequences and optionals: onnx infers only what all members of a sequence have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import onnx
from onnx import TypeProto

from flopwise.readers.onnx.types import Facts, concrete, shapes_of, tensor_type

#: What is known about each input of a node; what follows for each output.
_Rule = Callable[[onnx.NodeProto, list[Facts]], list[Facts]]

#: Members of a sequence that are looked at; a longer one has no known members.
LONGEST = 4096


def members(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    """What follows for the outputs of an operator on sequences or optionals from what is known about its inputs.

    Args:
        node: the operator.
        inputs: what is known about each input; nothing for one that is left out.

    Returns:
        One for each output; empty for other operators, and where nothing follows.
    """
    rule = RULES.get((node.domain, node.op_type))
    return rule(node, inputs) if rule else []


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _sequence(items: list[TypeProto] | None) -> list[Facts]:
    return [Facts(items=items)] if items is not None and len(items) <= LONGEST else []


def _place(position: Facts, length: int) -> int | None:
    """A position in a sequence, counted from the start; None when it is unknown or outside."""
    if not isinstance(position.value, (numpy.ndarray, numpy.generic)) or position.value.size != 1:
        return None
    place = int(position.value)
    return place % length if length and -length <= place < length else None


def _construct(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    types = [k.type for k in inputs if k.type is not None]
    return _sequence(types if len(types) == len(inputs) else None)


def _insert(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    items, new = inputs[0].items, inputs[1].type
    if items is None or new is None:
        return []
    if len(inputs) < 3:
        return _sequence([*items, new])
    place = _place(inputs[2], len(items) + 1)
    if place is None:
        return _sequence([*items, new]) if set(shapes_of([*items, new])) == {concrete(new)} else []
    if isinstance(inputs[2].value, numpy.ndarray) and int(inputs[2].value) < 0:
        place = len(items) + int(inputs[2].value)  # before the last, not after it
    return _sequence([*items[:place], new, *items[place:]])


def _erase(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    items = inputs[0].items
    if not items:
        return []
    place = len(items) - 1 if len(inputs) < 2 else _place(inputs[1], len(items))
    if place is None:
        return _sequence(items[1:]) if len(set(shapes_of(items))) == 1 else []
    return _sequence([*items[:place], *items[place + 1 :]])


def _at(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    items = inputs[0].items
    if not items:
        return []
    place = _place(inputs[1], len(items))
    if place is None:
        return [Facts(items[0])] if len(set(shapes_of(items))) == 1 else []
    return [Facts(items[place])]


def _length(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    items = inputs[0].items
    return [] if items is None else [Facts(value=numpy.array(len(items), numpy.int64))]


def _split(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    shape = None if inputs[0].type is None else concrete(inputs[0].type)
    axis = _attribute(node, "axis", 0)
    if shape is None or not -len(shape) <= axis < len(shape):
        return []
    axis %= len(shape)
    keep = True
    if len(inputs) < 2 or (inputs[1].type is None and inputs[1].value is None):
        parts, keep = [1] * shape[axis] if shape[axis] <= LONGEST else [], bool(_attribute(node, "keepdims", 1))
        if not parts and shape[axis]:
            return []
    elif not isinstance(inputs[1].value, numpy.ndarray):
        return []
    elif inputs[1].value.ndim == 0:
        size = int(inputs[1].value)
        if size < 1 or shape[axis] > size * LONGEST:
            return []
        parts = [min(size, shape[axis] - start) for start in range(0, shape[axis], size)]
    else:
        parts = inputs[1].value.tolist()
    code = tensor_type(inputs[0].type).elem_type if inputs[0].type is not None else 0
    dims = [(*shape[:axis], *((p,) if keep else ()), *shape[axis + 1 :]) for p in parts]
    types = {d: onnx.helper.make_tensor_type_proto(code, d) for d in dims}
    return _sequence([types[d] for d in dims])


def _concat(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    items = inputs[0].items
    shapes = [s for s in shapes_of(items or ()) if s is not None]
    if not items or len(shapes) < len(items) or len({len(s) for s in shapes}) != 1:
        return []
    new, rank = bool(_attribute(node, "new_axis", 0)), len(shapes[0])
    axis = _attribute(node, "axis", 0)
    limit = rank + new
    if not -limit <= axis < limit:
        return []
    axis %= limit
    dims = list(shapes[0])
    if new:
        dims.insert(axis, len(items))
    else:
        dims[axis] = sum(s[axis] for s in shapes)
    return [Facts(onnx.helper.make_tensor_type_proto(tensor_type(items[0]).elem_type, dims))]


def _optional(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    if not inputs:
        return [Facts(items=[])]
    if inputs[0].items is not None:
        return [Facts(items=inputs[0].items)]
    return [] if inputs[0].type is None else [Facts(items=[inputs[0].type])]


def _element(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    held, type_ = inputs[0].items, inputs[0].type
    if held is None:
        return [Facts(type_)] if type_ is not None and concrete(type_) is not None else []
    if type_ is not None and (type_.HasField("sequence_type") or _is_optional_sequence(type_)):
        return _sequence(held)
    return [Facts(held[0])] if len(held) == 1 else []


def _is_optional_sequence(type_: TypeProto) -> bool:
    return bool(type_.HasField("optional_type") and type_.optional_type.elem_type.HasField("sequence_type"))


def _has(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    if not inputs or (inputs[0].type is None and inputs[0].items is None):
        return [Facts(value=numpy.array(False))] if not inputs else []
    type_, items = inputs[0].type, inputs[0].items
    if type_ is not None and not type_.HasField("optional_type"):
        return [Facts(value=numpy.array(True))]
    return [] if items is None else [Facts(value=numpy.array(bool(items)))]


def _same(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    return _sequence(inputs[0].items)


def _zip_map(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    """A map from class to score for each sample: as many scores as the table that it is made of has."""
    type_ = inputs[0].type
    shape = None if type_ is None else concrete(type_)
    if type_ is None or shape is None or len(shape) not in (1, 2):
        return []
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    code = tensor_type(type_).elem_type
    return _sequence([onnx.helper.make_tensor_type_proto(code, [columns])] * min(rows, LONGEST + 1))


RULES: dict[tuple[str, str], _Rule] = {
    ("", "ConcatFromSequence"): _concat,
    ("", "Identity"): _same,
    ("", "Optional"): _optional,
    ("", "OptionalGetElement"): _element,
    ("", "OptionalHasElement"): _has,
    ("", "SequenceAt"): _at,
    ("", "SequenceConstruct"): _construct,
    ("", "SequenceEmpty"): lambda node, inputs: [Facts(items=[])],
    ("", "SequenceErase"): _erase,
    ("", "SequenceInsert"): _insert,
    ("", "SequenceLength"): _length,
    ("", "SplitToSequence"): _split,
    ("ai.onnx.ml", "ZipMap"): _zip_map,
}
