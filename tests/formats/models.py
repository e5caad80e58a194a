"""Small ONNX models made by hand, for the readers to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence["int | str | None"]

#: The small models that the onnx package brings along.
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def node(op: str, inputs: str, outputs: str, name: str = "", domain: str = "", **attrs: Any) -> onnx.NodeProto:
    """A node; names of tensors are separated by blanks, "_" is one left out."""

    def names(text: str) -> list[str]:
        return ["" if t == "_" else t for t in text.split()]

    return helper.make_node(op, names(inputs), names(outputs), name=name, domain=domain, **attrs)


def value(name: str, shape: Dims | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A typed value."""
    return helper.make_tensor_value_info(name, dtype, shape)


def array(name: str, content: Any, dtype: Any = numpy.float32) -> onnx.TensorProto:
    """A stored tensor with the given content."""
    return numpy_helper.from_array(numpy.asarray(content, dtype), name)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    """A stored tensor of random float32."""
    return array(name, numpy.random.default_rng(0).standard_normal(shape))


def ints(name: str, *content: int) -> onnx.TensorProto:
    """A stored vector of int64."""
    return array(name, content, numpy.int64)


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Mapping[str, Dims | None] | Iterable[onnx.ValueInfoProto],
    initializers: Iterable[onnx.TensorProto] = (),
    outputs: Sequence[str] = (),
    opset: int = 17,
    ir: int = 8,
    values: Iterable[onnx.ValueInfoProto] = (),
    functions: Iterable[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
    sparse: Iterable[onnx.SparseTensorProto] = (),
) -> onnx.ModelProto:
    """A model; its output is what the last node makes unless ``outputs`` are given."""
    nodes = list(nodes)
    if isinstance(inputs, Mapping):
        inputs = [value(n, s) for n, s in inputs.items()]
    ends = [onnx.ValueInfoProto(name=o) for o in outputs or (nodes[-1].output if nodes else ())]
    for end in ends:
        end.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "g", list(inputs), ends, list(initializers), value_info=list(values), sparse_initializer=list(sparse)
    )
    opsets = [helper.make_opsetid(d, v) for d, v in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, functions=list(functions))


def conv_net() -> onnx.ModelProto:
    """Convolution, batch norm, relu, pool, flatten, Gemm: each with its weights inline."""
    return model(
        [
            node("Conv", "x conv.w conv.b", "c", "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("BatchNormalization", "c bn.s bn.b bn.m bn.v", "n", "bn"),
            node("Relu", "n", "r", "relu"),
            node("GlobalAveragePool", "r", "p", "pool"),
            node("Flatten", "p", "f", "flat"),
            node("Gemm", "f fc.w fc.b", "y", "fc", transB=1),
        ],
        {"x": (1, 3, 32, 32)},
        [
            weight("conv.w", 64, 3, 3, 3),
            weight("conv.b", 64),
            *(weight(f"bn.{k}", 64) for k in "sbmv"),
            weight("fc.w", 1000, 64),
            weight("fc.b", 1000),
        ],
    )


def shapes(graph: Any) -> dict[str, Any]:
    """The shape of each tensor that a node makes, by name."""
    return {t.name: t.shape for n in graph.nodes for t in n.known_outputs}


def kinds(graph: Any) -> dict[str, str]:
    """What each tensor is that a node takes or makes, by name."""
    return {t.name: t.kind for n in graph.nodes for t in (*n.known_inputs, *n.known_outputs)}


def fields(number: int, *contents: bytes | str) -> bytes:
    """Length-delimited protobuf fields of one number, written by hand."""
    return b"".join(_field(number, c.encode() if isinstance(c, str) else c) for c in contents)


#: A group that nobody knows, with a number, a group and a text inside.
UNKNOWN_GROUP = b"\xa3\x38\x08\x05\x2b\x08\x07\x2c\x4a\x05words\xa4\x38"


def with_groups(message: Any) -> bytes:
    """A message with unknown groups before, between and behind its fields, and those of what it holds."""
    parts = [UNKNOWN_GROUP]
    for field, content in message.ListFields():
        is_repeated = hasattr(content, "extend")
        if field.message_type is not None:
            parts += [fields(field.number, with_groups(one)) for one in (content if is_repeated else [content])]
        else:
            alone = type(message)()
            if is_repeated:
                getattr(alone, field.name).extend(content)
            else:
                setattr(alone, field.name, content)
            parts.append(alone.SerializeToString())
        parts.append(UNKNOWN_GROUP)
    return b"".join(parts)


def number(field: int, content: int) -> bytes:
    """A varint field, written by hand."""
    return _varint(field << 3) + _varint(content & (1 << 64) - 1)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(content: int) -> bytes:
    def groups() -> Iterator[int]:
        rest = content
        while rest > 127:
            yield rest & 127 | 128
            rest >>= 7
        yield rest

    return bytes(groups())
