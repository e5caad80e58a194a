"""Shapes of every tensor of an ONNX model: onnx's C++ inference first, then what it leaves unresolved."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import onnx
from onnx import TypeProto

from flopwise.errors import ModelError
from flopwise.graph.construction import MANY, give_back
from flopwise.readers.onnx.listing import Initial, Listed, complete, initial, listed
from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.native.suspects import hidden
from flopwise.readers.onnx.shapes import context as contexts
from flopwise.readers.onnx.shapes import long_axes
from flopwise.readers.onnx.shapes.checks import windows_miscounted
from flopwise.readers.onnx.shapes.context import Context
from flopwise.readers.onnx.shapes.repeated import infer
from flopwise.readers.onnx.types import (
    ASKED,
    CONTROL_FLOW,
    QUERIES,
    TOO_MANY,
    Facts,
    Shapes,
    bodies,
    describe,
    elements,
    first_line,
    in_short,
)

if TYPE_CHECKING:
    from flopwise.readers.onnx.shapes.second_pass import SecondPass


def resolve(
    model: onnx.ModelProto,
    declared_holds: bool,
    inputs: Mapping[str, Facts] | None = None,
    trips: Mapping[str, int] | None = None,
    nodes: list[Listed] | None = None,
    declared: Mapping[str, TypeProto] | None = None,
) -> tuple[Shapes, Mapping[str, int | None]]:
    """The shapes of a model whose inputs have concrete shapes, and the trips of its loops by name, None if unknown.

    Args:
        model: a model without weights; its intermediate and output shapes are taken out of it.
        declared_holds: whether the shapes written in the file are for these inputs, so that they may fill in what
            cannot be inferred, and a contradiction is worth a warning.
        inputs: facts about inputs that are not tensors.
        trips: how often loops run, by name.
        nodes: the nodes of the model, where they have been listed before.
        declared: the types of intermediate values and outputs, where they have been taken out before.

    Raises:
        InputError: the user says that a loop runs another number of times than it does.
        ModelError: a tensor has more elements than can exist.
    """
    context = Context(
        _resolve_body,
        dict(inputs or {}),
        inside=False,
        trips=dict(trips or {}),
        met={},
        inference=Inference(),
        results={},
        steps=[contexts.STEPS],
        runs={},
        bodies=[contexts.BODIES],
        members=[contexts.MEMBERS],
    )
    declared = take_types_out(model.graph) if declared is None else declared
    shapes = _resolve(model, context, declared if declared_holds else {}, nodes)
    if declared_holds:
        _contradictions(model.graph, declared, shapes, nodes)
    return shapes, context.met


def _second_pass(
    model: onnx.ModelProto, shapes: Shapes, context: Context, declared: Mapping[str, TypeProto]
) -> SecondPass:
    from flopwise.readers.onnx.shapes.second_pass import SecondPass
    from flopwise.readers.onnx.shapes.state import State

    return SecondPass(State(model, shapes, context), declared)


def _resolve_body(model: onnx.ModelProto, context: Context) -> Shapes:
    """The shapes of the body of a control-flow operator."""
    take_types_out(model.graph)
    return _resolve(model, context, {})


def take_types_out(graph: onnx.GraphProto) -> dict[str, TypeProto]:
    """The types that the file states for what operators make; intermediate and output shapes are taken out of it."""
    types: dict[bytes, TypeProto] = {}  # models of a million values have some hundred
    declared: dict[str, TypeProto] = {}
    for value in itertools.chain(graph.value_info, graph.output):
        if value.HasField("type"):
            data = value.type.SerializeToString()
            if data not in types:
                types[data] = TypeProto.FromString(data)
            declared[value.name] = types[data]
    del graph.value_info[:]
    for output in graph.output:
        if output.type.tensor_type.HasField("shape"):
            output.type.tensor_type.ClearField("shape")
    return declared


def _resolve(
    model: onnx.ModelProto, context: Context, declared: Mapping[str, TypeProto], nodes: list[Listed] | None = None
) -> Shapes:
    graph = model.graph
    nodes = listed(graph) if nodes is None else nodes
    names = [o for n in nodes for o in n.outputs if o]
    operators = {n.op for n in nodes}
    stored = initial(graph, nodes)
    shapes = _initial_shapes(graph, stored, context)
    if len(nodes) >= MANY:
        give_back()
    second: SecondPass | None = None  # it looks at the elements of each small tensor, which most models do not need
    with hidden(model, nodes) as suspects:
        queries, whole = bool(operators & QUERIES), False
        computed = queries and _is_lean(nodes, context) and _computed(model, nodes, shapes, context, stored, names)
        if queries and not computed and _is_lean(nodes, context):
            shapes, whole = _initial_shapes(graph, stored, context), True
        if queries and not computed:
            complete(nodes)
            second = _second_pass(model, shapes, context, declared)
        foreseen = second.foresee() if second else []
        suspects.beware(foreseen)
        graph.initializer.extend(foreseen)
        inferred = graph
        try:
            # Without data propagation: it keeps an entry for each element of a vector. The second pass is no slower.
            if not computed and (
                whole or suspects.any or not infer(model, nodes, shapes, context.inference, stored, foreseen)
            ):
                complete(nodes)
                inferred = context.inference.model(model, proven=True).graph
        except Exception as error:  # the C++ side raises several kinds, some of them plain RuntimeError
            suspects.warnings.append(f"shape inference stopped: {first_line(error)}")
        suspects.reveal_unproven()
        if foreseen:
            del graph.initializer[-len(foreseen) :]
        shapes.fill(inferred.value_info)
        shapes.fill(inferred.output)
        del inferred
        if long_axes.miscounted(operators, shapes) or windows_miscounted(nodes, shapes):
            # what follows from it is wrong as well: the second pass infers everything anew
            shapes, second = _initial_shapes(graph, stored, context), None
        shapes.warnings.extend(in_short(suspects.warnings, "more invalid operators"))
        flows = operators & (CONTROL_FLOW | ASKED) or any(n.domain and bodies(n.proto) for n in nodes)
        if context.inside or flows or not shapes.all_known(names):
            complete(nodes)
            second = second or _second_pass(model, shapes, context, declared)
            second.run()
    _refuse_huge(graph, itertools.chain((t.name for t in stored), names), shapes)
    return shapes


def _is_lean(nodes: list[Listed], context: Context) -> bool:
    """Whether a graph is a large one by itself, without the messages of its nodes."""
    return bool(nodes) and nodes[0].messages.missing is not None and not context.inside and not context.facts


def _computed(
    model: onnx.ModelProto,
    nodes: list[Listed],
    shapes: Shapes,
    context: Context,
    stored: list[Initial],
    names: Iterable[str],
) -> bool:
    """Whether a large model's arithmetic on shapes could be computed on the way, so that all shapes are there."""
    from flopwise.readers.onnx.shapes.arithmetic import Arithmetic

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, about what a model computes
            arithmetic = Arithmetic(model, shapes, context)
            done = infer(model, nodes, shapes, context.inference, stored, arithmetic=arithmetic)
    except Exception:  # the C++ side raises several kinds; what is wrong is said when the whole is inferred
        return False
    return done and shapes.all_known(names)


