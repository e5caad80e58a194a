"""A TensorFlow Lite model as the file holds it: its subgraphs, and where the buffers lie.

The names are those of tensorflow/compiler/mlir/lite/schema/schema.fbs, version 3c (TensorFlow 2.18).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.sources.flatbuffer import Extent, FlatBuffer
from flopwise.formats.sources.schema import Message, schema
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.storage import SourceStorage

#: What stands at the second four bytes of a model.
IDENTIFIER = b"TFL3"

#: Codes of builtin operators up to this one may stand in the first field, which has eight bits.
_OLD_CODES = 127

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

WHAT = "TensorFlow Lite model"

_TABLES = """
Model: operator_codes 1 OperatorCode*, subgraphs 2 SubGraph*, description 3 text, buffers 4 Buffer*, \
metadata 6 Metadata*, signatures 7 SignatureDef*
OperatorCode: old 0 b, custom 1 text, code 3 i
Buffer: data 0 @B, offset 1 Q, size 2 Q
Metadata: name 0 text, buffer 1 I
SignatureDef: name 2 text, subgraph 4 I
SubGraph: tensors 0 Tensor*, inputs 1 i*, outputs 2 i*, operators 3 Operator*, name 4 text
Tensor: shape 0 i*, type 1 b, buffer 2 I, name 3 text, quantization 4 Quantization, variable 5 ?, \
sparsity 6 Sparsity, signature 7 i*
Quantization: scales 2 f*, scales_at 2 @f, zeros 3 q*, zeros_at 3 @q, axis 6 i
Sparsity: order 0 i*, blocks 1 i*, levels 2 Level*
Level: format 0 b, size 1 i=1, segments_type 2 B, segments 3 table, indices_type 4 B, indices 5 table
Ints: values 0 i*
Shorts: values 0 H*
Bytes: values 0 B*
Operator: code 0 I, inputs 1 i*, outputs 2 i*, options 4 table, options_2 12 table
"""

#: The fields of options that counts, shapes or names follow from, by operator; the others are left unread.
_OPTIONS = """
ADD SUB MUL DIV L2_NORMALIZATION RNN: activation 0 b
AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D: padding 0 b, stride_w 1 i, stride_h 2 i, width 3 i, height 4 i, activation 5 b
CONV_2D: padding 0 b, stride_w 1 i, stride_h 2 i, activation 3 b, dilation_w 4 i=1, dilation_h 5 i=1
DEPTHWISE_CONV_2D: padding 0 b, stride_w 1 i, stride_h 2 i, activation 4 b, dilation_w 5 i=1, dilation_h 6 i=1
TRANSPOSE_CONV: padding 0 b, stride_w 1 i, stride_h 2 i, activation 3 b
CONV_3D CONV_3D_TRANSPOSE: padding 0 b, stride_d 1 i, stride_w 2 i, stride_h 3 i, activation 4 b, dilation_d 5 i=1, \
dilation_w 6 i=1, dilation_h 7 i=1
FULLY_CONNECTED: activation 0 b, shuffled 1 b, keep_num_dims 2 ?
BATCH_MATMUL: adj_x 0 ?, adj_y 1 ?
CONCATENATION: axis 0 i, activation 1 b
LEAKY_RELU: alpha 0 f
GELU: approximate 0 ?
LOCAL_RESPONSE_NORMALIZATION: radius 0 i
RESHAPE: shape 0 i*
SQUEEZE: axes 0 i*
STRIDED_SLICE: begin_mask 0 i, end_mask 1 i, ellipsis_mask 2 i, new_axis_mask 3 i, shrink_axis_mask 4 i, offset 5 ?
GATHER: axis 0 i, batch_dims 1 i
PACK UNPACK: axis 1 i
ONE_HOT: axis 0 i
SPACE_TO_DEPTH DEPTH_TO_SPACE: blocksize 0 i
RESIZE_BILINEAR: align_corners 2 ?, half_pixel 3 ?
RESIZE_NEAREST_NEIGHBOR: align_corners 0 ?, half_pixel 1 ?
REVERSE_SEQUENCE: time_axis 0 i, batch_axis 1 i
CUMSUM: exclusive 0 ?, reverse 1 ?
MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL: keep_dims 0 ?
UNIDIRECTIONAL_SEQUENCE_RNN: time_major 0 ?, activation 1 b
BIDIRECTIONAL_SEQUENCE_RNN: time_major 0 ?, activation 1 b, merge 2 ?
LSTM: activation 0 b, basic 3 b
UNIDIRECTIONAL_SEQUENCE_LSTM: activation 0 b, time_major 3 ?
BIDIRECTIONAL_SEQUENCE_LSTM: activation 0 b, merge 3 ?, time_major 4 ?=1
SVDF: rank 0 i, activation 1 b
CALL: body 0 I
CALL_ONCE: body 0 i
IF WHILE STABLEHLO_WHILE: cond 0 i, body 1 i
STABLEHLO_COMPOSITE: body 1 i
EMBEDDING_LOOKUP_SPARSE: combiner 0 b
BUCKETIZE: boundaries 0 @f
"""

OPTIONS = schema(_OPTIONS)
_SCHEMA = {**schema(_TABLES), **OPTIONS}

#: What an operator without a table of options has.
_DEFAULTS = {
    op: {field.name: () if field.many else (0, 0) if field.kind[0] == "@" else field.default for field in fields}
    for op, fields in OPTIONS.items()
}


class Quantization(NamedTuple):
    """Scales and zero points by which a tensor stands for real numbers: scale × (element − zero point)."""

    #: Where the scales lie, how many there are (one, or one for each index along ``axis``), and the first of them.
    scales: Extent
    number: int
    scale: float
    #: Zero points; where they lie.
    zero_points: tuple[int, ...]
    zeros: Extent
    axis: int

    @property
    def shifted(self) -> bool:
        """True where a zero point is not 0."""
        return any(self.zero_points)


class Level(NamedTuple):
    """One level of a sparse tensor: a dense axis, or one of which the indices are listed."""

    #: The extent of a dense axis; -1 where the indices are listed.
    size: int
    segments: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()


class Sparsity(NamedTuple):
    """The order in which a sparse tensor is stored: axes first, then those of blocks."""

    order: tuple[int, ...]
    #: The axes that blocks are cut from.
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]


class Tensor(NamedTuple):
    """A tensor of a subgraph."""

    name: str
    shape: tuple[int, ...]
    #: The same with -1 for each extent that a caller chooses, or the data decide.
    signature: tuple[int, ...]
    dtype: str
    #: Where its elements lie; None for a tensor without any in the file.
    data: Extent | None
    quantization: Quantization | None
    #: Whether it keeps its elements from one call to the next.
    variable: bool
    sparsity: Sparsity | None


class Operator(NamedTuple):
    """One operator of a subgraph."""

    #: The builtin operator's name, or CUSTOM.
    op: str
    #: The name of a custom operator.
    custom: str
    #: Positions in the subgraph's tensors; -1 for one that is left out.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]


class Subgraph(NamedTuple):
    """One graph: that of the model, or of a control flow."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


