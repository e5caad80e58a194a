"""One run of the body of a control-flow operator: its graph resolved with what flows into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx.normalize.order import needs
from flopwise.readers.onnx.shapes import context as contexts
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import Facts, Inner, Shapes, each, shapes_of


@dataclass(slots=True)
class Run:
    """One run of a body."""

    graph: onnx.GraphProto
    shapes: Shapes
    outputs: list[Facts]
    #: Whether every tensor in it has a size.
    resolved: bool
    #: Names of what flows in from the operator.
    takes: tuple[str, ...]

    def inner(self, part: str, trips: int | None, branch: bool = False, bound: bool = False) -> Inner:
        """The body as a part of its operator."""
        return Inner(part, self.graph, self.shapes, trips, branch, self.takes, bound)


def run(state: State, body: onnx.GraphProto, inputs: Sequence[Facts]) -> Run:
    """A body resolved for these inputs; one like an earlier one, with the same inputs, is that one.

    Raises:
        ModelError: there are too many.
    """
    facts = {name: state.facts(name) for name in _captured(body)}
    facts.update((value.name, input_) for value, input_ in zip(body.input, inputs, strict=False))
    if not state.affords(sum(len(one.items or ()) for one in facts.values())):
        facts = {name: one._replace(items=None) for name, one in facts.items()}
    key, runs = _key(state, body, facts), state.context.runs
    steps = state.context.steps
    if key is not None and key in runs:
        earlier: tuple[Run, int] = runs[key]
        steps[0] -= earlier[1]  # looked at once, but it becomes as many rows as before
        return earlier[0]
    before = steps[0]
    state.context.bodies[0] -= 1
    if state.context.bodies[0] < 0:
        raise ModelError(f"the bodies of its control flow run in more than {contexts.BODIES:,} ways")
    one = _run(state, body, facts)
    if key is not None:
        runs[key] = one, before - steps[0]
    return one


def _key(state: State, body: onnx.GraphProto, facts: Mapping[str, Facts]) -> Any:
    """All that the shapes in a body follow from; None where that cannot be compared."""
    around = []
    for name in sorted(facts):
        one = facts[name]
        parts = each(one.items or (), lambda type_: type_.SerializeToString(deterministic=True))
        parts.append(b"" if one.type is None else one.type.SerializeToString(deterministic=True))
        for value in (one.value, *(one.interval or ())):
            if value is None or not isinstance(value, numpy.ndarray) or value.dtype == object:
                if value is not None:
                    return None
                parts.append(b"")
            else:
                parts += repr((value.dtype.str, value.shape)).encode(), value.tobytes()
        around.append((name, one.type is None, one.items is None, one.value is None, one.bound, tuple(parts)))
    versions = tuple(sorted(state.opsets.items()))
    return body.SerializeToString(deterministic=True), tuple(around), versions, state.ir_version


def _run(state: State, body: onnx.GraphProto, facts: Mapping[str, Facts]) -> Run:
    """A body resolved with these facts about its inputs and about what it takes from outside."""
    graph = onnx.GraphProto(
        name=body.name or "body",
        node=body.node,
        initializer=body.initializer,
        output=[_without_shape(o) for o in body.output],
    )
    for name, value in facts.items():
        if value.type is not None:
            graph.input.add(name=name, type=value.type)
    context = state.context._replace(facts=dict(facts), inside=True)
    context.steps[0] -= len(graph.node)
    model = onnx.ModelProto(graph=graph, opset_import=state.imports, ir_version=state.ir_version)
    shapes = context.resolver(model, context)
    outputs = [shapes.facts(o.name) for o in body.output]
    names = [o for n in graph.node for o in n.output if o]
    resolved = all(shapes.sized(n) for n in names)
    return Run(graph, shapes, outputs, resolved, tuple(value.name for value in body.input))


def pass_on_warnings(state: State, runs: Iterable[Run]) -> None:
    """Hand on the warnings of the runs that count, each once."""
    warnings = state.shapes.warnings
    for one in runs:
        warnings.extend(w for w in one.shapes.warnings if w not in warnings)


def grouped(runs: Sequence[Run]) -> list[Inner]:
    """Runs of the same shapes as one body that runs several times, in order of their first run."""
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(runs):
        groups.setdefault(_signature(one.graph, one.shapes), []).append(place)
    return [runs[p[0]].inner("body" if len(groups) == 1 else f"body[{p[0]}]", len(p)) for p in groups.values()]


def scalar(value: Any) -> Any:
    """The one element of an array, None when there is no such."""
    if isinstance(value, (numpy.ndarray, numpy.generic)) and value.size == 1:
        return numpy.asarray(value).ravel().tolist()[0]
    return None


def _without_shape(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """An output of a body without its shape: what the body makes counts."""
    new = onnx.ValueInfoProto(name=value.name, type=value.type)
    if new.type.HasField("tensor_type"):
        new.type.tensor_type.ClearField("shape")
    return new


def _captured(body: onnx.GraphProto) -> set[str]:
    """Names that a body takes from the graphs around it."""
    own = {i.name for i in body.input} | {t.name for t in body.initializer} | {o for n in body.node for o in n.output}
    return ({name for n in body.node for name in needs(n)} | {o.name for o in body.output}) - own - {""}


def _signature(graph: onnx.GraphProto, shapes: Shapes) -> Any:
    """What makes two runs of a body cost the same: all shapes in it, of its inputs too, and in the bodies inside it."""
    names = [i.name for i in graph.input] + [o for n in graph.node for o in n.output if o]
    inside = [
        (i.part, i.trips, i.branch, _signature(i.graph, i.shapes)) for n in names for i in shapes.inner.get(n, ())
    ]
    return (*(shapes.shape(n) for n in names), *(tuple(shapes_of(shapes.items.get(n, ()))) for n in names), *inside)
