"""Operations of MIL programs (the operator sets of iOS 15 to iOS 18) that ONNX has no equal of.

Each is documented at https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.inputs import DATA, SCALE, SETTING, STATE, WEIGHT, WIDE_BIAS, inputs, scale, zero_point
from flopwise.operators.onnx.movement import bits
from flopwise.operators.openvino.operators import normalized
from flopwise.operators.operator import PICKS, Effect, Operator, by, each, each_input, nothing, unknown

_FLAT: frozenset[Effect] = frozenset({"no gradient"})

#: What an update of an element takes, by the mode of a scatter.
_MODES = {
    "update": Counts(),
    "add": Counts(add=1),
    "sub": Counts(add=1),
    "mul": Counts(mul=1),
    "div": Counts(div=1),
    "max": Counts(cmp=1),
    "min": Counts(cmp=1),
}


def scatter(node: Node) -> Counts:
    """nothing for mode = update: overwrites elements; else numel(updates) × 1 add, 1 mul, 1 div or (min, max) 1 cmp.

    https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html#coremltools.converters.mil.mil.ops.defs.iOS15.scatter_gather.scatter
    """
    mode: str = required(node, "mode")
    return _MODES[mode] * node.input(2).numel


def suppress(node: Node) -> Counts:
    """at most for each image N × K cmp (scores), N × bits(N) cmp (an order), and N × M × (6 add + 2 mul + 1 div + 7
    cmp) (overlap with each box that is kept), N boxes, K classes, M boxes at most; per_class_suppression: the last two
    K times.

    https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html#coremltools.converters.mil.mil.ops.defs.iOS15.tensor_operation.non_maximum_suppression
    """
    scores, most = node.input(1), extent(node, node.output(), 1)
    images, boxes, classes = (extent(node, scores, axis) for axis in range(3))
    often = images * (classes if node.attrs.get("per_class") else 1)
    pairs = Counts(add=6, mul=2, div=1, cmp=7) * (boxes * most * often)
    return Counts(cmp=images * boxes * classes + often * boxes * bits(boxes)) + pairs


def order(node: Node) -> Counts:
    """at most numel(X) × bits(n) cmp, n elements along the axis: an order by comparison; bits is the number of binary
    digits.

    https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html#coremltools.converters.mil.mil.ops.defs.iOS15.tensor_operation.argsort
    """
    x = node.input(0)
    return Counts(cmp=x.numel * bits(extent(node, x, required(node, "axis"))))


def sampled(node: Node) -> Counts:
    """numel(Y) × (4 mul + 4 add) (bilinear averages), and for each place of Y 4 mul + 6 add + 4 cmp (coordinates, cells
    and weights).

    https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html#coremltools.converters.mil.mil.ops.defs.iOS15.image_resizing.crop_resize
    """
    y = node.output()
    places = extent(node, y, 0) * product(y.dims[-2:])
    return Counts(mul=4, add=4) * y.numel + Counts(mul=4, add=6, cmp=4) * places


_PICK = "copies the elements that indices or bounds pick"
_ORDER = "copies elements to other places"
_FILL = "writes values that are known beforehand"
_LIST = "keeps tensors in a list"
_STATE = "hands a state on, which keeps its elements between calls"
_UPDATES: frozenset[Effect] = frozenset({"updates"})


def _picks(rule: str) -> Operator:
    return nothing(_PICK, gradient=gradient.GOES_BACK, carries="some", effects=PICKS, shape=rule)


def _alike(reason: str) -> Operator:
    return nothing(reason, gradient=gradient.GOES_BACK, carries="moved", shape=shape.alike)


_SCATTER = by(scatter, gradient=gradient.GOES_BACK, effects=_UPDATES, shape=shape.alike)
_DEQUANTIZES: frozenset[Effect] = frozenset({"dequantizes"})

_ROWS: dict[str, Operator] = {
    # Arithmetic.
    "square": each(mul=1, in_place=True, gradient=gradient.each("2x G", gradient.x, mul=2)),
    "rsqrt": each("1 / √(x + ε)", add=1, sqrt=1, div=1, in_place=True),
    "inverse": each("1 / (x + ε)", add=1, div=1, in_place=True),
    "log": each("log(x + ε)", add=1, log=1, in_place=True),
    "exp2": each(exp=1, in_place=True),
    "floor_div": each(
        "a quotient, rounded down", div=1, cmp=1, in_place=True, value="tflite:whole_quotients", effects=_FLAT
    ),
    "not_equal": each(cmp=1, in_place=True, dtype="bool", effects=_FLAT),
    "linear_activation": each("αx + β", mul=1, add=1, in_place=True),
    "scaled_tanh": each("α tanh(βx)", mul=2, tanh=1, in_place=True),
    "clamped_relu": each("αx or x, by the sign of x, held under β", cmp=2, mul=1, in_place=True),
    "threshold": each("max(x, α)", cmp=1, in_place=True),
    "softplus_parametric": each(
        "α log(1 + exp(βx))",
        mul=2,
        exp=1,
        add=1,
        log=1,
        in_place=True,
        inputs=inputs(DATA, WEIGHT, WEIGHT),
        shape=shape.alike,
    ),
    "gelu": each("x sigmoid(1.702 x)", SIGMOID, mul=2, in_place=True),
    "l2_norm": by(normalized, shape=shape.alike),
    "classify": each_input(Counts(cmp=1), note="the class of the largest probability", effects=_FLAT),
    "argsort": by(order, "bound", effects=_FLAT, shape=shape.alike, dtype="int32"),
    "non_zero": each_input(
        Counts(cmp=1),
        note="at most one comparison with zero for each element; how many pass depends on the data",
        claim="bound",
        effects=_FLAT,
        shape="tflite:where",
        dtype="int32",
    ),
    "non_maximum_suppression": by(suppress, "bound", effects=_FLAT, shape="coreml:suppressed"),
    "crop_resize": by(sampled, shape="coreml:cropped_and_resized"),
    "affine": by(sampled, shape="coreml:transformed"),
    # Elements that are updated, picked or moved.
    **dict.fromkeys(("scatter", "scatter_along_axis", "scatter_nd"), _SCATTER),
    "slice_update": nothing(
        "overwrites a part of its first input", gradient=gradient.GOES_BACK, effects=_UPDATES, shape=shape.alike
    ),
    "crop": _picks("coreml:cropped"),
    "sliding_windows": _picks("coreml:slid"),
    "reverse": _alike(_ORDER),
    "band_part": _alike("copies a band around the diagonal and fills the rest with zeros"),
    "reshape_like": nothing("gives the same elements another shape", view=views.always, carries="moved"),
    "space_to_batch": nothing(_ORDER, gradient=gradient.GOES_BACK, carries="some", shape="coreml:space_to_batch"),
    "batch_to_space": nothing(_ORDER, gradient=gradient.GOES_BACK, carries="some", shape="coreml:batch_to_space"),
    "fill": nothing(
        _FILL, inputs=inputs(SETTING, SETTING), effects=_FLAT, shape="tflite:filled", value="tflite:filled"
    ),
    "fill_like": nothing(_FILL, inputs=inputs(DATA, SETTING), effects=_FLAT, shape=shape.alike),
    **dict.fromkeys(
        ("make_list", "list_read", "list_write", "list_gather", "list_scatter"), nothing(_LIST, effects=_FLAT)
    ),
    "list_length": nothing("reads the length of a list", effects=_FLAT, shape="tflite:scalar", dtype="int32"),
    # States.
    "read_state": nothing(_STATE, inputs=inputs(STATE), view=views.always, shape=shape.alike),
    "write_state": nothing(_STATE, inputs=inputs(STATE, DATA)),
    "coreml_update_state": nothing(_STATE, inputs=inputs(STATE, DATA), shape="picking:like_second", dtype=1),
    # Weights that are stored compressed; what follows from weights alone is made once, when the model is loaded.
    "constexpr_lut_to_dense": nothing(
        "picks an entry of a palette for each index",
        inputs=inputs(WEIGHT, SCALE),
        carries="same",
        effects=frozenset({"dequantizes", "picks quantized"}),
        shape=shape.alike,
    ),
    "constexpr_sparse_to_dense": nothing(
        "writes a sparse tensor out with its zeros", inputs=inputs(WEIGHT, SETTING), carries="broadcast"
    ),
    "constexpr_blockwise_shift_scale": each(
        "scale × (x − offset), a scale for each block",
        mul=1,
        add=1,
        inputs=inputs(WIDE_BIAS, scale(0), zero_point(0)),
        effects=_DEQUANTIZES,
        carries="same",
        shape=shape.alike,
    ),
    "constexpr_lut_to_sparse": nothing(
        "picks an entry of a palette for each index", inputs=inputs(WEIGHT, SCALE, SETTING), carries="same"
    ),
    "constexpr_sparse_blockwise_shift_scale": each_input(
        Counts(mul=1, add=1),
        note="scale × (x − offset), of the elements that are stored",
        inputs=inputs(WIDE_BIAS, SCALE, SCALE, SETTING),
        effects=_DEQUANTIZES,
        carries="same",
    ),
    # What nobody can count.
    **dict.fromkeys(
        ("random_bernoulli", "random_categorical", "random_normal", "random_uniform"),
        unknown("draws random numbers, by a generator of the engine's", effects=frozenset({"random"})),
    ),
}

OPERATORS: dict[str, Operator] = {f"coreml::{name}": row for name, row in _ROWS.items()}
