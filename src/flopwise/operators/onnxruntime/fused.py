"""Operators of ``com.microsoft`` that are neither products nor attention: fused pointwise work, normalisations, the
rest.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, whole
from flopwise.operators.inputs import DATA, SCALE, SETTING, ZERO_POINT, inputs
from flopwise.operators.onnx import normalization, pointwise, pooling, resize
from flopwise.operators.onnxruntime.linear import FAST_GELU
from flopwise.operators.operator import Operator, by, counted_as, each, nothing, unknown

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


def quick_gelu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when alpha ≠ 1: x × sigmoid(αx).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QuickGelu
    """
    return (_SILU + Counts(mul=int(node.attrs.get("alpha", 1.702) != 1.0))) * node.output().numel


def scaled_silu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when scale is given or alpha ≠ 1: z × sigmoid(z), z
    = scale × x.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ScaledSiLU
    """
    scaled = node.has_input(1) or node.attrs.get("alpha", 1.0) != 1.0
    return (_SILU + Counts(mul=int(scaled))) * node.output().numel


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
    """as EmbedLayerNormalization; and 1 mul + 1 add (dequantised) for numel(Y) elements of each table and for those of
    gamma and beta.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization
    """
    elements = (2 + int(node.has_input(4))) * node.output().numel + node.input(5).numel + node.input(6).numel
    return _embedded(node, mask=7) + Counts(mul=1, add=1) * elements


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
    attrs = {"num_groups": whole(node, "groups", 1)}
    normed = Node("GroupNormalization", node.name, node.inputs[:3], node.outputs[:1], attrs)
    silu = _SILU * node.input(0).numel if node.attrs.get("activation", 0) else Counts()
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


def crop_and_resize(node: Node) -> Counts:
    """numel(Y) × (4 mul + 4 add) (bilinear: 4 neighbours) and rois × h × w × 4 mul (their weights); each of the rois ×
    (h + w) rows and columns takes 1 mul + 1 add (its place), 2 cmp (the edges) and 2 cmp + 2 add (its neighbours and
    their weights), each of the rois 4 mul + 2 add + 2 div. nearest: no averages and weights, and 1 cmp in place of 2
    cmp + 2 add.

    Y is (rois, C, h, w). Places beyond the edge are processed like any other.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize
    """
    y = node.output()
    regions, _, height, width = (extent(node, y, axis) for axis in range(4))
    lines = regions * (height + width)
    work = Counts(mul=4, add=2, div=2) * regions + Counts(mul=1, add=1, cmp=2) * lines
    if node.attrs.get("mode", "bilinear") == "nearest":
        return work + Counts(cmp=lines)
    return (
        work + Counts(cmp=2, add=2) * lines + Counts(mul=4, add=4) * y.numel + Counts(mul=4 * regions * height * width)
    )


def distances(node: Node) -> Counts:
    """numel(C) × N × (2 add + 1 mul): a difference, its square and their sum, for N features; metric euclidean:
    numel(C) sqrt.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist

    Raises:
        ShapeError: the metric is another one.
    """
    metric = node.attrs.get("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise ShapeError(f"{node.op} {node.name!r}: there is no count for the metric {metric!r}")
    pairs = node.output().numel
    terms = pairs * extent(node, node.input(0), -1)
    return Counts(add=2 * terms, mul=terms, sqrt=pairs if metric == "euclidean" else 0)


def complex_product(node: Node) -> Counts:
    """numel(Y) / 2 × (4 mul + 2 add): a complex number is two elements.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ComplexMul
    """
    return Counts(mul=4, add=2) * (node.output().numel // 2)


def fourier(node: Node) -> Counts:
    """at most numel(Y) × N mac, the definition's sum over the N elements of a signal (a fast transform needs fewer).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft
    """
    signal = product(node.input(0).dims[-whole(node, "signal_ndim", 1) :])
    return Counts(mac=node.output().numel * signal)


def inverse_fourier(node: Node) -> Counts:
    """at most numel(Y) × N mac, the definition's sum over the N numbers of a spectrum, and numel(Y) div (a fast
    transform needs fewer).

    X is (..., n / 2 + 1, 2): the other half of the spectrum mirrors the one that is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Irfft
    """
    spectrum = product(node.input(0).dims[-whole(node, "signal_ndim", 1) - 1 :])
    return Counts(mac=spectrum, div=1) * node.output().numel


def inverse(node: Node) -> Counts:
    """at most, for each M × M matrix, M³ mac + M² div (elimination beside the identity) and M (M + 1) / 2 × (1 bit + 1
    cmp) (the largest pivot of each column).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse
    """
    x = node.input(0)
    size = extent(node, x, -1)
    pivots = size * (size + 1) // 2
    return Counts(mac=size * size * size, div=size * size, bit=pivots, cmp=pivots) * product(x.dims[:-2])


def time_warping(node: Node) -> Counts:
    """numel(X) × (3 cmp + 1 add): the cheapest of three ways to each cell.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicTimeWarping
    """
    return Counts(cmp=3, add=1) * node.input(0).numel


def finite(node: Node) -> Counts:
    """1 cmp for each element of all inputs.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.IsAllFinite
    """
    return Counts(cmp=sum(t.numel for t in node.known_inputs))


_PICK = "copies the elements that indices pick"
_PLACES = "copies elements to other places"

_COMPILED = "holds a part of the model that was compiled for one device"

OPERATORS: dict[str, Operator] = {
    # Pointwise.
    "com.microsoft::BiasAdd": each("bias and skip", add=2, shape=shape.alike),
    "com.microsoft::BiasDropout": by(bias_dropout, shape=shape.by("pointwise:with_flags")),
    "com.microsoft::BitmaskBiasDropout": by(bias_dropout, shape=shape.by("pointwise:with_bits")),
    "com.microsoft::BitmaskDropout": nothing("passes its input on at inference", shape=shape.by("pointwise:with_bits")),
    "com.microsoft::BiasGelu": each("Gelu of a sum", add=2, div=1, erf=1, mul=2, shape=shape.alike),
    "com.microsoft::BiasSplitGelu": by(split_gelu, shape=shape.by("pointwise:halved")),
    "com.microsoft::Gelu": counted_as(pointwise.OPERATORS["Gelu"], shape=shape.alike),
    "com.microsoft::FastGelu": by(fast_gelu, shape=shape.alike),
    "com.microsoft::QuickGelu": by(quick_gelu, shape=shape.alike),
    "com.microsoft::GatedAdd": each("x + gate × y", mul=1, add=1, shape=shape.alike),
    "com.microsoft::ScaledSiLU": by(scaled_silu, shape=shape.alike),
    "com.microsoft::ComplexMul": by(complex_product, shape=shape.alike),
    "com.microsoft::ComplexMulConj": by(complex_product, shape=shape.alike),
    "com.microsoft::IsAllFinite": by(finite, shape=shape.by("pointwise:scalar")),
    # Normalisations.
    "SimplifiedLayerNormalization": counted_as(normalization.OPERATORS["RMSNormalization"], shape=shape.alike),
    "com.microsoft::SimplifiedLayerNormalization": counted_as(
        normalization.OPERATORS["RMSNormalization"], shape=shape.alike
    ),
    "com.microsoft::SkipLayerNormalization": by(skip_layer_normalization, shape=shape.by("pointwise:skip_norm")),
    "com.microsoft::SkipSimplifiedLayerNormalization": by(
        skip_rms_normalization, shape=shape.by("pointwise:skip_norm")
    ),
    "com.microsoft::EmbedLayerNormalization": by(embed_layer_normalization, shape=shape.by("pointwise:embedded")),
    "com.microsoft::QEmbedLayerNormalization": by(
        quantized_embed_layer_normalization,
        inputs=inputs(
            *(DATA,) * 8, SCALE, SCALE, SCALE, SCALE, SCALE, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT, ZERO_POINT
        ),
        shape=shape.by("pointwise:embedded"),
    ),
    "com.microsoft::GroupNorm": by(group_normalization, shape=shape.alike),
    "com.microsoft::SkipGroupNorm": by(skip_group_normalization, shape=shape.both_alike),
    "com.microsoft::BiasSoftmax": by(bias_softmax, shape=shape.alike),
    # Reductions, pooling, sampling.
    "com.microsoft::MaxpoolWithMask": counted_as(pooling.OPERATORS["MaxPool"], shape=shape.twin("MaxPool")),
    "com.microsoft::NhwcMaxPool": counted_as(pooling.OPERATORS["MaxPool"], shape=shape.by("layouts:max_pool")),
    "com.microsoft::GridSample": counted_as(
        resize.OPERATORS["GridSample"], shape=shape.twin("GridSample", (0, 1), ("mode",))
    ),
    "com.microsoft::CropAndResize": by(crop_and_resize, shape=shape.by("movement:cropped")),
    "com.microsoft::CDist": by(distances, shape=shape.by("products:pairs")),
    "com.microsoft::Inverse": by(inverse, "bound", shape=shape.alike),
    "com.microsoft::Rfft": by(fourier, "bound", shape=shape.by("spectral:spectrum")),
    "com.microsoft::Irfft": by(inverse_fourier, "bound", shape=shape.by("spectral:signal")),
    "com.microsoft::DynamicTimeWarping": by(time_warping),
    # What moves data, or works on words.
    "com.microsoft::ExpandDims": nothing(
        "reads the same elements under another shape", shape=shape.by("movement:expanded")
    ),
    "com.microsoft::GatherND": nothing(_PICK, shape=shape.twin("GatherND", (0, 1), steers=(1,))),
    "com.microsoft::TorchEmbedding": nothing(_PICK, shape=shape.by("movement:looked_up")),
    "com.microsoft::Pad": nothing(
        "copies elements between borders that are filled or repeated",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        shape=shape.by("movement:padded"),
    ),
    "com.microsoft::RemovePadding": nothing(_PLACES, shape=shape.by("movement:without_padding")),
    "com.microsoft::RestorePadding": nothing(_PLACES, shape=shape.by("movement:restored")),
    "com.microsoft::UnfoldTensor": nothing(_PLACES, shape=shape.by("movement:unfolded")),
    "com.microsoft::Trilu": nothing("copies one triangle and fills the other with zeros", shape=shape.alike),
    "com.microsoft::Range": nothing(
        "numbers positions: an index sequence, not arithmetic on data",
        inputs=inputs(SETTING, SETTING, SETTING),
        shape=shape.by("movement:range_"),
    ),
    "com.microsoft::SampleOp": nothing("passes its input on", shape=shape.alike),
    # What was compiled for one device.
    "com.microsoft::EPContext": unknown(_COMPILED),
    "com.microsoft::Snpe": unknown(_COMPILED),
}
