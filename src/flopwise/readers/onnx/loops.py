"""Names for the control flow of a model, so that ``--trip NAME=N`` can say how often a loop runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx

from flopwise.errors import InputError
from flopwise.readers.onnx.types import CONTROL_FLOW, bodies


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
    """Nothing, when the user names loops that the model has.

    Raises:
        InputError: there is no such loop, or a number of trips makes no sense.
    """
    for name, number in trips.items():
        if name not in met:
            listed = ", ".join(repr(n) for n in met) or "none"
            raise InputError(f"no loop is named {name!r}; the loops of the model are: {listed}")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 63:
            raise InputError(f"loop {name!r} cannot run {number!r} times")
