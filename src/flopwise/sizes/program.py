"""The program that the pass takes: its graphs, nodes, functions and stored tensors, in the form of ONNX's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class Attributes(Protocol):
    """The attributes of a node."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Numbers, texts, tuples of these, stored tensors, graphs, types and references, by name."""


class Node(Protocol):
    """An operator, or a call of a function."""

    @property
    def operation(self) -> object:
        """Its operator, attributes and version; nodes that share it do the same.

        It may have a row of its own (``own.row``), which wins over the tables.
        """

    @property
    def op(self) -> str: ...

    @property
    def domain(self) -> str:
        """ "" for the standard operators."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of tensors, "" for one that is left out."""

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def attributes(self) -> Attributes: ...

    @property
    def version(self) -> int:
        """Version of its operator set, if it is another than the program's."""

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""


class Value(Protocol):
    """An input or output of a graph."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> Any:
        """Its type as the file states it."""


class Stored(Protocol):
    """A stored tensor."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def dims(self) -> tuple[int, ...]: ...


class Graph(Protocol):
    """A graph, or a body of control flow."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def inputs(self) -> Sequence[Value]: ...

    @property
    def outputs(self) -> Sequence[Value]: ...

    @property
    def initializers(self) -> Mapping[str, Stored]: ...


def graphs(node: Node) -> Iterable[tuple[str, Graph]]:
    """The bodies in a node's attributes, each with the name of its attribute."""
    for name, value in node.attributes.values.items():
        for one in value if isinstance(value, tuple) else (value,):
            if hasattr(one, "nodes") and hasattr(one, "initializers"):
                yield name, one


def captured(graph: Graph) -> frozenset[str]:
    """The names of the tensors that a body takes from the graphs around it."""
    own = {value.name for value in graph.inputs} | set(graph.initializers)
    taken = {value.name for value in graph.outputs}
    for node in graph.nodes:
        own.update(node.outputs)
        taken.update(node.inputs)
        for _, body in graphs(node):
            taken |= captured(body)
    return frozenset(taken - own - {""})


def describe(node: Node) -> str:
    """A node as a message names it."""
    return f"{node.op} {node.name or (node.outputs[0] if node.outputs else '')!r}"
