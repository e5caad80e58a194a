"""The stored tensors of a graph, with the operators that use them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flopwise.errors import InputError
from flopwise.graph import STORED, Graph, StoredTensor
from flopwise.graph.stored import Storage
from flopwise.readers.source.location import shown
from flopwise.readers.weights.read import OP
from flopwise.readers.weights.tensor import HARD_LINK, NETWORK, StoredTensors
from flopwise.readers.weights.uses import Use, uses


def of_graph(graph: Graph) -> StoredTensors:
    """The stored tensors of a graph, each with the operator that uses it first.

    Raises:
        InputError: it is a Caffe net as text, which has none.
    """
    users = uses(graph)
    kinds = {t.name: t.kind for node in graph.nodes for t in (*node.known_inputs, *node.known_outputs)}
    tensors: list[StoredTensor] = []
    strings: list[str] = []
    repeated: list[str] = []
    for name, tensor in graph.weights.items():
        if tensor.repeated:
            repeated.append(name)
        elif tensor.dtype == "string":
            strings.append(name)
        elif (use := users.get(name, Use())).op == OP:  # of a file without operators: names say where tensors belong
            tensors.append(tensor)
        else:
            kind = kinds.get(name)
            role = kind if kind is not None and kind in STORED else tensor.role
            facts: dict[str, Any] = {"layer": use.layer, "op": use.op, "slot": use.slot, "role": role}
            tensors.append(replace(tensor, name=name, zero_point=use.zero_point, scale=use.scale, **facts))
    if not tensors and graph.format == "caffe":
        raise InputError(f"{graph.source}: describes a net without its weights; give its .caffemodel")
    notes = [warning for warning in graph.warnings if NETWORK in warning or HARD_LINK in warning]
    if strings:
        notes.append(f"{_hold(strings)} strings and no numbers; left out")
    if repeated:
        notes.append(f"{_hold(repeated)} one value that ConstantOfShape repeats, and is not stored; left out")
    storages: dict[int, Storage] = {id(s): s for t in graph.weights.values() if (s := t.elements.storage) is not None}
    for storage in storages.values():
        storage.hold()
    source = graph.source if isinstance(graph.source, str) else graph.name
    return StoredTensors(shown(source), graph.format, tuple(tensors), tuple(notes), storages=tuple(storages.values()))


def _hold(names: list[str]) -> str:
    return f"{len(names)} tensors hold" if len(names) > 1 else f"tensor {names[0]!r} holds"
