"""Shapes of fused products and of pointwise operators, and of those of the standard that onnx infers nothing for."""

from __future__ import annotations

import math

from flopwise.operators.shape import Call, ShapeRule, Types
from flopwise.operators.size import OPEN, Most, UnresolvedError, larger, smaller

# Shapes of products with packed or stored factors, and of Fourier transforms.


def columns(call: Call) -> Types:
    """The product with packed weights of N columns, or of K when it is transposed; what was added before follows."""
    columns = call.positive("N" if call.attribute("transB", 1) else "K")
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], columns)), call.type(0)]


def block_columns(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], call.ranked(1, 2)[0]))]


def given_columns(call: Call) -> Types:
    shape = call.wholes(2)
    if len(shape) != 2:
        raise UnresolvedError
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], shape[1]))]


def three_products(call: Call) -> Types:
    shape, dtype = call.ranked(0), call.dtype(0)
    columns = [call.positive(name) for name in ("Nq", "Nkv", "Nkv")]
    return [*(call.tensor(dtype, (*shape[:-1], n)) for n in columns), call.type(0)]


def router_and_expert(call: Call) -> Types:
    """The columns of the router, and half of those of the shared expert's gate and up."""
    shape, columns, router = call.ranked(0), call.ranked(1, 2)[1], call.positive("router_size")
    return [call.tensor(call.dtype(0), (*shape[:-1], n)) for n in (router, (columns - router) // 2)]


def group_router(call: Call) -> Types:
    """Scores of all experts, the tokens in one axis."""
    scores = (math.prod(call.ranked(0)[:-1]), call.ranked(1, 1)[0])
    full = call.tensor("float32", scores)
    return [call.tensor(call.dtype(0), scores), full, full]


def ordered_matmul(call: Call) -> Types:
    """The product of A and B in 8 bits; B's shape is that of the factor, however it is stored."""
    a, b = call.ranked(0, 2, 3), call.ranked(2, 2)
    return [call.tensor("int8", (*a[:-1], b[1]))]


def pairs(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (call.ranked(0, 2)[0], call.ranked(1, 2)[0]))]


def warping_path(call: Call) -> Types:
    """The row and column of each cell on the way; the longest one goes along one axis in every step."""
    rows, columns = call.ranked(0, 2, 3)[-2:]
    longest = larger(rows + columns - 1, 0)
    return [call.tensor("int32", (2, Most(longest, smaller(longest, larger(rows, columns)))))]


def _turned(call: Call, index: int, side: str) -> tuple[int, ...]:
    """The shape of a factor as MatMul takes it: a transposition of batches first, then one of the last two axes."""
    shape = call.ranked(index)
    if len(shape) > 1 and call.attribute(f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    if len(shape) > 1 and call.attribute(f"trans{side}", 0):
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def fused_matmul(call: Call) -> Types:
    factors = [call.tensor("float32", _turned(call, place, side)) for place, side in enumerate("AB")]
    dtype = call.dtype(1 if call.op == "SparseToDenseMatMul" else 0)
    return [call.tensor(dtype, call.ask("MatMul", factors, only=()))]


def gemm(call: Call) -> Types:
    """Gemm of two matrices, quantised (QGemm) or of 8-bit floats (GemmFloat8)."""
    quantized = call.op == "QGemm"
    factors = [call.tensor("float32", call.ranked(i, 2)) for i in ((0, 3) if quantized else (0, 1))]
    shape = call.ask("Gemm", factors, only=("transA", "transB"))
    dtype = (call.dtype(8) if call.has(8) else "float32") if quantized else call.type_attribute("dtype", "float32")
    return [call.tensor(dtype, shape)]


def transposed(call: Call) -> Types:
    """ConvTranspose, whose paddings are an input."""
    factors = [call.tensor("float32", call.ranked(place)) for place in (0, 1)]
    more = {"pads": call.wholes(2)} if call.has(2) else {}
    return [call.tensor(call.dtype(0), call.ask("ConvTranspose", factors, more=more))]


def spectrum(call: Call) -> Types:
    shape = call.ranked(0)
    bins = shape[-1] // 2 + 1 if call.attribute("onesided", 1) else shape[-1]
    return [call.tensor(call.dtype(0), (*shape[:-1], bins, 2))]


def signal(call: Call) -> Types:
    shape = call.ranked(0)
    length = 2 * (shape[-2] - 1) if call.attribute("onesided", 1) else shape[-2]
    return [call.tensor(call.dtype(0), (*shape[:-2], length))]


# Shapes of pointwise operators with extras, normalisations, and what converts types.


def _typed(dtype: str) -> ShapeRule:
    """The rule of a result of a given type that has the shape of the first input."""
    return lambda call: [call.tensor(dtype, call.ranked(0))]


def quantized(call: Call) -> Types:
    return [call.tensor(call.dtype(2) if call.has(2) else "uint8", call.ranked(0))]


def dequantized(call: Call) -> Types:
    return [call.tensor(call.dtype(1), call.ranked(0))]


def _typed_as(attribute: str) -> ShapeRule:
    """The rule of a result that has the shape of the first input and the type of an attribute."""
    return lambda call: [call.tensor(call.type_attribute(attribute, "float32"), call.ranked(0))]


def with_flags(call: Call) -> Types:
    return [call.type(0), call.tensor("bool", call.ranked(0))]


def with_bits(call: Call) -> Types:
    """The flags of 32 elements share an integer."""
    elements = 1
    for dim in call.ranked(0):
        elements *= dim
    return [call.type(0), call.tensor("uint32", [-(-elements // 32)])]


def skip_norm(call: Call) -> Types:
    shape = call.ranked(0)
    means = call.tensor("float32", (*shape[:-1], 1))
    return [call.type(0), means, means, call.type(0)]


def embedded(call: Call) -> Types:
    ids, words = call.ranked(0, 2), call.ranked(2, 2)
    dtype = call.dtype(8 if call.op == "QEmbedLayerNormalization" else 2)
    whole = call.tensor(dtype, (*ids, words[1]))
    return [whole, call.tensor("int32", ids[:1]), whole]


def halved(call: Call) -> Types:
    shape = call.ranked(0)
    return [call.tensor(call.dtype(0), (*shape[:-1], shape[-1] // 2))]


def gated(call: Call) -> Types:
    """As one half of the projection, which the first input holds whole where there is no second one."""
    return [call.type(0)] if call.has(1) else halved(call)


def norm_rotary(call: Call) -> Types:
    """The heads side by side; the norm by itself has them apart."""
    batch, length, heads, stride = call.ranked(0, 4)
    width = call.attribute("input_width", 0) or stride
    tokens = (1, batch * length) if call.attribute("flatten_batch", 0) else (batch, length)
    dtype = "float16" if call.attribute("output_fp16", 0) else "bfloat16"
    return [call.tensor(dtype, (*tokens, heads * width)), call.tensor("float32", (batch, length, heads, width))]


def scalar(call: Call) -> Types:
    return [call.tensor("bool", ())]


def blocks(call: Call) -> Types:
    """A type's own number of bytes; shapes and strides with a number for each axis."""
    rank = len(call.ranked(0))
    return [None, call.tensor("int64", (rank,)), call.tensor("int64", (rank,))]


def from_blocks(call: Call) -> Types:
    return [call.tensor(call.type_attribute("dtype", "float32"), call.wholes(1))]


to_int8 = _typed("int8")
typed_by_attribute = _typed_as("to")


# Shapes of operators of the standard that onnx infers nothing for: classical machine learning, gradients, and the
# experimental operators of early versions, of which onnx itself knows nothing any more.


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
