"""A model's subgraphs as the program that the one engine of sizes takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flopwise._limits import spend
from flopwise.errors import ModelError, damaged
from flopwise.formats.sources.source import Source
from flopwise.formats.tflite.decode import CUSTOM, WHAT, Model
from flopwise.formats.tflite.lower.lowered import Application
from flopwise.formats.tflite.lower.table import CALLS, CONTROL_FLOW, lower
from flopwise.operators.shape import Element
from flopwise.readers.subgraphs.lowered import Lowered
from flopwise.readers.subgraphs.program import NOWHERE, Attributes, Graph, Name, Node, Stored, unpacked
from flopwise.readers.subgraphs.tensors import Operator, Tensor

#: Subgraphs in subgraphs, at most.
_DEPTH = 32


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
        elif self._inside:
            spend(repeated_nodes=made.operators)
        return made

    def _error(self, why: str) -> ModelError:
        return damaged(self.source.name, why, WHAT)

    def _graph(self, number: int) -> Graph:
        subgraph = self.model.subgraphs[number]
        tensors = {f"{number}:{place}": tensor for place, tensor in enumerate(subgraph.tensors)}

        def names(places: Sequence[int]) -> tuple[str, ...]:
            return tuple([f"{number}:{place}" if place >= 0 else "" for place in places])

        computed = {*names(subgraph.inputs), *(name for one in subgraph.operators for name in names(one.outputs))}
        stored = {
            name: Stored(name, tensor.dtype, tensor.shape, tensor.data or NOWHERE)
            for name, tensor in tensors.items()
            if _has_elements(tensor) and not tensor.variable and name not in computed
        }
        variables = (name for name, tensor in tensors.items() if tensor.variable)
        known = {"", *stored, *names(subgraph.inputs), *variables}
        nodes = []
        for operator in subgraph.operators:
            inputs, outputs = names(operator.inputs), names(operator.outputs)
            strange = tuple([name for name in inputs if name not in known])
            if strange and operator.op != CUSTOM:
                raise self._error(f"{operator.op} reads {tensors[strange[0]].name!r} before anything has made it")
            # Compilers hand their operators memory to work in, as tensors that nothing fills; it lives while they run.
            inputs, outputs = tuple(["" if name in strange else name for name in inputs]), (*outputs, *strange)
            known.update(outputs)
            nodes.append(self._node(operator, inputs, outputs, tensors))
        starts, ends = (
            tuple([Name(name) for name in names(side) if name]) for side in (subgraph.inputs, subgraph.outputs)
        )
        return Graph(number, tuple(nodes), starts, ends, stored, tensors, self._operators(nodes))

    def _operators(self, nodes: Sequence[Node]) -> int:
        """The number of operators of a subgraph, with those of the subgraphs that they run."""
        bodies = [body for node in nodes for body in node.attributes.values.values() if isinstance(body, Graph)]
        return len(nodes) + sum(body.operators for body in bodies)

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
            return self.elements(Stored(tensor.name, tensor.dtype, tensor.shape, tensor.data or NOWHERE))

        return elements

    def elements(self, stored: Stored) -> tuple[Element, ...] | None:
        """The elements of a small stored tensor; None for any other."""
        return unpacked(stored, self.source)


def _has_elements(tensor: Tensor) -> bool:
    """True if a file holds the elements of a tensor, or it has none."""
    return tensor.data is not None or 0 in tensor.shape
