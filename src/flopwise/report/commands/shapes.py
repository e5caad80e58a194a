"""The shape and element type of every tensor that is made anew in each inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flopwise._results import Json, fields
from flopwise.errors import counted
from flopwise.graph import STORED, Tensor
from flopwise.graph.names import layer_kind, layer_names
from flopwise.report.formats.json import parts_of, plain_shape
from flopwise.report.report import Report
from flopwise.report.sheet.columns import shapes_of
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Field, Head, Look, Shapes, Sheet
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
if TYPE_CHECKING:
    from flopwise.graph import Tensor
    from flopwise.profiles.profile import Profile


class _Entry(NamedTuple):
    tensor: Tensor
    kind: str
    op: str = ""
    layer: str = ""


def shapes_report(profile: Profile) -> Report:
    """Name, kind (input, activation or output), element type and shape of each tensor, in execution order.

    A shape that could not be resolved is "?"; one that depends on the data is an upper bound and says so. Stored
    tensors are left out.
    """
    return Report(lambda format, look: [_sheet(profile, look)], lambda: _content(profile))


def _sheet(profile: Profile, look: Look) -> Sheet:
    columns: tuple[Field[_Entry], ...] = (
        Field(Head("name", "tensor", "text", 0), lambda e: e.tensor.name),
        Field(Head("kind", "kind", "text", 3), lambda e: e.kind),
        Field(Head("dtype", "dtype", "text", 2), lambda e: e.tensor.dtype or "?"),
        Field(Head("shape", "shape", "shapes", 1), lambda e: shapes_of(e.tensor)),
        Field(Head("op", "made by", "text", 5), lambda e: e.op),
        Field(Head("layer", "layer", "text", 6), lambda e: e.layer),
        Field(Head("note", "note", "text", 4), _note),
    )
    return Sheet.of(
        columns,
        _entries(profile),
        lambda e: "" if e.tensor.resolved else "unknown",
        about=about(profile, look, counted=False),
        notes=look.texts(profile.graph.warnings),
        skip_empty=True,
    )


def _entries(profile: Profile) -> Iterator[_Entry]:
    graph = profile.graph
    outputs = {t.name for t in graph.outputs}
    seen: set[str] = set()
    for tensor in graph.inputs:
        seen.add(tensor.name)
        yield _Entry(tensor, "input")
    for name, node in zip(layer_names(graph.nodes), graph.nodes, strict=True):
        for tensor in node.known_outputs:
            if tensor.kind not in STORED and tensor.name not in seen:
                seen.add(tensor.name)
                yield _Entry(tensor, "output" if tensor.name in outputs else tensor.kind, node.op, name)
    for tensor in graph.outputs:
        if tensor.name not in seen:
            yield _Entry(tensor, "output")


def _note(entry: _Entry) -> str:
    tensor = entry.tensor
    several = "" if tensor.items is None else counted(len(tensor.items), "tensor")
    return ", ".join(filter(None, (several, "upper bound" if tensor.bound else "")))


def _content(profile: Profile) -> Json:
    entries = list(_entries(profile))
    return {
        "schema": "flopwise.shapes/1",
        **parts_of(profile, "model inputs"),
        "tensors": [_tensor(entry) for entry in entries],
        "unresolved": [e.tensor.name for e in entries if not e.tensor.resolved],
        "notes": list(profile.graph.warnings),
    }


def _tensor(entry: _Entry) -> Json:
    tensor = entry.tensor
    return {
        "name": tensor.name,
        "kind": entry.kind,
        "dtype": tensor.dtype,
        "shape": plain_shape(tensor),
        "op": entry.op or None,
        "layer": entry.layer or None,
        **({"bound": True} if tensor.bound else {}),
        **({} if tensor.items is None else {"items": [plain_shape(t) for t in tensor.items]}),
    }


# The layers with what goes in and comes out of each: names and shapes.


def layers_report(profile: Profile) -> Report:
    """Each layer's name and operator, and the names and shapes of its inputs (weights too) and outputs."""
    return Report(
        lambda format, look: [_layers_sheet(profile, look, format.data)],
        lambda: _layers_content(profile),
        {"layers": (profile,)},
    )


def _layers_sheet(profile: Profile, look: Look, data: bool) -> Sheet:
    between = "; " if data else ", "

    def names(tensors: Sequence[Tensor]) -> str:
        return between.join(t.name for t in tensors)

    def shapes(tensors: Sequence[Tensor]) -> Shapes:
        return tuple(t.shape for t in tensors)

    def kind(row: Row) -> str:
        return row.type if data or row.type != row.node.op else layer_kind(row.node, profile.graph)

    columns: tuple[Field[Row], ...] = (
        Field(Head("name", "layer", "text", 0), lambda r: r.name),
        Field(Head("op", "op", "text", 1), kind),
        Field(Head("input_names", "inputs", "text", 7), lambda r: names(r.node.known_inputs)),
        Field(Head("output_names", "outputs", "text", 6), lambda r: names(r.node.known_outputs)),
        Field(Head("input_shapes", "input shapes", "shapes", 3), lambda r: shapes(r.node.known_inputs)),
        Field(Head("output_shapes", "output shapes", "shapes", 2), lambda r: shapes(r.node.known_outputs)),
    )
    return Sheet.of(
        columns,
        profile.rows,
        about=about(profile, look, counted=False),
        notes=look.texts(profile.graph.warnings),
    )


def _layers_content(profile: Profile) -> Json:
    layers = [
        {
            "name": row.name,
            "op": row.node.op,
            **({} if row.type == row.node.op else {"type": row.type}),
            "origin": row.node.origin,
            "scope": row.node.module,
            "inputs": [_layer_tensor(t) for t in row.node.known_inputs],
            "outputs": [_layer_tensor(t) for t in row.node.known_outputs],
        }
        for row in profile.rows
    ]
    return {"schema": "flopwise.layers/1", **parts_of(profile, "model inputs"), "layers": layers}


def _layer_tensor(tensor: Tensor) -> Json:
    return {**fields(tensor, "name dtype kind"), "shape": plain_shape(tensor)}
