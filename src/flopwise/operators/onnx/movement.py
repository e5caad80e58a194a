"""Operators that move, select, convert or generate data and compute nothing, each with its reason; and those that
search or select by the data, whose work is bounded from above.
"""

from __future__ import annotations

from flopwise.graph import Dim, Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import DATA, LIKE, SETTING, WEIGHT, inputs
from flopwise.operators.operator import PICKS, Operator, by, each_input, nothing

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

OPERATORS: dict[str, Operator] = {
    # The same elements under another shape.
    "Reshape": nothing(
        "reads the same elements under another shape",
        gradient=gradient.GOES_BACK,
        view=views.always,
        carries="moved",
        shape=shape.by("reshaping:reshape"),
        value=shape.elements("structure:same"),
    ),
    "Flatten": nothing(
        "reads the same elements under another shape",
        gradient=gradient.GOES_BACK,
        view=views.always,
        carries="moved",
        shape=shape.by("reshaping:flatten"),
        value=shape.elements("structure:same"),
    ),
    "Squeeze": nothing(
        "reads the same elements under another shape",
        gradient=gradient.GOES_BACK,
        view=views.always,
        carries="moved",
        shape=shape.by("reshaping:squeeze"),
        value=shape.elements("structure:same"),
    ),
    "Unsqueeze": nothing(
        "reads the same elements under another shape",
        gradient=gradient.GOES_BACK,
        view=views.always,
        carries="moved",
        shape=shape.by("reshaping:unsqueeze"),
        value=shape.elements("structure:same"),
    ),
    "Identity": nothing(
        "passes its input on",
        gradient=gradient.GOES_BACK,
        view=views.always,
        carries="same",
        shape=shape.by("making:identity"),
    ),
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
    "Transpose": nothing(
        _ORDER,
        gradient=gradient.GOES_BACK,
        view=views.same_order,
        carries="moved",
        effects=frozenset({"strided"}),
        shape=shape.by("reshaping:transpose"),
        value=shape.elements("structure:transposed"),
    ),
    "DepthToSpace": nothing(
        _ORDER, gradient=gradient.GOES_BACK, carries="some", shape=shape.by("reshaping:depth_to_space")
    ),
    "SpaceToDepth": nothing(
        _ORDER, gradient=gradient.GOES_BACK, carries="some", shape=shape.by("reshaping:space_to_depth")
    ),
    "ReverseSequence": nothing(_ORDER, gradient=gradient.GOES_BACK, carries="some", shape=shape.alike),
    "Concat": nothing(
        _ORDER,
        gradient=gradient.GOES_BACK,
        view=views.of_one,
        shape=shape.by("reshaping:concat"),
        value=shape.elements("structure:joined", "some"),
    ),
    "Split": nothing(
        _ORDER,
        gradient=gradient.GOES_BACK,
        view=views.undivided,
        carries="some",
        effects=frozenset({"strided"}),
        shape=shape.by("reshaping:split"),
        value=shape.elements("structure:split"),
    ),
    "Expand": nothing(
        "repeats elements",
        gradient=gradient.by("movement:repeated", gradient.none),
        view=views.same_shape,
        carries="broadcast",
        effects=frozenset({"strided"}),
        shape=shape.by("reshaping:expand"),
        value=shape.elements("structure:expanded"),
    ),
    "Tile": nothing(
        "repeats elements",
        gradient=gradient.by("movement:repeated", gradient.none),
        view=views.same_shape,
        carries="some",
        shape=shape.by("reshaping:tile"),
        value=shape.elements("structure:tiled"),
    ),
    "Pad": nothing(
        "copies elements between borders that are filled or repeated",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.by("movement:pad", gradient.none),
        view=views.same_shape,
        carries="some",
        shape=shape.by("reshaping:pad"),
        value=shape.elements("structure:padded"),
    ),
    "CenterCropPad": nothing(
        "copies elements between borders that are filled or cropped",
        gradient=gradient.GOES_BACK,
        view=views.same_shape,
        shape=shape.by("reshaping:crop_pad"),
    ),
    "Trilu": nothing(
        "copies one triangle and fills the other with zeros",
        gradient=gradient.GOES_BACK,
        shape=shape.alike,
        value=shape.elements("structure:triangle"),
    ),
    # Elements picked by index.
    "Slice": nothing(
        _PICK,
        gradient=gradient.nothing("G goes back to the elements that were picked, each at most once"),
        view=views.unstepped,
        carries="some",
        effects=frozenset({"strided", "picks"}),
        shape=shape.by("picking:slice_"),
        value=shape.elements("structure:sliced"),
    ),
    "Gather": nothing(
        _PICK,
        inputs=inputs(WEIGHT),
        gradient=gradient.by("movement:picked", gradient.indices),
        carries="some",
        effects=PICKS,
        shape=shape.by("picking:gather"),
        value=shape.elements("structure:gathered"),
    ),
    "GatherElements": nothing(
        _PICK,
        gradient=gradient.by("movement:picked", gradient.indices),
        carries="some",
        effects=PICKS,
        shape=shape.by("picking:like_second"),
        value=shape.elements("structure:gathered_elements"),
    ),
    "GatherND": nothing(
        _PICK,
        gradient=gradient.by("movement:picked", gradient.indices),
        carries="some",
        effects=PICKS,
        shape=shape.by("picking:gather_nd"),
        value=shape.elements("structure:gathered_slices"),
    ),
    "Scatter": nothing(
        _OVERWRITE,
        gradient=gradient.by("movement:scatter", gradient.indices),
        effects=frozenset({"updates"}),
        shape=shape.alike,
    ),
    "ScatterElements": by(
        scatter,
        gradient=gradient.by("movement:scatter", gradient.indices),
        effects=frozenset({"updates"}),
        shape=shape.alike,
        value=shape.elements("structure:scattered"),
    ),
    "ScatterND": by(
        scatter,
        gradient=gradient.by("movement:scatter", gradient.indices),
        effects=frozenset({"updates"}),
        shape=shape.alike,
        value=shape.elements("structure:scattered_slices"),
    ),
    "TensorScatter": nothing(
        _OVERWRITE, gradient=gradient.GOES_BACK, effects=frozenset({"updates"}), shape=shape.alike
    ),
    "MaxUnpool": nothing(
        "copies elements to the places that indices name and fills the rest with zeros",
        gradient=gradient.GOES_BACK._replace(keeps=gradient.indices),
        shape=shape.by("windows:max_unpool"),
    ),
    "OneHot": nothing(
        "writes one of two values by index",
        inputs=inputs(DATA, SETTING, SETTING),
        effects=frozenset({"no gradient"}),
        shape=shape.by("picking:one_hot"),
        value=shape.elements("structure:one_hot"),
        dtype=2,
    ),
    # Types, shapes and values that are known beforehand.
    "Cast": nothing(
        _CONVERT,
        gradient=gradient.GOES_BACK,
        view=views.same_type,
        in_place=True,
        carries="same",
        shape=shape.alike,
        value=shape.elements("arithmetic:converted"),
        dtype=shape.dtype_of("to"),
    ),
    "CastLike": nothing(
        _CONVERT,
        inputs=inputs(DATA, LIKE),
        gradient=gradient.GOES_BACK,
        view=views.same_type,
        in_place=True,
        carries="same",
        shape=shape.alike,
        value=shape.elements("arithmetic:converted"),
        dtype=1,
    ),
    "BitCast": nothing(
        "reads the same bits as another type",
        gradient=gradient.GOES_BACK,
        shape=shape.alike,
        dtype=shape.dtype_of("to"),
    ),
    "ImageDecoder": nothing(
        "decodes a compressed image: the work of a file format, not of the model",
        shape=shape.by("making:image"),
        dtype="uint8",
    ),
    "Shape": nothing(
        _SHAPE,
        effects=frozenset({"shape query", "no gradient"}),
        shape=shape.by("making:shape_of"),
        value=shape.elements("structure:shape_of", "none"),
        dtype="int64",
    ),
    "Size": nothing(
        _SHAPE,
        effects=frozenset({"shape query", "no gradient"}),
        shape=shape.by("making:scalar"),
        value=shape.elements("structure:size_of", "none"),
        dtype="int64",
    ),
    "Constant": nothing(_FILL, shape=shape.by("making:constant")),
    "ConstantOfShape": nothing(
        _FILL,
        effects=frozenset({"no gradient"}),
        shape=shape.by("making:filled"),
        value=shape.elements("structure:filled", "none"),
        dtype=shape.dtypes("making:filled_type"),
    ),
    "EyeLike": nothing(_FILL, effects=frozenset({"no gradient"}), shape=shape.alike, dtype=shape.dtype_of("dtype", 0)),
    "Range": nothing(
        "numbers positions: an index sequence, not arithmetic on data",
        inputs=inputs(SETTING, SETTING, SETTING),
        effects=frozenset({"no gradient"}),
        shape=shape.by("making:counted"),
        value=shape.elements("structure:counted"),
    ),
    # Work that depends on the data.
    "TopK": by(
        top_k,
        "bound",
        inputs=inputs(DATA, SETTING),
        gradient=gradient.nothing("G goes back to the elements that were picked, each at most once", gradient.picks),
        shape=shape.by("picking:top_k"),
        value=shape.elements("structure:sorted_first"),
        dtype=(0, "int64"),
    ),
    "Unique": by(
        unique,
        "bound",
        shape=shape.by("picking:unique"),
        value=shape.elements("selection:unique", "some"),
        dtype=(0, "int64"),
    ),
    "NonZero": each_input(
        Counts(cmp=1),
        note="each element is compared with zero; how many pass depends on the data",
        claim="bound",
        effects=frozenset({"no gradient"}),
        shape=shape.by("picking:non_zero"),
        value=shape.elements("structure:non_zero"),
        dtype="int64",
    ),
    "Compress": by(
        compress,
        "bound",
        gradient=gradient.nothing("G goes back to the elements that were picked, each at most once", gradient.indices),
        shape=shape.by("picking:compress"),
        value=shape.elements("structure:kept"),
    ),
    "NonMaxSuppression": by(
        non_max_suppression,
        "bound",
        effects=frozenset({"no gradient"}),
        shape=shape.by("picking:suppression"),
        value=shape.elements("selection:suppressed", "some"),
        dtype="int64",
    ),
}