class Model(NamedTuple):
    """All of a file but the elements of its tensors."""

    description: str
    subgraphs: tuple[Subgraph, ...]
    #: Where the metadata of each name lie.
    metadata: Mapping[str, Extent]
    #: Name of a signature -> its subgraph.
    signatures: Mapping[str, int]


def read_model(source: Source, start: int = 0, size: int | None = None) -> Model:
    """The model in a file, or in a part of it.

    Raises:
        ModelError: it makes no sense.
    """
    buffer = FlatBuffer(source, start, source.size - start if size is None else size, _SCHEMA, WHAT)
    return _Reader(buffer).model()


class _Reader:
    """The tables of one file."""

    def __init__(self, buffer: FlatBuffer) -> None:
        self.buffer = buffer
        self.root = buffer.root("Model")
        self.buffers = [self._buffer(table) for table in self.root["buffers"]]
        self.codes = [self._code(table) for table in self.root["operator_codes"]]

    def model(self) -> Model:
        subgraphs = tuple([self._subgraph(table) for table in self.root["subgraphs"]])
        if not subgraphs:
            raise self.buffer.error("it has no subgraph")
        entries = [(table["name"], self._of(table["buffer"])) for table in self.root["metadata"]]
        return Model(
            self.root["description"],
            subgraphs,
            {name: extent for name, extent in entries if extent is not None},
            {table["name"]: table["subgraph"] for table in self.root["signatures"]},
        )

    def _of(self, place: int) -> Extent | None:
        """The elements of a buffer."""
        if place >= len(self.buffers):
            raise self.buffer.error(f"buffer {place} is named, but there are {len(self.buffers)}")
        return self.buffers[place]

    def _buffer(self, table: Message) -> Extent | None:
        """Where a buffer's bytes lie; in a file of more than 2 GB behind the flatbuffer. None for an empty one."""
        start, count = table["data"]
        if not count and table["offset"] > 1:
            start, count = table["offset"], table["size"]
            if start + count > self.buffer.size:
                raise self.buffer.error(f"a buffer ends at byte {start + count:,}, the file at {self.buffer.size:,}")
        return self._extent(start, count) if count else None

    def _extent(self, start: int, nbytes: int) -> Extent:
        return Extent(self.buffer.start + start, self.buffer.start + start + nbytes)

    def _code(self, table: Message) -> tuple[str, str]:
        """The operator that a code stands for, and the name of a custom one."""
        old, code = table["old"], table["code"] or table["old"]
        code = max(old, code) if old < _OLD_CODES else code
        if not 0 <= code < len(BUILTIN):
            raise self.buffer.error(f"builtin operator {code}; the newest that is known is {len(BUILTIN) - 1}")
        return BUILTIN[code], table["custom"]

    def _subgraph(self, table: Message) -> Subgraph:
        tensors = tuple([self._tensor(one) for one in table["tensors"]])
        inputs, outputs = table["inputs"], table["outputs"]
        operators = tuple([self._operator(one) for one in table["operators"]])
        for place in (*inputs, *outputs, *(p for o in operators for p in (*o.inputs, *o.outputs))):
            if not -1 <= place < len(tensors):
                raise self.buffer.error(f"tensor {place} is named, but there are {len(tensors)}")
        return Subgraph(table["name"], tensors, inputs, outputs, operators)

    def _tensor(self, table: Message) -> Tensor:
        name, shape, code = table["name"], table["shape"], table["type"]
        if any(extent < 0 for extent in shape):
            raise self.buffer.error(f"tensor {name!r} has the shape {list(shape[:8])}")
        if not 0 <= code < len(DTYPES):
            raise self.buffer.error(f"tensor {name!r} has the element type {code}")
        quantization, sparsity = table["quantization"], table["sparsity"]
        return Tensor(
            name,
            shape,
            table["signature"] or shape,
            DTYPES[code],
            self._of(table["buffer"]),
            self._quantization(quantization) if quantization and quantization["scales"] else None,
            table["variable"],
            sparsity and Sparsity(sparsity["order"], sparsity["blocks"], tuple(map(self._level, sparsity["levels"]))),
        )

    def _quantization(self, table: Message) -> Quantization:
        (scales, count), (zeros, zero_count) = table["scales_at"], table["zeros_at"]
        places = self._extent(scales, 4 * count), self._extent(zeros, 8 * zero_count)
        return Quantization(places[0], count, table["scales"][0], table["zeros"], places[1], table["axis"])

    def _level(self, table: Message) -> Level:
        """A level of a sparse tensor; vectors of 32, 16 or 8 bits are what the field before each says."""
        if table["format"] == 0:
            return Level(table["size"])
        kinds = {1: "Ints", 2: "Shorts", 3: "Bytes"}
        indices: list[tuple[int, ...]] = []
        for side in ("segments", "indices"):
            kind, at = kinds.get(table[f"{side}_type"]), table[side]
            indices.append(self.buffer.table(kind, at)["values"] if kind and at else ())
        return Level(-1, *indices)

    def _operator(self, table: Message) -> Operator:
        if table["code"] >= len(self.codes):
            raise self.buffer.error(f"operator code {table['code']} is named, but there are {len(self.codes)}")
        op, custom = self.codes[table["code"]]
        at = table["options"] or table["options_2"]
        options: Mapping[str, Any] = {}
        if op in OPTIONS:
            options = self.buffer.table(op, at) if at else _DEFAULTS[op]
        if op == "BUCKETIZE":  # how many they are
            options = {"boundaries": options["boundaries"][1]}
        return Operator(op, custom if op == CUSTOM else "", table["inputs"], table["outputs"], options)


