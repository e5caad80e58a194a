"""PyTorch's backward operators where a forward pass calls them, as ``torch.autograd.grad`` in it does.

Each counts what the operator that it belongs to has for its gradient.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


#: Arguments by their place, which a program may give without their names.
_PLACES = {"dim": 2, "transposed": 7, "groups": 9, "output_mask": 10}


def _gradient_of(op: str) -> Operator:
    def rule(node: Node) -> Counts:
        from flopwise.operators.tables import row  # which loads this table

        arguments = node.arguments

        def argument(name: str, default: Any) -> Any:
            return arguments.get(name, arguments.get(f"arg{_PLACES[name]}", default))

        convolves = op == "Conv"
        kind = "ConvTranspose" if convolves and argument("transposed", False) else op
        gradient = row(kind).gradient
        if gradient is None:
            raise ShapeError(f"{kind} has no rule for its gradient")
        asked = argument("output_mask", ()) if convolves else [True] * len(node.outputs)
        wrt = [place for place, one in enumerate(asked) if one]
        inputs = [*node.inputs[1:], *[None] * len(asked)]
        for place, result in zip(wrt, node.known_outputs, strict=False):
            inputs[place] = result  # of the shape to which it is added up, if it is
        attrs: dict[str, Any] = {"group": argument("groups", 1)} if convolves else {"axis": argument("dim", -1)}
        if op == "Gelu":
            attrs["approximate"] = arguments.get("approximate", "none")
        return gradient.rule(
            replace(node, op=kind, inputs=tuple(inputs), outputs=node.inputs[:1], attrs=attrs), frozenset(wrt)
        )

    return row_of(rule, f"what {op} has for its gradient", "exact")


OPERATORS: dict[str, Operator] = {
    **{f"aten::{name}_backward": _gradient_of(op) for name, op in _OF.items() if not op.endswith("oftmax")},
    **{f"aten::{name}_backward_data": _gradient_of(op) for name, op in _OF.items() if op.endswith("oftmax")},
    **{f"aten::{name}_backward": nothing("G goes back to where elements came from") for name in _MOVED.split()},
}
