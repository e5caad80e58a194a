"""Operator sets within those that are known, and what no model may lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flopwise.errors import ModelError
from flopwise.formats.onnx.file.model import Graph, Model

#: The newest version of the standard operators whose rules have been checked.
NEWEST = 28

#: First IR version whose models name their operator sets.
NAMES_OPERATOR_SETS = 3


def settled(model: Model) -> tuple[Model, list[str]]:
    """The model with versions of all operator sets that its nodes are from, and what to warn of.

    Raises:
        ModelError: the model is damaged, or not whole.
    """
    graph = model.graph
    if not graph.nodes and not graph.inputs and not graph.outputs:
        raise ModelError("the graph is empty")
    domains = _domains(graph)
    opsets = model.opsets
    if not opsets:
        if model.ir_version >= NAMES_OPERATOR_SETS or not model.ir_version:
            raise ModelError("names no operator set version; the file is truncated or not an ONNX model")
        opsets = {"": 1}
    warnings: dict[str, None] = {}
    known = {"": NEWEST, **_known(opsets, warnings)}
    functions = {
        key: replace(function, opsets=_known(function.opsets, warnings)) for key, function in model.functions.items()
    }
    missing = dict.fromkeys(sorted(domains - known.keys()), 1)
    return replace(model, opsets={**known, **missing}, functions=functions), list(warnings)


def _known(opsets: Mapping[str, int], warnings: dict[str, None]) -> dict[str, int]:
    """The versions of operator sets, the standard one not newer than what is known."""
    version = opsets.get("", NEWEST)
    if version < 1:
        raise ModelError(f"operator set version {version} does not exist")
    if version <= NEWEST:
        return dict(opsets)
    warnings[f"operator set {version} is newer than flopwise knows; read as {NEWEST}"] = None
    return {**opsets, "": NEWEST}


def _domains(graph: Graph) -> set[str]:
    """The domains of the nodes of a graph, and of those in its bodies.

    Raises:
        ModelError: a node has no operator.
    """
    operations = graph.operations
    domains = {operation.domain for operation in operations}
    if not all(operation.op for operation in operations):
        nameless = next(node for node in graph.nodes if not node.op)
        raise ModelError(f"node {nameless.name!r} names no operator; the file is damaged")
    if any(operation.may_have_bodies for operation in operations):
        domains.update(*[_domains(body) for node in graph.nodes for body in node.bodies()])
    return domains
