"""Stored tensors that hold several elements in a byte: how many elements there are, and of which type.

ONNX's own 4-bit types need none of this: their shape counts elements. These operators of onnxruntime take bytes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise.graph import Node

#: A node -> a number, from its attributes.
Figure = Callable[[Node], int]

#: The width of an element in bits where no attribute gives it.
USUAL_BITS = 4


class Packed(NamedTuple):
    """An input that holds several elements in a byte."""

    #: How many elements there are; None: as many as fit.
    elements: Figure | None = None
    #: Attributes that give the width of an element in bits; the first that is there does.
    bits: tuple[str, ...] = ("bits",)
    #: Values of the attribute ``quant_type`` -> the element type; any other value, and none, means integers.
    types: Mapping[Any, str] | None = None
    #: Attribute with the number of a type of ggml, in whose blocks the elements lie; "" where they lie side by side.
    format: str = ""
    #: The width where no attribute gives it.
    usual: int = USUAL_BITS

    def width(self, node: Node) -> int:
        """Bits of an element; of one in a block, the fewest that it may take."""
        if self.format:
            return 1
        return next((int(node.attrs[name]) for name in self.bits if name in node.attrs), self.usual)

    def dtype(self, node: Node) -> str:
        """Name of the element type."""
        if self.format:
            from flopwise.graph.dtypes import TYPES  # few models have such weights

            return TYPES[node.attrs[self.format]].name
        return (self.types or {}).get(node.attrs.get("quant_type"), f"int{self.width(node)}")


class _Blocks(Packed):
    """Blocks of a weight file, whose type has a name: up to eight elements in a byte."""

    __slots__ = ()

    def width(self, node: Node) -> int:
        return 1

    def dtype(self, node: Node) -> str:
        return str(node.attrs.get("blocks", "uint8"))


def elements(*factors: str | tuple[int, int]) -> Figure:
    """As many elements as the product of attributes and of extents, each by the place of an input and its axis."""
    return lambda node: math.prod(_factor_value(node, factor) for factor in factors)


def _factor_value(node: Node, factor: str | tuple[int, int]) -> int:
    """The value of an attribute, or of an extent by the place of its input and its axis."""
    if isinstance(factor, str):
        return int(node.attrs[factor])
    tensor = node.inputs[factor[0]]
    if tensor is None or tensor.shape is None:
        raise LookupError(factor)
    return int(tensor.shape[factor[1]])


def blocks(node: Node) -> int:
    """One zero point for each block of each column."""
    return int(node.attrs["N"]) * -(-int(node.attrs["K"]) // int(node.attrs["block_size"]))


def of_experts(layer: int) -> Packed:
    """The weights or zero points of one layer of all experts."""
    return Packed(None, (f"fc{layer}_expert_weight_bits", "expert_weight_bits"), _FLOATS)


_FLOATS = {"fp4": "float4e2m1", "nvfp4": "float4e2m1", "wfp4afp8": "float4e2m1", "fp8": "float8e4m3fn"}

#: A matrix of K × N elements.
MATRIX = Packed(elements("K", "N"))

#: As many elements as fit.
FITTING = Packed()

#: The blocks of a weight file.
BLOCKS = _Blocks(lambda node: int(node.attrs["elements"]))
