"""A model as a program: graphs, nodes, attributes and types, as a file holds them.

Names are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, without "Proto".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from flopwise.formats.kit.tensors import Stored
from flopwise.formats.sources.wire import BYTES, fields
from flopwise.graph import Node as GraphNode
from flopwise.operators.operator import Operator as Row
from flopwise.operators.size import OPEN
from flopwise.operators.tables import with_effect
from flopwise.sizes.facts import NOTHING, Fact, Facts

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
    #: Makes the node of the graph as the file has it, and those of its parts, from that of the house's operator, the
    #: node of the program and the ``flopwise.sizes.scope.Scope`` of its graph.
    shown: Callable[..., list[GraphNode]]


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

    @property
    def has_bodies(self) -> bool:
        """True if its attributes hold graphs."""
        return self.may_have_bodies and next(self.attributes.graphs(), None) is not None


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
    #: Tensors that keep their elements from one call to the next, and are neither handed in nor out.
    states: list[Value] = field(default_factory=list)

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


# The types that a file states, as facts; and messages as one line.

#: Longest message, in characters.
LONGEST_MESSAGE = 600

#: Sizes of symbols in place of those of a model.
_NO_SYMBOLS: Mapping[str, int] = {}


def concrete(type_: Type | None) -> tuple[int, ...] | None:
    """The shape of a tensor type, or of what an optional holds, if every extent is a number; else None."""
    if isinstance(type_, OptionalType):
        return concrete(type_.element)
    if not isinstance(type_, TensorType) or type_.dims is None:
        return None
    numbers = tuple([dim for dim in type_.dims if type(dim) is int])
    return numbers if len(numbers) == len(type_.dims) else None


def is_tensor(type_: Type | None) -> bool:
    """True if a type is that of a dense tensor, or no type is stated."""
    return type_ is None or (isinstance(type_, TensorType) and not isinstance(type_, SparseType))


def tensor_type(type_: Type | None) -> TensorType | None:
    """The type of a tensor, also of one that is optional; None for a sequence or map."""
    if isinstance(type_, OptionalType):
        return tensor_type(type_.element)
    return type_ if isinstance(type_, TensorType) else None


def dims_of(type_: Type | None) -> tuple[int | str | None, ...] | None:
    """The dimensions of a tensor as the file states them; None where it states none."""
    return type_.dims if isinstance(type_, TensorType) else None


def dtype_of(type_: Type | None) -> str | None:
    """The element type of a tensor as the file states it."""
    return type_.dtype if isinstance(type_, TensorType) else None


def bound(type_: Type | None, symbols: Mapping[str, int]) -> Type | None:
    """A tensor type with numbers in place of symbols."""
    if not isinstance(type_, TensorType) or type_.dims is None or symbols.keys().isdisjoint(map(str, type_.dims)):
        return type_
    dims = tuple([symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.dims])
    return type(type_)(type_.dtype, dims)


def fact_of(facts: Facts, type_: Type | None, symbols: Mapping[str, int] = _NO_SYMBOLS) -> Fact:
    """The fact about a value that its type states.

    Args:
        facts: where facts come from.
        type_: the type; None where the file states none.
        symbols: sizes of symbols.
    """
    if isinstance(type_, TensorType):
        if type_.dims is None:
            return facts.tensor(type_.dtype, None)
        dims = [symbols.get(dim) if isinstance(dim, str) else dim for dim in type_.dims]
        return facts.tensor(type_.dtype, tuple([OPEN if dim is None else dim for dim in dims]))
    if isinstance(type_, SequenceType):
        item = fact_of(facts, type_.element, symbols)
        return facts.sequence(item.dtype, None, item=item)
    if isinstance(type_, OptionalType):
        held = fact_of(facts, type_.element, symbols)
        if held.kind != "tensor":
            return facts.sequence(held.dtype, None, "optional sequence", held.item)
        return facts.optional(held.dtype, held.shape)
    if isinstance(type_, MapType):
        return facts.sequence(fact_of(facts, type_.value, symbols).dtype, None)
    return NOTHING


def one_line(text: str) -> str:
    """A message as one line that a terminal can show: names in a file may hold anything, and be of any length."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def named(graph: Graph) -> Graph:
    """The graph with a name for each control-flow operator: its own, or its type with a running number (``loop_1``)."""
    return _with_names(graph, Counter())


def _with_names(graph: Graph, seen: Counter[str]) -> Graph:
    if CONTROL_FLOW.isdisjoint([operation.op for operation in graph.operations]):
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        seen[node.op] += 1
        if not node.domain and node.op in CONTROL_FLOW:
            node = node._replace(name=node.name or f"{node.op.lower()}_{seen[node.op]}")
            node = node.with_bodies(lambda body: _with_names(body, seen))
        nodes.append(node)
    return replace(graph, nodes=nodes)


def entries(data: Iterable[bytes]) -> dict[str, str]:
    """Serialised entries of metadata by their keys."""
    return dict(map(entry_of, data))


def entry_of(data: bytes) -> tuple[str, str]:
    """Key and text of an entry of metadata or external data."""
    texts = {1: "", 2: ""}
    for tag, start, end in fields(data):
        if tag & 7 == BYTES and tag >> 3 in texts:
            texts[tag >> 3] = data[start:end].decode("utf-8", "replace")
    return texts[1], texts[2]
