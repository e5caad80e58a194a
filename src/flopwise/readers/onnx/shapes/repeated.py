"""The types of a large model's tensors: models repeat themselves, and onnx infers each distinct case once.

What a node makes follows from its operator, its attributes, the types of its inputs, and the elements of those that the
file holds. Nodes are looked at in order; at the first one of which that is new, onnx's inference runs over it and some
that follow, with the types and elements that they take. The answers are those of one inference of the whole model.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.file.skeleton import TAG
from flopwise.readers.onnx.listing import Initial, Listed
from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.native.suspects import may_shrink
from flopwise.readers.onnx.types import CONTROL_FLOW, Shapes, Type

if TYPE_CHECKING:
    from flopwise.readers.onnx.shapes.arithmetic import Arithmetic

#: The number and the type of each output of a node.
_Answer: TypeAlias = "list[tuple[int, Type | None]]"

#: Nodes from which on it is worth while to look for those that repeat.
MANY = 1000

#: Nodes that onnx infers at once.
_AT_ONCE = 256

_ALONE = """
Add BatchNormalization Clip Conv ConvInteger ConvTranspose DequantizeLinear Div Equal Gemm Greater InstanceNormalization
LayerNormalization Less MatMul MatMulInteger Max Min Mul PRelu Pow QLinearConv QLinearMatMul QuantizeLinear Sub Where
"""

#: Operators whose inference asks for types alone, so that scales and constants of their own make no new case.
_TYPES_ALONE: frozenset[str] = frozenset(_ALONE.split())

#: Names of tensors whose elements are left out.
_LEFT_OUT = re.compile(re.escape(TAG.encode()) + rb"[\d.]+")

#: The first IR version in which stored tensors have types though they are no inputs.
_TYPED = 4


def infer(
    model: onnx.ModelProto,
    nodes: Sequence[Listed],
    shapes: Shapes,
    inference: Inference,
    stored: Sequence[Initial],
    foreseen: Sequence[onnx.TensorProto] = (),
    arithmetic: Arithmetic | None = None,
) -> bool:
    """Whether the types of what the nodes make are written down as far as they follow; else onnx has to see the whole.

    Args:
        model: all of its nodes are proven safe, and no shape of what they make is in it.
        nodes: the nodes of its graph.
        shapes: the types of its inputs and stored tensors; completed.
        inference: onnx's own.
        stored: the stored tensors of the graph.
        foreseen: elements of values that nodes make, which are among the stored tensors of the graph.
        arithmetic: computes the elements of values on the way.

    Raises:
        Exception: onnx refuses the model; of several kinds.
    """
    if len(nodes) < MANY or model.functions or (foreseen and model.ir_version < _TYPED):
        return False
    if any(node.op in CONTROL_FLOW for node in nodes):
        return False
    cases = _Cases(model, shapes, stored, foreseen, arithmetic)
    classes, answers, made_before = cases.classes, cases.answers, {t.name for t in foreseen}
    until, at_once, fresh, write = 0, _AT_ONCE, dict[str, TypeProto](), shapes.write
    for position, node in enumerate(nodes):
        _, _, op, domain, _, inputs, outputs, attributes = node
        if made_before and not made_before.isdisjoint(outputs):
            if made_before.issuperset(outputs):
                continue
            return False
        places = tuple(map(bool, outputs)) if "" in outputs else len(outputs)
        key = (op, domain, attributes, tuple([classes[name] for name in inputs]), places)
        answer = answers.get(key)
        computes = answer is None and arithmetic is not None and arithmetic.computes(op, domain, key[3])
        if answer is None and op in _TYPES_ALONE and not domain and not computes:
            answer = cases.by_types(key)
        if answer is None:
            stale = position < until and arithmetic is not None and cases.are_stale(inputs, fresh)
            if position >= until or stale:
                at_once = max(at_once // 2, 8) if stale else min(at_once * 2, _AT_ONCE)
                until = position + at_once
                part = cases.part(nodes[position:until])
                if arithmetic is not None and may_shrink(part.graph):
                    return False
                inferred = inference.model(part, strict=arithmetic is not None, proven=True).graph
                fresh = {v.name: v.type for v in inferred.value_info}
            answer = cases.learn(key, [fresh.get(name) for name in outputs])
            if answer is None:
                return False
            if computes or op == "Constant":
                answer = cases.compute(key, node, answer)
        for name, (number, type_) in zip(outputs, answer, strict=True):
            classes[name] = number
            if type_ is not None and name:
                write(name, type_)
        if op == "Constant":
            cases.constants.update(dict.fromkeys(outputs, node))
    return _agree(model.graph.output, shapes)


def _agree(outputs: Iterable[onnx.ValueInfoProto], shapes: Shapes) -> bool:
    """Whether the types that the file states for outputs are those that follow."""
    for value in outputs:
        stated, type_ = value.type, shapes.type(value.name)
        if stated.WhichOneof("value") is None and type_ is not None:
            continue
        if type_ is None or not stated.HasField("tensor_type") or not type_.HasField("tensor_type"):
            return False
        if stated.tensor_type.elem_type != type_.tensor_type.elem_type or stated.denotation:
            return False
    return True


class _Cases:
    """All that types follow from, numbered, and the answers so far."""

    def __init__(
        self,
        model: onnx.ModelProto,
        shapes: Shapes,
        stored: Sequence[Initial],
        foreseen: Sequence[onnx.TensorProto],
        arithmetic: Arithmetic | None,
    ) -> None:
        self.model = model
        self.shapes = shapes
        self.arithmetic = arithmetic
        #: The number of each tensor, 0 where nothing is known of it. One number means one type, and the same elements
        #: if the file has them.
        self.classes: defaultdict[str, int] = defaultdict(int)
        #: The number and the type of each output of a node, by all that they follow from.
        self.answers: dict[Any, _Answer] = {}
        self._answers_of_types: dict[Any, _Answer] = {}
        #: The Constant that makes a tensor.
        self.constants: dict[str, Listed] = {}
        self._numbers: dict[Any, int] = {}
        self._inputs = {v.name: v for v in model.graph.input}
        #: The stored tensors by name.
        self._stored: dict[str, Initial | onnx.TensorProto] = {t.name: t for some in (stored, foreseen) for t in some}
        self.classes[""] = self.number("left out")
        if arithmetic is not None:
            arithmetic.left_out = self.classes[""]
        #: Number of a tensor with elements -> one for all of its type.
        self._types: dict[int, int] = {}
        for tensor in stored:
            number = self.classes[tensor.name] = self.number(tensor[1:])
            if tensor.rest and number not in self._types:
                self._types[number] = self.number(tensor[1:3])
                if arithmetic is not None:
                    arithmetic.sources[number] = tensor
        for one in foreseen:
            self.classes[one.name] = self.number((one.data_type, tuple(one.dims), one.raw_data, *one.string_data))
        for name, value in self._inputs.items():
            case = ("type", value.type.SerializeToString())
            self.classes[name] = self.number((self.classes[name], case) if name in self._stored else case)

    def number(self, case: Any) -> int:
        """One number for each case."""
        return self._numbers.setdefault(case, len(self._numbers) + 1)

    def by_types(self, key: Any) -> _Answer | None:
        """The answer for a case whose operator asks for types alone, by another case of the same types."""
        answer = self._answers_of_types.get(self._types_of(key))
        if answer is not None:
            self.answers[key] = answer
        return answer

    def _types_of(self, key: Any) -> Any:
        """A case with tensors that differ in their elements alone as one."""
        op, domain, attributes, taken, places = key
        return op, domain, attributes, tuple([self._types.get(number, number) for number in taken]), places

    def part(self, nodes: Sequence[Listed]) -> onnx.ModelProto:
        """A model of these nodes, with all that is known of what they take."""
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        graph = model.graph
        made = {name for node in nodes for name in node.outputs}
        for name in dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in made):
            if name in self.constants:
                graph.node.append(self.constants[name].proto)
                continue
            if tensor := self._stored.get(name):
                graph.initializer.append(tensor.proto if isinstance(tensor, Initial) else tensor)
            elif self.arithmetic and (computed := self.arithmetic.tensor(name, self.classes[name])) is not None:
                graph.initializer.append(computed)
            elif name not in self._inputs and (type_ := self.shapes.type(name)) is not None:
                graph.input.add(name=name, type=type_)
            if name in self._inputs:
                graph.input.append(self._inputs[name])
        graph.node.extend(node.proto for node in nodes)
        return model

    def are_stale(self, names: Sequence[str], fresh: Mapping[str, TypeProto]) -> bool:
        """Whether more is known of these tensors than when onnx inferred the part that makes them."""
        for name in names:
            if name in fresh and name not in self.constants:
                if self.arithmetic is not None and self.arithmetic.value(self.classes[name]) is not None:
                    return True
                if self.shapes.like(fresh[name]) is not self.shapes.of(name):
                    return True
        return False

    def compute(self, key: Any, node: Listed, answer: _Answer) -> _Answer:
        """The answer with numbers that stand for elements as well, where these can be computed."""
        arithmetic = self.arithmetic
        if arithmetic is None:
            return answer
        if node.op == "Constant":
            arithmetic.sources.setdefault(answer[0][0], node)
            return answer
        for name, (_, type_) in zip(node.outputs, answer, strict=True):
            if type_ is not None and name:
                self.shapes.write(name, type_)
        with_elements: _Answer = []
        for (number, type_), value in zip(answer, arithmetic.made(node, key[3]), strict=True):
            if (
                value is not None
                and type_ is not None
                and (type_.shape, type_.dtype) == (value.shape, str(value.dtype))
            ):
                plain, number = number, self.number(("elements", value.dtype.str, value.shape, value.tobytes()))
                self._types[number] = plain
                arithmetic.learn(number, value)
            with_elements.append((number, type_))
        self.answers[key] = with_elements
        return with_elements

    def learn(self, key: Any, types: Sequence[TypeProto | None]) -> _Answer | None:
        """The answer for a case, which is written down; None where onnx made up a name for an extent that is open."""
        op, _, attributes = key[:3]
        held = tuple(_LEFT_OUT.sub(b"", a) for a in attributes) if op == "Constant" else None
        answer: _Answer = []
        for type_ in types:
            if type_ is None:
                answer.append((0, None))
                continue
            data = type_.SerializeToString()
            if b"unk__" in data:
                return None
            number = self.number(("type", data))
            if held is not None:
                number, plain = self.number((data, held)), number
                self._types[number] = plain
            answer.append((number, self.shapes.like(type_)))
        self.answers[key] = answer
        if op in _TYPES_ALONE:
            self._answers_of_types[self._types_of(key)] = answer
        return answer
