"""The shape and element type of every tensor that is made anew in each inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flopwise._results import Json
from flopwise.errors import counted
from flopwise.graph import STORED, Tensor
from flopwise.graph.names import layer_names
from flopwise.report.formats.json import parts_of, plain_shape
from flopwise.report.report import Report
from flopwise.report.sheet.columns import shapes_of
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Field, Head, Sheet
from flopwise.report.sheet.values import Look

if TYPE_CHECKING:
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
