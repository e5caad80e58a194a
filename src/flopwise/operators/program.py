"""Rows of what a program has beside operators: functions with gradients of their own, unused weights."""

from __future__ import annotations

from flopwise.operators.inputs import Input, inputs
from flopwise.operators.operator import Operator, nothing, unknown
from flopwise.operators.packed import BLOCKS

OPERATORS: dict[str, Operator] = {
    "torch::Function": nothing("a function with a gradient of its own; its operators are counted one by one"),
    "torch::Unused": nothing("weights that take no part in this run"),
    "torch::Unseen": unknown("made where no operation of PyTorch's is seen"),
    "flopwise::Tensor": unknown(
        "stands for a tensor in a file with weights, which has no operators", inputs=inputs(Input(packed=BLOCKS))
    ),
}
