"""Models of every age brought to one spelling: operator sets, domains, attributes, names and local functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx.file.skeleton import TAG, tag
from flopwise.readers.onnx.listing import Listed, listed
from flopwise.readers.onnx.types import CONTROL_FLOW, bodies, refuse_bytes

#: Types of attributes by the field that holds the value; the oldest models leave the type out.
_FIELDS: dict[str, int] = {
    "f": onnx.AttributeProto.FLOAT,
    "i": onnx.AttributeProto.INT,
    "s": onnx.AttributeProto.STRING,
    "t": onnx.AttributeProto.TENSOR,
    "g": onnx.AttributeProto.GRAPH,
    "floats": onnx.AttributeProto.FLOATS,
    "ints": onnx.AttributeProto.INTS,
    "strings": onnx.AttributeProto.STRINGS,
    "tensors": onnx.AttributeProto.TENSORS,
    "graphs": onnx.AttributeProto.GRAPHS,
}

#: First IR version whose attributes have types, and the first whose models name their operator sets.
TYPED, NAMES_OPERATOR_SETS = 2, 3


def unify(
    proto: onnx.ModelProto, stored: Iterable[str] = (), nodes: list[Listed] | None = None
) -> tuple[onnx.ModelProto, list[Listed], list[str]]:
    """The model in one spelling, the nodes of its graph, and what the user should know about it.

    The standard domain is "" (never "ai.onnx"), its version one that the installed onnx knows; attributes have types;
    names are text; local functions stand in place of their calls.

    Args:
        proto: a model without weights; it is changed.
        stored: the names of its stored tensors, where these are there already.
        nodes: the nodes of its graph, where they have been listed before.

    Raises:
        ModelError: the model is damaged, or not whole.
    """
    nodes = listed(proto.graph, stored) if nodes is None else nodes
    if not nodes and not proto.graph.input and not proto.graph.output:
        raise ModelError("the graph is empty")
    domains = _refuse_unreadable(proto.graph, nodes)
    if not proto.opset_import:
        if proto.ir_version >= NAMES_OPERATOR_SETS or not proto.ir_version:
            raise ModelError("names no operator set version; the file is truncated or not an ONNX model")
        proto.opset_import.add(domain="", version=1)
    stale = proto.ir_version < TYPED
    if stale:
        _add_types(proto.graph)
    if "ai.onnx" in domains or any(o.domain == "ai.onnx" for o in proto.opset_import) or proto.functions:
        _shorten_domain(proto)
        stale = stale or "ai.onnx" in domains or len(proto.functions) > 0
    if any(n.op == "STFT" for n in nodes) or proto.functions:
        _state_defaults(proto)
        stale = True
    warnings = _settle_versions(proto, domains - {"ai.onnx"})
    if proto.functions:
        from flopwise.readers.onnx.native.functions import inlined

        _name_constants(proto)
        proto, more = inlined(proto)
        _refuse_unreadable(proto.graph, listed(proto.graph))
        warnings += more
    return proto, listed(proto.graph) if stale else nodes, warnings


def _refuse_unreadable(graph: onnx.GraphProto, nodes: list[Listed]) -> set[str]:
    """The domains of the nodes.

    Raises:
        ModelError: a name is not text (protobuf hands over as bytes what is not UTF-8), or a node has no operator.
    """
    domains = {node.domain for node in nodes}
    symbols = [d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim]
    refuse_bytes([graph.name], symbols, [o.name for o in graph.output])
    for node in nodes:
        if not node.op:
            raise ModelError(f"node {node.name!r} names no operator; the file is damaged")
        if node.domain or node.op in CONTROL_FLOW:
            for body in bodies(node.proto):
                domains |= _refuse_unreadable(body, listed(body))
    return domains


def _all(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those in the bodies of their control flow."""
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from _all(body.node)


def _add_types(graph: onnx.GraphProto) -> None:
    for node in _all(graph.node):
        for attribute in node.attribute:
            if not attribute.type:
                held = [d.name for d, _ in attribute.ListFields() if d.name in _FIELDS]
                attribute.type = _FIELDS[held[0]] if held else onnx.AttributeProto.INTS


def _state_defaults(proto: onnx.ModelProto) -> None:
    """Write down defaults that onnx's inference takes for something else: a spectrum is one-sided."""
    for holder in (proto.graph, *proto.functions):
        if any(n.op_type == "STFT" for n in holder.node):
            for node in _all(holder.node):
                if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
                    node.attribute.append(onnx.helper.make_attribute("onesided", 1))


def _shorten_domain(proto: onnx.ModelProto) -> None:
    for holder in (proto, *proto.functions):
        for node in _all(holder.graph.node if holder is proto else holder.node):
            if node.domain == "ai.onnx":
                node.domain = ""
        for opset in holder.opset_import:
            if opset.domain == "ai.onnx":
                opset.domain = ""


def _settle_versions(proto: onnx.ModelProto, domains: set[str]) -> list[str]:
    """Bring operator set versions within what the installed onnx knows; what was changed, for a warning."""
    warnings: list[str] = []
    newest = onnx.defs.onnx_opset_version()
    for holder in (proto, *proto.functions):
        for opset in holder.opset_import:
            if opset.domain:
                continue
            if opset.version > newest:
                warnings.append(
                    f"operator set {opset.version} is newer than the installed onnx knows; read as {newest}"
                )
                opset.version = newest
            elif opset.version < 1:
                raise ModelError(f"operator set version {opset.version} does not exist")
    imported = {o.domain for o in proto.opset_import}
    if "" not in imported:
        proto.opset_import.add(domain="", version=newest)
    for domain in sorted(domains - imported - {""}):  # onnx infers no shape at all where an import is missing
        proto.opset_import.add(domain=domain, version=1)
    return list(dict.fromkeys(warnings))


def _name_constants(proto: onnx.ModelProto) -> None:
    """Name each constant tensor in a function, so that its copies are known as one when calls are inlined."""
    for number, function in enumerate(proto.functions):
        for place, node in enumerate(function.node):
            for attribute in node.attribute:
                if attribute.HasField("t") and not attribute.t.name.startswith(TAG):
                    attribute.t.name = tag(number, place)
