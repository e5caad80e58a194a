"""The layers as a graph for Graphviz: a box for each, the shapes on the edges, no weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.graph import STORED, Node
from flopwise.report.sheet.listing import model_name
from flopwise.report.sheet.sheet import Look

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


def quote(*lines: str) -> str:
    r"""A quoted string of these lines, escaped for Graphviz.

    >>> print(quote('say "a"', r"\N"))
    "say \"a\"\n\\N"
    """
    special = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
    return '"' + "\\n".join(line.translate(special) for line in lines) + '"'


def render_layers(profile: Profile, look: Look) -> str:
    """A directed graph from the model's inputs to its outputs; a layer without a count has a red frame."""
    return "\n".join(["digraph {", *(f"  {line}" for line in _lines(profile, look)), "}"]) + "\n"


def _lines(profile: Profile, look: Look) -> Iterator[str]:
    yield f"label={quote(model_name(profile, look))};"
    yield 'node [shape=box, fontname="sans-serif"];'
    yield 'edge [fontname="sans-serif", fontsize=10];'
    sources: dict[str, str] = {}  # tensor -> the vertex that makes it
    for number, tensor in enumerate(profile.graph.inputs):
        sources[tensor.name] = f"in{number}"
        yield f"in{number} [shape=ellipse, label={quote(look.text(tensor.name))}];"
    vertices: dict[int, tuple[str, Node]] = {}  # a convention may list a layer twice; it is drawn once
    for row in profile.rows:
        if id(row.node) in vertices:
            continue
        vertex = f"n{len(vertices)}"
        vertices[id(row.node)] = (vertex, row.node)
        sources.update((tensor.name, vertex) for tensor in row.node.known_outputs)
        color = ", color=red" if row.count is None else ""
        yield f"{vertex} [label={quote(look.text(row.node.op), look.text(row.name))}{color}];"
    for vertex, node in vertices.values():
        for tensor in node.known_inputs:
            if tensor.kind not in STORED and tensor.name in sources:
                yield f"{sources[tensor.name]} -> {vertex} [label={quote(look.shape(tensor.shape))}];"
    for number, tensor in enumerate(profile.graph.outputs):
        yield f"out{number} [shape=ellipse, label={quote(look.text(tensor.name))}];"
        if tensor.name in sources:
            yield f"{sources[tensor.name]} -> out{number} [label={quote(look.shape(tensor.shape))}];"
