"""The inputs of an ONNX model as the file declares them, open dimensions included, before any size is chosen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import onnx
from google.protobuf.message import DecodeError

from flopwise.errors import ModelError
from flopwise.readers.onnx.file.proto import from_proto
from flopwise.readers.onnx.file.skeleton import DTYPES, Skeleton, kept
from flopwise.readers.onnx.file.walk import read_skeleton
from flopwise.readers.onnx.types import CONTROL_FLOW
from flopwise.readers.source.open import open_source, refuse_other_formats


class Declared(NamedTuple):
    """An input: its name, element type and dims, where None is a dimension without a name or number."""

    name: str
    dtype: str | None
    #: None when the file gives no shape, or the input is not a tensor.
    dims: tuple[int | str | None, ...] | None


class Signature(NamedTuple):
    """The inputs of a model, and the model in the form that is read fastest again and again."""

    inputs: tuple[Declared, ...]
    model: Any
    #: Whether it has control flow, which may repeat an unknown number of times.
    loops: bool = False


def signature(model: object) -> Signature:
    """The declared inputs of a model; no weights are read.

    Args:
        model: as in ``flopwise.readers.onnx.read.read_onnx``.

    Raises:
        ModelError: the model cannot be read.
    """
    skeleton = _skeleton(model)
    try:
        proto = onnx.ModelProto.FromString(skeleton.model)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"not an ONNX model, or damaged ({error})") from error
    inputs = declared(proto)
    loops = any(node.op_type in CONTROL_FLOW for nodes in _all_nodes(proto) for node in nodes)
    if any(kept(t.data_type, t.dims) and t.data_location == t.EXTERNAL for t in proto.graph.initializer):
        return Signature(inputs, model, loops)  # what lies in another file is found from the model's own place only
    for node in proto.graph.node:
        node.ClearField("metadata_props")  # names of modules, which change no size
    return Signature(inputs, proto.SerializeToString(), loops)


def declared(proto: onnx.ModelProto) -> tuple[Declared, ...]:
    """The inputs of a model as it declares them, those with stored values left out."""
    stored = {t.name for t in proto.graph.initializer}
    return tuple(_declared(value) for value in proto.graph.input if value.name not in stored)


def _all_nodes(proto: onnx.ModelProto) -> Iterator[Iterable[onnx.NodeProto]]:
    yield proto.graph.node
    yield from (function.node for function in proto.functions)


def _skeleton(model: object) -> Skeleton:
    if isinstance(model, onnx.ModelProto):
        return from_proto(model)
    with contextlib.closing(open_source(model)) as source:
        refuse_other_formats(source)
        return read_skeleton(source)


def _declared(value: onnx.ValueInfoProto) -> Declared:
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type)
    if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return Declared(value.name, dtype, None)
    return Declared(value.name, dtype, tuple(map(_dim, tensor.shape.dim)))


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or None