# The elements of sparse tensors with their zeros.


def dense(what: str, tensor: Tensor, storage: SourceStorage) -> Any:
    """The elements of a sparse tensor with its zeros.

    Raises:
        ModelError: its levels make no sense.
    """
    import numpy

    assert tensor.data is not None
    assert tensor.sparsity is not None
    dtype = numpy.dtype("<u2" if tensor.dtype == "bfloat16" else tensor.dtype)
    data = numpy.frombuffer(storage.read(*tensor.data), dtype)
    try:
        places = _places(tensor.shape, tensor.sparsity, data.size)
    except (IndexError, ValueError) as error:
        raise ModelError(f"{what}: makes no sense ({error})") from error
    dense = numpy.zeros(math.prod(tensor.shape), dtype)
    dense[places] = data[: places.size]
    return dense.reshape(tensor.shape)


def _places(shape: tuple[int, ...], sparsity: Sparsity, stored: int) -> Any:
    """Where each stored element lies in the dense tensor, in row-major order.

    tensorflow/lite/kernels/internal/utils/sparsity_format_converter.cc

    Raises:
        ValueError: levels, orders and shapes do not go together.
    """
    import numpy

    order, blocks, levels = sparsity
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise ValueError("its axes are in no order")
    positions = numpy.zeros(1, numpy.int64)
    indices: list[Any] = []
    for level in levels:
        if level.size >= 0:
            parents = numpy.repeat(numpy.arange(positions.size), level.size)
            steps = numpy.tile(numpy.arange(level.size), positions.size)
            children = positions[parents] * level.size + steps
        else:
            segments, listed = numpy.array(level.segments, numpy.int64), numpy.array(level.indices, numpy.int64)
            counts = segments[positions + 1] - segments[positions]
            if counts.min(initial=0) < 0 or counts.sum() > listed.size:
                raise ValueError("its segments overlap")
            parents = numpy.repeat(numpy.arange(positions.size), counts)
            starts = numpy.repeat(segments[positions] - numpy.cumsum(counts) + counts, counts)
            children = starts + numpy.arange(parents.size)
            steps = listed[children]
        if parents.size > stored:
            raise ValueError("its levels have more elements than are stored")
        indices = [*(one[parents] for one in indices), steps]
        positions = children
    by_axis = dict(zip(order, indices, strict=True))
    sizes = dict(zip(order, (level.size for level in levels), strict=True))
    places = numpy.zeros(positions.size, numpy.int64)
    for axis, extent in enumerate(shape):
        index = by_axis[axis]
        for place, block in enumerate(blocks):
            if block == axis:
                index = index * sizes[rank + place] + by_axis[rank + place]
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < extent:
            raise ValueError("an index lies outside")
        places = places * extent + index
    return places
