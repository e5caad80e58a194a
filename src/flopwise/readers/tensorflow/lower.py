"""What each of TensorFlow's operators is in the house.

Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flopwise.graph import Layout
from flopwise.operators import shape
from flopwise.operators.shape import Call, Types
from flopwise.operators.size import MisfitError, UnresolvedError
from flopwise.readers.tensorflow.file import Constant, Node
from flopwise.readers.tensorflow.inline import attribute
from flopwise.readers.tflite.lower.lowered import CHANNELS_FIRST, CHANNELS_FIRST_3D, Lowered

#: Axes of a kernel (height, width, inputs, outputs), and of a depthwise one (height, width, channels, 1), in the house.
_KERNEL, _DEPTHWISE, _KERNEL_3D = (3, 2, 0, 1), (2, 3, 0, 1), (4, 3, 0, 1, 2)

_FIRST = Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))

#: The constant that an input is; None for any other.
Constants = Callable[[int], "Constant | None"]

Rule = Callable[[Node, Constants], "Lowered | None"]


def lower(node: Node, constants: Constants) -> Lowered:
    """The operator of the house; ``tensorflow::NAME``, which is unknown, for one that is none."""
    rule = TABLE.get(node.op)
    lowered = rule(node, constants) if rule is not None else None
    return Lowered(f"tensorflow::{node.op}") if lowered is None else lowered


def _last(node: Node) -> bool:
    """True where channels are the last axis."""
    return not attribute(node, "data_format", "NHWC").startswith("NC")


def _windows(node: Node, kernel: tuple[int, ...]) -> dict[str, Any] | None:
    """Strides, dilations and padding along the axes of the image; None for explicit padding."""
    padding = attribute(node, "padding", "VALID")
    if padding not in ("SAME", "VALID"):
        return None
    inner = slice(1, -1) if _last(node) else slice(2, None)
    ones = [1] * (len(kernel) + 2)
    return {
        "kernel_shape": list(kernel),
        "strides": [*(attribute(node, "strides", ones) or ones)][inner],
        "dilations": [*(attribute(node, "dilations", ones) or ones)][inner],
        "auto_pad": "SAME_UPPER" if padding == "SAME" else "VALID",
    }


def _convolved(call: Call) -> Types:
    """An image by windows, channels last or first: as many as the kernel has outputs."""
    x, w = call.shape(0), call.shape(1)
    axes = len(x) - 2
    if len(w) != len(x) or axes < 1:
        raise MisfitError(f"a kernel of {len(w)} axes for {len(x)}")
    last = bool(call.attr("channels_last", 1))
    image = x[1:-1] if last else x[2:]
    steps, wide, same = call.attr("strides", []), call.attr("dilations", []), call.attr("auto_pad", "") != "VALID"
    sizes = []
    for n, k, step, hole in zip(image, w[:axes], steps, wide, strict=True):
        if min(step, hole) < 1:
            raise MisfitError("a stride or dilation below 1")
        extent = n if same else n - (k - 1) * hole
        sizes.append((extent + step - 1) // step)
    channels = w[-1] * w[-2] if call.attr("depthwise", 0) else w[-1]
    return [(x[0], *sizes, channels) if last else (x[0], channels, *sizes)]


def _convolution(axes: int) -> Rule:
    order, kernel = (CHANNELS_FIRST, _KERNEL) if axes == 2 else (CHANNELS_FIRST_3D, _KERNEL_3D)

    def rule(node: Node, constants: Constants) -> Lowered | None:
        attrs = _windows(node, (1,) * axes)
        if attrs is None:
            return None
        last = _last(node)
        layout = Layout((order if last else None, kernel), (order if last else None,))
        attrs = {**attrs, "channels_last": int(last), "group": 1}
        return Lowered("Conv", (0, 1), attrs, layout, shape=_convolved, as_in_file=True)

    return rule


def _depthwise(node: Node, constants: Constants) -> Lowered | None:
    lowered = _convolution(2)(node, constants)
    if lowered is None or lowered.layout is None:
        return None
    layout = Layout((lowered.layout.inputs[0], _DEPTHWISE), lowered.layout.outputs)
    return lowered._replace(layout=layout, attrs={**lowered.attrs, "depthwise": 1})


def _transposed(node: Node, constants: Constants) -> Lowered | None:
    """Conv2DBackpropInput: the shape of the result, a kernel (height, width, outputs, inputs), the image."""
    attrs = _windows(node, (1, 1))
    if attrs is None:
        return None
    order = CHANNELS_FIRST if _last(node) else None
    layout = Layout((order, _KERNEL), (order,))
    return Lowered(
        "ConvTranspose", (2, 1), {**attrs, "group": 1}, layout, shape=shape.by("tflite:filled"), as_in_file=True
    )


def _pooling(op: str) -> Rule:
    def rule(node: Node, constants: Constants) -> Lowered | None:
        sizes = attribute(node, "ksize", [1, 1, 1, 1])
        kernel = tuple(sizes[1:-1] if _last(node) else sizes[2:])
        attrs = _windows(node, kernel)
        if attrs is None or len(kernel) != 2:
            return None
        return Lowered(op, (0,), attrs, _FIRST if _last(node) else None)

    return rule


def _product(node: Node, constants: Constants) -> Lowered:
    turned = tuple(
        (1, 0) if attribute(node, name, False) or attribute(node, other, False) else None
        for name, other in (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    )
    return Lowered("MatMul", (0, 1), layout=Layout(turned) if any(turned) else None)


def _batched(call: Call) -> Types:
    """A stack of products, of which each factor may be turned."""
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


def _batch_product(node: Node, constants: Constants) -> Lowered:
    attrs = {name: int(attribute(node, name, False)) for name in ("adj_x", "adj_y")}
    return Lowered("MatMul", (0, 1), attrs, shape=_batched, as_in_file=True)


def _numbers(constant: Constant | None) -> list[int] | None:
    """The whole numbers of a constant; None where they are not known."""
    if constant is None or constant.elements is None:
        return None
    return [value for value in constant.elements if isinstance(value, int)]


def _reduction(op: str) -> Rule:
    def rule(node: Node, constants: Constants) -> Lowered | None:
        axes, keep = _numbers(constants(1)), int(attribute(node, "keep_dims", False))
        if axes is None:
            return None
        empty = {"noop_with_empty_axes": 1} if not axes else {}
        return Lowered(op, (0,), {"keepdims": keep, "axes": axes, **empty})

    return rule


def _axis_of(op: str, place: int, taken: int, **attrs: Any) -> Rule:
    """The rule for an operator whose axis is a constant input."""

    def rule(node: Node, constants: Constants) -> Lowered | None:
        axes = _numbers(constants(place))
        if not axes:
            return None
        return Lowered(op, tuple(range(taken)), {"axis": axes[0], **attrs})

    return rule


def _concatenation(node: Node, constants: Constants) -> Lowered | None:
    axes = _numbers(constants(len(node.inputs) - 1))
    return Lowered("Concat", tuple(range(len(node.inputs) - 1)), {"axis": axes[0]}) if axes else None


def _gather(node: Node, constants: Constants) -> Lowered | None:
    axes = _numbers(constants(2)) if node.op == "GatherV2" else [0]
    batch = attribute(node, "batch_dims", 0)
    if not axes:
        return None
    lowered = Lowered("Gather", (0, 1), {"axis": axes[0]})
    if not batch:
        return lowered
    return lowered._replace(attrs={"axis": axes[0], "batch_dims": batch}, shape=shape.by("tflite:gathered"))


def _transposition(node: Node, constants: Constants) -> Lowered | None:
    order = _numbers(constants(1))
    return Lowered("Transpose", (0,), {"perm": order}) if order is not None else None


def _squeeze(node: Node, constants: Constants) -> Lowered:
    axes = attribute(node, "squeeze_dims", []) or attribute(node, "axis", [])
    return Lowered("Squeeze", (0,), {"axes": axes} if axes else {})


def _normalisation(node: Node, constants: Constants) -> Lowered | None:
    if node.attrs.get("is_training", True) is not False:
        return None
    order = CHANNELS_FIRST if _last(node) else None
    epsilon = attribute(node, "epsilon", 1e-4)
    return Lowered("BatchNormalization", (0, 1, 2, 3, 4), {"epsilon": epsilon}, Layout((order,), (order,)))


def _einsum(node: Node, constants: Constants) -> Lowered:
    return Lowered("Einsum", attrs={"equation": attribute(node, "equation", "")})


def _bias(node: Node, constants: Constants) -> Lowered | None:
    return Lowered("Add") if _last(node) else None


def _cast(node: Node, constants: Constants) -> Lowered:
    return Lowered("Cast", attrs={"to": attribute(node, "DstT", "float32")})


def _options(op: str, *names: str, **attrs: Any) -> Rule:
    """The rule for an operator of TensorFlow Lite's that takes these attributes."""

    def rule(node: Node, constants: Constants) -> Lowered:
        given = {name: node.attrs.get(name) or 0 for name in names}
        return Lowered(op, attrs={**{name: int(value) for name, value in given.items()}, **attrs})

    return rule


