"""What the function body of an ONNX schema costs: the sum of the rules over the operators it expands to.

The body is run on concrete inputs by onnx's reference implementation, so every shape in it is known. Left out is what
no inference computes: nodes on constants and shapes alone, nodes whose result nobody reads, and adding zeros that stand
for an operand that was not given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tests.operators.arrays import Input
from tests.operators.inlining import inlined

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count


def split(op: str) -> tuple[str, str]:
    """The domain and the name of an operator."""
    domain, _, name = op.rpartition("::")
    return domain, name


def versions_with_body(op: str) -> list[int]:
    """The versions of an operator whose schema carries a function body."""
    return sorted(
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if (s.domain, s.name) == split(op) and (s.has_function or s.has_context_dependent_function)
    )


def body(
    op: str, version: int, inputs: Sequence[Input | None], attrs: Mapping[str, Any], outputs: int
) -> tuple[onnx.FunctionProto, onnx.NodeProto]:
    """The function body of one application of an operator, and the application."""
    domain, name = split(op)
    schema = onnx.defs.get_schema(name, version, domain)
    names = ["" if x is None else f"in{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(name, names, [f"out{i}" for i in range(outputs)], domain=domain, **attrs)
    if schema.has_function:
        return schema.function_body, node
    types = [
        helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(x.array.dtype), x.array.shape) if x else None
        for x in inputs
    ]
    serialized = schema.get_context_dependent_function(
        node.SerializeToString(), [t.SerializeToString() if t else b"" for t in types]
    )
    function = onnx.FunctionProto()
    function.ParseFromString(serialized)
    return function, node


def bound(function: onnx.FunctionProto, node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """The nodes of the body with attributes filled in and inputs that are not given left out."""
    given = {a.name: a for a in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    absent = set(function.input[len(node.input) :])
    absent |= {name for name, actual in zip(function.input, node.input, strict=False) if not actual}
    nodes = []
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.input[:] = ["" if name in absent else name for name in inner.input]
        del copy.attribute[:]
        for attribute in inner.attribute:
            if attribute.ref_attr_name:
                default = schema.attributes[attribute.ref_attr_name].default_value
                value = given.get(attribute.ref_attr_name, default)
                if value.type == onnx.AttributeProto.UNDEFINED:
                    continue
                copy.attribute.add().CopyFrom(value)
                copy.attribute[-1].name = attribute.name
            else:
                copy.attribute.add().CopyFrom(attribute)
        nodes.append(copy)
    return nodes


def run(nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, Any], opset: int) -> dict[str, Any]:
    """Every value in the body."""

    def infos(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names]

    made = [name for node in nodes for name in node.output if name]
    graph = helper.make_graph(nodes, "body", infos(feeds), infos(made))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return {**feeds, **dict(zip(made, ReferenceEvaluator(model).run(None, dict(feeds)), strict=True))}


def cost_of_body(
    op: str,
    version: int,
    inputs: Sequence[Input | None],
    attrs: Mapping[str, Any],
    outputs: int = 1,
    constants: Sequence[int] = (),
) -> tuple[Counts, list[tuple[int, ...]]]:
    """The operations of an operator's function body, and the shapes of its outputs.

    Args:
        op: the operator.
        version: the version of its schema.
        inputs: concrete inputs.
        attrs: attributes.
        outputs: how many outputs are read.
        constants: positions of the inputs that are constants in any model (an output size).
    """
    function, node = body(op, version, inputs, attrs, outputs)
    newest = onnx.defs.onnx_opset_version()
    opset = next((o.version for o in function.opset_import if o.domain == ""), newest)
    feeds = {name: x.array for name, x in zip(function.input, inputs, strict=False) if x is not None}
    nodes = inlined(bound(function, node, version), lambda before: {**feeds, **run(before, feeds, opset)})
    values = run(nodes, feeds, opset)
    known = {"", *(function.input[i] for i in constants)}
    for inner in nodes:
        # A cast to the type of another tensor reads that tensor's type alone.
        read = inner.input[:1] if inner.op_type == "CastLike" else inner.input
        if inner.op_type in ("Shape", "Size") or known.issuperset(read):
            known.update(inner.output)
    zeros = stand_ins(nodes, values)
    wanted = set(function.output[:outputs])
    total = Counts()
    for inner in reversed(nodes):
        if not wanted.intersection(inner.output):
            continue
        wanted.update(inner.input)
        if known.issuperset(inner.output) or (inner.op_type == "Add" and zeros.intersection(inner.input)):
            continue
        counts = count(as_node(inner, values, opset))
        assert counts is not None, f"no rule for {inner.op_type}, to which {op} expands"
        total += counts
    return total, [values[name].shape for name in function.output[:outputs]]


def stand_ins(nodes: Sequence[onnx.NodeProto], values: Mapping[str, Any]) -> set[str]:
    """Values that the body fills with zeros in place of an operand that was not given."""
    zeros: set[str] = set()
    for node in nodes:
        filled = node.op_type == "ConstantOfShape" and not np.any(values[node.output[0]])
        if filled or (node.op_type in ("Identity", "Cast", "CastLike") and node.input[0] in zeros):
            zeros.update(node.output)
    return zeros


def as_node(proto: onnx.NodeProto, values: Mapping[str, Any], version: int) -> Node:
    """A node of the body as the rules see it."""

    def tensors(names: Iterable[str]) -> tuple[Tensor | None, ...]:
        return tuple(Tensor(n, tuple(values[n].shape), "float32") if n else None for n in names)

    attrs = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    decoded = {name: value.decode() if isinstance(value, bytes) else value for name, value in attrs.items()}
    return Node(proto.op_type, proto.name, tensors(proto.input), tensors(proto.output), decoded, version=version)
