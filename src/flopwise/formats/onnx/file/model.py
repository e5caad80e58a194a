"""An ONNX model as plain Python: graphs, nodes, attributes and types, as a file holds them.

Names are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, without "Proto".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from flopwise.formats.onnx.file.skeleton import Stored
from flopwise.graph import Node as GraphNode
from flopwise.operators.operator import Operator as Row
from flopwise.operators.tables import with_effect

#: The standard operators that have bodies.
CONTROL_FLOW: frozenset[str] = with_effect("bodies", "control")

#: An extent: a number, a symbol, or None where the file states neither.
Dim: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor."""

    #: Element type; None where the file states none.
    dtype: str | None
    #: None where not even the rank is stated.
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class SparseType(TensorType):
    """A sparse tensor."""


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence."""

    element: Type | None


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be missing."""

    element: Type | None


@dataclass(frozen=True, slots=True)
class MapType:
    """A map."""

    key: str | None
    value: Type | None


Type: TypeAlias = "TensorType | SequenceType | OptionalType | MapType"


class Value(NamedTuple):
    """An input or output of a graph, or another tensor whose type is stated."""

    name: str
    #: None where the file states none.
    type: Type | None
    #: An exporter's notes.
    metadata: Mapping[str, str]


class Reference(NamedTuple):
    """The value of an attribute in a function: that of an attribute of the node that calls it."""

    name: str


class Attributes:
    """The attributes of a node, decoded when somebody asks; nodes whose attributes have the same bytes share them.

    Values are numbers, texts, tuples of these, `Stored` tensors, graphs, types, and references.
    """

    __slots__ = ("_decode", "_values", "data")

    def __init__(self, data: tuple[bytes, ...], decode: Callable[[tuple[bytes, ...]], dict[str, Any]]) -> None:
        """
        Args:
            data: serialised attributes.
            decode: makes their values by name.
        """
        self.data = data
        self._decode = decode
        self._values: dict[str, Any] | None = None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Attributes:
        """Attributes with these values."""
        return cls((), lambda data: values) if values else NO_ATTRIBUTES

    @property
    def values(self) -> dict[str, object]:
        """The values by name; not to be changed.

        Raises:
            ModelError: the file is damaged.
        """
        values = self._values
        if values is None:
            values = self._values = self._decode(self.data)
        return values

    def get(self, name: str, default: object = None) -> Any:
        """The value of an attribute, or the default where the node does not have it."""
        return self.values.get(name, default)

    def graphs(self) -> Iterator[tuple[str, Graph]]:
        """The graphs in the attributes, each with the name of its attribute."""
        for name, value in self.values.items():
            if isinstance(value, Graph):
                yield name, value
            elif isinstance(value, tuple):
                yield from ((name, graph) for graph in value if isinstance(graph, Graph))


#: No attributes.
NO_ATTRIBUTES = Attributes((), lambda data: {})


class Own(NamedTuple):
    """Facts of an operator of another format, in place of those in the tables of ONNX operators."""

    #: Its row, whose rules for sizes take what the file has.
    row: Row
    #: Follows its bodies (``flopwise.sizes.run.Flow``); None for other operators.
    flow: Any
    #: Makes the node of the graph as the file has it from that of the operator of ONNX's.
    shown: Callable[[GraphNode], GraphNode]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operator, or a local function, with its attributes; nodes that do the same share it."""

    op: str
    #: "" for the standard operators.
    domain: str = ""
    attributes: Attributes = NO_ATTRIBUTES
    #: Tells functions of one name apart.
    overload: str = ""
    #: The version of the operator set, if it is another than the model's: in a function that was inlined.
    version: int = 0
    #: What an operator of another format has of its own; None for one of ONNX.
    own: Own | None = None

    @property
    def may_have_bodies(self) -> bool:
        """True if its attributes may hold graphs: looking at these takes time."""
        return bool(self.domain) or self.op in CONTROL_FLOW


class Node(NamedTuple):
    """One application of an operation."""

    operation: Operation
    name: str
    #: "" for one that is left out.
    inputs: tuple[str, ...]
    #: "" for one that is not wanted.
    outputs: tuple[str, ...]
    #: Serialised notes of an exporter.
    metadata: tuple[bytes, ...] = ()

    @property
    def op(self) -> str:
        return self.operation.op

    @property
    def domain(self) -> str:
        return self.operation.domain

    @property
    def attributes(self) -> Attributes:
        return self.operation.attributes

    @property
    def version(self) -> int:
        return self.operation.version

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""
        return next(filter(None, self.outputs), "")

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Node:
        """The node with other graphs in its attributes; itself if none changes."""
        if not self.operation.may_have_bodies:
            return self
        values = dict(self.attributes.values)
        for name, value in values.items():
            if isinstance(value, Graph):
                values[name] = change(value)
            elif isinstance(value, tuple) and any(isinstance(one, Graph) for one in value):
                values[name] = tuple([change(one) for one in value])
        if all(value is self.attributes.values[name] for name, value in values.items()):
            return self
        return self._replace(operation=replace(self.operation, attributes=Attributes.of(values)))

    def __str__(self) -> str:
        """The node as a message names it."""
        return f"{self.op} {self.name or (self.outputs[0] if self.outputs else '')!r}"

    def bodies(self) -> list[Graph]:
        """The graphs in the attributes: the bodies of control flow."""
        return [graph for _, graph in self.attributes.graphs()] if self.operation.may_have_bodies else []


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph: that of a model, or a body of control flow."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    #: Those with stored values included, as the file has them.
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    #: Stored tensors by name. Small ones have their elements.
    initializers: dict[str, Stored] = field(default_factory=dict)
    #: Tensors between inputs and outputs whose types the file states.
    values: Values = field(default_factory=lambda: Values([], lambda data: []))
    #: An exporter's notes.
    metadata: dict[str, str] = field(default_factory=dict)

    @cached_property
    def operations(self) -> set[Operation]:
        """The distinct operations of its nodes: models of 100,000 nodes have some hundred."""
        return {node.operation for node in self.nodes}


class Values:
    """The values of a graph whose types are stated, decoded when somebody asks."""

    __slots__ = ("_data", "_decode", "_values")

    def __init__(self, data: list[bytes], decode: Callable[[list[bytes]], list[Value]]) -> None:
        """
        Args:
            data: serialised values.
            decode: makes the values of them.
        """
        self._data = data
        self._decode = decode
        self._values: list[Value] | None = None

    def __iter__(self) -> Iterator[Value]:
        if self._values is None:
            self._values = self._decode(self._data)
        return iter(self._values)


class Key(NamedTuple):
    """The domain, name and overload that tell a local function from all others."""

    domain: str
    name: str
    overload: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A local function."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: list[Node]
    #: Versions of the operator sets that its nodes are written for, by domain.
    opsets: dict[str, int]
    #: Attributes that calls may have, with their defaults.
    defaults: Attributes
    #: Names of attributes that have no default.
    attributes: tuple[str, ...]
    #: Serialised.
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model."""

    ir_version: int
    #: Versions of the operator sets by domain, as the file has them; "" is the standard one.
    opsets: dict[str, int]
    functions: dict[Key, Function]
    graph: Graph
