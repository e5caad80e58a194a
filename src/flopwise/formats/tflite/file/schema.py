"""The names of TensorFlow Lite's schema: builtin operators and element types by their codes, options by their fields.

tensorflow/compiler/mlir/lite/schema/schema.fbs, version 3c (TensorFlow 2.18).
"""

from __future__ import annotations

from typing import NamedTuple

from flopwise.readers.source.flatbuffer import Scalar

#: The builtin operators; the code of each is its place.
BUILTIN: tuple[str, ...] = tuple(
    """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM
MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2
GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG
SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE
MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO
RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE
STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
""".split()  # noqa: SIM905 - two hundred names read better as words
)

CUSTOM = "CUSTOM"

#: Element types; the code of each is its place. What a resource or a variant holds is no tensor of numbers.
DTYPES = (
    "float32",
    "float16",
    "int32",
    "uint8",
    "int64",
    "string",
    "bool",
    "int16",
    "complex64",
    "int8",
    "float64",
    "complex128",
    "uint64",
    "resource",
    "variant",
    "uint32",
    "uint16",
    "int4",
    "bfloat16",
)

#: Fused activations; the code of each is its place.
ACTIVATIONS = ("", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")


class Field(NamedTuple):
    """A field of an operator's options."""

    number: int
    kind: Scalar
    default: int | float | bool = 0
    vector: bool = False


def _fields(
    **fields: tuple[int, Scalar] | tuple[int, Scalar, float] | tuple[int, Scalar, float, bool],
) -> dict[str, Field]:
    return {name: Field(*field) for name, field in fields.items()}


def _windows(strides: int, activation: int, dilations: int) -> dict[str, Field]:
    """Padding, strides, dilations and activation of a two-dimensional convolution, from these fields on."""
    return _fields(
        padding=(0, "b"),
        stride_w=(strides, "i"),
        stride_h=(strides + 1, "i"),
        activation=(activation, "b"),
        dilation_w=(dilations, "i", 1),
        dilation_h=(dilations + 1, "i", 1),
    )


_ACTIVATION = _fields(activation=(0, "b"))
_POOL = _fields(
    padding=(0, "b"), stride_w=(1, "i"), stride_h=(2, "i"), width=(3, "i"), height=(4, "i"), activation=(5, "b")
)
_CONV_3D = _fields(
    padding=(0, "b"),
    stride_d=(1, "i"),
    stride_w=(2, "i"),
    stride_h=(3, "i"),
    activation=(4, "b"),
    dilation_d=(5, "i", 1),
    dilation_w=(6, "i", 1),
    dilation_h=(7, "i", 1),
)
_REDUCTION = _fields(keep_dims=(0, "?"))
_RESIZE = _fields(align_corners=(0, "?"), half_pixel=(1, "?"))
_BRANCHES = _fields(cond=(0, "i"), body=(1, "i"))

#: The fields of options that counts, shapes or names follow from, by operator; the others are left unread.
OPTIONS: dict[str, dict[str, Field]] = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "L2_NORMALIZATION"), _ACTIVATION),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _POOL),
    "CONV_2D": _windows(1, 3, 4),
    "DEPTHWISE_CONV_2D": _windows(1, 4, 5),
    "TRANSPOSE_CONV": _fields(padding=(0, "b"), stride_w=(1, "i"), stride_h=(2, "i"), activation=(3, "b")),
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), _CONV_3D),
    "FULLY_CONNECTED": _fields(activation=(0, "b"), shuffled=(1, "b"), keep_num_dims=(2, "?")),
    "BATCH_MATMUL": _fields(adj_x=(0, "?"), adj_y=(1, "?")),
    "CONCATENATION": _fields(axis=(0, "i"), activation=(1, "b")),
    "LEAKY_RELU": _fields(alpha=(0, "f")),
    "GELU": _fields(approximate=(0, "?")),
    "LOCAL_RESPONSE_NORMALIZATION": _fields(radius=(0, "i")),
    "RESHAPE": _fields(shape=(0, "i", 0, True)),
    "SQUEEZE": _fields(axes=(0, "i", 0, True)),
    "STRIDED_SLICE": _fields(
        begin_mask=(0, "i"),
        end_mask=(1, "i"),
        ellipsis_mask=(2, "i"),
        new_axis_mask=(3, "i"),
        shrink_axis_mask=(4, "i"),
        offset=(5, "?"),
    ),
    "GATHER": _fields(axis=(0, "i"), batch_dims=(1, "i")),
    "PACK": _fields(axis=(1, "i")),
    "UNPACK": _fields(axis=(1, "i")),
    "ONE_HOT": _fields(axis=(0, "i")),
    "SPACE_TO_DEPTH": _fields(blocksize=(0, "i")),
    "DEPTH_TO_SPACE": _fields(blocksize=(0, "i")),
    "RESIZE_BILINEAR": _fields(align_corners=(2, "?"), half_pixel=(3, "?")),
    "RESIZE_NEAREST_NEIGHBOR": _RESIZE,
    "REVERSE_SEQUENCE": _fields(time_axis=(0, "i"), batch_axis=(1, "i")),
    "CUMSUM": _fields(exclusive=(0, "?"), reverse=(1, "?")),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), _REDUCTION),
    "RNN": _ACTIVATION,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _fields(time_major=(0, "?"), activation=(1, "b")),
    "BIDIRECTIONAL_SEQUENCE_RNN": _fields(time_major=(0, "?"), activation=(1, "b"), merge=(2, "?")),
    "LSTM": _fields(activation=(0, "b"), basic=(3, "b")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _fields(activation=(0, "b"), time_major=(3, "?")),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _fields(activation=(0, "b"), merge=(3, "?"), time_major=(4, "?", True)),
    "SVDF": _fields(rank=(0, "i"), activation=(1, "b")),
    "CALL": _fields(body=(0, "I")),
    "CALL_ONCE": _fields(body=(0, "i")),
    "IF": _BRANCHES,
    "WHILE": _BRANCHES,
    "STABLEHLO_COMPOSITE": _fields(body=(1, "i")),
    "STABLEHLO_WHILE": _BRANCHES,
    "EMBEDDING_LOOKUP_SPARSE": _fields(combiner=(0, "b")),
}
