"""Positions in ``com.microsoft``: rotation of queries and keys, and biases of scores that hang on the distance.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, SETTING, inputs
from flopwise.operators.operator import Operator, by, nothing

#: One rotated element: two products and a sum, as in RotaryEmbedding.
ROTATED = Counts(mul=2, add=1)


def rotary_embedding(node: Node) -> Counts:
    """R × (2 mul + 1 add), R the number of rotated elements: numel(X), or only rotary_embedding_dim of each head; scale
    ≠ 1: R mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RotaryEmbedding
    """
    x, part = node.input(0), integer(node, "rotary_embedding_dim", 0)
    rotated: int = x.numel
    if part:
        heads = integer(node, "num_heads", 0) if len(x.dims) == 3 else 1
        if not heads:
            raise ShapeError(f"{node.op} {node.name!r}: rotary_embedding_dim needs the attribute num_heads")
        rotated = product(x.dims[:-1]) * heads * part
    return (ROTATED + Counts(mul=int(node.attrs.get("scale", 1.0) != 1.0))) * rotated


def normalized_rotary(node: Node) -> Counts:
    """n × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt) (RMSNormalization of n = rows × input_width
    elements, rows = B × S × heads), and rows × rotary_embedding_dim × (2 mul + 1 add).

    X is (B, S, heads, stride); input_width 0: all of the last axis.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RMSNormRotary
    """
    x = node.input(0)
    rows, width = product(x.dims[:-1]), integer(node, "input_width", 0) or extent(node, x, -1)
    return (RMS * width + RMS_ROW + ROTATED * integer(node, "rotary_embedding_dim")) * rows


def gemma_rotary_embedding(node: Node) -> Counts:
    """numel(emb) × 2 trig, and 2 mul + 1 add for each element of q and k.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmaRotaryEmbedding
    """
    return Counts(trig=2) * node.input(0).numel + ROTATED * (node.input(1).numel + node.input(3).numel)


def gated_relative_position_bias(node: Node) -> Counts:
    """rows × (d add + d × D mac + D add) (bias, product, bias), rows × D add (sums of either half), rows × 2 sigmoids
    of 1 bit + 1 exp + 1 add + 1 div, rows × (2 mul + 2 add) (the gate), and numel(Y) mul. rows = B × N × S, weight is
    (d, D).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRelativePositionBias
    """
    y, weight = node.output(), node.input(3)
    rows = product(y.dims[:3])
    size, width = extent(node, weight, 0), extent(node, weight, 1)
    once = Counts(mac=size * width, add=size + 2 * width) + SIGMOID * 2 + Counts(mul=2, add=2)
    return once * rows + Counts(mul=y.numel)


OPERATORS: dict[str, Operator] = {
    "com.microsoft::RotaryEmbedding": by(rotary_embedding, shape=shape.alike),
    "com.microsoft::MRotaryEmbedding": by(rotary_embedding, shape=shape.alike),
    "com.microsoft::RMSNormRotary": by(
        normalized_rotary, inputs=inputs(*(DATA,) * 5, SETTING), types="pointwise:norm_rotary"
    ),
    "com.microsoft::GemmaRotaryEmbedding": by(gemma_rotary_embedding, types="movement:rotated"),
    "com.microsoft::GatedRelativePositionBias": by(gated_relative_position_bias, types="movement:gated_bias"),
    "com.microsoft::RelativePositionBias": nothing(
        "copies a row of the table for each distance, which the lengths alone fix", types="movement:position_bias"
    ),
}
