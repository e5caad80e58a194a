"""TensorFlow operators as operators of the tables.

Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flopwise.formats.tensorflow.file import Constant, Node
from flopwise.formats.tensorflow.inline import attribute
from flopwise.graph import Layout
from flopwise.operators import shape
from flopwise.operators.shape import Call, ShapeRule, Types
from flopwise.operators.size import MisfitError, UnresolvedError, is_certain
from flopwise.readers.subgraphs.lowered import CHANNELS_FIRST, CHANNELS_FIRST_3D, Lowered

#: Axes of a kernel (height, width, inputs, outputs) in the house.
_KERNEL, _KERNEL_3D = (3, 2, 0, 1), (4, 3, 0, 1, 2)

_FIRST = Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))

#: The constant that an input is; None for any other.
Constants = Callable[[int], "Constant | None"]

Rule = Callable[[Node, Constants], "Lowered | None"]


def lower(node: Node, constants: Constants) -> Lowered:
    """The operator of the house for a node of TensorFlow's; the unknown ``tensorflow::NAME`` where there is none."""
    rule = TABLE.get(node.op)
    lowered = rule(node, constants) if rule is not None else None
    return Lowered(f"tensorflow::{node.op}") if lowered is None else lowered


def _channels_last(node: Node) -> bool:
    """True if the node's ``data_format`` has the channels last (NHWC, NDHWC)."""
    return not attribute(node, "data_format", "NHWC").startswith("NC")


def _window_attrs(node: Node, kernel: tuple[int, ...]) -> dict[str, object] | None:
    """ONNX's ``kernel_shape``, ``strides``, ``dilations``, and ``auto_pad`` or ``pads``; None for unknown padding."""
    padding = attribute(node, "padding", "VALID")
    inner = slice(1, -1) if _channels_last(node) else slice(2, None)
    ones = [1] * (len(kernel) + 2)
    attrs = {
        "kernel_shape": list(kernel),
        "strides": [*(attribute(node, "strides", ones) or ones)][inner],
        "dilations": [*(attribute(node, "dilations", ones) or ones)][inner],
    }
    if padding in ("SAME", "VALID"):
        return {**attrs, "auto_pad": "SAME_UPPER" if padding == "SAME" else "VALID"}
    pads = attribute(node, "explicit_paddings", [])
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


def _conv(axes: int) -> Rule:
    """The rule for Conv2D or Conv3D, by its number of spatial axes."""
    order, kernel = (CHANNELS_FIRST, _KERNEL) if axes == 2 else (CHANNELS_FIRST_3D, _KERNEL_3D)

    def rule(node: Node, constants: Constants) -> Lowered | None:
        attrs = _window_attrs(node, (1,) * axes)
        if attrs is None:
            return None
        last = _channels_last(node)
        layout = Layout((order if last else None, kernel), (order if last else None,))
        attrs = {**attrs, "channels_last": int(last), "group": 1}
        return Lowered("Conv", (0, 1), attrs, layout, shape=_conv_shape, as_in_file=True)

    return rule


def _depthwise_conv(node: Node, constants: Constants) -> Lowered | None:
    """DepthwiseConv2dNative; its kernel is (height, width, channels, multiplier)."""
    lowered = _conv(2)(node, constants)
    return lowered and lowered._replace(attrs={**lowered.attrs, "depthwise": 1})


def _conv_transpose(node: Node, constants: Constants) -> Lowered | None:
    """Conv2DBackpropInput: the shape of the result, a kernel (height, width, outputs, inputs), the image."""
    attrs = _window_attrs(node, (1, 1))
    if attrs is None:
        return None
    order = CHANNELS_FIRST if _channels_last(node) else None
    layout = Layout((order, _KERNEL), (order,))
    return Lowered(
        "ConvTranspose", (2, 1), {**attrs, "group": 1}, layout, shape=shape.by("tflite:filled"), as_in_file=True
    )


def _pooling(op: str) -> Rule:
    """The rule for a pooling over two spatial axes; it gives None for other ranks."""

    def rule(node: Node, constants: Constants) -> Lowered | None:
        sizes = attribute(node, "ksize", [1, 1, 1, 1])
        kernel = tuple(sizes[1:-1] if _channels_last(node) else sizes[2:])
        attrs = _window_attrs(node, kernel)
        if attrs is None or len(kernel) != 2:
            return None
        return Lowered(op, (0,), attrs, _FIRST if _channels_last(node) else None)

    return rule


