"""TensorFlow's operators as operators of the house: what differs from TensorFlow Lite's.

Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flopwise.formats.kit.lowering import (
    CHANNELS_FIRST,
    CHANNELS_FIRST_3D,
    Application,
    Lowered,
    Rule,
    Setting,
    renamed,
    to,
)
from flopwise.formats.tflite.table import TABLE as LITE
from flopwise.graph import Layout, Shape
from flopwise.operators import shape
from flopwise.operators.shape import Call, FromInput, ShapeRule, Types
from flopwise.operators.size import MisfitError, UnresolvedError, is_certain

#: Axes of a kernel (height, width, inputs, outputs) in the house.
_KERNEL, _KERNEL_3D = (3, 2, 0, 1), (4, 3, 0, 1, 2)

_FIRST = Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))


def lower(application: Application) -> Lowered:
    """The operator of the house for a node of TensorFlow's; the unknown ``tensorflow::NAME`` where there is none."""
    rule = TABLE.get(application.op)
    lowered = rule(application) if rule is not None else None
    return Lowered(f"tensorflow::{application.op}") if lowered is None else lowered


def _channels_last(a: Application) -> bool:
    """True if the node's ``data_format`` has the channels last (NHWC, NDHWC)."""
    return not a.option("data_format", "NHWC").startswith("NC")


def _window_attrs(a: Application, kernel: tuple[int, ...]) -> dict[str, object] | None:
    """ONNX's ``kernel_shape``, ``strides``, ``dilations``, and ``auto_pad`` or ``pads``; None for unknown padding."""
    padding = a.option("padding", "VALID")
    inner = slice(1, -1) if _channels_last(a) else slice(2, None)
    ones = [1] * (len(kernel) + 2)
    attrs = {
        "kernel_shape": list(kernel),
        "strides": [*(a.option("strides", ones) or ones)][inner],
        "dilations": [*(a.option("dilations", ones) or ones)][inner],
    }
    if padding in ("SAME", "VALID"):
        return {**attrs, "auto_pad": "SAME_UPPER" if padding == "SAME" else "VALID"}
    pads = a.option("explicit_paddings", [])
    if padding != "EXPLICIT" or len(pads) != 2 * len(ones) or any(pad < 0 for pad in pads):
        return None
    return {**attrs, "pads": [*pads[::2][inner], *pads[1::2][inner]]}  # each axis has its two beside each other


