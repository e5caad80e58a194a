"""An ONNX model -> Graph: weights never read, shapes resolved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph, Node, Tensor
from flopwise.readers import onnx_inputs, onnx_shapes
from flopwise.readers.onnx_fit import misfits
from flopwise.readers.onnx_notes import notes
from flopwise.readers.onnx_order import in_execution_order
from flopwise.readers.onnx_proto import from_proto
from flopwise.readers.onnx_scope import scope_of
from flopwise.readers.onnx_skeleton import Skeleton
from flopwise.readers.onnx_spelling import unify
from flopwise.readers.onnx_stored import StoredTensors, stored_tensors
from flopwise.readers.onnx_types import Shapes, in_short, one_line
from flopwise.readers.onnx_weights import Reopen, check_external, fill_small
from flopwise.readers.onnx_wire import read_skeleton
from flopwise.readers.signature import refuse_other_formats
from flopwise.readers.source import Source, open_source


def read_onnx(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of an ONNX model with the shape of every tensor that can be resolved.

    Args:
        model: a path, bytes, an open binary file that can seek, or an ``onnx.ModelProto``.
        inputs: shapes of the model's inputs where the file leaves them open, or other shapes than the file's; see
            :func:`flopwise.readers.inputs.given`.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
        InputError: an input's shape is missing, or does not fit.
    """
    progress("reading the graph")
    with _one_line():
        skeleton, name, source = _skeleton(model)
    with _one_line(name):
        return _read(skeleton, name, source.later() if source else None, inputs, dims or {}, batch_size, progress)


def _skeleton(model: object) -> tuple[Skeleton, str, Source | None]:
    if isinstance(model, onnx.ModelProto):
        return from_proto(model), str(model.graph.name or "<ModelProto>"), None
    source = open_source(model)
    with contextlib.closing(source):
        refuse_other_formats(source)
        return read_skeleton(source), source.name, source


@contextlib.contextmanager
def _one_line(name: str = "") -> Iterator[None]:
    """Put the model's name before the message of an error if it is not there yet, and keep it to one short line."""
    try:
        yield
    except FlopwiseError as error:
        text = str(error) if not name or str(error).startswith(f"{name}: ") else f"{name}: {error}"
        raise type(error)(one_line(text)) from error.__cause__


def _read(
    skeleton: Skeleton,
    name: str,
    reopen: Reopen | None,
    inputs: Any,
    dims: Mapping[str, int],
    batch_size: int | None,
    progress: Callable[[str], None],
) -> Graph:
    try:
        proto = onnx.ModelProto.FromString(skeleton.model)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"not an ONNX model, or damaged ({error})") from error
    check_external((*skeleton.initializers.values(), *skeleton.inner.values()))
    if proto.functions:
        progress("inlining functions")
    proto, warnings = unify(proto)
    fill_small(proto.graph, skeleton.initializers, name, reopen)
    in_execution_order(proto.graph)
    changed = onnx_inputs.settle(proto, inputs, dims, batch_size)
    noted = notes(proto.graph)  # before resolving takes value_info away
    progress("resolving shapes")
    shapes = onnx_shapes.resolve(proto, declared_holds=not changed)
    if batch_size is not None:
        onnx_inputs.check_reshapes(proto, shapes, batch_size)
    wrong = list(misfits(proto.graph, shapes))
    if wrong and changed:
        raise InputError(f"the input shapes are impossible: {wrong[0]}")
    shapes.warnings.extend(in_short(wrong, "more operators do not fit their inputs"))
    progress("building the graph")
    stored = stored_tensors(proto, shapes, skeleton, name, reopen, noted)
    return _graph(proto, shapes, stored, name, [one_line(w) for w in (*warnings, *shapes.warnings)])


def _graph(
    proto: onnx.ModelProto,
    shapes: Shapes,
    stored: StoredTensors,
    name: str,
    warnings: list[str],
) -> Graph:
    tensors: dict[str, Tensor] = {}
    initializers = {t.name for t in proto.graph.initializer} & stored.weights.keys()

    def tensor(key: str) -> Tensor | None:
        if not key:
            return None
        if key not in tensors:
            first = stored.first.get(key, key)
            tensors[key] = Tensor(first, shapes.shape(key), shapes.dtype(key), stored.kinds.get(key, "activation"))
        return tensors[key]

    versions = {o.domain: o.version for o in proto.opset_import}
    nodes = []
    for node in proto.graph.node:
        op = one_line(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)
        scope, origin = scope_of(node)
        nodes.append(
            Node(
                op=op,
                name=node.name,
                inputs=tuple(map(tensor, node.input)),
                outputs=tuple(map(tensor, node.output)),
                attrs=_attributes(node.attribute),
                scope=scope,
                origin=origin or op,
                version=versions.get(node.domain, 0),
            )
        )
    inputs = tuple(t for i in proto.graph.input if i.name not in initializers and (t := tensor(i.name)))
    warnings += [
        f"input {t.name!r} has a dimension of 0, so most costs are 0; give its shape with -i"
        for t in inputs
        if t.shape and 0 in t.shape
    ]
    return Graph(
        name=_title(proto, name),
        format="onnx",
        source=name,
        inputs=inputs,
        outputs=tuple(t for o in proto.graph.output if (t := tensor(o.name))),
        nodes=tuple(nodes),
        weights=stored.weights,
        warnings=tuple(warnings),
    )


def _title(proto: onnx.ModelProto, name: str) -> str:
    """The file's name without its ending; what has no file goes by the graph's name."""
    return Path(name).stem if os.sep in name or name.endswith(".onnx") else proto.graph.name or name


def _attributes(protos: Iterable[onnx.AttributeProto]) -> dict[str, Any]:
    """Attributes as plain Python values. Tensors and graphs are left out: no count reads them."""
    return {p.name: read(p) for p in protos if (read := _READ.get(p.type))}


_READ: dict[int, Callable[[onnx.AttributeProto], Any]] = {
    onnx.AttributeProto.FLOAT: lambda p: p.f,
    onnx.AttributeProto.INT: lambda p: p.i,
    onnx.AttributeProto.STRING: lambda p: p.s.decode("utf-8", "replace"),
    onnx.AttributeProto.FLOATS: lambda p: list(p.floats),
    onnx.AttributeProto.INTS: lambda p: list(p.ints),
    onnx.AttributeProto.STRINGS: lambda p: [s.decode("utf-8", "replace") for s in p.strings],
}