def _chosen(op: str) -> Rule:
    lowered = Lowered(op, (0,), {"keepdims": 0}, shape=shape.by("tflite:chosen"), as_in_file=True)
    return lambda node, constants: lowered


def _split(data: int, rule: str) -> Rule:
    sizes = shape.by(f"tflite:{rule}")
    lowered = Lowered("Split", (data,), shape=sizes, value=shape.elements(f"tflite:{rule}"), as_in_file=True)
    return lambda node, constants: lowered


def _resize(mode: str) -> Rule:
    lowered = Lowered("Resize", (0,), {"mode": mode}, _FIRST, shape=shape.by("tflite:resized"), as_in_file=True)
    return lambda node, constants: lowered


def _blocks(op: str) -> Rule:
    def rule(node: Node, constants: Constants) -> Lowered:
        return Lowered(op, attrs={"blocksize": attribute(node, "block_size", 1)}, layout=_FIRST)

    return rule


def _alpha(op: str, default: float) -> Rule:
    return lambda node, constants: Lowered(op, attrs={"alpha": attribute(node, "alpha", default)})


def _member(call: Call) -> Types:
    """A member of a list, which has the shape of all of them behind one another."""
    return [call.shape(0)[1:]]


def _replaced(call: Call) -> Types:
    """A list of which a member is another."""
    return [(call.shape(0)[0], *call.shape(2))]


