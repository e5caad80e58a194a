"""Operators of TensorFlow Lite that ONNX has none for, or that take their settings in a way of their own.

The definitions are those of the reference kernels, tensorflow/lite/kernels/internal/reference; what an operator does is
documented at https://www.tensorflow.org/mlir/tfl_ops.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.fourier import fourier, lines
from flopwise.operators.inputs import DATA, SETTING, WEIGHT, inputs
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import PICKS, Effect, Operator, by, each, each_input, nothing, unknown

#: From a sum to the result's type: times the ratio of the scales, rounded, plus the zero point, saturated.
_REQUANTIZE = Counts(mul=1, add=1, cmp=3)


def requantize(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add + 3 cmp): times the ratio of the scales, rounded, zero point added, saturated to the
    bounds of the type or of the fused activation; for each operand that follows numel × 1 add (its zero point),
    rescaled: × (1 mul + 1 add).

    https://ai.google.dev/edge/litert/models/quantization_spec
    """
    shift = Counts(add=1, mul=int(bool(node.attrs.get("rescaled"))))
    return _REQUANTIZE * node.output().numel + shift * sum(t.numel for t in node.known_inputs[1:])


def dynamic(node: Node) -> Counts:
    """numel(X) × (5 cmp + 1 div + 1 add) (the range of X, X in 8 bits) + numel(Y) × (1 mul + 1 add): sums times both
    scales, less the zero point's part; X is the last input.

    https://ai.google.dev/edge/litert/models/post_training_quantization
    """
    x = node.input(max(len(node.inputs) - 1, 0))
    return Counts(cmp=5, div=1, add=1) * x.numel + Counts(mul=1, add=1) * node.output().numel


