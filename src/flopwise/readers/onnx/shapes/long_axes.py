"""Slices and Splits of axes so long that onnx's inference miscounts them.

It computes the lengths of a Split in 32 bits, and that of a Slice in floating point, which has no odd numbers beyond
2^53 (onnx 1.23.2): https://github.com/onnx/onnx/blob/main/onnx/defs/tensor/defs.cc
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
import onnx
from onnx import TypeProto

from flopwise.readers.onnx.shapes.bounds import BOUNDS
from flopwise.readers.onnx.types import Facts, Shapes, concrete

#: The longest axis that onnx computes with exactly, by operator.
LONGEST: Mapping[str, int] = {"Slice": 1 << 53, "Split": (1 << 31) - 1}


def miscounted(operators: set[str], shapes: Shapes) -> bool:
    """Whether onnx may have miscounted an axis in a graph with these operators."""
    limit = min((LONGEST[op] for op in LONGEST if op in operators), default=None)
    return limit is not None and any(extent > limit for shape in shapes.distinct() for extent in shape)


def infer(node: onnx.NodeProto, inputs: Sequence[Facts], version: int) -> dict[str, TypeProto] | None:
    """The types of the outputs of a Slice or Split of a long axis; None for other nodes, and where they are not known.

    Args:
        node: any node.
        inputs: what is known about each input.
        version: of the operator set.

    Raises:
        ValueError: the parts are not those of the axis.
    """
    if node.domain or node.op_type not in LONGEST or not inputs or inputs[0].type is None:
        return None
    shape = concrete(inputs[0].type)
    if shape is None or max(shape, default=0) <= LONGEST[node.op_type]:
        return None
    dims = _sliced(node, inputs) if node.op_type == "Slice" else _split(node, inputs, shape, version)
    if dims is None:
        return None
    code = inputs[0].type.tensor_type.elem_type
    made = [onnx.helper.make_tensor_type_proto(code, extents) for extents in dims]
    return {name: type_ for name, type_ in zip(node.output, made, strict=False) if name}


def _sliced(node: onnx.NodeProto, inputs: Sequence[Facts]) -> list[list[int]] | None:
    """The extents of what a Slice cuts out; None where they are not certain."""
    bound = BOUNDS["Slice"](node, list(inputs))[0] if len(inputs) > 2 else None
    return None if bound is None or bound.axes else [bound.dims]


def _split(node: onnx.NodeProto, inputs: Sequence[Facts], shape: Sequence[int], version: int) -> list[list[int]] | None:
    """The extents of each part of a Split; None where they are not certain."""
    held = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    axis, number = held.get("axis", 0), len(node.output)
    if not -len(shape) <= axis < len(shape):
        return None
    whole = shape[axis]
    if len(inputs) > 1 and node.input[1]:
        value = inputs[1].value
        if not isinstance(value, numpy.ndarray):
            return None
        lengths = value.ravel().tolist()
    elif "split" in held:
        lengths = list(held["split"])
    else:
        longest = -(-whole // number)
        lengths = [longest] * (number - 1) + [whole - longest * (number - 1)]
        if version < 18 and lengths[-1] != longest:
            raise ValueError(f"{whole} is not a multiple of {number}")
    if len(lengths) != number or sum(lengths) != whole or min(lengths) < 0:
        raise ValueError(f"Mismatch between the sum of 'split' ({sum(lengths)}) and the split dimension ({whole})")
    place = axis % len(shape)
    return [[*shape[:place], length, *shape[place + 1 :]] for length in lengths]
