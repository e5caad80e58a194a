"""Operators of ``com.microsoft`` that are neither products nor attention: fused pointwise work, normalisations, the
rest.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.counts import Counts
from flopwise.graph import Node
from flopwise.ops import linear, movement, normalization, pointwise, pooling, resize
from flopwise.ops.extents import extent, product
from flopwise.ops.microsoft_linear import FAST_GELU
from flopwise.ops.operator import Operator, by, each, nothing

_SIGMOID = Counts(bit=1, exp=1, add=1, div=1)
_SILU = Counts(mul=1) + _SIGMOID
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


def bias_dropout(node: Node) -> Counts:
    """numel(Y) add for bias, and numel(Y) add for residual; dropout passes its input on at inference.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasDropout
    """
    return Counts(add=1 + int(node.has_input(2))) * node.output().numel


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
    return _embedded(node, mask=7)


def quantized_embed_layer_normalization(node: Node) -> Counts:
    """as EmbedLayerNormalization, and numel(Y) × (1 mul + 1 add) for each table, whose rows are dequantised.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization
    """
    tables = 2 + int(node.has_input(4))
    return _embedded(node, mask=7) + Counts(mul=tables, add=tables) * node.output().numel


def _embedded(node: Node, mask: int) -> Counts:
    y = node.output()
    sums = int(node.has_input(3)) + int(node.has_input(4))
    normed = Node("LayerNormalization", node.name, (y, node.input(5), node.input(6)), (y,), {"axis": -1})
    counted = node.input(mask).numel if node.has_input(mask) else 0
    return Counts(add=sums * y.numel + counted) + normalization.layer_normalization(normed)


def group_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × groups × (2 div + 1 mul + 2 add + 1 sqrt), as GroupNormalization;
    activation: numel(X) × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (SiLU).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupNorm
    """
    attrs = {"num_groups": node.attrs.get("groups", 1)}
    normed = Node("GroupNormalization", node.name, node.inputs[:3], node.outputs[:1], attrs)
    silu = _SILU * node.input(0).numel if node.attrs.get("activation", 0) else Counts()
    return normalization.group_normalization(normed) + silu


def skip_group_normalization(node: Node) -> Counts:
    """numel(X) add for skip, and one for bias; then as GroupNorm.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipGroupNorm
    """
    return Counts(add=node.input(0).numel * (1 + int(node.has_input(4)))) + group_normalization(node)


def gated_rms_normalization(node: Node) -> Counts:
    """as RMSNormalization over the last axis, and numel(X) × (2 mul + 1 bit + 1 exp + 1 add + 1 div): times SiLU of
    the gate.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm
    """
    x = node.input(0)
    normed = Node("RMSNormalization", node.name, (x, node.input(1)), node.outputs[:1], {"axis": -1})
    return normalization.rms_normalization(normed) + (_SILU + Counts(mul=1)) * x.numel


def bias_softmax(node: Node) -> Counts:
    """numel(X) × (1 add + 1 cmp + 2 add + 1 exp + 1 div): a bias, then softmax.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSoftmax
    """
    return Counts(cmp=1, add=3, exp=1, div=1) * node.input(0).numel


def crop_and_resize(node: Node) -> Counts:
    """numel(Y) × (3 mul + 6 add) (bilinear), as a linear Resize of each box; nearest: nothing.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize
    """
    if node.attrs.get("mode", "bilinear") == "nearest":
        return Counts()
    return Counts(mul=3, add=6) * node.output().numel


def distances(node: Node) -> Counts:
    """numel(Y) × K × (1 add + 1 mac): a difference and its square, for each feature; metric euclidean: numel(Y) sqrt.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist
    """
    pairs = node.output().numel
    terms = pairs * extent(node, node.input(0), -1)
    return Counts(add=terms, mac=terms, sqrt=pairs if node.attrs.get("metric") == "euclidean" else 0)


