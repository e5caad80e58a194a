"""An ONNX model -> Graph: weights never read, shapes resolved."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from flopwise.errors import ModelError
from flopwise.graph import Graph, Kind, Node, Tensor
from flopwise.readers import onnx_inputs, onnx_roles, onnx_shapes
from flopwise.readers.onnx_order import in_execution_order
from flopwise.readers.onnx_scope import scope_of
from flopwise.readers.onnx_weights import check_external, from_proto, loader
from flopwise.readers.onnx_wire import DTYPES, Skeleton, Stored, read_skeleton
from flopwise.readers.signature import refuse_other_formats
from flopwise.readers.source import Source, open_source

#: Domains of the standard operators; their names are written without it.
STANDARD = ("", "ai.onnx")


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
    skeleton, name, source = _skeleton(model)
    try:
        proto = onnx.ModelProto.FromString(skeleton.model)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{name}: not an ONNX model, or damaged ({' '.join(str(error).split())})") from error
    _check(proto, name)
    warnings = _settle_opsets(proto)
    base = Path(name).parent if source else None
    check_external(skeleton.stored.values(), name)
    if proto.functions:
        progress("inlining functions")
        proto = _inline(proto, name)
    notes = {v.name: onnx_roles.notes_of(v) for v in proto.graph.value_info if v.metadata_props}
    with _named(name):
        in_execution_order(proto.graph)
        changed = onnx_inputs.settle(proto, inputs, dims or {}, batch_size)
        progress("resolving shapes")
        shapes = onnx_shapes.resolve(proto, declared_holds=not changed)
        if batch_size is not None:
            onnx_inputs.check_reshapes(proto, shapes, batch_size)
    progress("building the graph")
    kinds = _kinds(proto, shapes, skeleton.stored, notes)
    return _graph(proto, shapes, kinds, skeleton, name, base, [*warnings, *shapes.warnings])


def _skeleton(model: object) -> tuple[Skeleton, str, Source | None]:
    if isinstance(model, onnx.ModelProto):
        return from_proto(model), model.graph.name or "<ModelProto>", None
    source = open_source(model)
    with contextlib.closing(source):
        refuse_other_formats(source)
        return read_skeleton(source), source.name, source


@contextlib.contextmanager
def _named(name: str) -> Any:
    """Put the file's name before the message of an error."""
    from flopwise.errors import FlopwiseError

    try:
        yield
    except FlopwiseError as error:
        raise type(error)(f"{name}: {error}") from error.__cause__


def _check(proto: onnx.ModelProto, name: str) -> None:
    if not proto.graph.node and not proto.graph.input and not proto.graph.output:
        raise ModelError(f"{name}: the graph is empty")
    if not proto.opset_import:
        if proto.ir_version >= 3 or not proto.ir_version:
            raise ModelError(f"{name}: names no operator set version; the file is truncated or no ONNX model")
        proto.opset_import.add(domain="", version=1)


def _settle_opsets(proto: onnx.ModelProto) -> list[str]:
    """Bring operator set versions within what the installed onnx knows; what was changed, for a warning."""
    warnings: list[str] = []
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in STANDARD and opset.version > newest:
            warnings.append(f"operator set {opset.version} is newer than the installed onnx knows; read as {newest}")
            opset.version = newest
        elif opset.domain in STANDARD and opset.version < 1:
            raise ModelError(f"operator set version {opset.version} does not exist")
    if not any(o.domain in STANDARD for o in proto.opset_import):
        proto.opset_import.add(domain="", version=newest)
    return warnings


def _inline(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with its local functions put in place of their calls."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(proto)
    except Exception as error:  # the C++ side raises plain RuntimeError, among others
        raise ModelError(f"{name}: its functions cannot be inlined ({onnx_shapes.first_line(error)})") from error


def _graph(
    proto: onnx.ModelProto,
    shapes: onnx_shapes.Shapes,
    kinds: Mapping[str, Kind],
    skeleton: Skeleton,
    name: str,
    base: Path | None,
    warnings: list[str],
) -> Graph:
    tensors: dict[str, Tensor] = {}

    def tensor(key: str) -> Tensor | None:
        if not key:
            return None
        if key not in tensors:
            tensors[key] = Tensor(key, shapes.shape(key), shapes.dtype(key), kinds.get(key, "activation"))
        return tensors[key]

    versions = {o.domain: o.version for o in proto.opset_import}
    nodes = []
    for node in proto.graph.node:
        standard = node.domain in STANDARD
        op = node.op_type if standard else f"{node.domain}::{node.op_type}"
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
                version=versions.get("", versions.get("ai.onnx", 0)) if standard else versions.get(node.domain, 0),
            )
        )
    return Graph(
        name=_title(proto, name),
        format="onnx",
        source=name,
        inputs=tuple(t for i in proto.graph.input if i.name not in skeleton.stored and (t := tensor(i.name))),
        outputs=tuple(t for o in proto.graph.output if (t := tensor(o.name))),
        nodes=tuple(nodes),
        weights={
            key: functools.partial(loader, place, name, base)
            for key, place in skeleton.stored.items()
            if kinds.get(key) in ("weight", "buffer", "constant")
        },
        warnings=tuple(warnings),
    )


def _title(proto: onnx.ModelProto, name: str) -> str:
    """The file's name without its ending; what has no file goes by the graph's name."""
    return Path(name).stem if os.sep in name or name.endswith(".onnx") else proto.graph.name or name


def _kinds(
    proto: onnx.ModelProto,
    shapes: onnx_shapes.Shapes,
    stored: Mapping[str, Stored],
    notes: Mapping[str, Mapping[str, str]],
) -> dict[str, Kind]:
    """What each tensor is that is not an activation."""
    graph = proto.graph
    uses = onnx_roles.uses(graph.node)
    kinds: dict[str, Kind] = {}
    parameters = onnx_roles.parameters(notes)
    for tensor in graph.initializer:
        name = tensor.name
        if name in stored:
            dtype, taken = DTYPES.get(tensor.data_type), uses.get(name, ())
            kinds[name] = onnx_roles.kind_of(dtype, len(tensor.dims), taken, notes.get(name, {}), parameters)
    for value in graph.input:
        kinds.setdefault(value.name, "input")
    for node in graph.node:
        if node.op_type not in ("Constant", "ConstantOfShape") or node.domain not in STANDARD or not node.output:
            continue
        name = node.output[0]
        dtype, shape = shapes.dtype(name), shapes.shape(name)
        taken = uses.get(name, ())
        if node.op_type == "Constant":
            kinds[name] = onnx_roles.kind_of_constant(dtype, len(shape or ()), math.prod(shape or ()), taken)
        elif shape is not None and (filled := onnx_roles.kind_of_filled(dtype, len(shape), taken)):
            kinds[name] = filled
    return kinds


def _attributes(protos: Iterable[onnx.AttributeProto]) -> dict[str, Any]:
    """Attributes as plain Python values. Tensors and graphs are left out: no count reads them."""
    return {p.name: _READ[p.type](p) for p in protos if p.type in _READ}


_READ: dict[int, Callable[[onnx.AttributeProto], Any]] = {
    onnx.AttributeProto.FLOAT: lambda p: p.f,
    onnx.AttributeProto.INT: lambda p: p.i,
    onnx.AttributeProto.STRING: lambda p: p.s.decode("utf-8", "replace"),
    onnx.AttributeProto.FLOATS: lambda p: list(p.floats),
    onnx.AttributeProto.INTS: lambda p: list(p.ints),
    onnx.AttributeProto.STRINGS: lambda p: [s.decode("utf-8", "replace") for s in p.strings],
}
