"""Standard operators in the memory layouts that onnxruntime gives them when it saves an optimised model.

``com.microsoft.nchwc`` keeps channels in blocks of 8 or 16 and pads them to whole blocks, which are computed with; an
activation and a sum may be fused to its convolutions. ``com.ms.internal.nhwc`` keeps them last.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import (
    DATA,
    SCALE,
    SETTING,
    STATISTIC,
    WEIGHT,
    WIDE_BIAS,
    ZERO_POINT,
    inputs,
    scale,
    zero_point,
)
from flopwise.operators.onnx import linear, movement, quantized, reduction, spatial
from flopwise.operators.onnxruntime import quantized as microsoft_quantized
from flopwise.operators.onnxruntime.linear import fused_conv
from flopwise.operators.operator import Operator, by, counted_as, nothing, row_of

_LAYOUT = "copies elements to another layout"


def channels_last_instance_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × C × (2 div + 1 mul + 2 add + 1 sqrt), C the last extent of X."""
    x = node.input(0)
    groups = extent(node, x, 0) * extent(node, x, -1)
    return Counts(add=4, mul=2, div=1) * x.numel + Counts(div=2, mul=1, add=2, sqrt=1) * groups


def quantized_conv_transpose(node: Node) -> Counts:
    """numel(X) × prod(W.shape[1:]) mac, numel(X) + numel(W) add (zero points), numel(Y) add when B is given; numel(Y) ×
    (1 mul + 1 add + 3 cmp) to requantise, and the ratios of the scales, numel(w_scale) × (1 mul + 1 div).
    """
    x, w, outputs = node.input(0), node.input(3), node.output().numel
    work = Counts(mac=x.numel * product(w.dims[1:]), add=x.numel + w.numel + (outputs if node.has_input(8) else 0))
    return work + Counts(mul=1, add=1, cmp=3) * outputs + Counts(mul=1, div=1) * node.input(4).numel


_BLOCKED: dict[str, Operator] = {
    "Conv": row_of(
        fused_conv,
        "numel(Y) × prod(W.shape[1:]) mac, numel(Y) add when B is given, numel(Y) add when Sum is given, and the "
        "activation for each element of Y; channels that fill a block up count",
        inputs=inputs(DATA, WEIGHT, WEIGHT),
        types="movement:blocked_conv",
    ),
    **{
        name: counted_as(spatial.POOLING[name], shape=shape.twin(name))
        for name in ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
    },
    "Upsample": counted_as(spatial.RESIZE["Upsample"], inputs=inputs(DATA, SETTING), types="movement:enlarged"),
    "ReorderInput": nothing(_LAYOUT, types="movement:into_blocks"),
    "ReorderOutput": nothing(_LAYOUT, types="movement:out_of_blocks"),
}

_LAST: dict[str, Operator] = {
    "Conv": counted_as(linear.OPERATORS["Conv"], inputs=inputs(DATA, WEIGHT, WEIGHT), types="movement:conv"),
    "ConvTranspose": counted_as(linear.OPERATORS["ConvTranspose"], inputs=inputs(DATA, WEIGHT, WEIGHT)),
    "QLinearConv": counted_as(
        quantized.OPERATORS["QLinearConv"],
        inputs=inputs(DATA, scale(0), zero_point(0), DATA, scale(3), zero_point(3), SCALE, ZERO_POINT, WIDE_BIAS),
    ),
    "QLinearConvTranspose": by(
        quantized_conv_transpose,
        inputs=inputs(DATA, scale(0), zero_point(0), DATA, scale(3), zero_point(3), SCALE, ZERO_POINT, WIDE_BIAS),
    ),
    "QLinearAveragePool": counted_as(
        microsoft_quantized.OPERATORS["com.microsoft::QLinearAveragePool"],
        inputs=inputs(DATA, scale(0), zero_point(0), SCALE, ZERO_POINT),
    ),
    "AveragePool": counted_as(spatial.POOLING["AveragePool"], types="movement:average_pool"),
    "GlobalAveragePool": counted_as(spatial.POOLING["GlobalAveragePool"], types="movement:global_average_pool"),
    "GlobalLpPool": counted_as(spatial.POOLING["GlobalLpPool"], types="movement:global_lp_pool"),
    "GlobalMaxPool": counted_as(spatial.POOLING["GlobalMaxPool"], types="movement:global_max_pool"),
    "LpPool": counted_as(spatial.POOLING["LpPool"], types="movement:lp_pool"),
    "MaxPool": counted_as(spatial.POOLING["MaxPool"], types="movement:max_pool"),
    "BatchNormalization": counted_as(
        reduction.NORMALIZATION["BatchNormalization"], inputs=inputs(DATA, WEIGHT, WEIGHT, STATISTIC, STATISTIC)
    ),
    "InstanceNormalization": by(channels_last_instance_normalization, inputs=inputs(DATA, WEIGHT, WEIGHT)),
    "LRN": counted_as(reduction.NORMALIZATION["LRN"]),
    "GridSample": counted_as(spatial.RESIZE["GridSample"]),
    "Resize": counted_as(spatial.RESIZE["Resize"], inputs=inputs(DATA, SETTING, SETTING, SETTING)),
    **{name: counted_as(movement.OPERATORS[name]) for name in ("DepthToSpace", "MaxUnpool", "SpaceToDepth")},
}

OPERATORS: dict[str, Operator] = {
    **{f"com.microsoft.nchwc::{name}": row for name, row in _BLOCKED.items()},
    **{f"com.ms.internal.nhwc::{name}": row for name, row in _LAST.items()},
}
