"""Control flow in a function body written out: the branch that is taken, and a Scan step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import onnx
from onnx import helper

#: The nodes so far -> every value that they make.
Evaluate = Callable[[Sequence[onnx.NodeProto]], Mapping[str, Any]]


def inlined(nodes: Iterable[onnx.NodeProto], evaluate: Evaluate) -> list[onnx.NodeProto]:
    """The nodes with the bodies of If and Scan in their place."""
    flat: list[onnx.NodeProto] = []
    numbers = count()
    for node in nodes:
        _take(node, flat, evaluate, numbers)
    return flat


def _take(node: onnx.NodeProto, flat: list[onnx.NodeProto], evaluate: Evaluate, numbers: Iterator[int]) -> None:
    graphs = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
    if node.op_type == "If":
        taken = graphs["then_branch" if evaluate(flat)[node.input[0]] else "else_branch"]
        made = _body(taken, {}, flat, evaluate, numbers)
        flat.extend(helper.make_node("Identity", [a], [b]) for a, b in zip(made, node.output, strict=True))
    elif node.op_type == "Scan":
        _scan(node, graphs["body"], flat, evaluate, numbers)
    else:
        flat.append(node)


def _body(
    graph: onnx.GraphProto,
    names: dict[str, str],
    flat: list[onnx.NodeProto],
    evaluate: Evaluate,
    numbers: Iterator[int],
) -> list[str]:
    """Take the nodes of a body under names of their own; the names of its outputs."""
    number = next(numbers)
    names = {**names, **{o: f"{o}@{number}" for node in graph.node for o in node.output if o}}
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
        for attribute in copy.attribute:
            for inner in attribute.g.node:
                inner.input[:] = [names.get(name, name) for name in inner.input]
        _take(copy, flat, evaluate, numbers)
    return [names.get(o.name, o.name) for o in graph.output]


def _scan(
    node: onnx.NodeProto,
    body: onnx.GraphProto,
    flat: list[onnx.NodeProto],
    evaluate: Evaluate,
    numbers: Iterator[int],
) -> None:
    """All steps, forwards along the first axis. A state of zeros is a state like any other."""
    scanned = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
    first, sequences = list(node.input[:-scanned]), list(node.input[-scanned:])
    states = [f"{name}@start{next(numbers)}" for name in first]
    flat.extend(helper.make_node("Concat", [a], [b], axis=0) for a, b in zip(first, states, strict=True))
    steps = len(evaluate(flat)[sequences[0]])
    collected: list[list[str]] = []
    for step in range(steps):
        at = f"step@{next(numbers)}"
        flat.append(helper.make_node("Constant", [], [at], value_int=step))
        elements = [f"{name}@{next(numbers)}" for name in sequences]
        flat.extend(helper.make_node("Gather", [a, at], [b], axis=0) for a, b in zip(sequences, elements, strict=True))
        names = dict(zip([i.name for i in body.input], [*states, *elements], strict=True))
        made = _body(body, names, flat, evaluate, numbers)
        states = made[: len(states)]
        collected.append(made[len(states) :])
    flat.extend(helper.make_node("Identity", [a], [b]) for a, b in zip(states, node.output, strict=False))
    for parts, output in zip(zip(*collected, strict=True), node.output[len(states) :], strict=True):
        axis = f"axis@{next(numbers)}"
        flat.append(helper.make_node("Constant", [], [axis], value_ints=[0]))
        rows = [f"{part}@row" for part in parts]
        flat.extend(helper.make_node("Unsqueeze", [a, axis], [b]) for a, b in zip(parts, rows, strict=True))
        flat.append(helper.make_node("Concat", rows, [output], axis=0))
