"""Shapes of onnxruntime's operators (``com.microsoft`` and its layouts), which onnx does not know.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.shapes.onnxruntime import attention, layout_variants, pointwise, state
from flopwise.readers.onnx.shapes.onnxruntime.node import Place, Rule, TypeOf, UnresolvedError, ValueOf

#: Domain -> operator -> what its results are like.
RULES: dict[str, dict[str, Rule]] = {
    "com.microsoft": {
        **attention.RULES,
        **pointwise.RULES,
        **state.RULES,
        **layout_variants.RULES,
    },
    "com.microsoft.nchwc": layout_variants.BLOCKED,
    "com.ms.internal.nhwc": layout_variants.LAST,
    "": {"SimplifiedLayerNormalization": pointwise.alike},
}


def infer(
    node: onnx.NodeProto, type_of: TypeOf, value_of: ValueOf, graph: onnx.GraphProto | None = None
) -> dict[str, TypeProto]:
    """The types of a node's outputs; empty when nothing is known.

    Args:
        node: a node of a domain that onnx does not know.
        type_of: the type of a value by name.
        value_of: the elements of a small value by name.
        graph: the graph around the node.

    Raises:
        ValueError: its attributes or inputs make no sense to onnx's own rule.
    """
    rule = RULES.get(node.domain, {}).get(node.op_type)
    if rule is None:
        return {}
    try:
        types = rule(Place(node, type_of, value_of, graph or onnx.GraphProto()))
    except UnresolvedError as error:
        if error.args:
            raise
        return {}
    return {o: t for o, t in zip(node.output, types, strict=False) if o and t is not None}