def _reserved(call: Call) -> Types:
    """A list of so many members."""
    (count,) = call.settings_or_open("", 1) or (None,)
    sizes = call.settings_or_open("", 0) or ()
    if count is None:
        raise UnresolvedError
    if any(size is None or (isinstance(size, int) and size < 0) for size in sizes):
        return [(count,)]  # members that are written later have the rest
    return [(count, *sizes)]


def _list(op: str, places: tuple[int, ...], rule: Any) -> Rule:
    lowered = Lowered(op, places, shape=rule, as_in_file=True)
    return lambda node, constants: lowered


def _same(op: str, **attrs: Any) -> Rule:
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
    "Expm1": "aten::expm1",
}  # fmt: skip

#: TensorFlow's operator -> how it is lowered; None as its result: not with these attributes.
TABLE: Mapping[str, Rule] = {
    **{name: _same(op) for name, op in _NAMES.items()},
    "Conv2D": _convolution(2),
    "Conv3D": _convolution(3),
    "DepthwiseConv2dNative": _depthwise,
    "Conv2DBackpropInput": _transposed,
    "MatMul": _product,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_product),
    "Einsum": _einsum,
    "MaxPool": _pooling("MaxPool"),
    "AvgPool": _pooling("AveragePool"),
    "BiasAdd": _bias,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _normalisation),
    "Relu6": _same("Clip", min=0.0, max=6.0),
    "Elu": _same("Elu"),
    "LeakyRelu": _alpha("LeakyRelu", 0.2),
    "Softmax": _same("Softmax", axis=-1),
    "LogSoftmax": _same("LogSoftmax", axis=-1),
    "Cast": _cast,
    "Mean": _reduction("ReduceMean"),
    "Sum": _reduction("ReduceSum"),
    "Prod": _reduction("ReduceProd"),
    "Max": _reduction("ReduceMax"),
    "Min": _reduction("ReduceMin"),
    "Any": _reduction("tflite::REDUCE_ANY"),
    "All": _reduction("tflite::REDUCE_ALL"),
    "ArgMax": _chosen("ArgMax"),
    "ArgMin": _chosen("ArgMin"),
    "TopKV2": _same("TopK", axis=-1),
    "Cumsum": _options("CumSum", "exclusive", "reverse"),
    "MatrixBandPart": lambda node, constants: Lowered("Trilu", (0,), shape=shape.alike),
    "ConcatV2": _concatenation,
    "Split": _split(1, "split"),
    "SplitV": _split(0, "split_by_sizes"),
    "Pack": _options("tflite::PACK", "axis"),
    "Unpack": _options("tflite::UNPACK", "axis"),
    "StridedSlice": _options(
        "tflite::STRIDED_SLICE",
        *(f"{name}_mask" for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")),
        offset=0,
    ),
    "Gather": _gather,
    "GatherV2": _gather,
    "ResourceGather": _gather,
    "Transpose": _transposition,
    "Squeeze": _squeeze,
    "OneHot": lambda node, constants: Lowered(
        "tflite::ONE_HOT", attrs={"axis": attribute(node, "axis", -1)}, shape=shape.by("tflite:one_hot")
    ),
    "ResizeBilinear": _resize("linear"),
    "ResizeNearestNeighbor": _resize("nearest"),
    "DepthToSpace": _blocks("DepthToSpace"),
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "TensorListGetItem": _list("Gather", (0, 1), _member),
    "TensorListSetItem": _list("tflite::DYNAMIC_UPDATE_SLICE", (0, 2, 1), _replaced),
    "TensorListReserve": _list("tflite::FILL", (1,), _reserved),
}
