"""Upper bounds of shapes that the data decide: as large as the result can become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import onnx

from flopwise.readers.onnx.types import Facts, concrete, elements, tensor_type

_INT64 = onnx.TensorProto.INT64

#: A shape for each output, None for one that nothing is known about; from the node and what is known of its inputs.
_Bound = Callable[[onnx.NodeProto, list[Facts]], "list[tuple[int, list[int]] | None]"]


def bounds(node: onnx.NodeProto, inputs: list[Facts]) -> list[Facts]:
    """Upper bounds for the outputs of an operator whose result is as large as the data say; empty if there are none.

    Args:
        node: the operator.
        inputs: what is known about each input; nothing for one that is left out.
    """
    table = {"": BOUNDS, "com.microsoft": BOUNDS_OF_RUNTIME}.get(node.domain, {})
    rule = table.get(node.op_type)
    if rule is None or not inputs:
        return []
    return [
        Facts() if found is None else Facts(onnx.helper.make_tensor_type_proto(*found), bound=True)
        for found in rule(node, inputs)
    ]


def _shape(known: Facts) -> tuple[int, ...] | None:
    return None if known.type is None else concrete(known.type)


def _code(known: Facts) -> int:
    return 0 if known.type is None else int(tensor_type(known.type).elem_type)


def _number(known: Facts, default: int) -> int:
    return int(known.value.ravel()[0]) if isinstance(known.value, numpy.ndarray) and known.value.size else default


def _attribute(node: onnx.NodeProto, name: str, default: int | None) -> Any:
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _at(axis: Any, rank: int) -> int | None:
    """An axis counted from the front, None if there is no such."""
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else None


def _non_zero(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """Every element differs from zero."""
    shape = _shape(inputs[0])
    return [None if shape is None else (_INT64, [len(shape), elements(shape)])]


def _compress(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """Every condition holds."""
    shape, condition = _shape(inputs[0]), _shape(inputs[1]) if len(inputs) > 1 else None
    if shape is None:
        return [None]
    most = condition[0] if condition else elements(shape)
    axis = _attribute(node, "axis", None)
    if axis is None:
        return [(_code(inputs[0]), [min(elements(shape), most)])]
    place = _at(axis, len(shape))
    if place is None:
        return [None]
    return [(_code(inputs[0]), [min(d, most) if i == place else d for i, d in enumerate(shape)])]


def _unique(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """No two elements, or slices along the axis, are equal."""
    shape, axis = _shape(inputs[0]), _attribute(node, "axis", None)
    if shape is None or (axis is not None and _at(axis, len(shape)) is None):
        return [None]
    length = elements(shape) if axis is None else shape[axis]
    whole = [length] if axis is None else list(shape)
    return [(_code(inputs[0]), whole), *[(_INT64, [length])] * 3]


def _boxes(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """No box is suppressed: for each member of the batch and each class all boxes, or as many as are asked for."""
    scores = _shape(inputs[1]) if len(inputs) > 1 else None
    if scores is None or len(scores) != 3:
        return [None]
    asked = _number(inputs[2], scores[2] if inputs[2].type is not None else 0) if len(inputs) > 2 else 0
    return [(_INT64, [scores[0] * scores[1] * max(min(asked, scores[2]), 0), 3])]


def _top(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """All elements along the axis are asked for."""
    shape = _shape(inputs[0])
    place = None if shape is None else _at(_attribute(node, "axis", -1), len(shape))
    return [None] if shape is None or place is None else [(_code(inputs[0]), list(shape)), (_INT64, list(shape))]


def _slice(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """Nothing is cut off where start and end are unknown."""
    shape = _shape(inputs[0])
    if shape is None:
        return [None]
    dims = list(shape)
    given = [k.value.tolist() if isinstance(k.value, numpy.ndarray) and k.value.ndim == 1 else None for k in inputs[1:]]
    starts, ends, axes, steps = (*given, None, None, None, None)[:4]
    if axes is None and len(inputs) > 3 and inputs[3].type is not None:
        return [(_code(inputs[0]), dims)]
    if axes is None:
        axes = list(range(len(starts or ends or ())))
    for i, axis in enumerate(axes):
        place = _at(axis, len(dims))
        known = [v[i] if v is not None and i < len(v) else None for v in (starts, ends, steps)]
        stated = steps is None and (len(inputs) < 5 or inputs[4].type is None)
        if place is not None and known[0] is not None and known[1] is not None and (known[2] or stated):
            dims[place] = len(range(*slice(known[0], known[1], known[2] or 1).indices(dims[place])))
    return [(_code(inputs[0]), dims)]


def _words(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """No string is a stop word."""
    shape = _shape(inputs[0])
    return [None if shape is None else (onnx.TensorProto.STRING, list(shape))]


#: Operators whose result may be smaller than this, but never larger.
BOUNDS: dict[str, _Bound] = {
    "Compress": _compress,
    "NonMaxSuppression": _boxes,
    "NonZero": _non_zero,
    "Slice": _slice,
    "StringNormalizer": _words,
    "TopK": _top,
    "Unique": _unique,
}


def _unique_vector(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """No two elements are equal."""
    shape = _shape(inputs[0])
    if shape is None or len(shape) != 1:
        return [None]
    return [(_code(inputs[0]), list(shape)), *[(_INT64, list(shape))] * 2]


def _without_padding(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """No token is padding."""
    shape = _shape(inputs[0])
    return [None if shape is None or len(shape) != 3 else (_code(inputs[0]), [shape[0] * shape[1], shape[2]])]


def _path(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """Every step goes along one axis only."""
    shape = _shape(inputs[0])
    if shape is None or len(shape) not in (2, 3):
        return [None]
    return [(onnx.TensorProto.INT32, [2, max(shape[-2] + shape[-1] - 1, 0)])]


def _merged_tokens(node: onnx.NodeProto, inputs: list[Facts]) -> list[tuple[int, list[int]] | None]:
    """All predicted tokens are taken."""
    given = [_shape(known) for known in (*inputs[1:2], *inputs[3:4]) if known.type is not None]
    lengths = [shape[0] for shape in given if shape is not None and len(shape) == 1]
    return [(_INT64, [sum(lengths)]) if lengths and len(lengths) == len(given) else None]


#: The same for operators of onnxruntime (``com.microsoft``).
BOUNDS_OF_RUNTIME: dict[str, _Bound] = {
    "BifurcationDetector": _merged_tokens,
    "DynamicTimeWarping": _path,
    "RemovePadding": _without_padding,
    "Unique": _unique_vector,
}

#: All operators that have an upper bound.
BOUNDED: frozenset[str] = frozenset(BOUNDS) | frozenset(BOUNDS_OF_RUNTIME)
