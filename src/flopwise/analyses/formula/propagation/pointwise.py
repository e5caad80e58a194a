"""Shapes of operators that work element by element, normalise, reduce, or make values."""

from __future__ import annotations

from collections.abc import Callable

from flopwise.analyses.formula.dim import Dim, larger
from flopwise.analyses.formula.propagation.broadcasting import broadcast
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, axis_of
from flopwise.operators.aten import pointwise as aten_pointwise
from flopwise.operators.extents import product
from flopwise.operators.onnx import normalization, pointwise, reduction

Rule = Callable[[Site], "list[Shape | None]"]

#: Operators whose results have the shape of the first input.
ALIKE = """
    Identity Dropout Cast CastLike BitCast Trilu ReverseSequence Scatter ScatterElements ScatterND TensorScatter EyeLike
    QuantizeLinear DequantizeLinear Bernoulli RandomNormalLike RandomUniformLike CumSum CumProd
    StringNormalizer RegexFullMatch
"""


def alike(site: Site) -> list[Shape | None]:
    """As the first input."""
    return [site.shape(0)] * len(site.node.outputs)


def broadcasting(site: Site) -> list[Shape | None]:
    """The common shape of all inputs."""
    return [broadcast(*(site.shape(i) for i in range(len(site.node.inputs)) if site.has(i)))]


def normalized(site: Site) -> list[Shape | None]:
    """As the first input; statistics along what is normalised have extent 1."""
    x = site.shape(0)
    axis = axis_of(site.attr("axis", -1), len(x))
    kept: Shape = (*x[:axis], *[1] * (len(x) - axis))
    return [x, kept, kept]


def batch_normalized(site: Site) -> list[Shape | None]:
    """As the first input; statistics for each channel."""
    return [site.shape(0), *[site.shape(1)] * (len(site.node.outputs) - 1)]


def quantized(site: Site) -> list[Shape | None]:
    """As the first input; a scale and a zero point."""
    return [site.shape(0), (), ()]


def reduced(site: Site) -> list[Shape | None]:
    """Without the axes that are reduced, or with extent 1 there."""
    x = site.shape(0)
    named = site.settings("axes", 1)
    if not named:
        named = [] if site.attr("noop_with_empty_axes", 0) and named is not None else list(range(len(x)))
        if site.attr("noop_with_empty_axes", 0):
            return [x]
    axes = {axis_of(a, len(x)) for a in named}
    if site.attr("keepdims", 1):
        return [tuple(1 if i in axes else n for i, n in enumerate(x))]
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


def chosen(site: Site) -> list[Shape | None]:
    """Without the axis along which the largest or smallest is sought, or with extent 1 there."""
    x = site.shape(0)
    axis = axis_of(site.attr("axis", 0), len(x))
    return [(*x[:axis], *([1] if site.attr("keepdims", 1) else []), *x[axis + 1 :])]


def shape_of(site: Site) -> list[Shape | None]:
    """One number for each axis."""
    return [(len(site.shape(0)[site.attr("start", 0) : site.attr("end")]),)]


def scalar(site: Site) -> list[Shape | None]:
    """One number."""
    return [()]


def filled(site: Site) -> list[Shape | None]:
    """The shape that the input names."""
    return [tuple(site.whole(0))]


def stated(site: Site) -> list[Shape | None]:
    """The shape that the attribute says."""
    return [tuple(site.attr("shape"))]


