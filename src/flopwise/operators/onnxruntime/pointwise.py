"""Operators of com.microsoft element by element, normalisations, and what moves elements."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, SILU, Counts
from flopwise.operators.extents import integer, product
from flopwise.operators.inputs import DATA, SCALE, SETTING, ZERO_POINT, inputs
from flopwise.operators.onnx import pointwise, reduction
from flopwise.operators.onnxruntime.linear import FAST_GELU
from flopwise.operators.operator import PICKS, Operator, by, counted_as, each, nothing, unknown

# Pointwise operators of ``com.microsoft``, most of them fused to a bias or an activation.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

_ERF_GELU = Counts(div=1, erf=1, add=1, mul=2)


def fast_gelu(node: Node) -> Counts:
    """numel(Y) × (1 pow + 4 mul + 2 add + 1 tanh): Gelu by tanh; numel(Y) add when bias is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FastGelu
    """
    return (FAST_GELU + Counts(add=int(node.has_input(1)))) * node.output().numel


def split_gelu(node: Node) -> Counts:
    """numel(X) add (bias), and numel(Y) × (1 div + 1 erf + 1 add + 3 mul): one half times Gelu of the other.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSplitGelu
    """
    return Counts(add=node.input(0).numel) + (_ERF_GELU + Counts(mul=1)) * node.output().numel


def quick_gelu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when alpha ≠ 1: x × sigmoid(αx).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QuickGelu
    """
    return (SILU + Counts(mul=int(node.attrs.get("alpha", 1.702) != 1.0))) * node.output().numel


def scaled_silu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when scale is given or alpha ≠ 1: z × sigmoid(z), z
    = scale × x.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ScaledSiLU
    """
    scaled = node.has_input(1) or node.attrs.get("alpha", 1.0) != 1.0
    return (SILU + Counts(mul=int(scaled))) * node.output().numel


def gated_add(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add): x + gate × y; gate_weight: rows × (K mac + 1 bit + 1 exp + 1 add + 1 div), the
    sigmoid of a product of the gate's K elements with it.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedAdd
    """
    work = Counts(mul=1, add=1) * node.output().numel
    if not node.has_input(3):
        return work
    gate = node.input(2)
    return work + Counts(mac=gate.numel) + SIGMOID * product(gate.dims[:-1])


def swiglu(node: Node, clamped: bool) -> Counts:
    """One element of a swiglu: g × sigmoid(activation_alpha × g) × (l + activation_beta), both clamped or not."""
    alpha, beta = node.attrs.get("activation_alpha", 1.0), node.attrs.get("activation_beta", 0.0)
    return SILU + Counts(mul=1 + int(alpha != 1.0), add=int(beta != 0.0), cmp=3 if clamped else 0)


def clamped_swiglu(node: Node) -> Counts:
    """numel(Y) × (2 mul + 1 bit + 1 exp + 1 add + 1 div): gate × sigmoid(gate) × up; 1 mul more when activation_alpha ≠
    1, 1 add more when activation_beta ≠ 0, 3 cmp more when limit > 0.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SwiGLU
    """
    return swiglu(node, limited(node)) * node.output().numel


def limited(node: Node) -> bool:
    """True where the attribute limit clamps both halves."""
    limit = node.attrs.get("limit", 0.0)
    return isinstance(limit, int | float) and limit > 0


def bias_dropout(node: Node) -> Counts:
    """numel(Y) add for bias, and numel(Y) add for residual; dropout passes its input on at inference.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasDropout
    """
    return Counts(add=1 + int(node.has_input(2))) * node.output().numel


