"""onnx's shape inference of models and of single nodes, in this process where that is proven safe, else in a child."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import TypeProto, shape_inference

from flopwise.readers.onnx.native.child import CHILD, LostError
from flopwise.readers.onnx.native.proven import has_negative_extent, is_proven, is_proven_when_typed
from flopwise.readers.onnx.native.worker import MODEL, NODE, STRICT
from flopwise.readers.onnx.types import bodies

#: How many times the child may be lost over one model, before nothing more is given to it.
LOSSES = 3


class Inference:
    """onnx's shape inference for the graphs of one model."""

    def __init__(self) -> None:
        self._losses = 0

    def model(self, model: onnx.ModelProto, strict: bool = False, proven: bool = False) -> onnx.ModelProto:
        """The model with the types that follow from its inputs and stored tensors.

        Args:
            model: it should have no node that is not proven safe (see ``flopwise.readers.onnx.native.suspects``),
                as that takes a child.
            strict: whether a node that does not fit its inputs is an error.
            proven: whether all that is not proven safe has just been hidden, so that nobody needs to look again.

        Raises:
            Exception: onnx refuses the model; of several kinds.
        """
        if proven or all(is_proven(node) for node in _nodes(model)):
            return shape_inference.infer_shapes(model, strict_mode=strict)
        return self.ask(STRICT if strict else MODEL, model)

    def node(
        self,
        schema: Any,
        node: onnx.NodeProto,
        types: Mapping[str, TypeProto],
        values: Mapping[str, onnx.TensorProto],
        opsets: list[onnx.OperatorSetIdProto],
        ir_version: int,
    ) -> Mapping[str, TypeProto]:
        """The types of the outputs of one node, which has no bodies.

        Args:
            schema: the version of its operator.
            node: the node.
            types: the types of all its inputs by name.
            values: the elements of its inputs, where they are known.
            opsets: the operator sets in force.
            ir_version: of the model.

        Raises:
            ValueError: the node is not proven safe, and an input has a negative extent.
            Exception: onnx refuses the node; of several kinds.
        """
        if is_proven(node) or is_proven_when_typed(node, types):
            answer: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
                schema, node, dict(types), dict(values), opset_imports=opsets, ir_version=ir_version
            )
            return answer
        if any(has_negative_extent(type_) for type_ in types.values()):
            raise ValueError("an input has a negative extent")
        model = onnx.ModelProto(ir_version=ir_version, opset_import=opsets, producer_version=str(schema.since_version))
        model.graph.node.append(node)
        for name, type_ in types.items():
            model.graph.input.add(name=name, type=type_)
        model.graph.initializer.extend(values.values())
        return {v.name: v.type for v in self.ask(NODE, model).graph.output}

    def ask(self, kind: int, model: onnx.ModelProto) -> onnx.ModelProto:
        """The answer of the child to any request.

        Raises:
            LostError: the child was lost, now or too often before.
            RuntimeError: onnx refuses the model.
        """
        if self._losses >= LOSSES:
            raise LostError("not tried, as the shape inference of others went wrong")
        try:
            return CHILD.ask(kind, model)
        except LostError as error:
            self._losses += 1
            raise LostError(f"onnx's shape inference {error}") from None


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a model, those in functions and in bodies included."""
    waiting = [model.graph.node, *(f.node for f in model.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting.extend(b.node for b in bodies(node))
