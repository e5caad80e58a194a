"""The stored tensors of a graph, with the operators that use them and the tensors that say how they are quantised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import shown
from flopwise.formats.weights.read import OP
from flopwise.formats.weights.tensor import HARD_LINK, NETWORK, StoredTensors
from flopwise.graph import STORED, Graph, Kind, Node, StoredTensor, Tensor
from flopwise.graph.names import layer_names
from flopwise.graph.stored import Storage
from flopwise.operators.own import with_rows_of_graph
from flopwise.operators.tables import row


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a stored tensor in a graph."""

    layer: str = ""
    op: str = ""
    #: Position among the stored tensors of the layer: its data in the order of the inputs, then scales and zero points.
    slot: int = 0
    zero_point: str = ""
    scale: str = ""


class Quantised(NamedTuple):
    """Inputs of an operator: a quantised tensor, its scale, its zero point; -1 for what the operator has not."""

    data: int
    scale: int
    zero_point: int


def quantised(op: str, inputs: int) -> list[Quantised]:
    """The quantised inputs among the first ``inputs`` of an operator."""
    result: dict[int, Quantised] = {}
    for place, one in row(op).inputs.places(inputs):
        if one.role in ("scale", "zero point") and one.of >= 0:
            described = result.setdefault(one.of, Quantised(one.of, -1, -1))
            field = "scale" if one.role == "scale" else "zero_point"
            result[one.of] = described._replace(**{field: place})
    return list(result.values())


#: An input, and the stored tensors that it is made of.
_Part = tuple[Tensor, tuple[str, ...]]


@with_rows_of_graph
def uses(graph: Graph) -> dict[str, Use]:
    """The uses of a graph's stored tensors, by their names.

    A tensor belongs to the first operator that works on it together with an activation; operators on stored tensors
    alone hand it on.
    """
    from_stored: dict[str, tuple[str, ...]] = {}
    places: dict[str, Use] = {}
    handed: dict[str, Use] = {}
    slots: Counter[str] = Counter()
    for name, node in zip(layer_names(graph.nodes), graph.nodes, strict=True):
        for one in quantised(node.op, len(node.inputs)):
            _note_scales(node, one, from_stored, places)
        parts = [(t, from_stored.get(t.name) or ((t.name,) if t.kind in STORED else ())) for t in node.known_inputs]
        alone = bool(parts) and all(sources for _, sources in parts) and not node.within
        for _, sources in _data_first(node, parts):
            for source in sources:
                if alone:
                    handed.setdefault(source, Use(name, node.op))
                elif not places.setdefault(source, Use()).layer:
                    places[source] = replace(places[source], layer=name, op=node.op, slot=slots[name])
                    slots[name] += 1
        if alone:
            every = tuple(dict.fromkeys(s for _, sources in parts for s in sources))
            from_stored.update((t.name, every) for t in node.known_outputs)
    for source, use in handed.items():  # what no operator on activations needs
        if not places.setdefault(source, Use()).layer:
            places[source] = replace(places[source], layer=use.layer, op=use.op, slot=slots[use.layer])
            slots[use.layer] += 1
    return places


def _note_scales(node: Node, one: Quantised, from_stored: dict[str, tuple[str, ...]], places: dict[str, Use]) -> None:
    """Write down the scale and the zero point of a stored tensor."""

    def stored(place: int) -> str:
        if place < 0 or not node.has_input(place):
            return ""
        tensor = node.input(place)
        sources = from_stored.get(tensor.name, ())
        return tensor.name if tensor.kind in STORED else (sources[0] if len(sources) == 1 else "")

    data = stored(one.data)
    if data:
        use = places.setdefault(data, Use())
        scale, zero_point = use.scale or stored(one.scale), use.zero_point or stored(one.zero_point)
        places[data] = replace(use, scale=scale, zero_point=zero_point)


def _data_first(node: Node, parts: list[_Part]) -> list[_Part]:
    """The inputs of a node with scales and zero points behind the others."""
    places = {place for one in quantised(node.op, len(node.inputs)) for place in (one.scale, one.zero_point)}
    late = {node.input(p).name for p in places if p >= 0 and node.has_input(p)}
    return sorted(parts, key=lambda part: part[0].name in late)


