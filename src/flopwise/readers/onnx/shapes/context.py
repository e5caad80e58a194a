"""What the resolving of one graph can see of its surroundings, and the names of loops, for ``--trip NAME=N``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import onnx

from flopwise.errors import InputError
from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.types import CONTROL_FLOW, Facts, Shapes, bodies

#: Operators in bodies that are looked at before loops are no longer followed one iteration after the other.
STEPS = 20_000

#: Members of sequences that are looked at in all operators together; to make one costs as much as to look at 12.
MEMBERS, MADE = 1 << 23, 12

#: Ways in which the bodies of control flow may run, before a model is refused.
BODIES = 20_000


class Context(NamedTuple):
    """What a graph can see from outside, and what all graphs of a model share."""

    #: Resolves the shapes of a graph in a context; it is handed in, so that bodies are resolved like the model itself.
    resolver: Callable[[onnx.ModelProto, Context], Shapes]
    #: Facts about the tensors of the surrounding graphs that its operators take, and about its own inputs.
    facts: dict[str, Facts]
    #: Whether the graph is the body of a control-flow operator.
    inside: bool
    #: How often loops run, by name, as the user says.
    trips: dict[str, int]
    #: The names of all control-flow operators so far, with their trips where these are certain.
    met: dict[str, int | None]
    #: onnx's own shape inference.
    inference: Inference
    #: Results of operators on small values, by all that they follow from.
    results: dict[Any, list[Any]]
    #: How many operators may still be looked at in order to follow loops; one element, shared by all graphs.
    steps: list[int]
    #: The bodies resolved so far, by all that they follow from: a body in a loop in a loop is met again and again.
    runs: dict[Any, Any]
    #: How many more there may be; one element, shared by all graphs.
    bodies: list[int]
    #: How many more members of sequences may be looked at; one element, shared by all graphs.
    members: list[int]


def name_control_flow(graph: onnx.GraphProto) -> None:
    """Give a name to each control-flow operator that has none: the operator with its running number (``loop_1``)."""
    _name(graph, Counter())


def _name(graph: onnx.GraphProto, seen: Counter[str]) -> None:
    operators = [node.op_type for node in graph.node]
    if CONTROL_FLOW.isdisjoint(operators):
        seen.update(operators)
        return
    for node in graph.node:
        seen[node.op_type] += 1
        if not node.domain and node.op_type in CONTROL_FLOW:
            node.name = node.name or f"{node.op_type.lower()}_{seen[node.op_type]}"
            for body in bodies(node):
                _name(body, seen)


def refuse_unknown_loops(trips: Mapping[str, int], met: Mapping[str, int | None]) -> None:
    """Refuse names of loops that the model does not have.

    Raises:
        InputError: there is no such loop, or a number of trips makes no sense.
    """
    for name, number in trips.items():
        if name not in met:
            listed = ", ".join(repr(n) for n in met) or "none"
            raise InputError(f"no loop is named {name!r}; the loops of the model are: {listed}")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 63:
            raise InputError(f"loop {name!r} cannot run {number!r} times")