def complex_product(node: Node) -> Counts:
    """numel(Y) / 2 × (4 mul + 2 add): a complex number is two elements.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ComplexMul
    """
    return Counts(mul=4, add=2) * (node.output().numel // 2)


def finite(node: Node) -> Counts:
    """1 cmp for each element of all inputs.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.IsAllFinite
    """
    return Counts(cmp=sum(t.numel for t in node.known_inputs))


OPERATORS: dict[str, Operator] = {
    "com.microsoft::BiasAdd": each("bias and skip", add=2, shape=shape.alike, in_place=True),
    "com.microsoft::BiasDropout": by(bias_dropout, types="products:with_flags"),
    "com.microsoft::BitmaskBiasDropout": by(bias_dropout, types="products:with_bits"),
    "com.microsoft::BitmaskDropout": nothing("passes its input on at inference", types="products:with_bits"),
    "com.microsoft::BiasGelu": each("Gelu of a sum", add=2, div=1, erf=1, mul=2, shape=shape.alike, in_place=True),
    "com.microsoft::BiasSplitGelu": by(split_gelu, types="products:halved"),
    "com.microsoft::Gelu": counted_as(pointwise.OPERATORS["Gelu"], shape=shape.alike, in_place=True),
    "com.microsoft::FastGelu": by(fast_gelu, shape=shape.alike, in_place=True),
    "com.microsoft::QuickGelu": by(quick_gelu, shape=shape.alike, in_place=True),
    "com.microsoft::GatedAdd": by(gated_add, shape=shape.alike),
    "com.microsoft::SwiGLU": by(clamped_swiglu, types="products:gated"),
    "com.microsoft::ScaledSiLU": by(scaled_silu, shape=shape.alike, in_place=True),
    "com.microsoft::ComplexMul": by(complex_product, shape=shape.alike),
    "com.microsoft::ComplexMulConj": by(complex_product, shape=shape.alike),
    "com.microsoft::IsAllFinite": by(finite, types="products:scalar"),
}


# Normalisations and softmax of ``com.microsoft``, with what is fused to them.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md


def skip_layer_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as LayerNormalization over the last axis with gamma and beta.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipLayerNormalization
    """
    x = node.input(0)
    inputs = (x, node.input(2), node.input(3) if node.has_input(3) else None)
    normed = Node("LayerNormalization", node.name, inputs, node.outputs[:3], {"axis": -1})
    return Counts(add=x.numel * (1 + int(node.has_input(4)))) + reduction.layer_normalization(normed)


def skip_rms_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as RMSNormalization over the last axis.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipSimplifiedLayerNormalization
    """
    x = node.input(0)
    normed = Node("RMSNormalization", node.name, (x, node.input(2)), node.outputs[:1], {"axis": -1})
    return Counts(add=x.numel * (1 + int(node.has_input(3)))) + reduction.rms_normalization(normed)


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
    return Counts(add=sums * y.numel + counted) + reduction.layer_normalization(normed)


def group_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × groups × (2 div + 1 mul + 2 add + 1 sqrt), as GroupNormalization;
    activation: numel(X) × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (SiLU).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupNorm
    """
    attrs = {"num_groups": integer(node, "groups", 1)}
    normed = Node("GroupNormalization", node.name, node.inputs[:3], node.outputs[:1], attrs)
    silu = SILU * node.input(0).numel if node.attrs.get("activation", 0) else Counts()
    return reduction.group_normalization(normed) + silu


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


NORMALIZATION: dict[str, Operator] = {
    "SimplifiedLayerNormalization": counted_as(reduction.NORMALIZATION["RMSNormalization"], shape=shape.alike),
    "com.microsoft::SimplifiedLayerNormalization": counted_as(
        reduction.NORMALIZATION["RMSNormalization"], shape=shape.alike
    ),
    "com.microsoft::SkipLayerNormalization": by(skip_layer_normalization, types="products:skip_norm"),
    "com.microsoft::SkipSimplifiedLayerNormalization": by(skip_rms_normalization, types="products:skip_norm"),
    "com.microsoft::EmbedLayerNormalization": by(embed_layer_normalization, types="products:embedded"),
    "com.microsoft::QEmbedLayerNormalization": by(
        quantized_embed_layer_normalization,
        inputs=inputs(
            *(DATA,) * 8, SCALE, SCALE, SCALE, SCALE, SCALE, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT
        ),
        types="products:embedded",
    ),
    "com.microsoft::GroupNorm": by(group_normalization, shape=shape.alike),
    "com.microsoft::SkipGroupNorm": by(skip_group_normalization, shape=shape.both_alike),
    "com.microsoft::BiasSoftmax": by(bias_softmax, shape=shape.alike),
}


# Operators of ``com.microsoft`` that move data, and containers of what was compiled for one device.
#
# Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

_PICK = "copies the elements that indices pick"
_PLACES = "copies elements to other places"
_COMPILED = "holds a part of the model that was compiled for one device"


MOVEMENT: dict[str, Operator] = {
    "com.microsoft::ExpandDims": nothing("reads the same elements under another shape", types="movement:expanded"),
    "com.microsoft::GatherND": nothing(_PICK, shape=shape.twin("GatherND", (0, 1)), effects=PICKS),
    "com.microsoft::TorchEmbedding": nothing(_PICK, types="movement:looked_up", effects=PICKS),
    "com.microsoft::Pad": nothing(
        "copies elements between borders that are filled or repeated",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        types="movement:padded",
    ),
    "com.microsoft::RemovePadding": nothing(_PLACES, types="movement:without_padding"),
    "com.microsoft::RestorePadding": nothing(_PLACES, types="movement:restored"),
    "com.microsoft::UnfoldTensor": nothing(_PLACES, types="movement:unfolded"),
    "com.microsoft::Trilu": nothing("copies one triangle and fills the other with zeros", shape=shape.alike),
    "com.microsoft::Range": nothing(
        "numbers positions: an index sequence, not arithmetic on data",
        inputs=inputs(SETTING, SETTING, SETTING),
        types="movement:range_",
    ),
    "com.microsoft::SampleOp": nothing("passes its input on", shape=shape.alike),
    **dict.fromkeys(("com.microsoft::EPContext", "com.microsoft::Snpe"), unknown(_COMPILED)),
}