#: Bytes up to which tensors may share their data as they like.
_MOST_REPEATED = 1 << 30


def stored_in_graph(graph: Graph) -> StoredTensors:
    """The stored tensors of a graph, each with the operator that uses it first.

    Raises:
        InputError: it is a Caffe net as text, or its weights are shapes alone.
        ModelError: many tensors share the same data.
    """
    users = uses(graph)
    kinds = {t.name: t.kind for node in graph.nodes for t in (*node.known_inputs, *node.known_outputs)}
    repeated = [name for name, tensor in graph.weights.items() if tensor.repeated]
    strings = [name for name, tensor in graph.weights.items() if not tensor.repeated and tensor.dtype == "string"]
    left_out = {*repeated, *strings}
    tensors = [
        _in_use(name, tensor, users.get(name, Use()), kinds.get(name))
        for name, tensor in graph.weights.items()
        if name not in left_out
    ]
    source = graph.source if isinstance(graph.source, str) else graph.name
    if not tensors:
        hollow = sum(kind == "weight" and name not in graph.weights for name, kind in kinds.items())
        _refuse_shapes_alone(graph, source, hollow)
    _refuse_repeated_data(tensors, source)
    storages: dict[int, Storage] = {id(s): s for t in graph.weights.values() if (s := t.elements.storage) is not None}
    for storage in storages.values():
        storage.hold()
    notes = tuple(_notes(graph, strings, repeated))
    return StoredTensors(shown(source), graph.format, tuple(tensors), notes, storages=tuple(storages.values()))


def _notes(graph: Graph, strings: list[str], repeated: list[str]) -> Iterator[str]:
    """Remarks on where the tensors of a graph come from, and on those that are left out."""
    yield from (warning for warning in graph.warnings if NETWORK in warning or HARD_LINK in warning)
    if strings:
        yield f"{_hold(strings)} strings and no numbers; left out"
    if repeated:
        yield f"{_hold(repeated)} one value that ConstantOfShape repeats, and is not stored; left out"


def _in_use(name: str, tensor: StoredTensor, use: Use, kind: Kind | None) -> StoredTensor:
    """A stored tensor with the operator that uses it and the kind that it has there."""
    if use.op == OP:  # of a file without operators: names say where tensors belong
        return tensor
    role = kind if kind is not None and kind in STORED else tensor.role
    scale, zero_point = use.scale or tensor.scale, use.zero_point or tensor.zero_point
    return replace(
        tensor, name=name, layer=use.layer, op=use.op, slot=use.slot, role=role, scale=scale, zero_point=zero_point
    )


def _refuse_shapes_alone(graph: Graph, source: str, hollow: int) -> None:
    """Refuse a graph without stored tensors of a format whose weights may lie elsewhere.

    Raises:
        InputError: it is a Caffe net as text, or a program whose weights, so many, are shapes alone.
    """
    if graph.format == "caffe":
        raise InputError(f"{graph.source}: describes a net without its weights; give its .caffemodel")
    if hollow and graph.format == "jax":
        raise InputError(
            f"{source}: its weights ({hollow} arrays) are shapes without elements; give a file that holds them, "
            "as .npz or .safetensors"
        )


def _refuse_repeated_data(tensors: Iterable[StoredTensor], name: str) -> None:
    """Refuse data beside the model that many tensors share: reading them would take for ever.

    Raises:
        ModelError: tensors take more than a gigabyte, which is more than 16 times the data that they name.
    """
    totals: dict[str, int] = {}
    ends: dict[str, int] = {}
    for tensor in tensors:
        if (place := tensor.elements.place) is not None:
            file, start = place
            totals[file] = totals.get(file, 0) + tensor.nbytes
            ends[file] = max(ends.get(file, 0), start + tensor.nbytes)
    for file, total in totals.items():
        if total > _MOST_REPEATED and total > 16 * ends[file]:
            raise ModelError(
                f"{name}: tensors of {total:,} bytes share the first {ends[file]:,} bytes of {file[:200]!r}"
            )


def _hold(names: list[str]) -> str:
    return f"{len(names)} tensors hold" if len(names) > 1 else f"tensor {names[0]!r} holds"
