"""Operators that move elements or make tensors, sequences, and control flow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import DATA, LIKE, SETTING, WEIGHT, inputs
from flopwise.operators.operator import PICKS, Effect, Operator, by, each, each_input, nothing

# Operators that move, select, convert or generate data and compute nothing, each with its reason; and those that
# search or select by the data, whose work is bounded from above.

#: What a scatter does to an element that it does not merely overwrite.
_REDUCTIONS: dict[str, Counts] = {
    "add": Counts(add=1),
    "mul": Counts(mul=1),
    **dict.fromkeys(("min", "max"), Counts(cmp=1)),
}


def scatter(node: Node) -> Counts:
    """nothing for reduction = none: overwrites elements; else numel(updates) × 1 add, 1 mul or (min, max) 1 cmp.

    https://onnx.ai/onnx/operators/onnx__ScatterElements.html
    """
    once = _REDUCTIONS.get(node.attrs.get("reduction", "none"))
    return once * node.input(2).numel if once else Counts()


def top_k(node: Node) -> Counts:
    """at most numel(X) × bits(K) cmp: each element finds its place among the K kept so far by binary search; bits is
    the number of binary digits, K itself stands in for it where K is a symbol.

    https://onnx.ai/onnx/operators/onnx__TopK.html
    """
    axis = node.attrs.get("axis", -1)
    return Counts(cmp=node.input(0).numel * bits(extent(node, node.output(), axis)))


def unique(node: Node) -> Counts:
    """at most numel(X) × bits(n) cmp, n = X.shape[axis] (numel(X) without axis): each slice finds its place among
    those kept so far by binary search; bits is the number of binary digits, n itself stands in for it where n is a
    symbol.

    https://onnx.ai/onnx/operators/onnx__Unique.html
    """
    x = node.input(0)
    axis = node.attrs.get("axis")
    return Counts(cmp=x.numel * bits(x.numel if axis is None else extent(node, x, axis)))


def compress(node: Node) -> Counts:
    """numel(condition) bit: each flag is tested; how many elements pass depends on the data.

    https://onnx.ai/onnx/operators/onnx__Compress.html
    """
    return Counts(bit=node.input(1).numel)


def non_max_suppression(node: Node) -> Counts:
    """at most B × C × S (S − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div) (overlap and threshold), with B × C × S
    × bits(S) cmp to sort the scores, B × C × S cmp against score_threshold when given, and for each of the B × S
    boxes its area, 2 add + 1 mul, and its corners, 4 cmp (center_point_box: 2 div + 4 add).

    boxes are (B, S, 4), scores (B, C, S). Every pair is compared only when no box suppresses another.

    https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """
    boxes, scores = node.input(0), node.input(1)
    count = extent(node, scores, -1)
    rows = product(scores.dims[:-1])
    pairs = rows * (count * (count - 1) // 2)
    counts = Counts(cmp=7, add=4, mul=1, div=1) * pairs + Counts(cmp=scores.numel * bits(count))
    if node.has_input(4):
        counts += Counts(cmp=scores.numel)
    corners = Counts(div=2, add=4) if node.attrs.get("center_point_box", 0) else Counts(cmp=4)
    return counts + (corners + Counts(add=2, mul=1)) * product(boxes.dims[:-1])


def bits(count: Dim) -> int:
    """Comparisons that find a place among at most ``count`` sorted elements; ``count`` itself bounds a symbol.

    >>> bits(4)
    3
    """
    return count.bit_length() if isinstance(count, int) else count


_ORDER = "copies elements to other places"
_PICK = "copies the elements that indices or bounds pick"
_OVERWRITE = "overwrites the elements that indices pick"
_CONVERT = "converts the element type"
_SHAPE = "reads the shape, not the data"
_FILL = "writes values that are known beforehand"

#: A row for an operator whose result is a view of the same elements, in the same order.
_reshaped = partial(
    nothing,
    "reads the same elements under another shape",
    gradient=gradient.GOES_BACK,
    view=views.always,
    carries="moved",
    value="structure:same",
)

#: For one whose gradient goes back to where the elements came from; and of these, whose result holds elements of X.
_moves = partial(nothing, gradient=gradient.GOES_BACK)
_copies = partial(_moves, carries="some")

#: For one that repeats elements, whose gradients are summed up; and for one that picks them by index.
_repeats = partial(
    nothing, "repeats elements", gradient=gradient.by("movement:repeated", gradient.none), view=views.same_shape
)
_picks = partial(
    nothing, _PICK, gradient=gradient.by("movement:picked", gradient.indices), carries="some", effects=PICKS
)

#: For one that converts the element type.
_converts = partial(
    _moves,
    _CONVERT,
    view=views.same_type,
    in_place=True,
    carries="same",
    shape=shape.alike,
    value="arithmetic:converted",
)

#: For one whose result does not change with small changes of its inputs, and of these, that reads shapes alone.
_flat = partial(nothing, effects=frozenset({"no gradient"}))
_asks = partial(nothing, _SHAPE, effects=frozenset({"shape query", "no gradient"}), dtype="int64")

#: Facts of all that overwrite elements by index.
_UPDATES: frozenset[Effect] = frozenset({"updates"})
_SCATTERED = gradient.by("movement:scatter", gradient.indices)

#: The gradient of what picks each element at most once.
_ONCE = "G goes back to the elements that were picked, each at most once"

OPERATORS: dict[str, Operator] = {
    # The same elements under another shape.
    "Reshape": _reshaped(shape="reshaping:reshape"),
    "Flatten": _reshaped(shape="reshaping:flatten"),
    "Squeeze": _reshaped(shape="reshaping:squeeze"),
    "Unsqueeze": _reshaped(shape="reshaping:unsqueeze"),
    "Identity": _moves("passes its input on", view=views.always, carries="same", shape="making:identity"),
    "Dropout": nothing(
        "passes its input on at inference",
        inputs=inputs(DATA, SETTING, SETTING),
        gradient=gradient.by("movement:dropout", "movement:mask"),
        view=views.at_inference,
        carries="some",
        shape=shape.both_alike,
        dtype=shape.dtypes("making:mask_type"),
    ),
    # The same elements in another order, or more than once.
    "Transpose": _moves(
        _ORDER,
        view=views.same_order,
        carries="moved",
        effects=frozenset({"strided"}),
        shape="reshaping:transpose",
        value="structure:transposed",
    ),
    "DepthToSpace": _copies(_ORDER, shape="reshaping:depth_to_space"),
    "SpaceToDepth": _copies(_ORDER, shape="reshaping:space_to_depth"),
    "ReverseSequence": _copies(_ORDER, shape=shape.alike),
    "Concat": _moves(
        _ORDER, view=views.of_one, shape="reshaping:concat", value=shape.elements("structure:joined", "some")
    ),
    "Split": _copies(
        _ORDER, view=views.undivided, effects=frozenset({"strided"}), shape="reshaping:split", value="structure:split"
    ),
    "Expand": _repeats(
        carries="broadcast", effects=frozenset({"strided"}), shape="reshaping:expand", value="structure:expanded"
    ),
    "Tile": _repeats(carries="some", shape="reshaping:tile", value="structure:tiled"),
    "Pad": nothing(
        "copies elements between borders that are filled or repeated",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.by("movement:pad", gradient.none),
        view=views.same_shape,
        carries="some",
        shape="reshaping:pad",
        value="structure:padded",
    ),
    "CenterCropPad": _moves(
        "copies elements between borders that are filled or cropped", view=views.same_shape, shape="reshaping:crop_pad"
    ),
    "Trilu": _moves(
        "copies one triangle and fills the other with zeros", shape=shape.alike, value="structure:triangle"
    ),
    # Elements picked by index.
    "Slice": nothing(
        _PICK,
        gradient=gradient.nothing(_ONCE),
        view=views.unstepped,
        carries="some",
        effects=frozenset({"strided", "picks"}),
        shape="picking:slice_",
        value="structure:sliced",
    ),
    "Gather": _picks(inputs=inputs(WEIGHT), shape="picking:gather", value="structure:gathered"),
    "GatherElements": _picks(shape="picking:like_second", value="structure:gathered_elements"),
    "GatherND": _picks(shape="picking:gather_nd", value="structure:gathered_slices"),
    "Scatter": nothing(_OVERWRITE, gradient=_SCATTERED, effects=_UPDATES, shape=shape.alike),
    "ScatterElements": by(
        scatter, gradient=_SCATTERED, effects=_UPDATES, shape=shape.alike, value="structure:scattered"
    ),
    "ScatterND": by(
        scatter, gradient=_SCATTERED, effects=_UPDATES, shape=shape.alike, value="structure:scattered_slices"
    ),
    "TensorScatter": _moves(_OVERWRITE, effects=_UPDATES, shape=shape.alike),
    "MaxUnpool": nothing(
        "copies elements to the places that indices name and fills the rest with zeros",
        gradient=gradient.GOES_BACK._replace(keeps=gradient.indices),
        shape="windows:max_unpool",
    ),
    "OneHot": _flat(
        "writes one of two values by index",
        inputs=inputs(DATA, SETTING, SETTING),
        shape="picking:one_hot",
        value="structure:one_hot",
        dtype=2,
    ),
    # Types, shapes and values that are known beforehand.
    "Cast": _converts(dtype=shape.dtype_of("to")),
    "CastLike": _converts(inputs=inputs(DATA, LIKE), dtype=1),
    "BitCast": _moves("reads the same bits as another type", shape=shape.alike, dtype=shape.dtype_of("to")),
    "ImageDecoder": nothing(
        "decodes a compressed image: the work of a file format, not of the model", shape="making:image", dtype="uint8"
    ),
    "Shape": _asks(shape="making:shape_of", value=shape.elements("structure:shape_of", "none")),
    "Size": _asks(shape="making:scalar", value=shape.elements("structure:size_of", "none")),
    "Constant": nothing(_FILL, shape="making:constant"),
    "ConstantOfShape": _flat(
        _FILL,
        shape="making:filled",
        value=shape.elements("structure:filled", "none"),
        dtype=shape.dtypes("making:filled_type"),
    ),
    "EyeLike": _flat(_FILL, shape=shape.alike, dtype=shape.dtype_of("dtype", 0)),
    "Range": _flat(
        "numbers positions: an index sequence, not arithmetic on data",
        inputs=inputs(SETTING, SETTING, SETTING),
        shape="making:counted",
        value="structure:counted",
    ),
    # Work that depends on the data.
    "TopK": by(
        top_k,
        "bound",
        inputs=inputs(DATA, SETTING),
        gradient=gradient.nothing(_ONCE, gradient.picks),
        shape="picking:top_k",
        value="structure:sorted_first",
        dtype=(0, "int64"),
    ),
    "Unique": by(
        unique, "bound", shape="picking:unique", value=shape.elements("selection:unique", "some"), dtype=(0, "int64")
    ),
    "NonZero": each_input(
        Counts(cmp=1),
        note="each element is compared with zero; how many pass depends on the data",
        claim="bound",
        effects=frozenset({"no gradient"}),
        shape="picking:non_zero",
        value="structure:non_zero",
        dtype="int64",
    ),
    "Compress": by(
        compress,
        "bound",
        gradient=gradient.nothing(_ONCE, gradient.indices),
        shape="picking:compress",
        value="structure:kept",
    ),
    "NonMaxSuppression": by(
        non_max_suppression,
        "bound",
        effects=frozenset({"no gradient"}),
        shape="picking:suppression",
        value=shape.elements("selection:suppressed", "some"),
        dtype="int64",
    ),
}


# Random numbers. ONNX does not say how they are drawn; what is counted is what becomes of a draw.


def normal(node: Node) -> Counts:
    """numel(Y) × (1 mul when scale ≠ 1, 1 add when mean ≠ 0): mean + scale × z; drawing z is not arithmetic that ONNX
    defines.

    https://onnx.ai/onnx/operators/onnx__RandomNormal.html
    """
    return _moved(node, node.attrs.get("scale", 1.0), node.attrs.get("mean", 0.0))


def uniform(node: Node) -> Counts:
    """numel(Y) × (1 mul when high − low ≠ 1, 1 add when low ≠ 0): low + (high − low) × u; drawing u is not arithmetic
    that ONNX defines.

    https://onnx.ai/onnx/operators/onnx__RandomUniform.html
    """
    low = node.attrs.get("low", 0.0)
    return _moved(node, node.attrs.get("high", 1.0) - low, low)


def _moved(node: Node, factor: float, shift: float) -> Counts:
    """Each draw times a factor plus a shift, as far as they change it."""
    return Counts(mul=int(factor != 1.0), add=int(shift != 0.0)) * node.output().numel


def multinomial(node: Node) -> Counts:
    """at most numel(X) × (1 cmp + 2 add + 1 exp), the running sum of exp(x − max) of each row, and numel(Y) × (1 mul +
    bits(C) cmp): each draw, scaled by the sum, finds its class among C by binary search; bits is the number of binary
    digits, C itself stands in for it where C is a symbol.

    https://onnx.ai/onnx/operators/onnx__Multinomial.html
    """
    x = node.input(0)
    classes = extent(node, x, -1)
    draws: int = product(x.dims[:-1]) * node.attrs.get("sample_size", 1)
    return Counts(cmp=1, add=2, exp=1) * x.numel + Counts(mul=1, cmp=bits(classes)) * draws


GENERATION: dict[str, Operator] = {
    "RandomNormal": by(normal, effects=frozenset({"random"}), shape="making:stated", dtype=shape.dtype_of("dtype")),
    "RandomNormalLike": by(
        normal, effects=frozenset({"random", "no gradient"}), shape=shape.alike, dtype=shape.dtype_of("dtype", 0)
    ),
    "RandomUniform": by(uniform, effects=frozenset({"random"}), shape="making:stated", dtype=shape.dtype_of("dtype")),
    "RandomUniformLike": by(
        uniform, effects=frozenset({"random", "no gradient"}), shape=shape.alike, dtype=shape.dtype_of("dtype", 0)
    ),
    "Bernoulli": each(
        "a draw is compared with the probability",
        cmp=1,
        effects=frozenset({"random", "no gradient"}),
        shape=shape.alike,
        dtype=shape.dtype_of("dtype", 0),
    ),
    "Multinomial": by(
        multinomial,
        "bound",
        effects=frozenset({"random", "no gradient"}),
        shape="making:draws",
        dtype=shape.dtype_of("dtype", "int32"),
    ),
}


# Sequences and optionals: containers that hand their members on.

SEQUENCE: dict[str, Operator] = {
    "SequenceConstruct": nothing(
        "hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:construct"
    ),
    "SequenceAt": nothing("hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:at"),
    "SequenceInsert": nothing(
        "hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:inserted"
    ),
    "SequenceErase": nothing("hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:erased"),
    "SequenceEmpty": nothing("makes a sequence without members", gradient=gradient.GOES_BACK, shape="sequences:empty"),
    "SequenceLength": nothing(
        "reads the number of members, not the data",
        shape="making:scalar",
        value=shape.elements("structure:length", "none"),
        dtype="int64",
    ),
    "SplitToSequence": nothing(
        "copies elements to the members of a sequence", gradient=gradient.GOES_BACK, shape="sequences:split"
    ),
    "ConcatFromSequence": nothing(
        "copies the members of a sequence into one tensor",
        gradient=gradient.GOES_BACK,
        shape="sequences:joined",
        value=shape.elements("structure:joined_members", "none"),
    ),
    "Optional": nothing("hands on what an optional holds", gradient=gradient.GOES_BACK, shape="sequences:optional"),
    "OptionalGetElement": nothing(
        "hands on what an optional holds", gradient=gradient.GOES_BACK, shape="sequences:element"
    ),
    "OptionalHasElement": nothing(
        "reads whether there is an element, not the data",
        shape="making:scalar",
        value=shape.elements("structure:has_element", "none"),
        dtype="bool",
    ),
}


# Control flow: the operators in its bodies cost, not the operator around them.


def _around(node: Node) -> Counts:
    """No operations of its own: those of its bodies count.

    Raises:
        ShapeError: the reader could make nothing of them.
    """
    if node.attrs.get("bodies", ()) is None:
        raise ShapeError(f"nothing is known about the body of {node.op} {node.name!r}")
    return Counts()


def _control(reason: str) -> Operator:
    return Operator(_around, reason, "nothing", effects=frozenset({"bodies"}))


CONTROL: Mapping[str, Operator] = {
    "If": _control(
        "runs one of its branches; the branch's operators count, where either can run those of the larger cost"
    ),
    "Loop": _control("runs its body; the body's operators count once for each trip"),
    "Scan": _control("runs its body; the body's operators count once for each scanned element"),
    "SequenceMap": _control("runs its body; the body's operators count once for each member of the sequence"),
}
