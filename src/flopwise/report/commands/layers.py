"""The layers with what goes in and comes out of each: names and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.graph.names import layer_kind
from flopwise.report.formats.json import parts_of, plain_shape
from flopwise.report.report import Report
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Field, Head, Sheet
from flopwise.report.sheet.values import Look, Shapes
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.graph import Tensor
    from flopwise.profiles.profile import Profile


def layers_report(profile: Profile) -> Report:
    """Each layer's name and operator, and the names and shapes of its inputs (weights too) and outputs."""
    return Report(
        lambda format, look: [_sheet(profile, look, format.data)],
        lambda: _content(profile),
        {"layers": (profile,)},
    )


def _sheet(profile: Profile, look: Look, data: bool) -> Sheet:
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


def _content(profile: Profile) -> Json:
    layers = [
        {
            "name": row.name,
            "op": row.node.op,
            **({} if row.type == row.node.op else {"type": row.type}),
            "origin": row.node.origin,
            "scope": row.node.module,
            "inputs": [_tensor(t) for t in row.node.known_inputs],
            "outputs": [_tensor(t) for t in row.node.known_outputs],
        }
        for row in profile.rows
    ]
    return {"schema": "flopwise.layers/1", **parts_of(profile, "model inputs"), "layers": layers}


def _tensor(tensor: Tensor) -> Json:
    return {**fields(tensor, "name dtype kind"), "shape": plain_shape(tensor)}
