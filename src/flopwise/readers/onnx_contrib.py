"""Shapes of onnxruntime's operators (``com.microsoft``), which onnx does not know.

Where such an operator is a standard one with extras, onnx's own rule for its twin is asked.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import onnx
from onnx import TypeProto, defs, shape_inference

from flopwise.readers.onnx_types import concrete, tensor_type

#: What is known about the type of a value, and its elements if they are few and known; else None.
TypeOf = Callable[[str], "TypeProto | None"]
ValueOf = Callable[[str], Any]

_FLOAT, _INT32, _INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64
_UINT8, _BOOL = onnx.TensorProto.UINT8, onnx.TensorProto.BOOL

DOMAIN = "com.microsoft"


def infer(node: onnx.NodeProto, type_of: TypeOf, value_of: ValueOf) -> dict[str, TypeProto]:
    """The types of a node's outputs; empty when nothing is known.

    Args:
        node: a node of a domain that onnx does not know.
        type_of: the type of a value by name.
        value_of: the elements of a small value by name.
    """
    place = _Place(node, type_of, value_of)
    if node.domain == "" and node.op_type == "SimplifiedLayerNormalization":
        return _named(node, _same(place))
    if node.domain != DOMAIN:
        return {}
    if node.op_type in _TWINS:
        return _twin(place, *_TWINS[node.op_type])
    rule = _RULES.get(node.op_type)
    return {} if rule is None else _named(node, rule(place))


def _named(node: onnx.NodeProto, types: list[TypeProto | None]) -> dict[str, TypeProto]:
    return {o: t for o, t in zip(node.output, types, strict=False) if o and t is not None}


class _Place:
    """A node, and what is known about its inputs."""

    def __init__(self, node: onnx.NodeProto, type_of: TypeOf, value_of: ValueOf) -> None:
        self.node = node
        self.type_of = type_of
        self.value_of = value_of

    def name(self, index: int) -> str:
        return self.node.input[index] if index < len(self.node.input) else ""

    def type(self, index: int) -> TypeProto | None:
        return self.type_of(self.name(index)) if self.name(index) else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        found = self.type(index)
        return None if found is None else concrete(found)

    def code(self, index: int) -> int:
        found = self.type(index)
        return _FLOAT if found is None or tensor_type(found) is None else int(tensor_type(found).elem_type)

    def number(self, index: int) -> int | None:
        """The one element of an input, None when it is not known."""
        value = self.value_of(self.name(index)) if self.name(index) else None
        return int(value.ravel()[0]) if isinstance(value, numpy.ndarray) and value.size == 1 else None

    def attribute(self, name: str, default: Any) -> Any:
        return next((onnx.helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)


def _make(code: int, dims: Any) -> TypeProto:
    made: TypeProto = onnx.helper.make_tensor_type_proto(code, list(dims))
    return made


#: Operators that are a standard one with extras: that one, the places of its inputs, and attributes that it has not.
_TWINS: dict[str, tuple[str, tuple[int, ...], tuple[str, ...]]] = {
    "FusedConv": ("Conv", (0, 1, 2), ("activation", "activation_params")),
    "FusedGemm": ("Gemm", (0, 1, 2), ("activation", "activation_alpha", "activation_beta", "activation_gamma")),
    "Gelu": ("Relu", (0,), ()),
    "GatherND": ("GatherND", (0, 1), ()),
    "GridSample": ("GridSample", (0, 1), ("mode",)),
    "Pad": ("Pad", (0, 1, 2), ()),
    "Range": ("Range", (0, 1, 2), ()),
    "Trilu": ("Trilu", (0, 1), ()),
    "MaxpoolWithMask": ("MaxPool", (0,), ()),
    "DequantizeLinear": ("DequantizeLinear", (0, 1, 2), ()),
    "QuantizeLinear": ("QuantizeLinear", (0, 1, 2), ()),
    "QLinearAveragePool": ("AveragePool", (0,), ("channels_last",)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), ("channels_last",)),
    "QLinearAdd": ("Add", (0, 3), ()),
    "QLinearMul": ("Mul", (0, 3), ()),
    "MulInteger": ("Mul", (0, 2), ()),
    "QLinearWhere": ("Where", (0, 1, 4), ()),
    "GemmFastGelu": ("MatMul", (0, 1), ()),
    "MatMulIntegerToFloat": ("MatMulInteger", (0, 1), ()),
}

#: Types that onnx's rule for a twin does not take, and those that stand in for them.
_STAND_IN: dict[int, int] = {onnx.TensorProto.UINT8: _FLOAT, onnx.TensorProto.INT8: _FLOAT}


def _twin(place: _Place, op: str, places: tuple[int, ...], without: tuple[str, ...]) -> dict[str, TypeProto]:
    """What onnx says of the standard operator."""
    node = place.node
    integer = op not in ("DequantizeLinear", "QuantizeLinear", "MatMulInteger", "Where", "Range", "Pad")
    last = place.node.op_type in ("QLinearAveragePool", "QLinearGlobalAveragePool") and place.attribute(
        "channels_last", 0
    )
    new = onnx.helper.make_node(op, [place.name(i) for i in places], list(node.output[:1]))
    new.attribute.extend(a for a in node.attribute if a.name not in without)
    while new.input and not new.input[-1]:
        del new.input[-1]
    types: dict[str, TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index in places:
        name, found = place.name(index), place.type(index)
        if not name or name in types:
            continue
        if found is None:
            return {}
        code = place.code(index)
        shape = concrete(found)
        if last and index == 0 and shape is not None:
            found = _make(code, (shape[0], shape[-1], *shape[1:-1]))
        if integer and code in _STAND_IN:
            copied = TypeProto()
            copied.CopyFrom(found)
            copied.tensor_type.elem_type = _STAND_IN[code]
            found = copied
        types[name] = found
        value = place.value_of(name)
        if isinstance(value, numpy.ndarray) and not (integer and code in _STAND_IN):
            data[name] = onnx.numpy_helper.from_array(value, name)
    schema = defs.get_schema(op, _OPSET)
    opset = [onnx.helper.make_opsetid("", _OPSET)]
    found_types = shape_inference.infer_node_outputs(schema, new, types, data, opset_imports=opset)
    made: dict[str, TypeProto] = {}
    for name, found in found_types.items():
        copied = TypeProto()
        copied.CopyFrom(found)
        if integer and node.op_type not in ("FusedConv", "FusedGemm"):
            copied.tensor_type.elem_type = place.code(places[0])
        if node.op_type == "MatMulIntegerToFloat":
            copied.tensor_type.elem_type = place.code(2)
        shape = concrete(copied)
        if last and shape is not None:
            copied = _make(copied.tensor_type.elem_type, (shape[0], *shape[2:], shape[1]))
        made[name] = copied
    return made


#: The operator set whose rules are asked; its Range, Pad and pooling take what onnxruntime's take.
_OPSET = 17


def _same(place: _Place) -> list[TypeProto | None]:
    return [place.type(0)]


def _all_same(place: _Place) -> list[TypeProto | None]:
    return [place.type(0)] * len(place.node.output)


def _with_mask(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    return [place.type(0), None if shape is None else _make(_BOOL, shape)]


def _matmul(place: _Place, a: tuple[int, ...] | None, b: tuple[int, ...] | None, code: int) -> list[TypeProto | None]:
    if a is None or b is None or len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return []
    batch = numpy.broadcast_shapes(a[:-2], b[:-2])
    return [_make(code, (*batch, a[-2], b[-1]))]


def _fused_matmul(place: _Place) -> list[TypeProto | None]:
    def turned(shape: tuple[int, ...] | None, side: str) -> tuple[int, ...] | None:
        if shape is None or len(shape) < 2:
            return shape
        if place.attribute(f"transBatch{side}", 0):
            shape = (*shape[1:-1], shape[0], shape[-1])
        return (*shape[:-2], shape[-1], shape[-2]) if place.attribute(f"trans{side}", 0) else shape

    return _matmul(place, turned(place.shape(0), "A"), turned(place.shape(1), "B"), place.code(0))


def _dynamic_matmul(place: _Place) -> list[TypeProto | None]:
    return _matmul(place, place.shape(0), place.shape(1), place.code(0))


def _integer_matmul(place: _Place) -> list[TypeProto | None]:
    return _matmul(place, place.shape(0), place.shape(1), _INT32)


def _q_gemm(place: _Place) -> list[TypeProto | None]:
    a, b = place.shape(0), place.shape(3)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return []
    a = a[::-1] if place.attribute("transA", 0) else a
    b = b[::-1] if place.attribute("transB", 0) else b
    return _matmul(place, a, b, place.code(8) if place.name(8) else _FLOAT)


def _packed_matmul(place: _Place) -> list[TypeProto | None]:
    shape, columns = place.shape(0), place.attribute("N", 0)
    return [] if not shape or columns < 1 else [_make(place.code(0), (*shape[:-1], columns))]


def _block_matmul(place: _Place) -> list[TypeProto | None]:
    shape, weights = place.shape(0), place.shape(1)
    return [] if not shape or not weights else [_make(place.code(0), (*shape[:-1], weights[0]))]


def _packed_qkv(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    if not shape:
        return []
    columns = [place.attribute(name, 0) for name in ("Nq", "Nkv", "Nkv")]
    return [*(_make(place.code(0), (*shape[:-1], n)) for n in columns), place.type(0)]


def _fp4_matmul(place: _Place) -> list[TypeProto | None]:
    shape, value = place.shape(0), place.value_of(place.name(2)) if place.name(2) else None
    if not shape or not isinstance(value, numpy.ndarray) or value.size != 2:
        return []
    return [_make(place.code(0), (*shape[:-1], int(value.ravel()[1])))]


def _nhwc_conv(place: _Place) -> list[TypeProto | None]:
    x = place.shape(0)
    if x is None or len(x) < 3:
        return []
    moved = _make(place.code(0), (x[0], x[-1], *x[1:-1]))
    weights = place.shape(1)
    if weights is None:
        return []
    if place.node.op_type != "NhwcMaxPool":
        weights = (weights[0], weights[-1], *weights[1:-1])
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    node.attribute.extend(a for a in place.node.attribute if not a.name.startswith("activation"))
    return _channels_last(node, {"x": moved, "w": _make(place.code(1), weights)}, place.code(0))


def _nhwc_pool(place: _Place) -> list[TypeProto | None]:
    x = place.shape(0)
    if x is None or len(x) < 3:
        return []
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"])
    node.attribute.extend(place.node.attribute)
    return _channels_last(node, {"x": _make(_FLOAT, (x[0], x[-1], *x[1:-1]))}, place.code(0))


def _channels_last(node: onnx.NodeProto, types: dict[str, TypeProto], code: int) -> list[TypeProto | None]:
    for found in types.values():
        found.tensor_type.elem_type = _FLOAT
    schema = defs.get_schema(node.op_type, _OPSET)
    opset = [onnx.helper.make_opsetid("", _OPSET)]
    y = shape_inference.infer_node_outputs(schema, node, types, {}, opset_imports=opset)["y"]
    shape = concrete(y)
    return [] if shape is None else [_make(code, (shape[0], *shape[2:], shape[1]))]


def _q_conv(place: _Place) -> list[TypeProto | None]:
    x, weights = place.shape(0), place.shape(3)
    if x is None or weights is None or len(x) < 3:
        return []
    last = bool(place.attribute("channels_last", 0))
    moved = (x[0], x[-1], *x[1:-1]) if last else x
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    node.attribute.extend(a for a in place.node.attribute if a.name != "channels_last")
    schema = defs.get_schema("Conv", _OPSET)
    types = {"x": _make(_FLOAT, moved), "w": _make(_FLOAT, weights)}
    y = shape_inference.infer_node_outputs(
        schema, node, types, {}, opset_imports=[onnx.helper.make_opsetid("", _OPSET)]
    )
    shape = concrete(y["y"])
    if shape is None:
        return []
    return [_make(place.code(7), (shape[0], *shape[2:], shape[1]) if last else shape)]


def _q_concat(place: _Place) -> list[TypeProto | None]:
    shapes = [place.shape(i) for i in range(2, len(place.node.input), 3)]
    whole = [s for s in shapes if s is not None]
    axis = place.attribute("axis", 0)
    if len(whole) < len(shapes) or not whole or not -len(whole[0]) <= axis < len(whole[0]):
        return []
    dims = list(whole[0])
    dims[axis] = sum(s[axis] for s in whole)
    return [_make(place.code(2), dims)]


def _reduced(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    if shape is None:
        return []
    axes = {a % len(shape) for a in place.attribute("axes", range(len(shape)))} if shape else set()
    keep = place.attribute("keepdims", 1)
    dims = [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]
    return [_make(_INT32 if place.node.op_type == "ReduceSumInteger" else place.code(0), dims)]


def _attention(place: _Place) -> list[TypeProto | None]:
    x, weights = place.shape(0), place.shape(1)
    if not x or not weights:
        return []
    heads, sizes = place.attribute("num_heads", 0), list(place.attribute("qkv_hidden_sizes", []))
    sizes = sizes or [weights[-1] // 3] * 3
    quantized = place.node.op_type == "QAttention"
    code = place.code(3 if quantized else 0)
    made: list[TypeProto | None] = [_make(code, (*x[:-1], sizes[-1]))]
    past = place.shape(8 if quantized else 4)
    if len(x) == 3 and heads > 0:
        shared = place.attribute("past_present_share_buffer", 0)
        total = (past[3] if past and len(past) == 5 else 0) + (0 if past and shared else x[1])
        made.append(_make(code, (2, x[0], heads, total, sizes[0] // heads)))
    return made


def _multi_head(place: _Place) -> list[TypeProto | None]:
    masked = place.node.op_type == "DecoderMaskedMultiHeadAttention"
    query, key, value = place.shape(0), place.shape(1), place.shape(2)
    heads, code = place.attribute("num_heads", 0), place.code(0)
    if not query or heads < 1:
        return []
    if len(query) == 5:
        batch, length, _, _, size = query
        total, value_size = length, size
    elif len(query) == 3:
        batch, length, width = query
        size = value_size = width // heads
        total = length
        if key:
            total = key[2] if len(key) == 4 else key[1]
        if value:
            value_size = value[-1] if len(value) == 4 else value[-1] // heads
    else:
        return []
    past = place.shape(5 if masked else 6)
    if past and len(past) == 4:
        shared = masked and place.attribute("past_present_share_buffer", 0)
        total = past[2] + (0 if shared else total)
    present = [_make(code, (batch, heads, total, s)) for s in (size, value_size)]
    return [_make(code, (batch, length, heads * value_size)), *present, _make(code, (batch, heads, length, total))]


def _grouped(place: _Place) -> list[TypeProto | None]:
    query, key, past = place.shape(0), place.shape(1), place.shape(3)
    heads, groups = place.attribute("num_heads", 0), place.attribute("kv_num_heads", 0)
    if not query or len(query) != 3 or heads < 1 or groups < 1:
        return []
    size = query[2] // (heads if place.name(1) else heads + 2 * groups)
    new = query[1] if not key or len(key) != 3 else key[1]
    made: list[TypeProto | None] = [_make(place.code(0), (query[0], query[1], heads * size))]
    total = place.number(6 if place.node.op_type == "GroupQueryAttention" else 7)
    capacity = past[2] if past and len(past) == 4 else 0
    if place.node.op_type == "SparseAttention":
        return [*made, place.type(3), place.type(4)]
    length = max(capacity, total) if total is not None else capacity + new if capacity else new
    present = (query[0], groups, length, size)
    code = place.code(3) if place.name(3) else place.code(0)
    return [*made, _make(code, present), _make(code, present)]


def _paged(place: _Place) -> list[TypeProto | None]:
    query = place.shape(0)
    heads, groups = place.attribute("num_heads", 0), place.attribute("kv_num_heads", 0)
    if not query or heads < 1:
        return []
    size = query[-1] // (heads if place.name(1) else heads + 2 * groups)
    return [_make(place.code(0), (query[0], heads * size)), place.type(3), place.type(4)]


def _packed_heads(place: _Place) -> list[TypeProto | None]:
    query, value = place.shape(0), place.shape(2)
    if not query:
        return []
    if len(query) == 4:
        return [_make(place.code(0), (query[0], query[1] * query[3]))]
    return [_make(place.code(0), (query[0], value[-1] if value else query[-1]))]


def _packed_attention(place: _Place) -> list[TypeProto | None]:
    x, weights = place.shape(0), place.shape(1)
    if not x or not weights:
        return []
    sizes = list(place.attribute("qkv_hidden_sizes", [])) or [weights[-1] // 3] * 3
    return [_make(place.code(0), (*x[:-1], sizes[-1]))]


def _skip_norm(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    means = None if not shape else _make(_FLOAT, (*shape[:-1], 1))
    return [place.type(0), means, means, place.type(0)]


def _embedded(place: _Place) -> list[TypeProto | None]:
    ids, words = place.shape(0), place.shape(2)
    if not ids or not words:
        return []
    code = place.code(8) if place.node.op_type == "QEmbedLayerNormalization" else place.code(2)
    whole = _make(code, (*ids, words[-1]))
    return [whole, _make(_INT32, ids[:1]), whole]


def _halved(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    return [] if not shape else [_make(place.code(0), (*shape[:-1], shape[-1] // 2))]


def _expanded(place: _Place) -> list[TypeProto | None]:
    shape, axis = place.shape(0), place.number(1)
    if shape is None or axis is None or not -len(shape) - 1 <= axis <= len(shape):
        return []
    dims = list(shape)
    dims.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return [_make(place.code(0), dims)]


def _pairs(place: _Place) -> list[TypeProto | None]:
    a, b = place.shape(0), place.shape(1)
    return [] if not a or not b else [_make(place.code(0), (a[0], b[0]))]


def _rfft(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    if not shape:
        return []
    last = shape[-1] // 2 + 1 if place.attribute("onesided", 1) else shape[-1]
    return [_make(place.code(0), (*shape[:-1], last, 2))]


def _irfft(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    if not shape or len(shape) < 2:
        return []
    last = 2 * (shape[-2] - 1) if place.attribute("onesided", 1) else shape[-2]
    return [_make(place.code(0), (*shape[:-2], last))]


def _looked_up(place: _Place) -> list[TypeProto | None]:
    table, indices = place.shape(0), place.shape(1)
    return [] if not table or indices is None else [_make(place.code(0), (*indices, *table[1:]))]


def _gathered(place: _Place) -> list[TypeProto | None]:
    data, indices = place.shape(0), place.shape(1)
    if not data or indices is None:
        return []
    packed = 8 // place.attribute("bits", 4) if place.code(0) == _UINT8 else 1
    axis = place.attribute("gather_axis", 0)
    dims = [*data[:-1], data[-1] * packed]
    if not -len(dims) <= axis < len(dims):
        return []
    axis %= len(dims)
    return [_make(place.code(2), (*dims[:axis], *indices, *dims[axis + 1 :]))]


def _unfolded(place: _Place) -> list[TypeProto | None]:
    shape, axis = place.shape(0), place.attribute("dim", -1)
    size, step = place.attribute("size", 0), place.attribute("step", 1)
    if not shape or not -len(shape) <= axis < len(shape) or size < 1 or step < 1 or shape[axis] < size:
        return []
    dims = list(shape)
    dims[axis] = (shape[axis] - size) // step + 1
    return [_make(place.code(0), (*dims, size))]


def _boxes(place: _Place) -> list[TypeProto | None]:
    x, regions = place.shape(0), place.shape(1)
    size = place.value_of(place.name(3)) if place.name(3) else None
    if not x or not regions or not isinstance(size, numpy.ndarray) or size.size != 2:
        return []
    return [_make(place.code(0), (regions[0], x[1], *map(int, size.ravel())))]


def _position_bias(place: _Place) -> list[TypeProto | None]:
    table, query, key = place.shape(0), place.number(1), place.number(2)
    if not table or query is None or key is None:
        return []
    return [_make(place.code(0), (1, table[1], query, key))]


def _gated_bias(place: _Place) -> list[TypeProto | None]:
    query, relative = place.shape(0), place.shape(2)
    if not query or not relative or len(relative) != 4:
        return []
    offset = place.shape(6)
    batch = offset[0] if offset else query[0]
    return [_make(place.code(0), (batch, *relative[1:]))]


def _second(place: _Place) -> list[TypeProto | None]:
    return [place.type(1)]


def _transposed(place: _Place) -> list[TypeProto | None]:
    pads = place.value_of(place.name(2)) if place.name(2) else None
    x, weights = place.type(0), place.type(1)
    if x is None or weights is None or not isinstance(pads, numpy.ndarray):
        return []
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=pads.ravel().tolist())
    node.attribute.extend(place.node.attribute)
    schema = defs.get_schema("ConvTranspose", _OPSET)
    opset = [onnx.helper.make_opsetid("", _OPSET)]
    return [shape_inference.infer_node_outputs(schema, node, {"x": x, "w": weights}, {}, opset_imports=opset)["y"]]


def _rotated(place: _Place) -> list[TypeProto | None]:
    return [place.type(1), place.type(3)]


def _words(place: _Place) -> list[TypeProto | None]:
    sequence, kernel = place.shape(0), place.shape(1)
    return [] if not sequence or not kernel else [_make(_FLOAT, (*sequence[:-1], kernel[0]))]


def _restored(place: _Place) -> list[TypeProto | None]:
    x, offset = place.shape(0), place.shape(1)
    return [] if not x or not offset else [_make(place.code(0), (*offset, x[-1]))]


def _lstm(place: _Place) -> list[TypeProto | None]:
    x, recurrent = place.shape(0), place.shape(2)
    hidden = place.attribute("hidden_size", 0)
    if not x or not recurrent or len(x) != 3:
        return []
    state = (recurrent[0], x[1], hidden)
    whole = _make(place.code(0), (x[0], recurrent[0], x[1], hidden))
    return [whole, _make(place.code(0), state), _make(place.code(0), state)]


def _hashed(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    return [] if shape is None else [_make(onnx.TensorProto.UINT32, shape)]


def _scalar(place: _Place) -> list[TypeProto | None]:
    return [_make(_BOOL, ())]


def _quantized(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    return [] if shape is None else [_make(onnx.TensorProto.INT8, shape)]


def _real(place: _Place) -> list[TypeProto | None]:
    shape = place.shape(0)
    return [] if shape is None else [_make(_FLOAT, shape)]


def _ordered_matmul(place: _Place) -> list[TypeProto | None]:
    return _matmul(place, place.shape(0), place.shape(2), onnx.TensorProto.INT8)


_Rule = Callable[[_Place], "list[TypeProto | None]"]

_ALIKE = """
    BiasAdd BiasGelu BiasSoftmax ComplexMul ComplexMulConj DecoderAttention FastGelu GatedAdd GatedRMSNorm GroupNorm
    Inverse LongformerAttention MoE QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE
    QOrderedAttention QOrderedGelu QOrderedLayerNormalization QOrderedLongformerAttention QuickGelu RotaryEmbedding
    SampleOp ScaledSiLU SimplifiedLayerNormalization
