"""Upper bounds of shapes that the data decide: as large as the result can become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import onnx

from flopwise.readers.onnx.types import ALL_AXES, Facts, concrete, elements, tensor_type

_INT64 = onnx.TensorProto.INT64


class Bound(NamedTuple):
    """The largest type of a result."""

    code: int
    dims: list[int]
    #: The axes along which it may be smaller.
    axes: frozenset[int]


#: A shape for each output, None for one that nothing is known about; from the node and what is known of its inputs.
_Bound = Callable[[onnx.NodeProto, list[Facts]], "list[Bound | None]"]


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
        Facts()
        if bound is None
        else Facts(onnx.helper.make_tensor_type_proto(bound.code, bound.dims), bound=bound.axes)
        for bound in rule(node, inputs)
    ]


def _shape(facts: Facts) -> tuple[int, ...] | None:
    return None if facts.type is None else concrete(facts.type)


def _code(facts: Facts) -> int:
    return 0 if facts.type is None else int(tensor_type(facts.type).elem_type)


def _number(facts: Facts, default: int) -> int:
    """The one element of a value, or the most that it can be."""
    value = facts.value if facts.interval is None else facts.interval.high
    return int(value.ravel()[0]) if isinstance(value, numpy.ndarray) and value.size else default


def _at_axes(*axes: int) -> frozenset[int]:
    return frozenset(axes)


def _attribute(node: onnx.NodeProto, name: str, default: int | None) -> Any:
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _at(axis: Any, rank: int) -> int | None:
    """An axis counted from the front, None if there is no such."""
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else None


def _non_zero(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """Every element differs from zero."""
    shape = _shape(inputs[0])
    return [None if shape is None else Bound(_INT64, [len(shape), elements(shape)], _at_axes(1))]


def _compress(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """Every condition holds."""
    shape, condition = _shape(inputs[0]), _shape(inputs[1]) if len(inputs) > 1 else None
    if shape is None:
        return [None]
    most = condition[0] if condition else elements(shape)
    axis = _attribute(node, "axis", None)
    if axis is None:
        return [Bound(_code(inputs[0]), [min(elements(shape), most)], _at_axes(0))]
    place = _at(axis, len(shape))
    if place is None:
        return [None]
    dims = [min(d, most) if i == place else d for i, d in enumerate(shape)]
    return [Bound(_code(inputs[0]), dims, _at_axes(place))]


def _unique(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """No two elements, or slices along the axis, are equal."""
    shape, axis = _shape(inputs[0]), _attribute(node, "axis", None)
    if shape is None or (axis is not None and _at(axis, len(shape)) is None):
        return [None]
    length = elements(shape) if axis is None else shape[axis]
    whole = [length] if axis is None else list(shape)
    place = 0 if axis is None else axis % len(shape)
    return [Bound(_code(inputs[0]), whole, _at_axes(place)), *[Bound(_INT64, [length], _at_axes(0))] * 3]


def _boxes(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """No box is suppressed: for each member of the batch and each class all boxes, or as many as are asked for."""
    scores = _shape(inputs[1]) if len(inputs) > 1 else None
    if scores is None or len(scores) != 3:
        return [None]
    limit = _number(inputs[2], scores[2] if inputs[2].type is not None else 0) if len(inputs) > 2 else 0
    return [Bound(_INT64, [scores[0] * scores[1] * max(min(limit, scores[2]), 0), 3], _at_axes(0))]


def _top(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """All elements along the axis are asked for, or as many as is certain that no more are."""
    shape = _shape(inputs[0])
    place = None if shape is None else _at(_attribute(node, "axis", -1), len(shape))
    if shape is None or place is None:
        return [None]
    limit = _number(inputs[1], shape[place]) if len(inputs) > 1 else shape[place]
    dims = [min(d, max(limit, 0)) if i == place else d for i, d in enumerate(shape)]
    return [Bound(_code(inputs[0]), dims, _at_axes(place)), Bound(_INT64, list(dims), _at_axes(place))]


def _slice(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """Nothing is cut off where start and end are unknown."""
    shape = _shape(inputs[0])
    if shape is None:
        return [None]
    dims = list(shape)
    parts = [_whole_numbers(facts) for facts in inputs[1:]]
    starts, ends, axes, steps = (*parts, None, None, None, None)[:4]
    if axes is None and len(inputs) > 3 and inputs[3].type is not None:
        return [Bound(_code(inputs[0]), dims, ALL_AXES)]
    if axes is None:
        axes = list(range(len(starts or ends or ()))) or list(range(len(dims)))
    open_axes = set()
    for i, axis in enumerate(axes):
        place = _at(axis, len(dims))
        start, end, step = (v[i] if v is not None and i < len(v) else None for v in (starts, ends, steps))
        stated = steps is None and (len(inputs) < 5 or inputs[4].type is None)
        if place is None:
            continue
        if start is not None and end is not None and (step or stated):
            dims[place] = len(range(*slice(start, end, step or 1).indices(dims[place])))
        else:
            open_axes.add(place)
    return [Bound(_code(inputs[0]), dims, frozenset(open_axes))]


def _whole_numbers(facts: Facts) -> list[int] | None:
    """The elements of a vector; None if they are unknown."""
    value = facts.value
    return value.tolist() if isinstance(value, numpy.ndarray) and value.ndim == 1 else None


def _split(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """Each part is as long as the whole, or as is certain that no part is longer."""
    shape = _shape(inputs[0])
    place = None if shape is None else _at(_attribute(node, "axis", 0), len(shape))
    if shape is None or place is None or len(inputs) < 2 or isinstance(inputs[1].value, numpy.ndarray):
        return [None]
    interval = inputs[1].interval
    lengths = [shape[place]] * len(node.output) if interval is None else interval.high.ravel().tolist()
    parts = [[min(d, max(n, 0)) if i == place else d for i, d in enumerate(shape)] for n in lengths]
    return [Bound(_code(inputs[0]), dims, _at_axes(place)) for dims in parts]


def _words(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """No string is a stop word."""
    shape = _shape(inputs[0])
    return [None if shape is None else Bound(onnx.TensorProto.STRING, list(shape), _at_axes(len(shape) - 1))]


#: Operators whose result may be smaller than this, but never larger.
BOUNDS: dict[str, _Bound] = {
    "Compress": _compress,
    "NonMaxSuppression": _boxes,
    "NonZero": _non_zero,
    "Slice": _slice,
    "Split": _split,
    "StringNormalizer": _words,
    "TopK": _top,
    "Unique": _unique,
}


def _unique_vector(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """No two elements are equal."""
    shape = _shape(inputs[0])
    if shape is None or len(shape) != 1:
        return [None]
    return [Bound(code, list(shape), _at_axes(0)) for code in (_code(inputs[0]), _INT64, _INT64)]


def _without_padding(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """No token is padding."""
    shape = _shape(inputs[0])
    if shape is None or len(shape) != 3:
        return [None]
    return [Bound(_code(inputs[0]), [shape[0] * shape[1], shape[2]], _at_axes(0))]


def _path(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """Every step goes along one axis only."""
    shape = _shape(inputs[0])
    if shape is None or len(shape) not in (2, 3):
        return [None]
    return [Bound(onnx.TensorProto.INT32, [2, max(shape[-2] + shape[-1] - 1, 0)], _at_axes(1))]


def _merged_tokens(node: onnx.NodeProto, inputs: list[Facts]) -> list[Bound | None]:
    """All predicted tokens are taken."""
    shapes = [_shape(facts) for facts in (*inputs[1:2], *inputs[3:4]) if facts.type is not None]
    lengths = [shape[0] for shape in shapes if shape is not None and len(shape) == 1]
    return [Bound(_INT64, [sum(lengths)], _at_axes(0)) if lengths and len(lengths) == len(shapes) else None]


#: The same for operators of onnxruntime (``com.microsoft``).
BOUNDS_OF_RUNTIME: dict[str, _Bound] = {
    "BifurcationDetector": _merged_tokens,
    "DynamicTimeWarping": _path,
    "RemovePadding": _without_padding,
    "Unique": _unique_vector,
}

#: All operators that have an upper bound.
BOUNDED: frozenset[str] = frozenset(BOUNDS) | frozenset(BOUNDS_OF_RUNTIME)
