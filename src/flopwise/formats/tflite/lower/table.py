"""All builtin operators: what each is in the house. All others have rows of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.formats.tflite.decode import ACTIVATIONS, CUSTOM
from flopwise.formats.tflite.lower import products
from flopwise.formats.tflite.lower.lowered import Application, Rule, fixed, same
from flopwise.graph import Layout
from flopwise.operators import shape
from flopwise.operators.shape import ShapeRule
from flopwise.operators.size import UnresolvedError
from flopwise.readers.subgraphs.lowered import CHANNELS_FIRST, Lowered

#: The fused activations as operators of the house.
ACTIVATION: dict[str, Lowered] = {
    "RELU": Lowered("Relu"),
    "RELU_N1_TO_1": Lowered("Clip", attrs={"min": -1.0, "max": 1.0}),
    "RELU6": Lowered("Clip", attrs={"min": 0.0, "max": 6.0}),
    "TANH": Lowered("Tanh"),
    "SIGN_BIT": Lowered("tflite::SIGN_BIT"),
}

_IMAGE = Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))


def _own(name: str) -> str:
    return f"tflite::{name}"


def _local_response(application: Application) -> Lowered:
    return Lowered("LRN", attrs={"size": 2 * application.options["radius"] + 1}, layout=_IMAGE)


def _reduction(op: str) -> Rule:
    """The rule for a reduction along the axes that the second input names."""

    def rule(application: Application) -> Lowered:
        axes, keep = application.elements(1), int(application.options["keep_dims"])
        if axes is None:
            return Lowered(op, attrs={"keepdims": keep})
        empty = {"noop_with_empty_axes": 1} if not axes else {}
        return Lowered(op, (0,), {"keepdims": keep, "axes": list(axes), **empty})

    return rule


def _chosen(op: str) -> Rule:
    """The rule for the place of an extreme along the axis that the second input names."""

    def rule(application: Application) -> Lowered:
        return Lowered(op, (0,), {"keepdims": 0}, shape=shape.by("tflite:chosen"), as_in_file=True)

    return rule


def _reshape(application: Application) -> Lowered:
    target = application.options["shape"]
    second = application.inputs[1] if len(application.inputs) > 1 else None
    if second is not None and not (target and second.data is None and not second.dynamic and second.shape == (0,)):
        return Lowered("Reshape", (0, 1), {"allowzero": 1})
    return Lowered("Reshape", (0,), {"shape": list(target), "allowzero": 1})


def _squeeze(application: Application) -> Lowered:
    axes = application.options["axes"]
    return Lowered("Squeeze", attrs={"axes": list(axes)} if axes else {})


def _transpose(application: Application) -> Lowered:
    order = application.elements(1)
    return Lowered("Transpose", (0,), {"perm": list(order)}) if order is not None else Lowered("Transpose", (0,))


def _concatenation(application: Application) -> Lowered:
    return Lowered("Concat", attrs={"axis": application.options["axis"]})


def _split(data: int, sizes: ShapeRule, elements: str) -> Rule:
    """The rule for parts of the input at a place."""
    return fixed(Lowered("Split", (data,), shape=sizes, value=shape.elements(elements), as_in_file=True))


def _gather(application: Application) -> Lowered:
    options = application.options
    attrs = {"axis": options["axis"]}
    if not options["batch_dims"]:
        return Lowered("Gather", attrs=attrs)
    return Lowered("Gather", attrs={**attrs, "batch_dims": options["batch_dims"]}, shape=shape.by("tflite:gathered"))


def _cast(application: Application) -> Lowered:
    result = application.outputs[0] if application.outputs else None
    return Lowered("Cast", attrs={"to": result.dtype if result is not None else "float32"})


def _resize(mode: str) -> Rule:
    return fixed(Lowered("Resize", (0,), {"mode": mode}, _IMAGE, shape=shape.by("tflite:resized"), as_in_file=True))


def _blocks(op: str) -> Rule:
    return lambda application: Lowered(op, attrs={"blocksize": application.options["blocksize"]}, layout=_IMAGE)


def _sequence(application: Application) -> Lowered:
    return Lowered("ReverseSequence", attrs=dict(application.options))


def _cumulative(application: Application) -> Lowered:
    return Lowered("CumSum", attrs={name: int(value) for name, value in application.options.items()})


def _leaky(application: Application) -> Lowered:
    return Lowered("LeakyRelu", attrs={"alpha": application.options["alpha"]})


def _gelu(application: Application) -> Lowered:
    return Lowered("Gelu", attrs={"approximate": "tanh"} if application.options["approximate"] else {})


def _quantize(application: Application) -> Lowered:
    x = application.inputs[0] if application.inputs else None
    if x is not None and x.dtype.startswith(("int", "uint")):
        return Lowered(_own("Requantize"))
    return Lowered("QuantizeLinear")


def _dequantize(application: Application) -> Lowered:
    x = application.inputs[0] if application.inputs else None
    if x is not None and x.dtype in ("float16", "bfloat16"):
        return Lowered("Cast", attrs={"to": _result_dtype(application)})
    return Lowered("DequantizeLinear")


def _result_dtype(application: Application) -> str:
    result = application.outputs[0] if application.outputs else None
    return result.dtype if result is not None else "float32"


def _lstm(application: Application) -> Lowered:
    op = "BASIC_LSTM" if application.options.get("basic") else application.operator.op
    return Lowered(_own(op), attrs=_activation_attr(application), shape=_as_stated)


def _recurrent(application: Application) -> Lowered:
    return Lowered(_own(application.operator.op), attrs=_activation_attr(application), shape=_as_stated)


def _activation_attr(application: Application) -> dict[str, object]:
    code = application.options["activation"]
    return {"activation": ACTIVATIONS[code] if 0 <= code < len(ACTIVATIONS) else ""}


def _as_stated(call: object) -> Any:
    """Not worked out: as the file states it."""
    raise UnresolvedError


def _with(op: str, *names: str) -> Rule:
    """The rule for an operator with a row of its own that takes these options as attributes."""
    return lambda application: Lowered(_own(op), attrs={name: _plain(application.options[name]) for name in names})


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value


def _spectrum(application: Application) -> Lowered:
    lengths = application.elements(1)
    return Lowered(_own("RFFT2D"), attrs={"length": lengths[1]} if lengths is not None and len(lengths) == 2 else {})


def _rules_of(**operators: str) -> dict[str, Rule]:
    return {name: same(op) for name, op in operators.items()}


#: Builtin operator -> how it is lowered.
TABLE: dict[str, Rule] = {
    # Products and pooling.
    "CONV_2D": products.convolution,
    "DEPTHWISE_CONV_2D": products.depthwise,
    "TRANSPOSE_CONV": products.transposed,
    "CONV_3D": products.convolution_3d,
    "CONV_3D_TRANSPOSE": products.transposed_3d,
    "FULLY_CONNECTED": products.fully_connected,
    "BATCH_MATMUL": products.matrix_product,
    "AVERAGE_POOL_2D": products.pooling("AveragePool"),
    "MAX_POOL_2D": products.pooling("MaxPool"),
    "L2_POOL_2D": products.pooling("LpPool", p=2),
    # Element by element.
    **_rules_of(
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
    ),
    "STABLEHLO_RSQRT": same(_own("RSQRT")),
    "STABLEHLO_CBRT": same(_own("CBRT")),
    "STABLEHLO_CLAMP": fixed(Lowered(_own("CLAMP"), (1, 0, 2))),
    "RELU6": fixed(ACTIVATION["RELU6"]),
    "RELU_N1_TO_1": fixed(ACTIVATION["RELU_N1_TO_1"]),
    "RELU_0_TO_1": same("Clip", min=0.0, max=1.0),
    "ELU": same("Elu"),
    "LEAKY_RELU": _leaky,
    "GELU": _gelu,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "CAST": _cast,
    "STABLEHLO_CONVERT": _cast,
    "BITCAST": lambda application: Lowered("BitCast", attrs={"to": _result_dtype(application)}, shape=_as_stated),
    # Along axes.
    "SOFTMAX": same("Softmax", axis=-1),
    "LOG_SOFTMAX": same("LogSoftmax", axis=-1),
    "L2_NORMALIZATION": same("LpNormalization", axis=-1, p=2),
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "MEAN": _reduction("ReduceMean"),
    "SUM": _reduction("ReduceSum"),
    "REDUCE_PROD": _reduction("ReduceProd"),
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "REDUCE_ANY": _reduction(_own("REDUCE_ANY")),
    "REDUCE_ALL": _reduction(_own("REDUCE_ALL")),
    "ARG_MAX": _chosen("ArgMax"),
    "ARG_MIN": _chosen("ArgMin"),
    "CUMSUM": _cumulative,
    "TOPK_V2": same("TopK", axis=-1),
    "UNIQUE": fixed(Lowered("Unique", shape=_as_stated)),
    # Movement.
    "RESHAPE": _reshape,
    "STABLEHLO_RESHAPE": fixed(Lowered("Reshape", shape=_as_stated)),
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": same("Unsqueeze"),
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concatenation,
    "STABLEHLO_CONCATENATE": fixed(Lowered("Concat", shape=_as_stated)),
    "SPLIT": _split(1, shape.by("tflite:split"), "tflite:split"),
    "SPLIT_V": _split(0, shape.by("tflite:split_by_sizes"), "tflite:split_by_sizes"),
    "PACK": _with("PACK", "axis"),
    "UNPACK": _with("UNPACK", "axis"),
    "STRIDED_SLICE": _with(
        "STRIDED_SLICE", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset"
    ),
    "GATHER": _gather,
    "GATHER_ND": same("GatherND"),
    "PADV2": same(_own("PAD")),
    "TILE": same("Tile"),
    "BROADCAST_TO": same("Expand"),
    "SPACE_TO_DEPTH": _blocks("SpaceToDepth"),
    "DEPTH_TO_SPACE": _blocks("DepthToSpace"),
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "REVERSE_SEQUENCE": _sequence,
    "RANGE": same("Range"),
    "SHAPE": same("Shape"),
    "ONE_HOT": lambda application: Lowered(
        _own("ONE_HOT"), attrs={"axis": application.options["axis"]}, shape=shape.by("tflite:one_hot")
    ),
    "NON_MAX_SUPPRESSION_V5": same(_own("NON_MAX_SUPPRESSION_V5"), soft=1),
    "BUCKETIZE": _with("BUCKETIZE", "boundaries"),
    "EMBEDDING_LOOKUP_SPARSE": _with("EMBEDDING_LOOKUP_SPARSE", "combiner"),
    "RFFT2D": _spectrum,
    # Recurrent.
    "LSTM": _lstm,
    **dict.fromkeys(
        (
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

#: Custom operator -> how it is lowered, where it is one of the house.
CUSTOM_TABLE: dict[str, Rule] = {"Convolution2DTransposeBias": products.biased_transposed}

#: Builtin operators that run subgraphs.
CONTROL_FLOW: dict[str, str] = {"IF": "If", "WHILE": "Loop", "STABLEHLO_WHILE": "Loop"}

#: Builtin operators that stand for the subgraph that they call.
CALLS = ("CALL", "STABLEHLO_COMPOSITE")


def lower(application: Application) -> Lowered:
    """An operator of the file as one of the house; control flow and calls are for the caller."""
    operator = application.operator
    if operator.op == CUSTOM:
        rule: Callable[[Application], Lowered] | None = CUSTOM_TABLE.get(operator.custom)
        return rule(application) if rule else Lowered(f"tflite.custom::{operator.custom}")
    rule = TABLE.get(operator.op)
    return rule(application) if rule else Lowered(_own(operator.op))