def half_of_squares(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add) + 1 mul: half the sum of squares.

    https://www.tensorflow.org/api_docs/python/tf/nn/l2_loss
    """
    return Counts(mul=1, add=1) * node.input(0).numel + Counts(mul=1)


def spectrum(node: Node) -> Counts:
    """at most a fast transform of real numbers along the last axis, N / n of them of length n, and one of complex
    numbers along the axis before it for each of its n/2 + 1 columns; lengths of 1 take nothing.

    https://www.tensorflow.org/mlir/tfl_ops#tflrfft2d_tflrfft2dop
    """
    y = node.output()
    rows, columns = extent(node, y, -2), integer_length(node)
    counts = fourier(node, columns, real=True) * lines(node, y, -1)
    return counts + fourier(node, rows, real=False) * lines(node, y, -2)


def integer_length(node: Node) -> int:
    """The length of the last axis before a transform of real numbers: as the reader knows it, else the even one."""
    length = node.attrs.get("length")
    return length if isinstance(length, int) else 2 * (extent(node, node.output(), -1) - 1)


def bucketize(node: Node) -> Counts:
    """numel(X) × bits(n) cmp, n boundaries: binary search; bits is the number of binary digits.

    https://www.tensorflow.org/mlir/tfl_ops#tflbucketize_tflbucketizeop
    """
    return Counts(cmp=bits(required(node, "boundaries"))) * node.input(0).numel


def scatter(node: Node) -> Counts:
    """numel(updates) add: several updates of one place are summed.

    https://www.tensorflow.org/mlir/tfl_ops#tflscatter_nd_tflscatterndop
    """
    return Counts(add=node.input(1).numel)


def suppress(node: Node) -> Counts:
    """at most S (S − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div) (overlap and threshold), S × bits(S) cmp to sort
    the scores, and S × (4 cmp + 2 add + 1 mul) for corners and areas; soft: for each pair 2 mul + 1 exp more.

    boxes are (S, 4), scores (S).

    https://www.tensorflow.org/mlir/tfl_ops#tflnon_max_suppression_v5_tflnonmaxsuppressionv5op
    """
    count = extent(node, node.input(1), 0)
    pair = Counts(cmp=7, add=4, mul=1, div=1)
    if node.attrs.get("soft"):
        pair += Counts(mul=2, exp=1)
    pairs = count * (count - 1) // 2
    return pair * pairs + Counts(cmp=4, add=2, mul=1) * count + Counts(cmp=count * bits(count))


def embedding_sums(node: Node) -> Counts:
    """at most numel(weights) × D × 1 mac, D the extent of a row; combiner MEAN or SQRTN: 1 div for each element of Y.

    https://www.tensorflow.org/mlir/tfl_ops
    """
    row = product(node.input(4).dims[1:])
    counts = Counts(mac=node.input(3).numel * row)
    return counts + Counts(div=node.output().numel if node.attrs.get("combiner") else 0)


_ORDER = "copies elements to other places"
_PICK = "copies the elements that indices or bounds pick"
_FILL = "writes values that are known beforehand"
_TABLE = "looks keys up in a table"
_STATE = "hands a variable on, which keeps its elements between calls"
_RANDOM: frozenset[Effect] = frozenset({"random", "no gradient"})
_FLAT: frozenset[Effect] = frozenset({"no gradient"})


def _draw(reason: str, rule: str) -> Operator:
    return unknown(reason, effects=_RANDOM, inputs=inputs(SETTING), shape=rule, dtype="float32")


def _segments(rule: str, **classes: int) -> Operator:
    return each_input(Counts(**classes), note="each element goes to its segment", shape=rule)


_NUMBERED = "tflite:numbered_segments"

_ROWS: dict[str, Operator] = {
    # Arithmetic.
    "Requantize": by(requantize, in_place=True, shape=shape.alike),
    "DynamicQuantize": by(dynamic, in_place=True, shape=shape.alike),
    "SQUARE": each(mul=1, in_place=True, gradient=gradient.each("2x G", gradient.x, mul=2)),
    "RSQRT": each(
        "1 / √x", sqrt=1, div=1, in_place=True, gradient=gradient.each("−G y³ / 2", gradient.y, mul=4, bit=1)
    ),
    "SQUARED_DIFFERENCE": each("(a − b)²", add=1, mul=1, in_place=True),
    "FLOOR_DIV": each(
        "a quotient, rounded down", div=1, cmp=1, in_place=True, value="tflite:whole_quotients", effects=_FLAT
    ),
    "ATAN2": each("the angle of a quotient", div=1, trig=1, in_place=True),
    "CBRT": each(pow=1, in_place=True),
    "SIGN_BIT": each("the sign bit as a number", bit=1, in_place=True),
    "NOT_EQUAL": each(cmp=1, in_place=True, dtype="bool", effects=_FLAT),
    "FAKE_QUANT": each(
        "held between the bounds, divided by the step, rounded and multiplied",
        cmp=3,
        add=2,
        div=1,
        mul=1,
        in_place=True,
    ),
    "REDUCE_ANY": each_input(Counts(bit=1), shape="making:reduced", dtype="bool"),
    "REDUCE_ALL": each_input(Counts(bit=1), shape="making:reduced", dtype="bool"),
    "CLAMP": each("between two bounds", cmp=2, in_place=True),
    "RFFT2D": by(spectrum, "bound", inputs=inputs(DATA, SETTING), shape="tflite:spectrum", dtype="complex64"),
    "BUCKETIZE": by(bucketize, effects=_FLAT, shape=shape.alike, dtype="int32"),
    "SEGMENT_SUM": _segments("tflite:segments", add=1),
    "UNSORTED_SEGMENT_SUM": _segments(_NUMBERED, add=1),
    "UNSORTED_SEGMENT_PROD": _segments(_NUMBERED, mul=1),
    "UNSORTED_SEGMENT_MAX": _segments(_NUMBERED, cmp=1),
    "UNSORTED_SEGMENT_MIN": _segments(_NUMBERED, cmp=1),
    "SCATTER_ND": by(scatter, inputs=inputs(SETTING, DATA, SETTING), shape="tflite:scattered", dtype=1),
    "WHERE": each_input(
        Counts(cmp=1),
        note="at most one comparison with zero for each element; how many pass depends on the data",
        claim="bound",
        effects=_FLAT,
        shape="tflite:where",
        dtype="int64",
    ),
    "NON_MAX_SUPPRESSION_V4": by(suppress, "bound", effects=_FLAT, shape="tflite:suppressed", dtype=("int32", "int32")),
    "NON_MAX_SUPPRESSION_V5": by(
        suppress, "bound", effects=_FLAT, shape="tflite:suppressed", dtype=("int32", "float32", "int32")
    ),
    "EMBEDDING_LOOKUP_SPARSE": by(embedding_sums, "bound", dtype=4),
    # The same elements in another order, or some of them.
    "SLICE": nothing(
        _PICK,
        inputs=inputs(DATA, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        effects=PICKS,
        shape="tflite:slice_",
        value="tflite:slice_",
    ),
    "STRIDED_SLICE": nothing(
        _PICK,
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        effects=PICKS,
        shape="tflite:strided_slice",
        value="tflite:strided_slice",
    ),
    "PACK": nothing(
        _ORDER, gradient=gradient.GOES_BACK, shape="tflite:pack", value=shape.elements("tflite:packed", "some")
    ),
    "UNPACK": nothing(
        _ORDER, gradient=gradient.GOES_BACK, carries="some", shape="tflite:unpack", value="tflite:unpacked"
    ),
    **dict.fromkeys(
        ("PAD", "MIRROR_PAD"),
        nothing(
            "copies elements between borders that are filled or repeated",
            inputs=inputs(DATA, SETTING, SETTING),
            gradient=gradient.GOES_BACK,
            view=views.same_shape,
            carries="some",
            shape="tflite:pad",
        ),
    ),
    "SPACE_TO_BATCH_ND": nothing(
        _ORDER,
        inputs=inputs(DATA, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        shape="tflite:space_to_batch",
    ),
    "BATCH_TO_SPACE_ND": nothing(
        _ORDER,
        inputs=inputs(DATA, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        shape="tflite:batch_to_space",
    ),
    "REVERSE_V2": nothing(
        _ORDER,
        inputs=inputs(DATA, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        shape=shape.alike,
        value="tflite:reversed_",
    ),
    "DILATE": nothing("copies elements between fillings", gradient=gradient.GOES_BACK, shape="tflite:dilated"),
    "DYNAMIC_UPDATE_SLICE": nothing(
        "overwrites a part of its first input",
        gradient=gradient.GOES_BACK,
        inputs=inputs(DATA, DATA, SETTING),
        effects=frozenset({"updates"}),
        shape=shape.alike,
    ),
    "SPARSE_TO_DENSE": nothing("overwrites the elements that indices pick", shape="tflite:from_sparse", dtype=2),
    "MATRIX_DIAG": nothing(_FILL, gradient=gradient.GOES_BACK, shape="tflite:matrix_diagonal"),
    "MATRIX_SET_DIAG": nothing("overwrites a diagonal", gradient=gradient.GOES_BACK, shape=shape.alike),
    "EMBEDDING_LOOKUP": nothing(_PICK, inputs=inputs(SETTING, WEIGHT), shape="tflite:looked_up", dtype=1),
    "IMAG": nothing("hands one part of complex numbers on", shape=shape.alike, dtype="float32"),
    "REAL": nothing("hands one part of complex numbers on", shape=shape.alike, dtype="float32"),
    "SKIP_GRAM": nothing("joins words of a text", dtype="string"),
    "DENSIFY": nothing("writes a sparse tensor out with its zeros", carries="broadcast", shape=shape.alike),
    # Types, shapes and values that are known beforehand.
    "RANK": nothing(
        "reads the shape, not the data",
        effects=frozenset({"shape query", "no gradient"}),
        shape="tflite:scalar",
        value=shape.elements("tflite:rank", "none"),
        dtype="int32",
    ),
    "BROADCAST_ARGS": nothing(
        "reads shapes, not data", effects=_FLAT, shape="tflite:broadcast_shape", value="tflite:common_shape"
    ),
    "FILL": nothing(
        _FILL, inputs=inputs(SETTING, DATA), effects=_FLAT, shape="tflite:filled", value="tflite:filled", dtype=1
    ),
    "ZEROS_LIKE": nothing(_FILL, effects=_FLAT, shape=shape.alike),
    "ONE_HOT": nothing(
        "writes one of two values by index",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        effects=_FLAT,
        shape="tflite:one_hot",
        dtype=2,
    ),
    # Tables and variables.
    "HASHTABLE": nothing(_TABLE, shape="tflite:scalar", dtype="resource"),
    "HASHTABLE_FIND": nothing(_TABLE, dtype=2),
    "HASHTABLE_IMPORT": nothing("fills a table"),
    "HASHTABLE_SIZE": nothing(_TABLE, shape="tflite:scalar", dtype="int64"),
    "HASHTABLE_LOOKUP": nothing(_TABLE, dtype=(2, "uint8")),
    "VAR_HANDLE": nothing("names a variable", shape="tflite:scalar", dtype="resource"),
    "READ_VARIABLE": nothing(_STATE),
    "ASSIGN_VARIABLE": nothing(_STATE),
    "CALL": nothing("stands for the operators of a subgraph", effects=frozenset({"bodies"})),
    "CALL_ONCE": nothing("runs before the first inference, and never again"),
    # What nobody can count.
    "RANDOM_UNIFORM": _draw("draws random numbers, by a generator of the engine's", "tflite:filled"),
    "RANDOM_STANDARD_NORMAL": _draw("draws random numbers, by a generator of the engine's", "tflite:filled"),
    "MULTINOMIAL": _draw("draws random numbers, by a generator of the engine's", "tflite:sampled"),
    "STABLEHLO_RNG_BIT_GENERATOR": _draw(
        "draws random numbers, by a generator that an option names", "making:identity"
    ),
    "LSH_PROJECTION": unknown("hashes its input; what a hash takes is no arithmetic of the model"),
    "CONCAT_EMBEDDINGS": unknown("an operator that no kernel was ever written for"),
    "DELEGATE": unknown("stands for operators that another engine runs; what they are is not in the file"),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": unknown("stands for an operator that the file does not name"),
    **dict.fromkeys(
        ("STABLEHLO_REDUCE", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SORT", "STABLEHLO_SCATTER", "REDUCE_WINDOW"),
        unknown("runs a function of the file for pairs of elements, which may do anything"),
    ),
    "STABLEHLO_CUSTOM_CALL": unknown("calls a function by name that is not in the file"),
    **dict.fromkeys(
        ("STABLEHLO_CONVOLUTION", "STABLEHLO_GATHER", "STABLEHLO_DOT_GENERAL"),
        unknown("its axes are named by options; convert the model to builtin operators to have it counted"),
    ),
    **dict.fromkeys(
        (
            "STABLEHLO_SLICE",
            "STABLEHLO_DYNAMIC_SLICE",
            "STABLEHLO_PAD",
            "STABLEHLO_BROADCAST_IN_DIM",
            "STABLEHLO_TRANSPOSE",
            "STABLEHLO_DYNAMIC_UPDATE_SLICE",
        ),
        nothing(_ORDER, gradient=gradient.GOES_BACK),
    ),
    "STABLEHLO_IOTA": nothing(_FILL, effects=_FLAT),
}

#: TensorFlow's own, which its Lite has not: https://www.tensorflow.org/api_docs/python/tf/raw_ops
_TENSORFLOW: dict[str, Operator] = {
    "DivNoNan": each("a / b, 0 for b = 0", div=1, cmp=1, in_place=True),
    "MulNoNan": each("a b, 0 for b = 0", mul=1, cmp=1, in_place=True),
    "Xdivy": each("a / b, 0 for a = 0", div=1, cmp=1, in_place=True),
    "ApproximateEqual": each("|a − b| < tolerance", add=1, bit=1, cmp=1, in_place=True, dtype="bool", effects=_FLAT),
    "L2Loss": by(half_of_squares, shape="tflite:scalar"),
}

OPERATORS: dict[str, Operator] = {
    **{f"tflite::{name}": row for name, row in _ROWS.items()},
    **{f"tensorflow::{name}": row for name, row in _TENSORFLOW.items()},
}
