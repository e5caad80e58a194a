"""The layers with what goes in and comes out of each: names and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flopwise.graph.names import layer_kind
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, about
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.graph import Graph, Tensor
    from flopwise.profiles.profile import Profile

HEADS = (
    Head("name", "layer", "text", 0),
    Head("op", "op", "text", 1),
    Head("input_names", "inputs", "text", 7),
    Head("output_names", "outputs", "text", 6),
    Head("input_shapes", "input shapes", "shapes", 3),
    Head("output_shapes", "output shapes", "shapes", 2),
)


def layers_report(profile: Profile) -> Report:
    """Each layer's name and operator, and the names and shapes of its inputs (weights too) and outputs."""
    return Report(
        lambda format, look: [_sheet(profile, look, "; " if format.data else ", ", not format.data)],
        lambda: _content(profile),
        {"layers": (profile,)},
    )


def _sheet(profile: Profile, look: Look, separator: str, kinds: bool) -> Sheet:
    return Sheet(
        heads=HEADS,
        lines=tuple(Line(_values(row, separator, profile.graph if kinds else None)) for row in profile.rows),
        about=about(profile, look, counted=False),
        notes=tuple(look.text(note) for note in profile.graph.warnings),
        complete=True,
    )


def _values(row: Row, separator: str, graph: Graph | None) -> tuple[Value, ...]:
    inputs, outputs = row.node.known_inputs, row.node.known_outputs
    names = [separator.join(t.name for t in tensors) for tensors in (inputs, outputs)]
    return (
        row.name,
        row.type if graph is None or row.type != row.node.op else layer_kind(row.node, graph),
        *names,
        tuple(t.shape for t in inputs),
        tuple(t.shape for t in outputs),
    )


def _content(profile: Profile) -> dict[str, Any]:
    whole = profile.to_dict()
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
    return {"schema": "flopwise.layers/1", "model": whole["model"], "inputs": whole["inputs"], "layers": layers}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    shape = None if tensor.shape is None else [d if isinstance(d, int) else str(d) for d in tensor.shape]
    return {"name": tensor.name, "dtype": tensor.dtype, "kind": tensor.kind, "shape": shape}