def _conv_shape(call: Call) -> Types:
    """Shape of a convolution's output in the file's layout.

    The kernel is (*extents, C_in, C_out), a depthwise one (*extents, C, multiplier).
    """
    x, w = call.shape(0), call.shape(1)
    axes = len(x) - 2
    if len(w) != len(x) or axes < 1:
        raise MisfitError(f"a kernel of {len(w)} axes for {len(x)}")
    last = bool(call.attr("channels_last", 1))
    image = x[1:-1] if last else x[2:]
    steps, wide, same = call.attr("strides", []), call.attr("dilations", []), call.attr("auto_pad", "") == "SAME_UPPER"
    pads = call.attr("pads", [0] * 2 * axes)
    around = [before + after for before, after in zip(pads[:axes], pads[axes:], strict=True)]
    sizes = []
    for n, k, step, hole, more in zip(image, w[:axes], steps, wide, around, strict=True):
        if min(step, hole) < 1:
            raise MisfitError("a stride or dilation below 1")
        extent = n if same else n + more - (k - 1) * hole
        if is_certain(extent) and int(extent) < 1 and not same:
            raise MisfitError(f"a window over {(k - 1) * hole + 1} elements is larger than the image, {n + more}")
        sizes.append((extent + step - 1) // step)
    channels = w[-1] * w[-2] if call.attr("depthwise", 0) else w[-1]
    return [(x[0], *sizes, channels) if last else (x[0], channels, *sizes)]


def _conv(axes: int, depthwise: int = 0) -> Callable[[Application], Lowered | None]:
    """The rule for Conv2D or Conv3D, by its number of spatial axes; a depthwise kernel is (*extents, C, multiplier)."""
    order, kernel = (CHANNELS_FIRST, _KERNEL) if axes == 2 else (CHANNELS_FIRST_3D, _KERNEL_3D)

    def rule(a: Application) -> Lowered | None:
        attrs = _window_attrs(a, (1,) * axes)
        if attrs is None:
            return None
        last = _channels_last(a)
        layout = Layout((order if last else None, kernel), (order if last else None,))
        attrs = {**attrs, "channels_last": int(last), "group": 1, **({"depthwise": 1} if depthwise else {})}
        return Lowered("Conv", (0, 1), attrs, _conv_shape, layout=layout, as_in_file=True, finish=_with_groups)

    return rule


def _conv_transpose(a: Application) -> Lowered | None:
    """Conv2DBackpropInput: the shape of the result, a kernel (height, width, outputs, inputs), the image."""
    attrs = _window_attrs(a, (1, 1))
    if attrs is None:
        return None
    order = CHANNELS_FIRST if _channels_last(a) else None
    lowered = to("ConvTranspose", 2, 1, layout=Layout((order, _KERNEL), (order,)), shape="tflite:transposed", group=1)(
        a
    )
    return lowered._replace(attrs={**attrs, **lowered.attrs}, finish=_with_groups)


def _with_groups(lowered: Lowered, shapes: Sequence[Shape | None]) -> Lowered:
    """A convolution whose kernel and groups follow from its shapes."""
    x, w = (*shapes, None, None)[:2]
    if not x or not w or len(x) != len(w):
        return lowered
    attrs: dict[str, Any] = {**lowered.attrs, "kernel_shape": list(w[:-2])}
    channels = x[-1] if attrs.pop("channels_last", 1) else x[1]
    if attrs.pop("depthwise", 0):  # the outputs of a channel lie side by side
        return lowered._replace(attrs={**attrs, "group": w[-2]}, views={1: _outputs_last})
    if lowered.op == "Conv":
        attrs["group"] = max(channels // w[-2], 1) if w[-2] else 1
    return lowered._replace(attrs=attrs)


def _outputs_last(kernel: Shape) -> Shape:
    """A depthwise kernel (*extents, C, multiplier) as (*extents, 1, outputs)."""
    return (*kernel[:-2], 1, kernel[-2] * kernel[-1])


def _pooling(op: str) -> Callable[[Application], Lowered | None]:
    """The rule for a pooling over two spatial axes; it gives None for other ranks."""

    def rule(a: Application) -> Lowered | None:
        sizes = a.option("ksize", [1, 1, 1, 1])
        kernel = tuple(sizes[1:-1] if _channels_last(a) else sizes[2:])
        attrs = _window_attrs(a, kernel)
        if attrs is None or len(kernel) != 2:
            return None
        return Lowered(op, (0,), attrs, layout=_FIRST if _channels_last(a) else None)

    return rule


def _matmul(a: Application) -> Lowered:
    """MatMul of two matrices; ``transpose_a`` and ``transpose_b`` become the layout of the inputs."""
    names = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    turned = tuple([(1, 0) if any(a.option(name, False) for name in pair) else None for pair in names])
    return Lowered("MatMul", (0, 1), layout=Layout(turned) if any(turned) else None)


def _batch_matmul_shape(call: Call) -> Types:
    """Shape of a batched product, (*batch, rows, columns): batch axes broadcast, ``adj_x`` and ``adj_y`` transpose."""
    a, b = call.shape(0), call.shape(1)
    if min(len(a), len(b)) < 2:
        raise MisfitError("a factor that is no matrix")
    rows = a[-1] if call.attr("adj_x", 0) else a[-2]
    columns = b[-2] if call.attr("adj_y", 0) else b[-1]
    stacks = a[:-2] if len(a) >= len(b) else b[:-2]
    others = (b if len(a) >= len(b) else a)[:-2]
    shared = [
        other if one == 1 else one for one, other in zip(stacks[len(stacks) - len(others) :], others, strict=True)
    ]
    return [(*stacks[: len(stacks) - len(others)], *shared, rows, columns)]


def _batch_matmul(a: Application) -> Lowered:
    """BatchMatMul of any version, with ``adj_x`` and ``adj_y`` as attributes."""
    attrs = {name: int(a.option(name, False)) for name in ("adj_x", "adj_y")}
    return Lowered("MatMul", (0, 1), attrs, _batch_matmul_shape, as_in_file=True, finish=_with_orders)


def _with_orders(lowered: Lowered, shapes: Sequence[Shape | None]) -> Lowered:
    """A product whose factors are transposed by a layout."""
    ranks = [
        len(one or ()) if lowered.attrs.get(name) else 0 for one, name in zip(shapes, ("adj_x", "adj_y"), strict=False)
    ]
    orders = tuple([(*range(rank - 2), rank - 1, rank - 2) if rank > 1 else None for rank in ranks])
    return lowered._replace(attrs={}, layout=Layout(orders) if any(orders) else None)


def _concat(a: Application) -> Lowered:
    """ConcatV2, whose last input is the axis."""
    last = len(a.inputs) - 1
    return Lowered("Concat", tuple(range(last)), settings={"axis": FromInput(last)})


def _gather(a: Application) -> Lowered:
    """Gather along the first axis, or along that of the third input."""
    batch = a.option("batch_dims", 0)
    attrs = {"batch_dims": batch} if batch else {}
    if a.op == "GatherV2":
        return Lowered("Gather", (0, 1), attrs, settings={"axis": FromInput(2)})
    return Lowered("Gather", (0, 1), {"axis": 0, **attrs})


def _squeeze(a: Application) -> Lowered:
    axes = a.option("squeeze_dims", []) or a.option("axis", [])
    return Lowered("Squeeze", (0,), {"axes": axes} if axes else {})


def _batch_norm(a: Application) -> Lowered | None:
    if a.options.get("is_training", True) is not False:
        return None
    order = CHANNELS_FIRST if _channels_last(a) else None
    attrs = {"epsilon": a.option("epsilon", 1e-4)}
    return Lowered("BatchNormalization", (0, 1, 2, 3, 4), attrs, layout=Layout((order,), (order,)))


def _bias_add(a: Application) -> Lowered:
    """BiasAdd; where the channels are the second axis, it is drawn in the order in which they are the last."""
    return Lowered("Add") if _channels_last(a) else Lowered("Add", shape=shape.alike, finish=_with_channels_last)


def _with_channels_last(lowered: Lowered, shapes: Sequence[Shape | None]) -> Lowered:
    if not shapes or not shapes[0]:
        return lowered
    last = (0, *range(2, len(shapes[0])), 1)
    return lowered._replace(layout=Layout((last,), (last,)))


def _option(name: str, default: Any) -> Setting:
    return lambda a: a.option(name, default)


def _blocks(op: str) -> Rule:
    """The rule for DepthToSpace or SpaceToDepth with the block size of the node."""
    first, last = (to(op, layout=layout, blocksize=_option("block_size", 1)) for layout in (None, _FIRST))
    return lambda a: last(a) if _channels_last(a) else first(a)


def _list_item_shape(call: Call) -> Types:
    """Shape of TensorListGetItem: a list is one tensor (length, *item), an item is its shape without the first axis."""
    return [call.shape(0)[1:]]


def _list_after_set_shape(call: Call) -> Types:
    """Shape of TensorListSetItem: (length, *item), with the shape of the item that is written."""
    return [(call.shape(0)[0], *call.shape(2))]


def _list_reserve_shape(call: Call) -> Types:
    """Shape of TensorListReserve: (length, *item); (length,) where the shape of the items is not known yet."""
    (count,) = call.settings_or_open("", 1) or (None,)
    sizes = call.settings_or_open("", 0) or ()
    if count is None:
        raise UnresolvedError
    if any(size is None or (isinstance(size, int) and size < 0) for size in sizes):
        return [(count,)]  # members that are written later have the rest
    return [(count, *sizes)]


def _tensor_list(op: str, *places: int, rule: ShapeRule) -> Rule:
    """The rule for an operator on tensor lists: ``places`` are inputs in ``op``'s order, ``rule`` infers the shape."""
    return to(op, *places, shape=rule)


#: Operators that do the same element by element, or take the same as the house's.
_NAMES: dict[str, str] = {
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Div": "Div", "Pow": "Pow",
    "FloorMod": "Mod", "Maximum": "Max", "Minimum": "Min", "AddN": "Sum", "Abs": "Abs", "Neg": "Neg", "Exp": "Exp",
    "Log": "Log", "Sqrt": "Sqrt", "Sin": "Sin", "Cos": "Cos", "Tan": "Tan", "Floor": "Floor", "Ceil": "Ceil",
    "Round": "Round", "Rint": "Round", "Sign": "Sign", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Relu": "Relu",
    "Erf": "Erf", "Equal": "Equal", "Less": "Less", "LessEqual": "LessOrEqual", "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalNot": "Not", "Select": "Where",
    "SelectV2": "Where", "Softplus": "Softplus", "Softsign": "Softsign", "Selu": "Selu", "Reciprocal": "Reciprocal",
    "Inv": "Reciprocal", "IsNan": "IsNaN", "IsInf": "IsInf", "Reshape": "Reshape", "ExpandDims": "Unsqueeze",
    "Tile": "Tile", "BroadcastTo": "Expand", "Range": "Range", "Shape": "Shape", "Size": "Size",
    "GatherNd": "GatherND", "Rsqrt": "tflite::RSQRT", "Square": "tflite::SQUARE",
    "SquaredDifference": "tflite::SQUARED_DIFFERENCE", "FloorDiv": "tflite::FLOOR_DIV", "Atan2": "tflite::ATAN2",
    "NotEqual": "tflite::NOT_EQUAL", "Fill": "tflite::FILL", "ZerosLike": "tflite::ZEROS_LIKE",
    "OnesLike": "tflite::ZEROS_LIKE", "Rank": "tflite::RANK", "Slice": "tflite::SLICE", "Pad": "tflite::PAD",
    "PadV2": "tflite::PAD", "MirrorPad": "tflite::MIRROR_PAD", "ReverseV2": "tflite::REVERSE_V2",
    "SpaceToBatchND": "tflite::SPACE_TO_BATCH_ND", "BatchToSpaceND": "tflite::BATCH_TO_SPACE_ND",
    "Where": "tflite::WHERE", "ScatterNd": "tflite::SCATTER_ND", "Erfc": "aten::erfc", "Log1p": "aten::log1p",
    "Expm1": "aten::expm1", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh",
    "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh", "FakeQuantWithMinMaxVars": "tflite::FAKE_QUANT",
    "FakeQuantWithMinMaxArgs": "tflite::FAKE_QUANT", "FakeQuantWithMinMaxVarsPerChannel": "tflite::FAKE_QUANT",
    "IsFinite": "IsInf", "Invert": "BitwiseNot", "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor", "LogicalXor": "Xor", "TruncateDiv": "aten::div_rounded", "Xlogy": "aten::xlogy",
    "Xlog1py": "aten::xlog1py", "NextAfter": "aten::nextafter", "Digamma": "aten::digamma",
    "Lgamma": "aten::lgamma", "Erfinv": "aten::erfinv", "Ndtri": "aten::ndtri", "BesselI0": "aten::i0",
    "BesselI0e": "aten::i0e", "BesselI1": "aten::i1", "BesselI1e": "aten::i1e", "Igamma": "aten::igamma",
    "Igammac": "aten::igammac", "ClipByValue": "Clip", "Zeta": "aten::special_zeta", "Polygamma": "aten::polygamma",
}  # fmt: skip

#: Operators that TensorFlow Lite has under another name, with the same inputs and options.
_LITE = {
    "Mean": "MEAN", "Sum": "SUM", "Prod": "REDUCE_PROD", "Max": "REDUCE_MAX", "Min": "REDUCE_MIN", "Any": "REDUCE_ANY",
    "All": "REDUCE_ALL", "ArgMax": "ARG_MAX", "ArgMin": "ARG_MIN", "TopKV2": "TOPK_V2", "Cumsum": "CUMSUM",
    "Split": "SPLIT", "SplitV": "SPLIT_V", "Pack": "PACK", "Unpack": "UNPACK", "StridedSlice": "STRIDED_SLICE",
    "Transpose": "TRANSPOSE", "ResizeBilinear": "RESIZE_BILINEAR", "Softmax": "SOFTMAX", "LogSoftmax": "LOG_SOFTMAX",
    "ResizeNearestNeighbor": "RESIZE_NEAREST_NEIGHBOR", "Relu6": "RELU6", "Elu": "ELU",
}  # fmt: skip

#: TensorFlow's operator -> how it is lowered; None as its result: not with these attributes.
TABLE: Mapping[str, Callable[[Application], Lowered | None]] = {
    **renamed(**_NAMES),
    **{name: LITE[lite] for name, lite in _LITE.items()},
    "Conv2D": _conv(2),
    "Conv3D": _conv(3),
    "DepthwiseConv2dNative": _conv(2, depthwise=1),
    "Conv2DBackpropInput": _conv_transpose,
    "MatMul": _matmul,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matmul),
    "Einsum": to("Einsum", equation=_option("equation", "")),
    "MaxPool": _pooling("MaxPool"),
    "AvgPool": _pooling("AveragePool"),
    "BiasAdd": _bias_add,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    **dict.fromkeys(("Mod", "TruncateMod"), to("Mod", fmod=1)),
    "LRN": to("LRN", layout=_FIRST, size=lambda a: 2 * a.option("depth_radius", 5) + 1),
    "LeakyRelu": to("LeakyRelu", alpha=_option("alpha", 0.2)),
    "Cast": to("Cast", to=_option("DstT", "float32")),
    "MatrixBandPart": lambda a: Lowered("Trilu", (0,), shape=shape.alike),
    "ConcatV2": _concat,
    "Gather": _gather,
    "GatherV2": _gather,
    "ResourceGather": _gather,
    "Squeeze": _squeeze,
    "OneHot": to("tflite::ONE_HOT", shape="tflite:one_hot", axis=_option("axis", -1)),
    "DepthToSpace": _blocks("DepthToSpace"),
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "TensorListGetItem": _tensor_list("Gather", 0, 1, rule=_list_item_shape),
    "TensorListSetItem": _tensor_list("tflite::DYNAMIC_UPDATE_SLICE", 0, 2, 1, rule=_list_after_set_shape),
    "TensorListReserve": _tensor_list("tflite::FILL", 1, rule=_list_reserve_shape),
}
