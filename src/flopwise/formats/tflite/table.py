"""All builtin operators: what each is in the house. All others have rows of their own."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from flopwise.formats.kit.lowering import (
    CHANNELS_FIRST,
    CHANNELS_FIRST_3D,
    Application,
    Lowered,
    Part,
    Rule,
    Setting,
    View,
    option,
    options,
    renamed,
    to,
)
from flopwise.formats.tflite.decode import ACTIVATIONS, CUSTOM
from flopwise.graph import Layout, Shape
from flopwise.operators.shape import FromInput
from flopwise.operators.size import UnresolvedError

#: The fused activations as operators of the house, with their attributes.
ACTIVATION: dict[str, tuple[str, dict[str, Any]]] = {
    "RELU": ("Relu", {}),
    "RELU_N1_TO_1": ("Clip", {"min": -1.0, "max": 1.0}),
    "RELU6": ("Clip", {"min": 0.0, "max": 6.0}),
    "TANH": ("Tanh", {}),
    "SIGN_BIT": ("tflite::SIGN_BIT", {}),
}

#: What padding is called in the house: all that is missing at the end, or none.
_PADDING = ("SAME_UPPER", "VALID")

#: The layouts of images, and of images with weights: (outputs, height, width, inputs), the last axis first, in 3D.
_IMAGE = Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))
_OUTPUTS_FIRST = Layout((CHANNELS_FIRST, (0, 3, 1, 2)), (CHANNELS_FIRST,))
_LAST_FIRST = Layout((CHANNELS_FIRST, (3, 0, 1, 2)), (CHANNELS_FIRST,))
_VOLUME = Layout((CHANNELS_FIRST_3D, (4, 3, 0, 1, 2)), (CHANNELS_FIRST_3D,))


def _as_stated(call: object) -> Any:
    """Not worked out: as the file states it."""
    raise UnresolvedError


def _own(name: str) -> str:
    return f"tflite::{name}"


def _each(name: str, *axes: str) -> Setting:
    """An option of each axis."""
    return lambda a: [a.options[f"{name}_{axis}"] for axis in axes]


def _extents(first: int, last: int) -> Setting:
    """The extents of the weights from one axis to another."""
    return lambda a: list(a.shape(1)[first:last])


def _groups(a: Application) -> int:
    """The channels of the image among the weights' of a group."""
    x, w = a.shape(0), a.shape(1)
    return max(x[3] // w[3], 1) if len(x) == len(w) == 4 and w[3] else 1


def _given(name: str) -> Setting:
    """A list of numbers; none for an empty one."""
    return lambda a: list(a.options[name]) or None


def _activation(a: Application) -> str:
    code = a.options["activation"]
    return ACTIVATIONS[code] if 0 <= code < len(ACTIVATIONS) else ""


def _padding(a: Application) -> str:
    return _PADDING[a.options["padding"] & 1]


def _result(a: Application) -> str:
    return a.result


_STRIDES: Mapping[str, Any] = {"strides": _each("stride", "h", "w"), "auto_pad": _padding}
_WINDOWS: Mapping[str, Any] = {**_STRIDES, "dilations": _each("dilation", "h", "w")}
_VOLUMES: Mapping[str, Any] = {
    "strides": _each("stride", "d", "h", "w"),
    "dilations": _each("dilation", "d", "h", "w"),
    "auto_pad": _padding,
    "kernel_shape": _extents(0, 3),
}


def _pooling(op: str, **attrs: Any) -> Rule:
    def kernel(a: Application) -> object:
        return [a.options["height"], a.options["width"]]

    return to(op, layout=_IMAGE, kernel_shape=kernel, **_STRIDES, **attrs)


def _reduction(op: str) -> Rule:
    """The rule for a reduction along the axes that the second input names."""
    return to(op, 0, settings={"axes": FromInput(1, many=True)}, noop_with_empty_axes=1, keepdims=_keep)


def _keep(a: Application) -> int:
    return int(a.options["keep_dims"])


def _fully_connected(a: Application) -> Lowered:
    """FULLY_CONNECTED: the weights are (outputs, inputs); the data are seen in rows of as many elements as inputs."""
    lowered, width = _GEMM(a), (*a.shape(1), 0)[1]
    return lowered._replace(views={0: _rows(width)}) if width else lowered


_GEMM = to("Gemm", shape="tflite:fully_connected", transB=1, keep_num_dims=lambda a: int(a.options["keep_num_dims"]))


@functools.cache
def _rows(width: int) -> View:
    """Data as rows of so many elements."""

    def rows(shape: Shape) -> Shape:
        elements: Any = 1
        for extent in shape:
            elements = elements * extent
        return shape if shape[-1:] == (width,) else (elements // width, width)

    return rows


def _matrix_product(a: Application) -> Lowered:
    """BATCH_MATMUL: each factor may be transposed."""
    ranks = [len(a.shape(place)) if a.options[name] else 0 for place, name in enumerate(("adj_x", "adj_y"))]
    orders = tuple([(*range(rank - 2), rank - 1, rank - 2) if rank > 1 else None for rank in ranks])
    return Lowered("MatMul", layout=Layout(orders) if any(orders) else None)


def _reshape(a: Application) -> Lowered:
    target: Any = a.options["shape"]
    second: Any = a.inputs[1] if len(a.inputs) > 1 else None
    if second is not None and not (target and second.data is None and second.signature == (0,)):
        return Lowered("Reshape", (0, 1), {"allowzero": 1})
    return Lowered("Reshape", (0,), {"shape": list(target), "allowzero": 1})


def _quantize(a: Application) -> Lowered:
    whole = a.dtype().startswith(("int", "uint"))
    return Lowered(_own("Requantize") if whole else "QuantizeLinear")


def _dequantize(a: Application) -> Lowered:
    if a.dtype() in ("float16", "bfloat16"):
        return Lowered("Cast", attrs={"to": a.result})
    return Lowered("DequantizeLinear")


def _recurrent(a: Application) -> Lowered:
    op = "BASIC_LSTM" if a.options.get("basic") else a.op
    return to(_own(op), shape=_as_stated, activation=_activation(a))(a)


def _spectrum(a: Application) -> Lowered:
    lengths = a.elements(1)
    return Lowered(_own("RFFT2D"), attrs={"length": lengths[1]} if lengths is not None and len(lengths) == 2 else {})


_CAST = to("Cast", to=_result)

#: Builtin operator -> how it is lowered.
TABLE: dict[str, Rule] = {
    # Products and pooling.
    "CONV_2D": to("Conv", 0, 1, 2, layout=_OUTPUTS_FIRST, kernel_shape=_extents(1, 3), group=_groups, **_WINDOWS),
    "DEPTHWISE_CONV_2D": to(
        "Conv",
        *(0, 1, 2),
        layout=_LAST_FIRST,
        kernel_shape=_extents(1, 3),
        group=lambda a: a.shape(0)[3] if len(a.shape(0)) == 4 else 1,
        **_WINDOWS,
    ),
    "TRANSPOSE_CONV": to(
        "ConvTranspose",
        *(2, 1, 3),
        layout=_LAST_FIRST,
        shape="tflite:transposed",
        kernel_shape=_extents(1, 3),
        group=1,
        **_STRIDES,
    ),
    "CONV_3D": to("Conv", 0, 1, 2, layout=_VOLUME, group=1, **_VOLUMES),
    "CONV_3D_TRANSPOSE": to("ConvTranspose", 2, 1, 3, layout=_VOLUME, shape="tflite:transposed", group=1, **_VOLUMES),
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matrix_product,
    "AVERAGE_POOL_2D": _pooling("AveragePool"),
    "MAX_POOL_2D": _pooling("MaxPool"),
    "L2_POOL_2D": _pooling("LpPool", p=2),
    # Element by element.
    **renamed(
        ADD="Add",
        SUB="Sub",
        MUL="Mul",
        DIV="Div",
        POW="Pow",
        FLOOR_MOD="Mod",
        MAXIMUM="Max",
        MINIMUM="Min",
        ADD_N="Sum",
        ABS="Abs",
        COMPLEX_ABS="Abs",
        NEG="Neg",
        EXP="Exp",
        LOG="Log",
        SQRT="Sqrt",
        SIN="Sin",
        COS="Cos",
        FLOOR="Floor",
        CEIL="Ceil",
        ROUND="Round",
        SIGN="Sign",
        LOGISTIC="Sigmoid",
        TANH="Tanh",
        RELU="Relu",
        PRELU="PRelu",
        HARD_SWISH="HardSwish",
        ELU="Elu",
        EQUAL="Equal",
        LESS="Less",
        LESS_EQUAL="LessOrEqual",
        GREATER="Greater",
        GREATER_EQUAL="GreaterOrEqual",
        LOGICAL_AND="And",
        LOGICAL_OR="Or",
        LOGICAL_NOT="Not",
        BITWISE_XOR="BitwiseXor",
        RIGHT_SHIFT="BitShift",
        SELECT="Where",
        SELECT_V2="Where",
        EXPAND_DIMS="Unsqueeze",
        GATHER_ND="GatherND",
        PADV2="tflite::PAD",
        TILE="Tile",
        BROADCAST_TO="Expand",
        RANGE="Range",
        SHAPE="Shape",
        STABLEHLO_LOGISTIC="Sigmoid",
        STABLEHLO_ADD="Add",
        STABLEHLO_DIVIDE="Div",
        STABLEHLO_MULTIPLY="Mul",
        STABLEHLO_MAXIMUM="Max",
        STABLEHLO_MINIMUM="Min",
        STABLEHLO_ABS="Abs",
        STABLEHLO_AND="And",
        STABLEHLO_OR="Or",
        STABLEHLO_COSINE="Cos",
        STABLEHLO_EXPONENTIAL="Exp",
        STABLEHLO_FLOOR="Floor",
        STABLEHLO_LOG="Log",
        STABLEHLO_NEGATE="Neg",
        STABLEHLO_POWER="Pow",
        STABLEHLO_REMAINDER="Mod",
        STABLEHLO_SELECT="Where",
        STABLEHLO_SUBTRACT="Sub",
        STABLEHLO_TANH="Tanh",
        STABLEHLO_COMPARE="Equal",
        STABLEHLO_SHIFT_LEFT="BitShift",
        STABLEHLO_RSQRT="tflite::RSQRT",
        STABLEHLO_CBRT="tflite::CBRT",
    ),
    "STABLEHLO_CLAMP": to(_own("CLAMP"), 1, 0, 2),
    **{name: to(ACTIVATION[name][0], **ACTIVATION[name][1]) for name in ("RELU6", "RELU_N1_TO_1")},
    "RELU_0_TO_1": to("Clip", min=0.0, max=1.0),
    "LEAKY_RELU": to("LeakyRelu", **options("alpha")),
    "GELU": to("Gelu", approximate=lambda a: "tanh" if a.options["approximate"] else None),
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "CAST": _CAST,
    "STABLEHLO_CONVERT": _CAST,
    "BITCAST": to("BitCast", shape=_as_stated, to=_result),
    # Along axes.
    "SOFTMAX": to("Softmax", axis=-1),
    "LOG_SOFTMAX": to("LogSoftmax", axis=-1),
    "L2_NORMALIZATION": to("LpNormalization", axis=-1, p=2),
    "LOCAL_RESPONSE_NORMALIZATION": to("LRN", layout=_IMAGE, size=lambda a: 2 * a.options["radius"] + 1),
    "MEAN": _reduction("ReduceMean"),
    "SUM": _reduction("ReduceSum"),
    "REDUCE_PROD": _reduction("ReduceProd"),
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "REDUCE_ANY": _reduction(_own("REDUCE_ANY")),
    "REDUCE_ALL": _reduction(_own("REDUCE_ALL")),
    "ARG_MAX": to("ArgMax", 0, settings={"axis": 1}, keepdims=0),
    "ARG_MIN": to("ArgMin", 0, settings={"axis": 1}, keepdims=0),
    "CUMSUM": to("CumSum", **options("exclusive", "reverse")),
    "TOPK_V2": to("TopK", axis=-1),
    "UNIQUE": to("Unique", shape=_as_stated),
    # Movement.
    "RESHAPE": _reshape,
    "STABLEHLO_RESHAPE": to("Reshape", shape=_as_stated),
    "SQUEEZE": to("Squeeze", axes=_given("axes")),
    "TRANSPOSE": to("Transpose", 0, settings={"perm": FromInput(1, many=True)}),
    "CONCATENATION": to("Concat", **options("axis")),
    "STABLEHLO_CONCATENATE": to("Concat", shape=_as_stated),
    "SPLIT": to("Split", 1, settings={"axis": 0}),
    "SPLIT_V": to("Split", 0, settings={"split": FromInput(1, many=True), "axis": 2}),
    "PACK": to(_own("PACK"), **options("axis")),
    "UNPACK": to(_own("UNPACK"), **options("axis")),
    "STRIDED_SLICE": to(
        _own("STRIDED_SLICE"),
        **options("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset"),
    ),
    "GATHER": to("Gather", axis=option("axis"), batch_dims=lambda a: a.options["batch_dims"] or None),
    "SPACE_TO_DEPTH": to("SpaceToDepth", layout=_IMAGE, **options("blocksize")),
    "DEPTH_TO_SPACE": to("DepthToSpace", layout=_IMAGE, **options("blocksize")),
    "RESIZE_BILINEAR": to("Resize", 0, layout=_IMAGE, shape="tflite:resized", mode="linear"),
    "RESIZE_NEAREST_NEIGHBOR": to("Resize", 0, layout=_IMAGE, shape="tflite:resized", mode="nearest"),
    "REVERSE_SEQUENCE": to("ReverseSequence", **options("time_axis", "batch_axis")),
    "ONE_HOT": to(_own("ONE_HOT"), shape="tflite:one_hot", **options("axis")),
    "NON_MAX_SUPPRESSION_V5": to(_own("NON_MAX_SUPPRESSION_V5"), soft=1),
    "BUCKETIZE": to(_own("BUCKETIZE"), **options("boundaries")),
    "EMBEDDING_LOOKUP_SPARSE": to(_own("EMBEDDING_LOOKUP_SPARSE"), **options("combiner")),
    "RFFT2D": _spectrum,
    # Recurrent.
    **dict.fromkeys(
        (
            "LSTM",
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            "BIDIRECTIONAL_SEQUENCE_LSTM",
            "RNN",
            "UNIDIRECTIONAL_SEQUENCE_RNN",
            "BIDIRECTIONAL_SEQUENCE_RNN",
            "SVDF",
        ),
        _recurrent,
    ),
}

#: Custom operator -> how it is lowered, where it is one of the house. MediaPipe's: the image, weights (outputs, height,
#: width, inputs), a bias; strides and padding are in bytes that only the library reads.
CUSTOM_TABLE: dict[str, Rule] = {
    "Convolution2DTransposeBias": to(
        "ConvTranspose", layout=_LAST_FIRST, shape=_as_stated, kernel_shape=_extents(1, 3), group=1
    ),
}

#: Builtin operators that run subgraphs -> the operator of the house.
CONTROL_FLOW: dict[str, str] = {
    "IF": "If",
    **dict.fromkeys(("WHILE", "STABLEHLO_WHILE"), "Loop"),
    **dict.fromkeys(("CALL", "STABLEHLO_COMPOSITE"), "tflite::CALL"),
}

#: Builtin operator -> what the subgraphs that it runs are called in the house, and the options that name them.
BODIES: dict[str, dict[str, str]] = {
    "IF": {"then_branch": "cond", "else_branch": "body"},
    **{loop: {"cond": "cond", "body": "body"} for loop in ("WHILE", "STABLEHLO_WHILE")},
    **{call: {"body": "body"} for call in ("CALL", "STABLEHLO_COMPOSITE")},
}


def lower(application: Application, custom: str = "") -> Lowered:
    """An operator of the file as one of the house; control flow and calls are for the caller."""
    if application.op == CUSTOM:
        return CUSTOM_TABLE.get(custom, to(f"tflite.custom::{custom}"))(application)
    return TABLE.get(application.op, to(_own(application.op)))(application)


# Parts of an operator of TensorFlow Lite beside its own work: fused activations, and what quantisation adds.


def _codes(text: str) -> frozenset[str]:
    """The names of operators in a text."""
    return frozenset(text.split())


#: Products, which sum up in 32 bits.
_PRODUCTS = _codes(
    """
    CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D CONV_3D_TRANSPOSE FULLY_CONNECTED BATCH_MATMUL
    """
)

#: Both operands are brought to one scale before they are added up.
_SUMS = frozenset({"ADD", "SUB", "SQUARED_DIFFERENCE"})

#: Others whose kernels compute on real numbers, and whose result has a scale of its own.
_OTHERS = _codes(
    """
    MUL DIV ADD_N MEAN SUM REDUCE_PROD SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    TANH RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 PRELU LEAKY_RELU ELU HARD_SWISH GELU EXP LOG SQRT RSQRT SQUARE SIN COS
    ABS L2_POOL_2D
    """
)

_NARROW = frozenset({"int8", "uint8", "int16", "int4"})


def parts(application: Application, lowered: Lowered) -> list[Part]:
    """The parts of an operator in the order in which they run."""
    converted = _converted(application)
    result = [] if converted is None else [converted]
    code = application.options.get("activation", 0)
    held = converted is not None and converted.op == "tflite::Requantize"  # saturating does it at no further cost
    if code in range(1, len(ACTIVATIONS)) and "activation" not in lowered.attrs and not held:
        op, attrs = ACTIVATION[ACTIVATIONS[code]]
        result.append(Part(op, ACTIVATIONS[code], attrs))
    return result


def _converted(application: Application) -> Part | None:
    """The operations that quantisation adds to an operator."""
    op, inputs = application.op, application.inputs
    y: Any = next(iter(application.outputs), None)
    if y is None or not inputs:
        return None
    if op in _PRODUCTS and y.dtype == "float32":
        return _dynamic(inputs)
    if not _quantized(y) or op not in _PRODUCTS | _SUMS | _OTHERS:
        return None
    operands = [place for place, tensor in enumerate(inputs) if tensor is not None and _quantized(tensor)]
    if op in _SUMS:
        return Part("tflite::Requantize", "requantize", {"rescaled": 1}, tuple(operands))
    if op in _OTHERS and len(operands) == 1 and _same_scale(inputs[operands[0]], y):
        return None
    shifted = [place for place in operands if (q := getattr(inputs[place], "quantization", None)) and q.shifted]
    return Part("tflite::Requantize", "requantize", {}, tuple(shifted))


def _dynamic(inputs: Sequence[Any]) -> Part | None:
    """The quantisation of a product's data in each inference, where its weight is stored in few bits."""
    floats = (p for p, t in enumerate(inputs) if t is not None and t.dtype == "float32" and t.data is None)
    data, weight = next(floats, None), inputs[1] if len(inputs) > 1 else None
    if data is None or weight is None or weight.dtype not in _NARROW:
        return None
    return Part("tflite::DynamicQuantize", "dynamic", {}, (data,))


def _quantized(tensor: Any) -> bool:
    return bool(tensor.quantization is not None and tensor.dtype in _NARROW)


def _same_scale(one: Any, other: Any) -> bool:
    if one is None or one.quantization is None or other.quantization is None:
        return False
    first, second = one.quantization, other.quantization
    return bool((first.scale, first.zero_points) == (second.scale, second.zero_points))
