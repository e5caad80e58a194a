"""Loop: its body as often as the trip count and the condition say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import onnx

from flopwise.errors import InputError
from flopwise.readers.onnx.shapes.control_flow.axes import repeated, stack, widened
from flopwise.readers.onnx.shapes.control_flow.run import Run, grouped, pass_on_warnings, run, scalar
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import Facts, Inner, describe

#: Loops up to this long are followed for their values alone.
SHORT = 64


@dataclass(slots=True)
class _Iterations:
    """The iterations of a loop one by one, and what comes out of it."""

    runs: list[Run]
    outputs: list[Facts]


def loop(state: State, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Facts]]:
    """The bodies of a Loop and its outputs.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    body = graphs["body"]
    start = [state.facts(name) for name in node.input[2:]]
    condition = scalar(state.values.get(node.input[1])) if len(node.input) > 1 and node.input[1] else True
    trip_count = state.interval(node.input[0]) if node.input and node.input[0] else None
    count = scalar(trip_count.high) if trip_count is not None else None
    stated = state.context.trips.get(node.name)
    most = 0 if condition is not None and not condition else None if count is None else max(int(count), 0)

    general = _general(state, body, start)
    goes_on = scalar(general.outputs[0].value) if general.outputs else None
    if goes_on is not None and not goes_on:
        most = min(1, most if most is not None else 1)
    certain = trip_count is None or trip_count.exact
    exact = certain and most is not None and (most <= 1 or goes_on is not None) and condition is not None
    carried = general.outputs[1 : 1 + len(start)]
    stable = all(a.same(b) for a, b in zip(start, carried, strict=True))
    short = most is not None and most <= SHORT and bool(start) and all(facts.value is not None for facts in start)
    if certain and (not (exact and stable and general.resolved) or short):
        limit = most if exact or stated is None else stated
        if (limit is not None or goes_on is None) and (iterations := _follow(state, body, start, limit, stated)):
            state.context.met[node.name] = len(iterations.runs)
            pass_on_warnings(state, iterations.runs)
            return grouped(iterations.runs), iterations.outputs
    pass_on_warnings(state, [general])
    trips = most if exact else stated if stated is not None else most
    if stated is not None and exact and stated != trips:
        raise InputError(f"{describe(node)} runs {trips} times, not {stated}")
    if not exact and stated is None:
        more = f"at most {trips} times, counted as {trips}" if trips is not None else "an unknown number of times"
        state.shapes.warnings.append(f"{describe(node)} runs {more}; give it with --trip {node.name}=N")
    state.context.met[node.name] = trips
    bound = not exact and stated is None and trips is not None
    scans = [repeated(facts, trips, bound) for facts in general.outputs[1 + len(start) :]]
    outputs = start if trips == 0 else [facts.without_value() for facts in carried]
    return [general.inner("body", trips, bound=bound)], [*outputs, *scans]


def _general(state: State, body: onnx.GraphProto, start: Sequence[Facts]) -> Run:
    """A run that stands for all iterations: nothing is known about values, nor about extents that change."""
    always = Facts(value=numpy.array(True), type=onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, []))
    count = Facts(type=onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, []))
    carried = [facts.without_value() for facts in start]
    general = run(state, body, [count, always, *carried])
    for _ in range(8):  # each round opens an extent; tensors have few
        after = general.outputs[1 : 1 + len(carried)]
        wider = [widened(a, b) for a, b in zip(carried, after, strict=False)]
        if all(a is b for a, b in zip(carried, wider, strict=False)):
            break
        carried = wider
        general = run(state, body, [count, always, *carried])
    return general


def _follow(
    state: State, body: onnx.GraphProto, start: list[Facts], limit: int | None, stated: int | None
) -> _Iterations | None:
    """The iterations one by one; None when that is too long, or nothing says where the loop ends."""
    if limit is not None and limit * max(len(body.node), 1) > state.context.steps[0]:
        return None
    carried, runs, scans = list(start), list[Run](), list[list[Facts]]()
    goes_on = True
    while goes_on and (limit is None or len(runs) < limit):
        if state.context.steps[0] <= 0:
            return None
        iteration = numpy.array(len(runs))
        count = Facts(onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, []), value=iteration)
        always = Facts(onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, []), value=numpy.array(True))
        one = run(state, body, [count, always, *carried])
        condition = scalar(one.outputs[0].value)
        if condition is None and stated is None:
            return None
        runs.append(one)
        scans.append(one.outputs[1 + len(start) :])
        carried = one.outputs[1 : 1 + len(start)]
        goes_on = condition is None or bool(condition)
    if not runs:
        return None
    return _Iterations(runs, [*carried, *map(stack, zip(*scans, strict=True))])
