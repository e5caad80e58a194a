"""The types of one node's outputs by onnx's own rules, so that no rule for a standard operator is written here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import onnx
from onnx import TypeProto, defs, numpy_helper

from flopwise.operators.shape import ShapeRule
from flopwise.readers.onnx.normalize.first_opset import modern
from flopwise.readers.onnx.normalize.order import needs
from flopwise.readers.onnx.shapes import by_row, long_axes
from flopwise.readers.onnx.shapes.checks import correct_windows
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import CONTROL_FLOW, bodies, opened

#: Operators whose result is not the larger, the larger their settings: they have bounds of their own.
_NEED_VALUES: frozenset[str] = frozenset({"Slice", "Split"})


class NodeTypes:
    """The types of the outputs of the nodes of one graph; onnx is not asked again about a node like an earlier one."""

    def __init__(self, state: State) -> None:
        self.state = state
        #: The types of the outputs of earlier nodes.
        self.answers: dict[Any, list[TypeProto]] = {}

    def of(self, node: onnx.NodeProto, certain: bool = False) -> Mapping[str, TypeProto]:
        """The types of a node's outputs as far as onnx knows them; errors of its C++ side come through.

        Args:
            node: the node.
            certain: whether the extents that are bounds are taken as open, so that what follows is certain.
        """
        state = self.state
        key = None if node.domain or node.op_type in CONTROL_FLOW else self._key(node, certain)
        if key is not None and key in self.answers:
            return dict(zip(node.output, self.answers[key], strict=True))
        try:
            schema = defs.get_schema(node.op_type, state.opsets.get(node.domain, 1), node.domain)
        except Exception:  # onnx raises its own SchemaError: the operator is not a standard one
            rule = by_row.rule_of(node)
            return self.by_row(rule, node) if rule else {}
        if bodies(node):
            return self.alone(node)
        if rule := by_row.rule_of(node):
            return self.by_row(rule, node)
        if node.op_type in long_axes.LONGEST and not certain:
            exact = long_axes.infer(node, [state.facts(i) for i in node.input], state.opsets.get(node.domain, 1))
            if exact is not None:
                return exact
        data: dict[str, onnx.TensorProto] = {}
        if not schema.has_type_and_shape_inference_function:
            if schema.has_function or schema.has_context_dependent_function:  # type: ignore[attr-defined] # onnx's stubs
                return self.alone(node)
            schema, node, data = modern(schema, node)
        inputs = [i for i in node.input if i and i not in data]
        types = {i: type_ for i in inputs if (type_ := state.shapes.type(i)) is not None}
        if len(types) < len(set(inputs)):
            return {}
        if certain:
            types = {i: opened(type_, state.shapes.bounds.get(i, frozenset())) for i, type_ in types.items()}
        types.update((k, onnx.helper.make_tensor_type_proto(t.data_type, t.dims)) for k, t in data.items())
        for place, name in enumerate(node.input):
            value = self._value(node, place, certain) if name not in data else None
            if isinstance(value, numpy.ndarray):  # and not the members of a sequence
                data[name] = numpy_helper.from_array(value, name)
        answer: Mapping[str, TypeProto] = state.context.inference.node(
            schema, node, types, data, state.imports, state.ir_version
        )
        correct_windows(node, types.get(node.input[0]) if node.input else None, answer)
        if key is not None and not data.keys() - set(node.input):
            self.answers[key] = [answer.get(o, TypeProto()) for o in node.output]
        return answer

    def _value(self, node: onnx.NodeProto, place: int, certain: bool) -> Any:
        """The elements of an input; where only bounds of them are certain, those that make the largest result."""
        name = node.input[place]
        value = self.state.values.get(name)
        interval = None if certain or value is not None else self.state.shapes.intervals.get(name)
        if interval is None or node.op_type in _NEED_VALUES:
            return value
        return interval.low if node.op_type == "Range" and place == 0 else interval.high

    def by_row(self, rule: ShapeRule, node: onnx.NodeProto) -> Mapping[str, TypeProto]:
        """The types of a node's outputs by the row of its operator."""
        return by_row.infer(rule, node, self.state.shapes.type, self.state.values.get, self.state.graph)

    def alone(self, node: onnx.NodeProto) -> Mapping[str, TypeProto]:
        """The types of a node's outputs from a model of this node alone: onnx looks into bodies only there."""
        state = self.state
        graph = onnx.GraphProto(name="alone", node=[node])
        for name in sorted(needs(node)):
            type_ = state.shapes.type(name)
            if type_ is not None:
                graph.input.add(name=name, type=type_)
            if isinstance(value := state.values.get(name), numpy.ndarray):
                graph.initializer.append(numpy_helper.from_array(value, name))
        graph.output.extend(onnx.ValueInfoProto(name=o) for o in node.output if o)
        model = onnx.ModelProto(graph=graph, opset_import=state.imports, ir_version=state.ir_version)
        inferred = state.context.inference.model(model).graph
        return {v.name: v.type for v in (*inferred.value_info, *inferred.output)}

    def _key(self, node: onnx.NodeProto, certain: bool) -> Any:
        """All that the types of a node's outputs follow from, as models repeat themselves; None if it is not known."""
        parts: list[Any] = [certain]
        shapes = self.state.shapes
        for place, name in enumerate(node.input):
            if not name:
                continue
            shape, value = shapes.shape(name), self._value(node, place, certain)
            if shape is None or (value is not None and not isinstance(value, numpy.ndarray)):
                return None
            parts.append((shape, shapes.dtype(name), shapes.bounds.get(name) if certain else None))
            if value is not None:
                parts.append((value.dtype.str, value.shape, value.tobytes()))
        places = tuple(map(bool, (*node.input, "", *node.output)))
        attributes = tuple(a.SerializeToString(deterministic=True) for a in node.attribute)
        return (node.op_type, node.domain, places, attributes, tuple(parts))
