"""Shapes of every tensor of an ONNX model: onnx's C++ inference first, then what it leaves unresolved."""

from __future__ import annotations

import onnx
from onnx import TypeProto, shape_inference

from flopwise.errors import ModelError
from flopwise.readers.onnx.normalize.spelling import first_line
from flopwise.readers.onnx.shapes.bodies import Context
from flopwise.readers.onnx.shapes.second_pass import ASKED, QUERIES, Walk
from flopwise.readers.onnx.shapes.unsafe import hidden
from flopwise.readers.onnx.types import CONTROL_FLOW, TOO_MANY, Shapes, bodies, concrete, describe, elements, in_short


def resolve(model: onnx.ModelProto, declared_holds: bool, context: Context | None = None) -> Shapes:
    """The shapes of a model whose inputs have concrete shapes.

    Args:
        model: a model without weights; its intermediate and output shapes are taken out of it.
        declared_holds: whether the shapes written in the file are for these inputs, so that they may fill in what
            cannot be inferred, and a contradiction is worth a warning.
        context: what is known from outside the graph, and how often loops run.

    Raises:
        InputError: the user says that a loop runs another number of times than it does.
        ModelError: a tensor has more elements than can exist.
    """
    graph = model.graph
    declared = {v.name: v.type for v in graph.value_info if v.HasField("type")}
    declared.update((v.name, _copy(v.type)) for v in graph.output if v.HasField("type"))
    del graph.value_info[:]
    for output in graph.output:
        if output.type.tensor_type.HasField("shape"):
            output.type.tensor_type.ClearField("shape")
    nodes = list(graph.node)
    names = [o for n in nodes for o in n.output if o]
    operators = {n.op_type for n in nodes}
    shapes = Shapes({v.name: v.type for v in graph.input}, graph.initializer)
    context = context or Context()
    shapes.take(context.known)
    walk = Walk(model, shapes, declared if declared_holds else {}, context)
    with hidden(model) as told:
        foreseen = walk.foresee() if operators & QUERIES else []
        graph.initializer.extend(foreseen)
        try:
            # Without data propagation: it keeps an entry for each element of a vector. The walk is no slower.
            inferred = shape_inference.infer_shapes(model).graph
        except Exception as error:  # the C++ side raises several kinds, some of them plain RuntimeError
            told.append(f"shape inference stopped: {first_line(error)}")
            inferred = graph
        if foreseen:
            del graph.initializer[-len(foreseen) :]
        for value in (*inferred.value_info, *inferred.output):
            if shapes.shape(value.name) is None:
                shapes.set(value.name, value.type)
        shapes.warnings.extend(in_short(told, "more operators cannot be right"))
        flows = operators & (CONTROL_FLOW | ASKED) or any(n.domain and bodies(n) for n in nodes)
        if context.inside or flows or any(shapes.shape(n) is None for n in names):
            walk.run()
    if declared_holds:
        _contradictions(graph, declared, shapes)
    for name in (*(i.name for i in graph.input), *(t.name for t in graph.initializer), *names):
        shape = shapes.shape(name)
        if shape is not None and elements(shape) >= TOO_MANY:
            shown = ", ".join(map(str, shape[:8])) + (", ..." if len(shape) > 8 else "")
            raise ModelError(f"tensor {name!r} of shape ({shown}) has more elements than any memory can hold")
    return shapes


def _copy(found: TypeProto) -> TypeProto:
    new = TypeProto()
    new.CopyFrom(found)
    return new


def _contradictions(graph: onnx.GraphProto, declared: dict[str, TypeProto], shapes: Shapes) -> None:
    """Warn where a shape in the file is not the one that its operator gives."""
    makers = {o: n for n in graph.node for o in n.output}
    found = []
    for name, type_ in declared.items():
        said, given = concrete(type_), shapes.shape(name)
        if said is not None and given is not None and said != given and name in makers:
            found.append(
                f"the file says that {name!r} has shape {said}, but {describe(makers[name])} gives {given}; "
                "the latter is used"
            )
    shapes.warnings.extend(in_short(found, "more shapes in the file contradict their operators"))
