"""A model's subgraphs as the program that the one engine of sizes takes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.graph import Layout
from flopwise.operators.operator import Operator as Row
from flopwise.operators.shape import Element
from flopwise.readers.source.source import Source
from flopwise.readers.tflite.file.model import Extent, Model, Operator, Tensor
from flopwise.readers.tflite.lower.lowered import Application, Lowered
from flopwise.readers.tflite.lower.table import CALLS, CONTROL_FLOW, lower
from flopwise.sizes.facts import LARGEST_VALUE, Fact
from flopwise.sizes.run import Pass, Results
from flopwise.sizes.site import Site

#: How the elements of small stored tensors are read.
KINDS = {
    "float32": "f",
    "float16": "e",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
}

#: Where the elements of a tensor lie that has none.
_EMPTY = Extent(0, 0)

#: Operators of a graph, at most: what subgraphs grow to that run each other.
_MOST = 1_000_000

#: Subgraphs in subgraphs, at most.
_DEPTH = 32


class Name(NamedTuple):
    """An input or output of a subgraph."""

    name: str
    type: None = None


class Stored(NamedTuple):
    """A stored tensor of a subgraph."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    data: Extent


class Attributes(NamedTuple):
    """The attributes of a node, bodies included."""

    values: Mapping[str, Any]


class Node(NamedTuple):
    """An operator of a subgraph."""

    #: As no other node has it.
    operation: object
    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes
    version: int
    #: The operator of the file, and what it is in the house.
    operator: Operator
    lowered: Lowered
    #: Element types of the results, as the file states them.
    dtypes: tuple[str | None, ...]
    #: What the file's inputs are, whichever of them ``inputs`` has.
    given: tuple[str, ...]

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""
        return next(filter(None, self.outputs), "")


@dataclass(frozen=True, eq=False)
class Graph:
    """A subgraph."""

    number: int
    nodes: tuple[Node, ...]
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    initializers: Mapping[str, Stored]
    #: The file's tensors by their names in the program.
    tensors: Mapping[str, Tensor]
    #: Its operators, with those of the subgraphs that they run.
    operators: int


class Programs:
    """The subgraphs of a model, each made once."""

    def __init__(self, model: Model, source: Source) -> None:
        self.model, self.source = model, source
        self._made: dict[int, Graph] = {}
        self._inside: list[int] = []

    def graph(self, number: int) -> Graph:
        """A subgraph as a program.

        Raises:
            ModelError: there is none, it runs itself, or an operator reads what nothing has made.
        """
        made = self._made.get(number)
        if made is None:
            if not 0 <= number < len(self.model.subgraphs):
                raise self._error(f"subgraph {number} is named, but there are {len(self.model.subgraphs)}")
            if number in self._inside or len(self._inside) > _DEPTH:
                raise self._error(f"subgraph {number} runs itself, or subgraphs are nested too deep")
            self._inside.append(number)
            made = self._made[number] = self._graph(number)
            self._inside.pop()
        return made

    def _error(self, why: str) -> ModelError:
        return ModelError(f"{self.source.name}: damaged TensorFlow Lite model ({why})")

    def _graph(self, number: int) -> Graph:
        subgraph = self.model.subgraphs[number]
        tensors = {f"{number}:{place}": tensor for place, tensor in enumerate(subgraph.tensors)}

        def names(places: Sequence[int]) -> tuple[str, ...]:
            return tuple([f"{number}:{place}" if place >= 0 else "" for place in places])

        computed = {*names(subgraph.inputs), *(name for one in subgraph.operators for name in names(one.outputs))}
        stored = {
            name: Stored(name, tensor.dtype, tensor.shape, tensor.data or _EMPTY)
            for name, tensor in tensors.items()
            if _has_elements(tensor) and not tensor.variable and name not in computed
        }
        variables = (name for name, tensor in tensors.items() if tensor.variable)
        known = {"", *stored, *names(subgraph.inputs), *variables}
        nodes = []
        for operator in subgraph.operators:
            inputs, outputs = names(operator.inputs), names(operator.outputs)
            if strange := next((name for name in inputs if name not in known), ""):
                raise self._error(f"{operator.op} reads {tensors[strange].name!r} before anything has made it")
            known.update(outputs)
            nodes.append(self._node(operator, inputs, outputs, tensors))
        starts, ends = (
            tuple([Name(name) for name in names(side) if name]) for side in (subgraph.inputs, subgraph.outputs)
        )
        return Graph(number, tuple(nodes), starts, ends, stored, tensors, self._operators(nodes))

    def _operators(self, nodes: Sequence[Node]) -> int:
        """The number of operators of a subgraph, with those of the subgraphs that they run.

        Raises:
            ModelError: there are too many.
        """
        bodies = [body for node in nodes for body in node.attributes.values.values() if isinstance(body, Graph)]
        operators = len(nodes) + sum(body.operators for body in bodies)
        if operators > _MOST:
            raise self._error(f"its subgraphs run each other in more than {_MOST:,} operators")
        return operators

    def _node(
        self, operator: Operator, inputs: tuple[str, ...], outputs: tuple[str, ...], tensors: Mapping[str, Tensor]
    ) -> Node:
        given = tuple([tensors[name] if name else None for name in inputs])
        results = tuple([tensors[name] if name else None for name in outputs])
        lowered, bodies = self._lowered(Application(operator, given, results, self._elements_of(given)))
        taken = inputs
        if lowered.inputs is not None and not lowered.as_in_file:
            taken = tuple([inputs[place] if 0 <= place < len(inputs) else "" for place in lowered.inputs])
        domain, _, op = lowered.op.rpartition("::")
        domain = "" if bodies else domain  # flows go by the bare name
        name = next((one.name for one in results if one is not None), "").partition(";")[0]
        dtypes = tuple([None if one is None else one.dtype for one in results])
        values = {**lowered.attrs, **bodies}
        return Node(
            object(), op, domain, name, taken, outputs, Attributes(values), 0, operator, lowered, dtypes, inputs
        )

    def _lowered(self, application: Application) -> tuple[Lowered, dict[str, Graph]]:
        """The operator of the house, and the subgraphs that it runs by what they are called there."""
        operator = application.operator
        options = operator.options
        if operator.op in CALLS:
            return Lowered("tflite::CALL"), {"body": self.graph(options["body"])}
        if operator.op not in CONTROL_FLOW:
            return lower(application), {}
        parts = ("then_branch", "else_branch") if operator.op == "IF" else ("cond", "body")
        bodies = {part: self.graph(options[name]) for part, name in zip(parts, ("cond", "body"), strict=True)}
        return Lowered(CONTROL_FLOW[operator.op]), bodies

    def _elements_of(self, tensors: Sequence[Tensor | None]) -> Callable[[int], tuple[object, ...] | None]:
        def elements(place: int) -> tuple[Element, ...] | None:
            tensor = tensors[place] if place < len(tensors) else None
            if tensor is None or not _has_elements(tensor):
                return None
            return self.elements(Stored(tensor.name, tensor.dtype, tensor.shape, tensor.data or _EMPTY))

        return elements

    def elements(self, stored: Stored) -> tuple[Element, ...] | None:
        """The elements of a small stored tensor; None for one that is large, or not stored as its shape says."""
        kind, nbytes = KINDS.get(stored.dtype), stored.data.end - stored.data.start
        if kind is None or nbytes > 8 * LARGEST_VALUE:
            return None
        form = f"<{nbytes // struct.calcsize(f'<{kind}')}{kind}"
        if struct.calcsize(form) != nbytes:
            return None
        return struct.unpack(form, self.source.read(stored.data.start, nbytes))


