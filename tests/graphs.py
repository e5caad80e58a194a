"""Graphs written by hand: tensors by name, operators in one line each."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Body, Graph, Kind, Module, Node, Shape, Tensor


class Sketch:
    """A graph in the making. A tensor is named once with its shape and kind, and then by its name alone."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []

    def tensor(self, name: str, shape: Shape | None = (), kind: Kind = "activation", dtype: str = "float32") -> None:
        """Name a tensor."""
        self.tensors[name] = Tensor(name, shape, dtype, kind)

    def node(
        self, op: str, inputs: str, outputs: str, name: str = "", scope: str = "", within: tuple[Body, ...] = ()
    ) -> None:
        """Add an operator on named tensors ("_" is one left out), in a module ("a a.b:Linear") and in control flow."""

        def named(text: str) -> tuple[Tensor | None, ...]:
            return tuple(None if t == "_" else self.tensors[t] for t in text.split())

        modules = tuple(Module(*(m.split(":") if ":" in m else (m, ""))) for m in scope.split())
        self.nodes.append(Node(op, name, named(inputs), named(outputs), modules=modules, origin=op, within=within))

    def graph(self, inputs: str = "x", outputs: str = "y") -> Graph:
        """The graph as it is now."""

        def named(names: Iterable[str]) -> tuple[Tensor, ...]:
            return tuple(self.tensors[n] for n in names)

        return Graph("sketch", "hand", "", named(inputs.split()), named(outputs.split()), tuple(self.nodes))


def sketch(tensors: dict[str, Shape | None], **kinds: Kind) -> Sketch:
    """A sketch with float32 tensors of the given shapes; activations unless said otherwise."""
    found = Sketch()
    for name, shape in tensors.items():
        found.tensor(name, shape, kinds.get(name, "activation"))
    return found