def ranged(site: Site) -> list[Shape | None]:
    """As many numbers as steps go from start to limit."""
    start, limit = site.whole(0)[0], site.whole(1)[0]
    step = site.whole(2)[0] if site.has(2) else 1
    if type(step) is Dim:
        raise UnknownError
    count = -(-(limit - start) // step) if step > 0 else -(-(start - limit) // -step)
    return [(larger(count, 0),)]


def window(site: Site) -> list[Shape | None]:
    """As many numbers as the input says."""
    return [(site.whole(0)[0],)]


def multinomial(site: Site) -> list[Shape | None]:
    """As many draws for each row."""
    return [(site.shape(0)[0], site.attr("sample_size", 1))]


def aligned(site: Site) -> list[Shape | None]:
    """A box of features for each region."""
    x, regions = site.shape(0), site.shape(1)
    if site.node.op == "MaxRoiPool":
        return [(regions[0], x[1], *site.attr("pooled_shape"))]
    return [(regions[0], x[1], site.attr("output_height", 1), site.attr("output_width", 1))]


def grid_sampled(site: Site) -> list[Shape | None]:
    """A value of each channel for each place of the grid."""
    x, grid = site.shape(0), site.shape(1)
    return [(*x[:2], *grid[1:-1])]


def grid(site: Site) -> list[Shape | None]:
    """The coordinates of each place."""
    size = site.whole(1)
    return [(size[0], *size[2:], len(size) - 2)]


def spectrum(site: Site) -> list[Shape | None]:
    """As X with complex numbers along the last axis, half as many where one side is asked for.

    https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    x = list(site.shape(0))
    axis = axis_of(site.whole(2)[0] if site.has(2) else site.attr("axis", -2 if site.node.version >= 20 else 1), len(x))
    if site.has(1):
        x[axis] = site.whole(1)[0]
    if site.attr("onesided", 0):
        x[axis] = (x[axis] - 1) * 2 if site.attr("inverse", 0) else x[axis] // 2 + 1
    last = 1 if site.attr("onesided", 0) and site.attr("inverse", 0) else 2
    return [(*x[:-1], last)]


def short_time(site: Site) -> list[Shape | None]:
    """Frames × bins × 2 for each signal."""
    x, step = site.shape(0), site.whole(1)[0]
    length = site.whole(3)[0] if site.has(3) else site.shape(2)[0]
    frames = (x[1] - length) // step + 1
    return [(x[0], frames, length // 2 + 1 if site.attr("onesided", 1) else length, 2)]


def mel(site: Site) -> list[Shape | None]:
    """Bins of the spectrum × mel bins."""
    return [(site.whole(1)[0] // 2 + 1, site.whole(0)[0])]


def loss(site: Site) -> list[Shape | None]:
    """As the labels, or one number; and the logarithms of the probabilities."""
    x, labels = site.shape(0), site.shape(1)
    return [labels if site.attr("reduction", "mean") == "none" else (), x]


def determinant(site: Site) -> list[Shape | None]:
    """One number for each matrix."""
    return [site.shape(0)[:-2]]


def elements(site: Site) -> list[Shape | None]:
    """One number for each element."""
    return [(product(site.shape(0)),)]


#: Pointwise operators with one input that says the shape, whatever the others are.
_FIRST = {"Clip", "Dropout", "PRelu"}

RULES: dict[str, Rule] = {
    **dict.fromkeys(ALIKE.split(), alike),
    **{op: alike if op in _FIRST else broadcasting for op in pointwise.OPERATORS},
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "StringConcat"), broadcasting),
    **dict.fromkeys(aten_pointwise.OPERATORS, broadcasting),
    **dict.fromkeys(normalization.OPERATORS, alike),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalized),
    "BatchNormalization": batch_normalized,
    "DynamicQuantizeLinear": quantized,
    **{op: reduced for op in reduction.OPERATORS if op.startswith("Reduce")},
    **dict.fromkeys(("ArgMax", "ArgMin"), chosen),
    "Shape": shape_of,
    "Size": scalar,
    "ConstantOfShape": filled,
    **dict.fromkeys(("RandomNormal", "RandomUniform"), stated),
    **dict.fromkeys(("Range",), ranged),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), window),
    "Multinomial": multinomial,
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), aligned),
    "GridSample": grid_sampled,
    "AffineGrid": grid,
    "DFT": spectrum,
    "STFT": short_time,
    "MelWeightMatrix": mel,
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), loss),
    "Det": determinant,
}

#: Operators whose results have the common shape of their inputs, or that of the first.
ELEMENTWISE: frozenset[str] = frozenset(op for op, rule in RULES.items() if rule in (alike, broadcasting)) - {"EyeLike"}
