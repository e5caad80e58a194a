"""Normalisations and softmax of ``com.microsoft``, with what is fused to them.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SILU, Counts
from flopwise.operators.extents import integer
from flopwise.operators.inputs import DATA, SCALE, ZERO_POINT, inputs
from flopwise.operators.onnx import normalization
from flopwise.operators.operator import Operator, by, counted_as


def skip_layer_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as LayerNormalization over the last axis with gamma and beta.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipLayerNormalization
    """
    x = node.input(0)
    inputs = (x, node.input(2), node.input(3) if node.has_input(3) else None)
    normed = Node("LayerNormalization", node.name, inputs, node.outputs[:3], {"axis": -1})
    return Counts(add=x.numel * (1 + int(node.has_input(4)))) + normalization.layer_normalization(normed)


def skip_rms_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as RMSNormalization over the last axis.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipSimplifiedLayerNormalization
    """
    x = node.input(0)
    normed = Node("RMSNormalization", node.name, (x, node.input(2)), node.outputs[:1], {"axis": -1})
    return Counts(add=x.numel * (1 + int(node.has_input(3)))) + normalization.rms_normalization(normed)


def embed_layer_normalization(node: Node) -> Counts:
    """numel(Y) add for positions and one for segments, as far as they are given; then as LayerNormalization over the
    last axis with gamma and beta; mask: numel(mask) add, to count the tokens.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EmbedLayerNormalization
    """
    return _embedded(node)


def quantized_embed_layer_normalization(node: Node) -> Counts:
    """as EmbedLayerNormalization; and 1 mul + 1 add (dequantised) for numel(Y) elements of each table and for those of
    gamma and beta.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization
    """
    elements = (2 + int(node.has_input(4))) * node.output().numel + node.input(5).numel + node.input(6).numel
    return _embedded(node) + Counts(mul=1, add=1) * elements


def _embedded(node: Node) -> Counts:
    y = node.output()
    sums = int(node.has_input(3)) + int(node.has_input(4))
    normed = Node("LayerNormalization", node.name, (y, node.input(5), node.input(6)), (y,), {"axis": -1})
    counted = node.input(7).numel if node.has_input(7) else 0
    return Counts(add=sums * y.numel + counted) + normalization.layer_normalization(normed)


def group_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × groups × (2 div + 1 mul + 2 add + 1 sqrt), as GroupNormalization;
    activation: numel(X) × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (SiLU).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupNorm
    """
    attrs = {"num_groups": integer(node, "groups", 1)}
    normed = Node("GroupNormalization", node.name, node.inputs[:3], node.outputs[:1], attrs)
    silu = SILU * node.input(0).numel if node.attrs.get("activation", 0) else Counts()
    return normalization.group_normalization(normed) + silu


def skip_group_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as GroupNorm.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipGroupNorm
    """
    return Counts(add=node.input(0).numel * (1 + int(node.has_input(4)))) + group_normalization(node)


def bias_softmax(node: Node) -> Counts:
    """numel(X) × (1 add + 1 cmp + 2 add + 1 exp + 1 div): a bias, then softmax.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSoftmax
    """
    return Counts(cmp=1, add=3, exp=1, div=1) * node.input(0).numel


OPERATORS: dict[str, Operator] = {
    "SimplifiedLayerNormalization": counted_as(normalization.OPERATORS["RMSNormalization"], shape=shape.alike),
    "com.microsoft::SimplifiedLayerNormalization": counted_as(
        normalization.OPERATORS["RMSNormalization"], shape=shape.alike
    ),
    "com.microsoft::SkipLayerNormalization": by(skip_layer_normalization, types="pointwise:skip_norm"),
    "com.microsoft::SkipSimplifiedLayerNormalization": by(skip_rms_normalization, types="pointwise:skip_norm"),
    "com.microsoft::EmbedLayerNormalization": by(embed_layer_normalization, types="pointwise:embedded"),
    "com.microsoft::QEmbedLayerNormalization": by(
        quantized_embed_layer_normalization,
        inputs=inputs(
            *(DATA,) * 8, SCALE, SCALE, SCALE, SCALE, SCALE, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT
        ),
        types="pointwise:embedded",
    ),
    "com.microsoft::GroupNorm": by(group_normalization, shape=shape.alike),
    "com.microsoft::SkipGroupNorm": by(skip_group_normalization, shape=shape.both_alike),
    "com.microsoft::BiasSoftmax": by(bias_softmax, shape=shape.alike),
}
