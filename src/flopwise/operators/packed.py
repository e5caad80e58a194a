"""Stored tensors that hold several elements in a byte: how many elements there are, and of which type.

ONNX's own 4-bit types need none of this: their shape counts elements. These operators of onnxruntime take bytes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flopwise.graph import Node, Tensor

#: A node -> a number, from its attributes.
Figure = Callable[[Node], int]

#: The width of an element in bits where no attribute gives it.
USUAL_BITS = 4


@dataclass(frozen=True, slots=True)
class Packed:
    """An input that holds several elements in a byte."""

    #: How many elements there are; None: as many as fit.
    elements: Figure | None = None
    #: Attributes that give the width of an element in bits; the first that is there does.
    bits: tuple[str, ...] = ("bits",)
    #: Values of the attribute ``quant_type`` -> the element type; any other value, and none, means integers.
    types: Mapping[Any, str] | None = None

    def width(self, node: Node) -> int:
        """Bits of an element."""
        return next((int(node.attrs[name]) for name in self.bits if name in node.attrs), USUAL_BITS)

    def dtype(self, node: Node) -> str:
        """Name of the element type."""
        return (self.types or {}).get(node.attrs.get("quant_type"), f"int{self.width(node)}")


class _Blocks(Packed):
    """Blocks of a weight file, whose type has a name: up to eight elements in a byte."""

    __slots__ = ()

    def width(self, node: Node) -> int:
        return 1

    def dtype(self, node: Node) -> str:
        return str(node.attrs.get("blocks", "uint8"))


def _product(left: str, right: str) -> Figure:
    return lambda node: int(node.attrs[left]) * int(node.attrs[right])


def _blocks(node: Node) -> int:
    """One zero point for each block of each column."""
    return int(node.attrs["N"]) * -(-int(node.attrs["K"]) // int(node.attrs["block_size"]))


def _of_experts(layer: int) -> Packed:
    return Packed(None, (f"fc{layer}_expert_weight_bits", "expert_weight_bits"), _FLOATS)


_FLOATS = {"fp4": "float4e2m1", "nvfp4": "float4e2m1", "wfp4afp8": "float4e2m1", "fp8": "float8e4m3fn"}
_MATRIX = Packed(_product("K", "N"))
_KEYS = Packed(_product("K", "Nkv"))
_FITTING = Packed()

#: Operator -> place of an input -> how it is packed.
PACKED: dict[str, dict[int, Packed]] = {
    "flopwise::Tensor": {0: _Blocks(lambda node: int(node.attrs["elements"]))},
    "com.microsoft::MatMulNBits": {1: _MATRIX, 3: Packed(_blocks)},
    "com.microsoft::MatMulNBitsMlp": {3: _MATRIX, 6: _MATRIX},
    "com.microsoft::MatMulNBitsQkv": {3: Packed(_product("K", "Nq")), 6: _KEYS, 9: _KEYS},
    "com.microsoft::MatMulBnb4": {1: Packed(_product("K", "N"), (), {None: "fp4", 0: "fp4", 1: "nf4"})},
    "com.microsoft::MatMulBlockQuantizedFp4Weight": {1: Packed(None, (), {None: "float4e2m1"})},
    "com.microsoft::GatherBlockQuantized": {0: _FITTING, 3: _FITTING},
    "com.microsoft::QMoE": {
        **{2 + 3 * i: _of_experts(1 + i) for i in range(3)},
        **{11 + i: _of_experts(1 + i) for i in range(3)},
    },
}


def unpacked(node: Node) -> dict[str, int]:
    """Names of the tensors that a node takes packed -> how many elements each holds.

    Left out is what has the elements that its shape says: tensors not made of bytes, and those of which the attributes
    make no sense.
    """
    found: dict[str, int] = {}
    for place, packed in PACKED.get(node.op, {}).items():
        if not node.has_input(place):
            continue
        tensor = node.input(place)
        elements = _elements(node, tensor, packed)
        if elements:
            found[tensor.name] = elements
    return found


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


def packed_dtype(node: Node, place: int) -> str | None:
    """The element type of an input that is packed into bytes; None for any other."""
    packed = PACKED.get(node.op, {}).get(place)
    if packed is None or not node.has_input(place) or node.input(place).dtype not in ("uint8", "int8"):
        return None
    try:
        return packed.dtype(node)
    except (TypeError, ValueError):
        return None
