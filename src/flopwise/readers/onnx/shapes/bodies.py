"""The bodies of ONNX control flow: how often each runs, with which shapes, and what comes out of it.

A body is resolved like a model of its own, with the types and values that flow into it. Where the iterations of a loop
differ in shape, or a condition that can be computed ends it, the iterations are followed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy
import onnx

from flopwise.errors import InputError
from flopwise.readers.onnx.normalize.order import needs
from flopwise.readers.onnx.types import Inner, Known, Shapes, describe, shapes_of, tensor_type

if TYPE_CHECKING:
    from flopwise.readers.onnx.shapes.second_pass import Walk

#: Operators in bodies that are looked at before loops are no longer followed one iteration after the other.
STEPS = 20_000

#: Loops up to this long are followed for their values alone.
SHORT = 64


@dataclass(slots=True)
class Context:
    """What a graph can see from outside, and what is common to all graphs of a model."""

    #: Tensors of the graphs around it that its operators take, and its own inputs.
    known: dict[str, Known] = field(default_factory=dict)
    #: Whether the graph is the body of a control-flow operator.
    inside: bool = False
    #: How often loops run, by name, as the user says.
    trips: dict[str, int] = field(default_factory=dict)
    #: Names of all control-flow operators that were met, with the trips if they are known.
    met: dict[str, int | None] = field(default_factory=dict)
    #: How many operators may still be looked at in order to follow loops; one element, shared by all graphs.
    steps: list[int] = field(default_factory=lambda: [STEPS])


def enter(walk: Walk, node: onnx.NodeProto) -> None:
    """Resolve the bodies of a control-flow operator and write down what comes out of it."""
    graphs = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
    rule = _RULES.get(node.op_type)
    if rule is None or not graphs or not any(node.output):
        return
    inner, outputs = rule(walk, node, graphs)
    walk.shapes.inner[next(o for o in node.output if o)] = inner
    for name, known in zip(node.output, outputs, strict=False):
        if name:
            walk.learn(name, known)


def _if(walk: Walk, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Known]]:
    """The branch that is taken, or both when nobody knows which."""
    condition = _scalar(walk.values.get(node.input[0]) if node.input else None)
    names = [n for n in ("then_branch", "else_branch") if n in graphs]
    if condition is not None:
        taken = "then_branch" if condition else "else_branch"
        names = [n for n in names if n == taken]
    runs = [_run(walk, graphs[n], []) for n in names]
    _tell(walk, runs)
    inner = [r.inner(n, 1, len(names) > 1) for n, r in zip(names, runs, strict=True)]
    if not runs:
        return inner, []
    if len(runs) == 1:
        return inner, runs[0].outputs
    outputs = []
    for one, other in zip(runs[0].outputs, runs[1].outputs, strict=False):
        alike = one.same(other)
        outputs.append(replace(one, value=None, bound=one.bound or other.bound) if alike else Known())
    return inner, outputs


def _loop(walk: Walk, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Known]]:
    """The body, as often as the trip count and the condition say."""
    body = graphs["body"]
    start = [walk.known(name) for name in node.input[2:]]
    first = _scalar(walk.values.get(node.input[1])) if len(node.input) > 1 and node.input[1] else True
    counted = _scalar(walk.values.get(node.input[0])) if node.input and node.input[0] else None
    said = walk.context.trips.get(node.name)
    most = 0 if first is not None and not first else None if counted is None else max(int(counted), 0)

    general = _general(walk, body, start)
    keeps_on = _scalar(general.outputs[0].value) if general.outputs else None
    if keeps_on is not None and not keeps_on:
        most = min(1, most if most is not None else 1)
    exact = most is not None and (most <= 1 or keeps_on is not None) and first is not None
    carried = general.outputs[1 : 1 + len(start)]
    stable = all(a.same(b) for a, b in zip(start, carried, strict=True))
    short = most is not None and most <= SHORT and bool(start) and all(k.value is not None for k in start)
    if not (exact and stable and general.resolved) or short:
        limit = most if exact or said is None else said
        if (limit is not None or keeps_on is None) and (found := _follow(walk, body, start, limit, said)):
            walk.context.met[node.name] = found.trips
            _tell(walk, found.steps)
            return found.inner, found.outputs
    _tell(walk, [general])
    trips = most if exact else said if said is not None else most
    if said is not None and exact and said != trips:
        raise InputError(f"{describe(node)} runs {trips} times, not {said}")
    if not exact and said is None:
        more = f"at most {trips} times, counted as {trips}" if trips is not None else "an unknown number of times"
        walk.shapes.warnings.append(f"{describe(node)} runs {more}; give it with --trip {node.name}=N")
    walk.context.met[node.name] = trips
    bound = not exact and said is None and trips is not None
    scans = [_stacked(k, trips, bound) for k in general.outputs[1 + len(start) :]]
    outputs = start if trips == 0 else [k.without_value() for k in carried]
    return [general.inner("body", trips)], [*outputs, *scans]


def _scan(walk: Walk, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]) -> tuple[list[Inner], list[Known]]:
    """The body, once for each element along the scanned axes (in operator set 8 also for each member of the batch)."""
    body = graphs["body"]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}
    old = walk.opsets.get("", 1) < 9
    inputs = [walk.known(name) for name in node.input[1 if old else 0 :]]
    states = len(inputs) - attributes.get("num_scan_inputs", 0)
    scanned = inputs[states:]
    axes = [1] * len(scanned) if old else list(attributes.get("scan_input_axes", [])) or [0] * len(scanned)
    lengths = {_extent(k, axis) for k, axis in zip(scanned, axes, strict=False)} - {None}
    trips = lengths.pop() if len(lengths) == 1 else walk.context.trips.get(node.name)
    batch = _extent(inputs[0], 0) if old and inputs else 1
    inner_states = [_without(k, 0) if old else k for k in inputs[:states]]
    slices = [_without(_without(k, 1), 0) if old else _without(k, a) for k, a in zip(scanned, axes, strict=False)]
    run = _run(walk, body, [k.without_value() for k in (*inner_states, *slices)])
    _tell(walk, [run])
    total = None if trips is None or batch is None else trips * batch
    walk.context.met[node.name] = total
    if total is None:
        walk.shapes.warnings.append(f"{describe(node)} runs an unknown number of times; give the input shapes with -i")
    out_axes = list(attributes.get("scan_output_axes", [])) or [0] * (len(run.outputs) - states)
    outputs = [_with(k, 0, batch) if old else k for k in run.outputs[:states]]
    for known, axis in zip(run.outputs[states:], out_axes, strict=False):
        outputs.append(_with(_with(known, 0, trips), 0, batch) if old else _with(known, axis, trips))
    return [run.inner("body", total)], [k.without_value() for k in outputs]


def _sequence_map(
    walk: Walk, node: onnx.NodeProto, graphs: dict[str, onnx.GraphProto]
) -> tuple[list[Inner], list[Known]]:
    """The body, once for each member of the sequence."""
    body = graphs["body"]
    inputs = [walk.known(name) for name in node.input]
    sequence = inputs[0].items if inputs else None
    if sequence is None:
        said = walk.context.trips.get(node.name)
        run = _run(walk, body, [_member(k, None) for k in inputs])
        _tell(walk, [run])
        walk.context.met[node.name] = said
        if said is None:
            walk.shapes.warnings.append(
                f"{describe(node)} runs an unknown number of times; give it with --trip {node.name}=N"
            )
        items = [None if said is None or k.type is None else [k.type] * said for k in run.outputs]
        return [run.inner("body", said)], [Known(items=i) for i in items]
    steps = []
    for place in range(len(sequence)):
        if place and walk.context.steps[0] <= 0:
            break
        steps.append(_run(walk, body, [_member(k, place) for k in inputs]))
    _tell(walk, steps)
    walk.context.met[node.name] = len(sequence)
    outputs = []
    for place in range(len(node.output)):
        types = [s.outputs[place].type for s in steps if place < len(s.outputs)]
        whole = len(types) == len(sequence) and all(t is not None for t in types)
        outputs.append(Known(items=[t for t in types if t is not None] if whole else None))
    return _grouped(steps), outputs


_RULES: dict[str, Callable[[Any, onnx.NodeProto, dict[str, onnx.GraphProto]], tuple[list[Inner], list[Known]]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}


@dataclass(slots=True)
class _Run:
    """One run of a body."""

    graph: onnx.GraphProto
    shapes: Shapes
    outputs: list[Known]
    #: Whether every tensor in it has a size.
    resolved: bool
    #: Names of what flows in from the operator.
    takes: tuple[str, ...]

    def inner(self, part: str, trips: int | None, branch: bool = False) -> Inner:
        """The body as a part of its operator."""
        return Inner(part, self.graph, self.shapes, trips, branch, self.takes)


@dataclass(slots=True)
class _Followed:
    steps: list[_Run]
    inner: list[Inner]
    outputs: list[Known]
    trips: int


def _run(walk: Walk, body: onnx.GraphProto, inputs: Sequence[Known]) -> _Run:
    """Resolve a body for given inputs."""
    from flopwise.readers.onnx.shapes.resolve import resolve

    known = {name: walk.known(name) for name in _captured(body)}
    known.update((value.name, k) for value, k in zip(body.input, inputs, strict=False))
    graph = onnx.GraphProto(
        name=body.name or "body", node=body.node, initializer=body.initializer, output=[_bare(o) for o in body.output]
    )
    for name, k in known.items():
        if k.type is not None:
            graph.input.add(name=name, type=k.type)
    context = replace(walk.context, known=known, inside=True)
    context.steps[0] -= len(graph.node)
    model = onnx.ModelProto(graph=graph, opset_import=walk.imports, ir_version=walk.ir_version)
    shapes = resolve(model, declared_holds=False, context=context)
    outputs = [shapes.known(o.name) for o in body.output]
    names = [o for n in graph.node for o in n.output if o]
    resolved = all(shapes.sized(n) for n in names)
    return _Run(graph, shapes, outputs, resolved, tuple(value.name for value in body.input))


def _tell(walk: Walk, runs: Iterable[_Run]) -> None:
    """Hand on the warnings of the runs that count, each once."""
    told = walk.shapes.warnings
    for run in runs:
        told.extend(w for w in run.shapes.warnings if w not in told)


def _bare(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """An output of a body without its shape: what the body makes counts."""
    new = onnx.ValueInfoProto(name=value.name, type=value.type)
    if new.type.HasField("tensor_type"):
        new.type.tensor_type.ClearField("shape")
    return new


def _captured(body: onnx.GraphProto) -> set[str]:
    """Names that a body takes from the graphs around it."""
    own = {i.name for i in body.input} | {t.name for t in body.initializer} | {o for n in body.node for o in n.output}
    return ({name for n in body.node for name in needs(n)} | {o.name for o in body.output}) - own - {""}


def _general(walk: Walk, body: onnx.GraphProto, start: Sequence[Known]) -> _Run:
    """A run that stands for all iterations: nothing is known about values, nor about extents that change."""
    always = Known(value=numpy.array(True), type=onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, []))
    count = Known(type=onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, []))
    carried = [k.without_value() for k in start]
    run = _run(walk, body, [count, always, *carried])
    for _ in range(8):  # each round opens an extent; tensors have few
        after = run.outputs[1 : 1 + len(carried)]
        wider = [_wider(a, b) for a, b in zip(carried, after, strict=False)]
        if all(a is b for a, b in zip(carried, wider, strict=False)):
            break
        carried = wider
        run = _run(walk, body, [count, always, *carried])
    return run


def _wider(before: Known, after: Known) -> Known:
    """What holds for both: extents that differ are open; ``before`` itself if nothing differs."""
    if before.same(after):
        return before
    if before.items is not None:
        return Known(type=before.type)
    one, other = (None if k.type is None else tensor_type(k.type) for k in (before, after))
    if one is None or not one.HasField("shape"):
        return before
    if other is None or not other.HasField("shape") or len(other.shape.dim) != len(one.shape.dim):
        return Known(type=onnx.helper.make_tensor_type_proto(one.elem_type, None))
    dims = [a.dim_value for a in one.shape.dim]
    open_now = [None if not d or d != b.dim_value else d for d, b in zip(dims, other.shape.dim, strict=True)]
    if [d or None for d in dims] == open_now:
        return before
    return Known(type=onnx.helper.make_tensor_type_proto(one.elem_type, open_now))


def _follow(
    walk: Walk, body: onnx.GraphProto, start: list[Known], limit: int | None, said: int | None
) -> _Followed | None:
    """The iterations one by one; None when that is too long, or nothing says where the loop ends."""
    if limit is not None and limit * max(len(body.node), 1) > walk.context.steps[0]:
        return None
    carried, steps, scans = list(start), list[_Run](), list[list[Known]]()
    iteration, goes_on = 0, True
    while goes_on and (limit is None or iteration < limit):
        if walk.context.steps[0] <= 0:
            return None
        count = Known(onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, []), value=numpy.array(iteration))
        always = Known(onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, []), value=numpy.array(True))
        run = _run(walk, body, [count, always, *carried])
        condition = _scalar(run.outputs[0].value)
        if condition is None and said is None:
            return None
        steps.append(run)
        scans.append(run.outputs[1 + len(start) :])
        carried = run.outputs[1 : 1 + len(start)]
        iteration, goes_on = iteration + 1, condition is None or bool(condition)
    if not steps:
        return None
    return _Followed(steps, _grouped(steps), [*carried, *map(_stack, zip(*scans, strict=True))], iteration)


def _grouped(steps: Sequence[_Run]) -> list[Inner]:
    """Runs of the same shapes as one body that runs several times, in order of their first run."""
    groups: dict[Any, list[int]] = {}
    for place, run in enumerate(steps):
        groups.setdefault(_signature(run.graph, run.shapes), []).append(place)
    return [steps[p[0]].inner("body" if len(groups) == 1 else f"body[{p[0]}]", len(p)) for p in groups.values()]


def _signature(graph: onnx.GraphProto, shapes: Shapes) -> Any:
    """What makes two runs of a body cost the same: all shapes in it and in the bodies inside it."""
    names = [o for n in graph.node for o in n.output if o]
    inside = [
        (i.part, i.trips, i.branch, _signature(i.graph, i.shapes)) for n in names for i in shapes.inner.get(n, ())
    ]
    return (*(shapes.shape(n) for n in names), *(tuple(shapes_of(shapes.items.get(n, ()))) for n in names), *inside)


def _stack(steps: tuple[Known, ...]) -> Known:
    """What an output of the body that is collected over all iterations becomes."""
    first = steps[0]
    if not all(first.same(k) for k in steps):
        return Known()
    stacked = _stacked(first, len(steps), first.bound)
    if all(isinstance(k.value, numpy.ndarray) for k in steps):
        stacked.value = numpy.stack([k.value for k in steps])
    return stacked


def _stacked(known: Known, trips: int | None, bound: bool) -> Known:
    return replace(_with(known, 0, trips), bound=bound or known.bound)


def _scalar(value: Any) -> Any:
    """The one element of an array, None when there is no such."""
    if isinstance(value, (numpy.ndarray, numpy.generic)) and value.size == 1:
        return numpy.asarray(value).ravel().tolist()[0]
    return None


def _dims(known: Known) -> list[int | None] | None:
    tensor = None if known.type is None else tensor_type(known.type)
    if tensor is None or not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _retyped(known: Known, dims: list[int | None]) -> Known:
    code = tensor_type(known.type).elem_type if known.type is not None else 0
    return Known(onnx.helper.make_tensor_type_proto(code, dims), bound=known.bound)


def _extent(known: Known, axis: int) -> int | None:
    dims = _dims(known)
    return dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None


def _without(known: Known, axis: int) -> Known:
    """One slice of a tensor along an axis."""
    dims = _dims(known)
    if dims is None or not -len(dims) <= axis < len(dims):
        return Known()
    del dims[axis]
    return _retyped(known, dims)


def _with(known: Known, axis: int, extent: int | None) -> Known:
    """Slices put together along a new axis."""
    dims = _dims(known)
    if dims is None or not -len(dims) - 1 <= axis <= len(dims):
        return Known()
    dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, extent)
    return _retyped(known, dims)


def _member(known: Known, place: int | None) -> Known:
    """The member of a sequence at a place; what is no sequence is handed to each iteration whole."""
    if known.items is not None:
        return Known(known.items[place]) if place is not None and place < len(known.items) else Known()
    if known.type is not None and known.type.HasField("sequence_type"):
        return Known(known.type.sequence_type.elem_type)
    return known
