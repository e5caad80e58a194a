"""Scan and SequenceMap: the body once for each slice, or for each member of a sequence."""

from __future__ import annotations

import onnx

from flopwise.readers.onnx.shapes.control_flow.axes import extent, with_axis, without_axis
from flopwise.readers.onnx.shapes.control_flow.run import grouped, pass_on_warnings, run
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import Facts, Inner, describe


def scan(state: State, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Facts]]:
    """The body, once for each element along the scanned axes (in operator set 8 also for each member of the batch)."""
    body = graphs["body"]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}
    batched = state.opsets.get("", 1) < 9
    inputs = [state.facts(name) for name in node.input[1 if batched else 0 :]]
    states = len(inputs) - attributes.get("num_scan_inputs", 0)
    scanned = inputs[states:]
    axes = [1] * len(scanned) if batched else list(attributes.get("scan_input_axes", [])) or [0] * len(scanned)
    lengths = {extent(facts, axis) for facts, axis in zip(scanned, axes, strict=False)} - {None}
    trips = lengths.pop() if len(lengths) == 1 else state.context.trips.get(node.name)
    batch = extent(inputs[0], 0) if batched and inputs else 1
    first_states = [without_axis(facts, 0) if batched else facts for facts in inputs[:states]]
    slices = [
        without_axis(without_axis(facts, 1), 0) if batched else without_axis(facts, axis)
        for facts, axis in zip(scanned, axes, strict=False)
    ]
    general = run(state, body, [facts.without_value() for facts in (*first_states, *slices)])
    pass_on_warnings(state, [general])
    total = None if trips is None or batch is None else trips * batch
    state.context.met[node.name] = total
    if total is None:
        state.shapes.warnings.append(f"{describe(node)} runs an unknown number of times; give the input shapes with -i")
    out_axes = list(attributes.get("scan_output_axes", [])) or [0] * (len(general.outputs) - states)
    outputs = [with_axis(facts, 0, batch) if batched else facts for facts in general.outputs[:states]]
    for facts, axis in zip(general.outputs[states:], out_axes, strict=False):
        whole = with_axis(with_axis(facts, 0, trips), 0, batch) if batched else with_axis(facts, axis, trips)
        outputs.append(whole)
    return [general.inner("body", total)], [facts.without_value() for facts in outputs]


def sequence_map(
    state: State, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]
) -> tuple[list[Inner], list[Facts]]:
    """The body, once for each member of the sequence."""
    body = graphs["body"]
    inputs = [state.facts(name) for name in node.input]
    sequence = inputs[0].items if inputs else None
    if sequence is None:
        stated = state.context.trips.get(node.name)
        general = run(state, body, [_member(facts, None) for facts in inputs])
        pass_on_warnings(state, [general])
        state.context.met[node.name] = stated
        if stated is None:
            state.shapes.warnings.append(
                f"{describe(node)} runs an unknown number of times; give it with --trip {node.name}=N"
            )
        items = [None if stated is None or facts.type is None else [facts.type] * stated for facts in general.outputs]
        return [general.inner("body", stated)], [Facts(items=i) for i in items]
    runs = []
    for place in range(len(sequence)):
        if place and state.context.steps[0] <= 0:
            break
        runs.append(run(state, body, [_member(facts, place) for facts in inputs]))
    pass_on_warnings(state, runs)
    state.context.met[node.name] = len(sequence)
    outputs = []
    for place in range(len(node.output)):
        types = [one.outputs[place].type for one in runs if place < len(one.outputs)]
        whole = len(types) == len(sequence) and all(t is not None for t in types)
        outputs.append(Facts(items=[t for t in types if t is not None] if whole else None))
    return grouped(runs), outputs


def _member(facts: Facts, place: int | None) -> Facts:
    """The member of a sequence at a place; what is not a sequence is handed to each iteration whole."""
    if facts.items is not None:
        return Facts(facts.items[place]) if place is not None and place < len(facts.items) else Facts()
    if facts.type is not None and facts.type.HasField("sequence_type"):
        return Facts(facts.type.sequence_type.elem_type)
    return facts
