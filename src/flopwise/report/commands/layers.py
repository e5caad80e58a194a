"""The layers with what goes in and comes out of each: names and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flopwise.report.formats import dot, json, writers
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, about
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.graph import Tensor
    from flopwise.profiles.profile import Profile

FORMATS = (*writers.SHEET_FORMATS, "json", "dot")

HEADS = (
    Head("name", "layer", "text", 0),
    Head("op", "op", "text", 1),
    Head("input_names", "inputs", "text", 7),
    Head("output_names", "outputs", "text", 6),
    Head("input_shapes", "input shapes", "shapes", 3),
    Head("output_shapes", "output shapes", "shapes", 2),
)


def render_layers(
    profile: Profile,
    format: str = "table",
    header: bool = True,
    width: int | None = None,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """Each layer's name and operator, and the names and shapes of its inputs (weights too) and outputs.

    Args:
        profile: what to write.
        format: a name from FORMATS; "dot" is the graph for Graphviz.
        header: whether the model and the columns are named above the lines.
        width: cells of the terminal; None when there is none.
        color: whether to use the terminal's colours.
        ascii: whether to draw and write with ASCII characters only.

    Raises:
        InputError: the format is unknown.
    """
    look = Look(header=header, width=width, color=color, ascii=ascii)
    if format == "json":
        return json.dump(_content(profile))
    if format == "dot":
        return dot.render(profile, look)
    sheet = Sheet(
        heads=HEADS,
        lines=tuple(Line(_values(row, look, format)) for row in profile.rows),
        about=about(profile, look, counted=False),
        notes=tuple(look.text(note) for note in profile.graph.warnings),
        complete=True,
    )
    return writers.write(sheet, format, look, FORMATS)


def _values(row: Row, look: Look, format: str) -> tuple[Value, ...]:
    inputs, outputs = row.node.known_inputs, row.node.known_outputs
    names = [("; " if format == "csv" else ", ").join(t.name for t in tensors) for tensors in (inputs, outputs)]
    return (row.name, row.node.op, *names, tuple(t.shape for t in inputs), tuple(t.shape for t in outputs))


def _content(profile: Profile) -> dict[str, Any]:
    whole = profile.to_dict()
    layers = [
        {
            "name": row.name,
            "op": row.node.op,
            "origin": row.node.origin,
            "scope": row.node.module,
            "inputs": [_tensor(t) for t in row.node.known_inputs],
            "outputs": [_tensor(t) for t in row.node.known_outputs],
        }
        for row in profile.rows
    ]
    return {"schema": "flopwise.layers/1", "model": whole["model"], "inputs": whole["inputs"], "layers": layers}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    shape = None if tensor.shape is None else [d if isinstance(d, int) else str(d) for d in tensor.shape]
    return {"name": tensor.name, "dtype": tensor.dtype, "kind": tensor.kind, "shape": shape}