"""

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_ALIKE.split(), _same),
    **dict.fromkeys(("SkipGroupNorm",), _all_same),
    **dict.fromkeys(("BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"), _with_mask),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "SparseToDenseMatMul"), _fused_matmul),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulInteger16": _integer_matmul,
    "GemmFloat8": _fused_matmul,
    "QGemm": _q_gemm,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulNBitsMlp"), _packed_matmul),
    **dict.fromkeys(("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"), _block_matmul),
    "MatMulFpQ4": _fp4_matmul,
    "MatMulNBitsQkv": _packed_qkv,
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _nhwc_conv),
    "NhwcMaxPool": _nhwc_pool,
    "QLinearConv": _q_conv,
    "QLinearConcat": _q_concat,
    **dict.fromkeys(("QLinearReduceMean", "ReduceSumInteger"), _reduced),
    **dict.fromkeys(("Attention", "QAttention", "DecoderMaskedSelfAttention"), _attention),
    **dict.fromkeys(("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"), _multi_head),
    **dict.fromkeys(("GroupQueryAttention", "SparseAttention"), _grouped),
    "PagedAttention": _paged,
    "PackedMultiHeadAttention": _packed_heads,
    "PackedAttention": _packed_attention,
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(("EmbedLayerNormalization", "QEmbedLayerNormalization"), _embedded),
    "BiasSplitGelu": _halved,
    "ExpandDims": _expanded,
    "CDist": _pairs,
    "Rfft": _rfft,
    "Irfft": _irfft,
    "TorchEmbedding": _looked_up,
    "GatherBlockQuantized": _gathered,
    "UnfoldTensor": _unfolded,
    "CropAndResize": _boxes,
    "RelativePositionBias": _position_bias,
    "GatedRelativePositionBias": _gated_bias,
    "GemmaRotaryEmbedding": _rotated,
    "NGramRepeatBlock": _second,
    "ConvTransposeWithDynamicPads": _transposed,
    "WordConvEmbedding": _words,
    "RestorePadding": _restored,
    "DynamicQuantizeLSTM": _lstm,
    "MurmurHash3": _hashed,
    "IsAllFinite": _scalar,
    "QuantizeWithOrder": _quantized,
    "DequantizeWithOrder": _real,
    "QOrderedMatMul": _ordered_matmul,
}