def _has_elements(tensor: Tensor) -> bool:
    """True if a file holds the elements of a tensor, or it has none."""
    return tensor.data is not None or 0 in tensor.shape


class LayoutPass(Pass):
    """The pass over a program whose nodes may keep axes in other orders than their rules."""

    def applied(self, known: Row, site: Site, valued: bool) -> Results:
        node: Any = site.surroundings.node
        lowered: Lowered = node.lowered
        if lowered.shape is not None:
            known = known._replace(shape=lowered.shape, value=lowered.value)
            valued = lowered.value is not None and all(fact.elements is not None for fact in site.given)
        layout = lowered.layout if lowered.layout and not lowered.as_in_file else Layout()
        site.given = tuple([self._turned(fact, *order) for fact, order in _with(site.given, layout.inputs)])
        results = super().applied(known, site, valued)
        back = [tuple(sorted(range(len(order)), key=order.__getitem__)) if order else None for order in layout.outputs]
        facts = [self._turned(fact, *order) for fact, order in _with(results.facts, back)]
        typed = [self._typed(fact, dtype) for fact, dtype in zip(facts, node.dtypes, strict=True)]
        return results._replace(facts=tuple(typed))

    def _turned(self, fact: Fact, *order: int) -> Fact:
        """A fact with its axes in another order; itself where it has other axes."""
        if not order or fact.shape is None or len(fact.shape) != len(order):
            return fact
        return self.facts.tensor(fact.dtype, tuple([fact.shape[axis] for axis in order]))

    def _typed(self, fact: Fact, dtype: str | None) -> Fact:
        """A fact with the element type that the file states."""
        if fact.kind != "tensor" or fact.dtype == dtype:
            return fact
        plain = self.facts.tensor(dtype, fact.shape)
        return plain if fact.elements is None else self.facts.constant(plain, fact.elements)


def _with(facts: Sequence[Fact], orders: Sequence[tuple[int, ...] | None]) -> list[tuple[Fact, tuple[int, ...]]]:
    """Each fact with the order of its axes; () where they are in order."""
    return [(fact, (orders[place] if place < len(orders) else None) or ()) for place, fact in enumerate(facts)]