def _initial_shapes(graph: onnx.GraphProto, stored: list[Initial], context: Context) -> Shapes:
    """The types of the inputs and stored tensors of a graph."""
    shapes = Shapes({v.name: v.type for v in graph.input}, stored)
    shapes.take(context.facts)
    return shapes


def _refuse_huge(graph: onnx.GraphProto, names: Iterable[str], shapes: Shapes) -> None:
    if all(elements(shape) < TOO_MANY for shape in shapes.distinct()):
        return
    for name in (*(i.name for i in graph.input), *names):
        shape = shapes.shape(name)
        if shape is not None and elements(shape) >= TOO_MANY:
            listed = ", ".join(map(str, shape[:8])) + (", ..." if len(shape) > 8 else "")
            raise ModelError(f"tensor {name!r} of shape ({listed}) has more elements than any memory can hold")


def _contradictions(
    graph: onnx.GraphProto, declared: Mapping[str, TypeProto], shapes: Shapes, nodes: list[Listed] | None
) -> None:
    """Warn where a shape in the file is not the one that its operator gives."""
    wrong = {}
    for name, type_ in declared.items():
        stated, inferred = shapes.shape_of(type_), shapes.shape(name)
        if stated is not None and inferred is not None and stated != inferred:
            wrong[name] = (stated, inferred)
    makers = {o: n for n in nodes or listed(graph) for o in n.outputs} if wrong else {}
    contradictions = []
    for name, (stated, inferred) in wrong.items():
        if name in makers:
            contradictions.append(
                f"the file says that {name!r} has shape {stated}, but {describe(makers[name].proto)} gives {inferred}; "
                "the latter is used"
            )
    shapes.warnings.extend(in_short(contradictions, "more shapes in the file contradict their operators"))