def _matmul(node: Node, constants: Constants) -> Lowered:
    """MatMul of two matrices; ``transpose_a`` and ``transpose_b`` become the layout of the inputs."""
    turned = tuple(
        (1, 0) if attribute(node, name, False) or attribute(node, other, False) else None
        for name, other in (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    )
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


def _batch_matmul(node: Node, constants: Constants) -> Lowered:
    """BatchMatMul of any version, with ``adj_x`` and ``adj_y`` as attributes."""
    attrs = {name: int(attribute(node, name, False)) for name in ("adj_x", "adj_y")}
    return Lowered("MatMul", (0, 1), attrs, shape=_batch_matmul_shape, as_in_file=True)


def _integers(constant: Constant | None) -> list[int] | None:
    """The integers of a constant tensor, flattened; None if its elements are unknown."""
    if constant is None or constant.elements is None:
        return None
    return [value for value in constant.elements if isinstance(value, int)]


def _reduce(op: str) -> Rule:
    """The rule for a reduction whose second input holds the axes; it gives None if they are not constant."""

    def rule(node: Node, constants: Constants) -> Lowered | None:
        axes, keep = _integers(constants(1)), int(attribute(node, "keep_dims", False))
        if axes is None:
            return None
        empty = {"noop_with_empty_axes": 1} if not axes else {}
        return Lowered(op, (0,), {"keepdims": keep, "axes": axes, **empty})

    return rule


def _concat(node: Node, constants: Constants) -> Lowered | None:
    axes = _integers(constants(len(node.inputs) - 1))
    return Lowered("Concat", tuple(range(len(node.inputs) - 1)), {"axis": axes[0]}) if axes else None


def _gather(node: Node, constants: Constants) -> Lowered | None:
    axes = _integers(constants(2)) if node.op == "GatherV2" else [0]
    batch = attribute(node, "batch_dims", 0)
    if not axes:
        return None
    lowered = Lowered("Gather", (0, 1), {"axis": axes[0]})
    if not batch:
        return lowered
    return lowered._replace(attrs={"axis": axes[0], "batch_dims": batch}, shape=shape.by("tflite:gathered"))


def _transpose(node: Node, constants: Constants) -> Lowered | None:
    order = _integers(constants(1))
    return Lowered("Transpose", (0,), {"perm": order}) if order is not None else None


def _squeeze(node: Node, constants: Constants) -> Lowered:
    axes = attribute(node, "squeeze_dims", []) or attribute(node, "axis", [])
    return Lowered("Squeeze", (0,), {"axes": axes} if axes else {})


def _batch_norm(node: Node, constants: Constants) -> Lowered | None:
    if node.attrs.get("is_training", True) is not False:
        return None
    order = CHANNELS_FIRST if _channels_last(node) else None
    epsilon = attribute(node, "epsilon", 1e-4)
    return Lowered("BatchNormalization", (0, 1, 2, 3, 4), {"epsilon": epsilon}, Layout((order,), (order,)))


def _einsum(node: Node, constants: Constants) -> Lowered:
    return Lowered("Einsum", attrs={"equation": attribute(node, "equation", "")})


def _bias_add(node: Node, constants: Constants) -> Lowered:
    """BiasAdd; where the channels are the second axis, ``finished`` gives it the order in which they are the last."""
    return Lowered("Add") if _channels_last(node) else Lowered("Add", attrs={"bias": 1}, shape=shape.alike)


def _response_norm(node: Node, constants: Constants) -> Lowered:
    """LRN; ``depth_radius`` channels on either side."""
    return Lowered("LRN", attrs={"size": 2 * attribute(node, "depth_radius", 5) + 1}, layout=_FIRST)


def _cast(node: Node, constants: Constants) -> Lowered:
    return Lowered("Cast", attrs={"to": attribute(node, "DstT", "float32")})


def _with_attrs(op: str, *names: str, **attrs: object) -> Rule:
    """The rule for an operator that takes some attributes of the node as integers, 0 where they are missing.

    Args:
        op: the operator of the house.
        names: attributes that are passed on.
        attrs: further attributes of the operator.
    """

    def rule(node: Node, constants: Constants) -> Lowered:
        given = {name: node.attrs.get(name) or 0 for name in names}
        return Lowered(op, attrs={**{name: int(value) for name, value in given.items()}, **attrs})

    return rule


def _arg_reduction(op: str) -> Rule:
    """The rule for ArgMax and ArgMin, whose shape rule reads the axis from the second input."""
    lowered = Lowered(op, (0,), {"keepdims": 0}, shape=shape.by("tflite:chosen"), as_in_file=True)
    return lambda node, constants: lowered


def _split(data: int, rule: str) -> Rule:
    """The rule for a split: ``data`` is the position of the input that is cut, ``rule`` its shape rule in "tflite"."""
    sizes = shape.by(f"tflite:{rule}")
    lowered = Lowered("Split", (data,), shape=sizes, value=shape.elements(f"tflite:{rule}"), as_in_file=True)
    return lambda node, constants: lowered


def _resize(mode: str) -> Rule:
    """The rule for resizing an image, channels last; ``mode`` is ONNX's ("linear", "nearest")."""
    lowered = Lowered("Resize", (0,), {"mode": mode}, _FIRST, shape=shape.by("tflite:resized"), as_in_file=True)
    return lambda node, constants: lowered


def _block_shuffle(op: str) -> Rule:
    """The rule for DepthToSpace or SpaceToDepth with the block size of the node."""

    def rule(node: Node, constants: Constants) -> Lowered:
        layout = _FIRST if _channels_last(node) else None
        return Lowered(op, attrs={"blocksize": attribute(node, "block_size", 1)}, layout=layout)

    return rule


def _with_alpha(op: str, default: float) -> Rule:
    return lambda node, constants: Lowered(op, attrs={"alpha": attribute(node, "alpha", default)})


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


def _tensor_list(op: str, places: tuple[int, ...], rule: ShapeRule) -> Rule:
    """The rule for an operator on tensor lists: ``places`` are inputs in ``op``'s order, ``rule`` infers the shape."""
    lowered = Lowered(op, places, shape=rule, as_in_file=True)
    return lambda node, constants: lowered


def _renamed(op: str, **attrs: object) -> Rule:
    """The rule for an operator that is ``op`` of the house, with the same inputs and these attributes."""
    lowered = Lowered(op, attrs=attrs)
    return lambda node, constants: lowered


#: Operators that do the same element by element, or take the same as the house's.
_NAMES: Mapping[str, str] = {
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

#: TensorFlow's operator -> how it is lowered; None as its result: not with these attributes.
TABLE: Mapping[str, Rule] = {
    **{name: _renamed(op) for name, op in _NAMES.items()},
    "Conv2D": _conv(2),
    "Conv3D": _conv(3),
    "DepthwiseConv2dNative": _depthwise_conv,
    "Conv2DBackpropInput": _conv_transpose,
    "MatMul": _matmul,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matmul),
    "Einsum": _einsum,
    "MaxPool": _pooling("MaxPool"),
    "AvgPool": _pooling("AveragePool"),
    "BiasAdd": _bias_add,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    "Relu6": _renamed("Clip", min=0.0, max=6.0),
    **dict.fromkeys(("Mod", "TruncateMod"), _renamed("Mod", fmod=1)),
    "Elu": _renamed("Elu"),
    "LRN": _response_norm,
    "LeakyRelu": _with_alpha("LeakyRelu", 0.2),
    "Softmax": _renamed("Softmax", axis=-1),
    "LogSoftmax": _renamed("LogSoftmax", axis=-1),
    "Cast": _cast,
    "Mean": _reduce("ReduceMean"),
    "Sum": _reduce("ReduceSum"),
    "Prod": _reduce("ReduceProd"),
    "Max": _reduce("ReduceMax"),
    "Min": _reduce("ReduceMin"),
    "Any": _reduce("tflite::REDUCE_ANY"),
    "All": _reduce("tflite::REDUCE_ALL"),
    "ArgMax": _arg_reduction("ArgMax"),
    "ArgMin": _arg_reduction("ArgMin"),
    "TopKV2": _renamed("TopK", axis=-1),
    "Cumsum": _with_attrs("CumSum", "exclusive", "reverse"),
    "MatrixBandPart": lambda node, constants: Lowered("Trilu", (0,), shape=shape.alike),
    "ConcatV2": _concat,
    "Split": _split(1, "split"),
    "SplitV": _split(0, "split_by_sizes"),
    "Pack": _with_attrs("tflite::PACK", "axis"),
    "Unpack": _with_attrs("tflite::UNPACK", "axis"),
    "StridedSlice": _with_attrs(
        "tflite::STRIDED_SLICE",
        *(f"{name}_mask" for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")),
        offset=0,
    ),
    "Gather": _gather,
    "GatherV2": _gather,
    "ResourceGather": _gather,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "OneHot": lambda node, constants: Lowered(
        "tflite::ONE_HOT", attrs={"axis": attribute(node, "axis", -1)}, shape=shape.by("tflite:one_hot")
    ),
    "ResizeBilinear": _resize("linear"),
    "ResizeNearestNeighbor": _resize("nearest"),
    "DepthToSpace": _block_shuffle("DepthToSpace"),
    "SpaceToDepth": _block_shuffle("SpaceToDepth"),
    "TensorListGetItem": _tensor_list("Gather", (0, 1), _list_item_shape),
    "TensorListSetItem": _tensor_list("tflite::DYNAMIC_UPDATE_SLICE", (0, 2, 1), _list_after_set_shape),
    "TensorListReserve": _tensor_list("tflite::FILL", (1,), _list_reserve_shape),
}
