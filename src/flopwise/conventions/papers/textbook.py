"""The functions of one text, to the digit: convolutions in multiply-accumulates with bias, linear layers in 2 n − 1.

Source: "Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12: a function for each of ten kinds of modules.
What it has no function for costs nothing there (additions of residual blocks, adaptive pooling); operators whose main
work is products, for which it has none either (attention, recurrent layers), are unknown here rather than free.

The text contradicts itself in three places, and its functions are followed:

- 1 MAC is 2 FLOPs and a dot product of n terms 2 n − 1, but a convolution's function counts n for each output element,
  and 1 for a bias. The convention ``dot-product`` has 2 n − 1 throughout.
- Batch normalisation is "only while training", but its function knows no mode: it costs 4 in inference too.
- Average pooling takes the product of ``kernel_size`` and 1, but of an ``int`` that product is the number itself:
  ``AvgPool2d(2)`` costs 3 for each output element, ``AvgPool2d((2, 2))`` 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flopwise.conventions.convention import Convention, per_input
from flopwise.conventions.papers.dot_product import PER_INPUT, linear, max_pool, softmax
from flopwise.conventions.papers.molchanov import WITHOUT_FORMULA
from flopwise.graph import Node
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.extents import product, required

#: Operators that cut off, which cost what ReLU does.
CUT_OFF = ("Clip", "aten::hardtanh")


def conv(node: Node, counts: Counts | None) -> Counts:
    """numel(Y) × (C / groups × prod(kernel), and 1 for a bias), C the channels of X."""
    weight = node.input(1).dims
    channels: Any = weight[0] // node.attrs.get("group", 1) if node.op == "ConvTranspose" else weight[1]
    return Counts(mul=channels * product(weight[2:]), add=int(node.has_input(2))) * node.output().numel


def average_pool(node: Node, counts: Counts | None) -> Counts:
    """numel(Y) × (prod(kernel) + 1); of a program that gives the kernel as one number, that number + 1."""
    arguments: Mapping[str, Any] = node.attrs.get("args") or {}
    size = arguments.get("kernel_size")
    window = size if isinstance(size, int) else product(required(node, "kernel_shape"))
    return Counts(add=window, div=1) * node.output().numel


def _without_function(node: Node, counts: Counts | None) -> None:
    """unknown: the text has no function for it"""


CONVENTION = Convention(
    name="textbook",
    unit="FLOP",
    summary="The functions of one text: convolutions n per output, 1 for a bias; linear 2n - 1; batch norm 4; tanh 5.",
    source='"Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12',
    weights=FLOPS,
    overrides={
        **dict.fromkeys(sorted(WITHOUT_FORMULA), _without_function),
        **per_input({**PER_INPUT, **dict.fromkeys(CUT_OFF, Counts(cmp=1))}),
        **dict.fromkeys(("Conv", "ConvTranspose"), conv),
        **dict.fromkeys(("Gemm", "MatMul", "FC"), linear),
        **dict.fromkeys(("MaxPool", "GlobalMaxPool"), max_pool),
        "AveragePool": average_pool,
        "Softmax": softmax,
    },
    others="free",
    notes=(
        "the text counts a convolution in multiply-accumulates and a linear layer in twice as many operations; "
        "dot-product has 2n - 1 throughout",
        "what the text has no function for is free: sums of residual blocks, adaptive pooling; products are unknown",
    ),
)
