"""Which rule resolves the bodies of which control-flow operator."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from flopwise.readers.onnx.shapes.control_flow.branches import branches
from flopwise.readers.onnx.shapes.control_flow.loop import loop
from flopwise.readers.onnx.shapes.control_flow.scan import scan, sequence_map
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import Facts, Inner

#: The bodies of an operator and what comes out of it, from the state of the graph around it and its graphs by name.
_Rule = Callable[[State, onnx.NodeProto, dict[str, onnx.GraphProto]], tuple[list[Inner], list[Facts]]]

_RULES: dict[str, _Rule] = {"If": branches, "Loop": loop, "Scan": scan, "SequenceMap": sequence_map}


def enter(state: State, node: onnx.NodeProto) -> None:
    """Resolve the bodies of a control-flow operator and write down what comes out of it."""
    graphs = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
    rule = _RULES.get(node.op_type)
    if rule is None or not graphs or not any(node.output):
        return
    inner, outputs = rule(state, node, graphs)
    state.shapes.inner[next(o for o in node.output if o)] = inner
    for name, facts in zip(node.output, outputs, strict=False):
        if name:
            state.learn(name, facts)
