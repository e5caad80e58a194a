"""Shapes of operators of the standard that onnx infers nothing for: classical machine learning, gradients, and the
experimental operators of early versions, of which onnx itself knows nothing any more.
"""

from __future__ import annotations

import math

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import OPEN


def floats(call: Call) -> Types:
    """The shape of the first input, in floating point."""
    return [call.tensor("float32", call.ranked(0))]


def _rows(call: Call) -> int:
    """Number of samples: a vector is one."""
    shape = call.ranked(0)
    return shape[0] if len(shape) > 1 else 1


def linear(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), call.attribute("targets", 1)))]


def support_vectors(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), 1))]


def trees(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), call.attribute("n_targets", 1)))]


def tree_classes(call: Call) -> Types:
    words, numbers = (call.attribute(f"classlabels_{kind}", []) for kind in ("strings", "int64s"))
    rows = _rows(call)
    label = call.tensor("string" if words else "int64", [rows])
    return [label, call.tensor("float32", [rows, len(words or numbers)])]


def side_by_side(call: Call) -> Types:
    return [call.tensor("float32", (_rows(call), sum(call.attribute("inputdimensions", []))))]


def gradients(call: Call) -> Types:
    return [call.type_of(name) for name in call.attribute("xs", [])]


def cropped(call: Call) -> Types:
    """X is (N, C, H, W); border is left, top, right, bottom, and scale the height and width that stay."""
    x = call.ranked(0, 4)
    left, top, right, bottom = [*call.attribute("border", []), 0, 0, 0, 0][:4]
    size = call.attribute("scale", [])
    height, width = size if len(size) == 2 else (x[2] - top - bottom, x[3] - left - right)
    return [call.tensor(call.dtype(0), (*x[:2], height, width))]


def constant_filled(call: Call) -> Types:
    return [call.tensor(call.type_attribute("dtype", "float32"), _filled(call))]


def filled(call: Call) -> Types:
    return [call.tensor("float32" if call.attribute("input_as_shape", 0) else call.dtype(0), _filled(call))]


def _filled(call: Call) -> tuple[int, ...]:
    """As an attribute says, or like an input or as its elements say, and some extents more."""
    shape = call.attribute("shape", [])
    if shape or not call.has(0):
        return tuple(shape)
    more = tuple(call.attribute("extra_shape", []))
    if not call.attribute("input_as_shape", 0):
        return (*call.ranked(0), *more)
    return (*call.wholes(0), *more)


def sliced(call: Call) -> Types:
    """Starts, ends and axes are inputs, as they are of Slice since version 10."""
    types = [call.type(0), *[call.type(place) if call.has(place) else None for place in range(1, 4)]]
    values = [call.elements(place) if call.has(place) else None for place in range(1, 4)]
    return [call.tensor(call.dtype(0), call.ask("Slice", types, only=(), values=[None, *values]))]


def fully_connected(call: Call) -> Types:
    """X of any rank is a matrix, split before an axis; W is (outputs, inputs)."""
    x, axis = call.ranked(0), call.attribute("axis", 1)
    outputs = math.prod(call.ranked(1)[: call.attribute("axis_w", 1)])
    return [call.tensor(call.dtype(0), (math.prod(x[:axis]), outputs))]


def samples(call: Call) -> Types:
    """A number of outputs for each sample (TreeEnsemble)."""
    return [(call.shape(0)[0], call.attr("n_targets", 1))]


def classes(call: Call) -> Types:
    """A class for each sample, and a score for each class (LinearClassifier, SVMClassifier)."""
    names = [call.attr(f"classlabels_{kind}") or () for kind in ("strings", "int64s", "ints")]
    return [(_rows(call),), (_rows(call), max(map(len, names)) or 2)]


def class_types(call: Call) -> list[str | None]:
    """Classes are named by strings or integers."""
    return ["string" if call.attr("classlabels_strings") else "int64", "float32"]


def encoded(call: Call) -> Types:
    """A one at the place of each category."""
    return [(*call.shape(0), len(call.attr("cats_int64s") or call.attr("cats_strings") or ()))]


def vocabulary(call: Call) -> Types:
    """DictVectorizer: a place for each key."""
    return [(1, len(call.attr("int64_vocabulary") or call.attr("string_vocabulary") or ()))]


def map_values(call: Call) -> Types:
    """CastMap: as many places as a sparse map has at most; a dense one has as many as the data say."""
    return [(1, call.attr("max_map", 1) if call.attr("map_form") == "SPARSE" else OPEN)]


def map_type(call: Call) -> list[str | None]:
    """CastMap: the type that an attribute names."""
    return [{"TO_STRING": "string", "TO_INT64": "int64"}.get(call.attr("cast_to", "TO_FLOAT"), "float32")]


def label_type(call: Call) -> list[str | None]:
    """LabelEncoder: what it makes of integers are strings, and of strings integers, unless attributes say otherwise."""
    stored = call.constant("values_tensor") or call.constant("default_tensor")
    if stored is not None:
        return [stored.dtype]
    kinds = (("values_strings", "string"), ("values_int64s", "int64"), ("values_floats", "float32"))
    return [next((dtype for name, dtype in kinds if call.attr(name) is not None), mapped_type(call)[0])]


def mapped_type(call: Call) -> list[str | None]:
    """CategoryMapper: strings of integers, and integers of strings."""
    return ["string" if call.dtype(0) == "int64" else "int64"]


def updated(call: Call) -> Types:
    """Adagrad, Momentum, Adam: the tensors that are trained and their states, in the order of the inputs after R and T.

    Gradients lie between the tensors and the states.
    """
    kinds = 4 if call.op == "Adam" else 3
    count = (call.inputs - 2) // kinds
    places = [*range(2, 2 + count), *range(2 + 2 * count, 2 + kinds * count)]
    return [call.shape(place) for place in places]
