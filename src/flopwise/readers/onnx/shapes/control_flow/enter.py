"""Which rule resolves the bodies of which control-flow operator; the rule of If."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from flopwise.readers.onnx.shapes.control_flow.loop import loop
from flopwise.readers.onnx.shapes.control_flow.run import pass_on_warnings, run, scalar
from flopwise.readers.onnx.shapes.control_flow.scan import scan, sequence_map
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import Facts, Inner


def branches(state: State, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Facts]]:
    """The bodies of an If and its outputs."""
    condition = scalar(state.values.get(node.input[0]) if node.input else None)
    names = [n for n in ("then_branch", "else_branch") if n in graphs]
    if condition is not None:
        taken = "then_branch" if condition else "else_branch"
        names = [n for n in names if n == taken]
    runs = [run(state, graphs[n], []) for n in names]
    pass_on_warnings(state, runs)
    inner = [r.inner(n, 1, len(names) > 1) for n, r in zip(names, runs, strict=True)]
    if not runs:
        return inner, []
    if len(runs) == 1:
        return inner, runs[0].outputs
    outputs = []
    for one, other in zip(runs[0].outputs, runs[1].outputs, strict=False):
        bound = one.bound | other.bound
        outputs.append(one.without_value()._replace(bound=bound) if one.same(other) else Facts())
    return inner, outputs


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
