"""What reading an ONNX model says about its values, beside the graph: elements of small tensors, and bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.graph.stored import StoredTensor

if TYPE_CHECKING:
    from flopwise.readers.onnx.read import Resolved
    from flopwise.readers.onnx.types import Shapes


class Flow(NamedTuple):
    """What flows into and out of a body, each under the names that it may have in the graph, the likeliest first."""

    takes: tuple[tuple[str, ...], ...]
    gives: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class ModelFacts:
    """Facts about the values of a graph."""

    #: Elements of small tensors by name.
    values: dict[str, Any] = field(default_factory=dict)
    #: Position of a control-flow operator and which of its graphs -> what flows through.
    flows: dict[tuple[int, str], Flow] = field(default_factory=dict)
    #: Stored tensors by name.
    weights: Mapping[str, StoredTensor] = field(default_factory=dict)


def facts_of(resolved: Resolved, weights: Mapping[str, StoredTensor]) -> ModelFacts:
    """The facts about an ONNX model."""
    facts = ModelFacts(weights=weights)
    facts.values.update(_input_elements(resolved.proto.graph))
    _collect(facts, resolved.proto.graph, resolved.shapes, "", lambda key: (key,), [0])
    return facts


def _input_elements(graph: Any) -> Iterator[tuple[str, Any]]:
    """The elements of inputs whose elements the user gives, by name; they stand among the stored tensors."""
    from onnx import numpy_helper

    inputs = {i.name for i in graph.input}
    for tensor in graph.initializer if inputs else ():
        if tensor.name in inputs:
            with contextlib.suppress(ValueError, TypeError):  # a stored tensor without its elements
                yield tensor.name, numpy_helper.to_array(tensor)


def _collect(
    facts: ModelFacts,
    graph: Any,
    shapes: Shapes,
    prefix: str,
    names: Callable[[str], tuple[str, ...]],
    place: list[int],
) -> None:
    """The facts about a graph and the bodies in it; ``place`` is the position of its next node."""
    facts.values.update((prefix + key, value) for key, value in shapes.values.items() if hasattr(value, "shape"))
    for node in graph.node:
        position = place[0]
        place[0] += 1
        first = next((o for o in node.output if o), "")
        for inner in shapes.inner.get(first, ()):
            above = f"{prefix}{node.name}/"
            own = {t.name for t in inner.graph.initializer} | {*inner.takes}
            own |= {o for n in inner.graph.node for o in n.output}
            body = f"{above}{inner.part}/"
            stored = f"{above}{inner.part.partition('[')[0]}/"

            def within(key: str, own: set[str] = own, body: str = body, stored: str = stored) -> tuple[str, ...]:
                return (body + key, stored + key) if key in own else names(key)

            takes = tuple(within(name) for name in inner.takes)
            gives = tuple(within(output.name) for output in inner.graph.output)
            facts.flows[position, inner.part] = Flow(takes, gives)
            _collect(facts, inner.graph, inner.shapes, body, within, place)
