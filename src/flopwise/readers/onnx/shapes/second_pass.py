"""The second pass over an ONNX model, for the shapes that onnx's C++ inference leaves unresolved.

What it leaves is mostly shape arithmetic (Shape, Gather, Concat, Where, ... into Reshape). This pass evaluates that on
small tensors and infers the rest node by node with onnx's own rules.
"""

from __future__ import annotations

import contextlib
import re
import warnings as python_warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import onnx
from onnx import TypeProto, numpy_helper

from flopwise.readers.onnx.shapes.bounds import BOUNDED, bounds
from flopwise.readers.onnx.shapes.control_flow.enter import enter
from flopwise.readers.onnx.shapes.evaluation import EVALUABLE, evaluable, evaluate
from flopwise.readers.onnx.shapes.node_types import NodeTypes
from flopwise.readers.onnx.shapes.open_values import OpenValues
from flopwise.readers.onnx.shapes.sequences import RULES, members
from flopwise.readers.onnx.shapes.state import State
from flopwise.readers.onnx.types import (
    ASKED,
    CONTROL_FLOW,
    QUERIES,
    Facts,
    Interval,
    bodies,
    concrete,
    describe,
    first_line,
    first_output,
    in_short,
    open_axes,
    tensor_type,
)

#: Operators that may have rules of this package.
_OWN: frozenset[str] = BOUNDED | {op for _, op in RULES}


#: What onnx says of inputs that do not go together.
_MISFIT = re.compile("ncompatible dim|ncompatible shapes|merge shape info|imension mismatch|Mismatch between", re.ASCII)


