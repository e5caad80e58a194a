"""What a program has beside operators."""

from __future__ import annotations

from flopwise.operators.operator import Operator, nothing

OPERATORS: dict[str, Operator] = {
    "torch::Function": nothing("a function with a gradient of its own; its operators are counted one by one"),
    "torch::Unused": nothing("weights that take no part in this run"),
}