def complex_product(node: Node) -> Counts:
    """numel(Y) / 2 × (4 mul + 2 add): a complex number is two elements.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ComplexMul
    """
    return Counts(mul=4, add=2) * (node.output().numel // 2)


def fourier(node: Node) -> Counts:
    """at most numel(Y) × N mac, the definition's sum over the N elements of a signal (a fast transform needs fewer).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft
    """
    x = node.input(0)
    axes = node.attrs.get("signal_ndim", 1)
    signal = product(x.dims[-axes:])
    return Counts(mac=node.output().numel * signal)


def inverse_fourier(node: Node) -> Counts:
    """at most numel(Y) × N mac, the definition's sum over the N numbers of a spectrum; normalized: numel(Y) div.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Irfft
    """
    x, y = node.input(0), node.output()
    axes = node.attrs.get("signal_ndim", 1)
    return Counts(mac=y.numel * product(x.dims[-axes - 1 :]), div=y.numel)


def inverse(node: Node) -> Counts:
    """at most, for each M × M matrix, M³ mac + M² div (elimination on the matrix beside the identity).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse
    """
    x = node.input(0)
    size = extent(node, x, -1)
    return Counts(mac=size * size * size, div=size * size) * product(x.dims[:-2])


def time_warping(node: Node) -> Counts:
    """numel(X) × (3 cmp + 1 add): the cheapest of three ways to each cell.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicTimeWarping
    """
    return Counts(cmp=3, add=1) * node.input(0).numel


def word_convolution(node: Node) -> Counts:
    """words × (L × E × K mac + L × E add + L × E tanh + L × E cmp), E filters over K = window × embedding numbers at
    each of at most L characters of a word: a convolution, a bias, tanh, and the largest of each filter.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.WordConvEmbedding
    """
    sequence, kernel = node.input(0), node.input(1)
    filters = extent(node, kernel, 0)
    places = sequence.numel * filters
    return Counts(mac=places * product(kernel.dims[1:]), add=places, tanh=places, cmp=places)


def finite(node: Node) -> Counts:
    """1 cmp for each element of all inputs.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.IsAllFinite
    """
    return Counts(cmp=sum(t.numel for t in node.known_inputs))


def integer_sum(node: Node) -> Counts:
    """numel(X) add.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ReduceSumInteger
    """
    return Counts(add=node.input(0).numel)


_PICK = "copies the elements that indices pick"
_PLACES = "copies elements to other places"

OPERATORS: dict[str, Operator] = {
    # Pointwise.
    "com.microsoft::BiasAdd": each("bias and skip", add=2),
    "com.microsoft::BiasDropout": by(bias_dropout),
    "com.microsoft::BitmaskBiasDropout": by(bias_dropout),
    "com.microsoft::BitmaskDropout": nothing("passes its input on at inference"),
    "com.microsoft::BiasGelu": each("Gelu of a sum", add=2, div=1, erf=1, mul=2),
    "com.microsoft::BiasSplitGelu": by(split_gelu),
    "com.microsoft::Gelu": pointwise.OPERATORS["Gelu"],
    "com.microsoft::FastGelu": by(fast_gelu),
    "com.microsoft::QuickGelu": pointwise.OPERATORS["Swish"],
    "com.microsoft::GatedAdd": each("x + gate × y", mul=1, add=1),
    "com.microsoft::ScaledSiLU": each("scale × x × sigmoid(αx)", mul=3, bit=1, exp=1, add=1, div=1),
    "com.microsoft::ComplexMul": by(complex_product),
    "com.microsoft::ComplexMulConj": by(complex_product),
    "com.microsoft::IsAllFinite": by(finite),
    # Normalisations.
    "SimplifiedLayerNormalization": normalization.OPERATORS["RMSNormalization"],
    "com.microsoft::SimplifiedLayerNormalization": normalization.OPERATORS["RMSNormalization"],
    "com.microsoft::SkipLayerNormalization": by(skip_layer_normalization),
    "com.microsoft::SkipSimplifiedLayerNormalization": by(skip_rms_normalization),
    "com.microsoft::EmbedLayerNormalization": by(embed_layer_normalization),
    "com.microsoft::QEmbedLayerNormalization": by(quantized_embed_layer_normalization),
    "com.microsoft::GroupNorm": by(group_normalization),
    "com.microsoft::SkipGroupNorm": by(skip_group_normalization),
    "com.microsoft::GatedRMSNorm": by(gated_rms_normalization),
    "com.microsoft::BiasSoftmax": by(bias_softmax),
    # Reductions, pooling, sampling.
    "com.microsoft::ReduceSumInteger": by(integer_sum),
    "com.microsoft::MaxpoolWithMask": pooling.OPERATORS["MaxPool"],
    "com.microsoft::NhwcMaxPool": pooling.OPERATORS["MaxPool"],
    "com.microsoft::GridSample": resize.OPERATORS["GridSample"],
    "com.microsoft::CropAndResize": by(crop_and_resize),
    "com.microsoft::CDist": by(distances),
    "com.microsoft::Inverse": by(inverse, "bound"),
    "com.microsoft::Rfft": by(fourier, "bound"),
    "com.microsoft::Irfft": by(inverse_fourier, "bound"),
    "com.microsoft::DynamicTimeWarping": by(time_warping),
    "com.microsoft::WordConvEmbedding": by(word_convolution, "bound"),
    "com.microsoft::CausalConvWithState": linear.OPERATORS["CausalConvWithState"],
    # What moves data, or works on words.
    "com.microsoft::ExpandDims": nothing("reads the same elements under another shape"),
    "com.microsoft::GatherND": nothing(_PICK),
    "com.microsoft::TorchEmbedding": nothing(_PICK),
    "com.microsoft::NGramRepeatBlock": nothing("overwrites the scores of tokens that would repeat an n-gram"),
    "com.microsoft::Pad": nothing("copies elements between borders that are filled or repeated"),
    "com.microsoft::RemovePadding": nothing(_PLACES),
    "com.microsoft::RestorePadding": nothing(_PLACES),
    "com.microsoft::UnfoldTensor": nothing(_PLACES),
    "com.microsoft::Trilu": nothing("copies one triangle and fills the other with zeros"),
    "com.microsoft::Range": nothing("numbers positions: an index sequence, not arithmetic on data"),
    "com.microsoft::RelativePositionBias": nothing(
        "copies a row of the table for each distance, which shapes alone fix"
    ),
    "com.microsoft::BifurcationDetector": nothing("compares tokens and copies those that agree"),
    "com.microsoft::MurmurHash3": nothing("hashes the bits of its input"),
    "com.microsoft::Tokenizer": nothing("works on the characters of strings, not on numbers"),
    "com.microsoft::SampleOp": nothing("passes its input on"),
    "com.microsoft::Unique": movement.OPERATORS["Unique"],
}
