"""PyTorch's backward operators where a forward pass calls them, as ``torch.autograd.grad`` in it does.

Each counts what the operator that it belongs to has for its gradient.
"""

from __future__ import annotations

from dataclasses import replace

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator, nothing, row_of

#: Backward operator, without ``_backward`` -> the operator whose gradient it computes.
_OF = {
    "tanh": "Tanh", "sigmoid": "Sigmoid", "threshold": "Relu", "gelu": "Gelu", "elu": "Elu", "silu": "aten::silu",
    "mish": "Mish", "leaky_relu": "LeakyRelu", "softplus": "Softplus", "hardtanh": "aten::hardtanh",
    "hardswish": "HardSwish", "hardsigmoid": "HardSigmoid", "log_sigmoid": "aten::log_sigmoid", "softshrink": "Shrink",
    "hardshrink": "aten::hardshrink", "rrelu_with_noise": "LeakyRelu", "_prelu_kernel": "PRelu", "glu": "aten::glu",
    "_softmax": "Softmax", "_log_softmax": "LogSoftmax", "convolution": "Conv",
}  # fmt: skip

_MOVED = "select slice diagonal unfold reflection_pad1d reflection_pad2d reflection_pad3d"


def _gradient_of(op: str) -> Operator:
    def rule(node: Node) -> Counts:
        from flopwise.operators.tables import row  # which loads this table

        arguments = node.arguments
        kind = "ConvTranspose" if op == "Conv" and arguments.get("transposed") else op
        gradient = row(kind).gradient
        if gradient is None:
            raise ShapeError(f"{kind} has no rule for its gradient")
        asked = arguments.get("output_mask") or [True] * len(node.outputs)
        wrt = frozenset(place for place, one in enumerate(asked) if one)
        attrs = {"group": arguments.get("groups", 1), "axis": arguments.get("dim", -1)}
        forward = replace(node, op=kind, inputs=node.inputs[1:], outputs=node.inputs[:1], attrs=attrs)
        return gradient.rule(forward, wrt)

    return row_of(rule, f"what {op} has for its gradient", "exact")


OPERATORS: dict[str, Operator] = {
    **{f"aten::{name}_backward": _gradient_of(op) for name, op in _OF.items() if not op.endswith("oftmax")},
    **{f"aten::{name}_backward_data": _gradient_of(op) for name, op in _OF.items() if op.endswith("oftmax")},
    **{f"aten::{name}_backward": nothing("G goes back to where elements came from") for name in _MOVED.split()},
}