class SecondPass:
    """Values of small tensors, and shapes node by node, in execution order."""

    def __init__(self, state: State, declared: Mapping[str, TypeProto]) -> None:
        """
        Args:
            state: the graph; completed by ``run``.
            declared: types that the file states, for what nothing can infer.
        """
        self.state = state
        self.shapes = state.shapes
        self.declared = declared
        self.node_types = NodeTypes(state)
        self.open_values = OpenValues(state)

    def foresee(self) -> list[onnx.TensorProto]:
        """Values that follow from stored tensors and the shapes of inputs alone: shape arithmetic, mostly.

        With them onnx infers at once what would otherwise be left for ``run``.
        """
        state = self.state
        made: list[str] = []
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")
            for node in state.graph.node:
                op = node.op_type
                if op not in EVALUABLE:
                    continue
                inputs = [i for i in node.input if i]
                if op not in QUERIES:
                    if node.domain or not inputs or not all(i in state.values for i in inputs):
                        continue
                    if not all(self.shapes.sized(o) for o in node.output if o):
                        self.infer(node)
                self.attempt(node, self.evaluate)
                made.extend(o for o in node.output if o in state.values)
        state.failures.clear()  # they come again
        arrays = ((name, state.values[name]) for name in made)
        return [numpy_helper.from_array(v, name) for name, v in arrays if isinstance(v, numpy.ndarray)]

    def run(self) -> None:
        """Resolve what can be resolved."""
        state = self.state
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")  # numpy's, about what a model computes
            for node in state.graph.node:
                op, outputs = node.op_type, list(node.output)
                if (op in CONTROL_FLOW or node.domain) and bodies(node):
                    self.attempt(node, lambda node: enter(state, node))
                if not all(map(self.shapes.sized, filter(None, outputs))):
                    self.infer(node)
                elif op in ASKED:
                    self.attempt(node, self.apply_own_rules)
                if op in EVALUABLE:
                    self.attempt(node, self.evaluate)
        self.shapes.warnings.extend(in_short(state.failures, "more operators have no shape"))
        if not state.context.inside and (remark := self.open_values.remark()):
            self.shapes.warnings.append(remark)

    def evaluate(self, node: onnx.NodeProto) -> None:
        """Write down the values of the node's outputs where they can be computed."""
        if evaluable(node, self.state):
            evaluate(node, self.state)

    def infer(self, node: onnx.NodeProto) -> None:
        """Shapes of the node's outputs by onnx's own rule, else as the file declares them, else as upper bounds."""
        types: Mapping[str, TypeProto] = {}
        try:
            types = self.node_types.of(node)
        except Exception as error:  # the C++ side raises several kinds, some of them plain RuntimeError
            why = first_line(error)
            if _MISFIT.search(why):
                self.shapes.faults[first_output(node)] = f"does not fit its inputs: {why}"
            else:
                self.state.failures.append(f"no shape for {describe(node)}: {why}")
        for output, type_ in types.items():
            if output and type_.WhichOneof("value") and not self.shapes.sized(output):
                self.shapes.set(output, type_)
        self._set_mask_of_dropout(node)
        if node.op_type == "Reshape" and not node.domain and self.shapes.shape(node.output[0]) is None:
            self.attempt(node, self._follow_from_elements)
        for output in node.output:
            declared = self.declared.get(output)
            if declared is not None and self.shapes.shape(output) is None and concrete(declared) is not None:
                self.shapes.set(output, declared)
        if node.op_type in _OWN:
            self.attempt(node, self.apply_own_rules)
        if any(i in self.shapes.bounds or i in self.shapes.intervals for i in node.input):
            self.attempt(node, self.mark_bounds)

    def mark_bounds(self, node: onnx.NodeProto) -> None:
        """Note the axes along which the outputs are bounds because inputs are: those that are open when these are."""
        certain: Mapping[str, TypeProto] = {}
        with contextlib.suppress(Exception):  # the C++ side raises several kinds, some of them plain RuntimeError
            certain = self.node_types.of(node, certain=True)
        for output in filter(None, node.output):
            if output in self.state.values:
                continue
            axes = open_axes(certain.get(output), self.shapes.shape(output))
            if axes := axes | self.shapes.bounds.get(output, frozenset()):
                self.shapes.bounds[output] = axes

    def _follow_from_elements(self, node: onnx.NodeProto) -> None:
        """Give the result of a Reshape its shape where one extent is unknown, and follows from the rest."""
        shape, data = self.open_values.reshaped(node), self.shapes.type(node.input[0])
        if shape is not None and data is not None:
            code = tensor_type(data).elem_type
            self.shapes.set(node.output[0], onnx.helper.make_tensor_type_proto(code, shape))

    def _set_mask_of_dropout(self, node: onnx.NodeProto) -> None:
        """Give the mask of a Dropout the shape of the data: onnx infers it only in some versions."""
        if node.op_type != "Dropout" or len(node.output) < 2 or not node.input:
            return
        data = self.shapes.type(node.input[0])
        if data is not None and self.shapes.shape(node.output[1]) is None:
            self.shapes.set(node.output[1], data)

    def attempt(self, node: onnx.NodeProto, step: Callable[[onnx.NodeProto], Any]) -> None:
        """Do something about a node, whose inputs and attributes may be anything."""
        try:
            step(node)
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            why = f"its inputs or attributes make no sense: {type(error).__name__}: {first_line(error)}"
            self.state.failures.append(f"no shape for {describe(node)}: {why}")

    def apply_own_rules(self, node: onnx.NodeProto) -> None:
        """Members of sequences, and upper bounds of what the data decide."""
        if (node.domain, node.op_type) not in RULES and node.op_type not in BOUNDED:
            return
        inputs = [self.state.facts(name) for name in node.input]
        if not self.state.affords(sum(len(facts.items or ()) for facts in inputs)):
            return
        bounded = any(facts.bound or facts.interval for facts in inputs)
        for rule in (members, bounds):
            for output, facts in zip(node.output, rule(node, inputs), strict=False):
                if output and (facts.items is not None or facts.value is not None or not self.shapes.sized(output)):
                    if bounded and facts.value is not None and facts.value.dtype.kind == "i":
                        facts = Facts(interval=Interval(numpy.zeros_like(facts.value), facts.value))
                    self.state.learn(output, facts)
