"""How many elements the packed inputs of an operator hold, and of which type."""

from __future__ import annotations

from flopwise.graph import Node, Tensor
from flopwise.operators.inputs import Inputs
from flopwise.operators.packed import Packed


def unpacked(node: Node, inputs: Inputs) -> dict[str, int]:
    """Names of the tensors that a node takes packed -> how many elements each holds.

    Left out is what has the elements that its shape says: tensors not made of bytes, and those of which the attributes
    make no sense.
    """
    sizes: dict[str, int] = {}
    for place, described in inputs.places(len(node.inputs)):
        packed = described.packed
        if packed is None or not node.has_input(place):
            continue
        tensor = node.input(place)
        elements = _elements(node, tensor, packed)
        if elements:
            sizes[tensor.name] = elements
    return sizes


def _elements(node: Node, tensor: Tensor, packed: Packed) -> int:
    """The elements of a packed tensor; 0 where attributes and bytes do not go together."""
    if tensor.shape is None or tensor.dtype not in ("uint8", "int8"):
        return 0
    try:
        fitting = tensor.numel * 8 // packed.width(node)
        elements = packed.elements(node) if packed.elements else fitting
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return 0
    return elements if 0 < elements <= fitting else 0


def packed_dtype(node: Node, place: int, inputs: Inputs) -> str | None:
    """The element type of an input that is packed into bytes; None for any other."""
    packed = inputs.at(place).packed
    if packed is None or not node.has_input(place) or node.input(place).dtype not in ("uint8", "int8"):
        return None
    try:
        return packed.dtype(node)
    except (TypeError, ValueError):
        return None
