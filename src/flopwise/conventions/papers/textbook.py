"""A text's functions to the digit (``textbook``), and its 2 n − 1 for each dot product of n terms (``dot-product``).

Source: "Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12: a function for each of ten kinds of modules.
What it has no function for costs nothing in ``textbook`` (additions of residual blocks, adaptive pooling); operators
whose main work is products, for which it has none either (attention, recurrent layers), are unknown rather than free.

The text contradicts itself in three places, and its functions are followed:

- 1 MAC is 2 FLOPs and a dot product of n terms 2 n − 1, but a convolution's function counts n for each output element,
  and 1 for a bias. The convention ``dot-product`` has 2 n − 1 throughout.
- Batch normalisation is "only while training", but its function knows no mode: it costs 4 in inference too.
- Average pooling takes the product of ``kernel_size`` and 1, but of an ``int`` that product is the number itself:
  ``AvgPool2d(2)`` costs 3 for each output element, ``AvgPool2d((2, 2))`` 5.

``dot-product`` takes n multiplications and n − 1 additions for each dot product, as texts on the cost of networks say,
and the text's prices of activations and normalisations. What such texts do not name is counted as flopwise itself does,
so transposed convolutions, einsum and recurrent layers cost 2 per multiply-accumulate, and data movement nothing.
Average pooling, k + 1 per output, and dropout, zero, need no entry there: flopwise counts them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flopwise.conventions.convention import Convention, per_input
from flopwise.conventions.papers.molchanov import WITHOUT_FORMULA
from flopwise.graph import Node
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.extents import product, required
from flopwise.operators.onnx.normalization import softmax_rows

#: Operations per input element.
PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "ThresholdedRelu"), Counts(cmp=1)),
    "Tanh": Counts(exp=2, add=2, div=1),
    "Sigmoid": Counts(add=2, exp=1, div=1),  # the first add is the change of sign
    "BatchNormalization": Counts(add=2, div=1, mul=1),
}


def dot_products(node: Node, counts: Counts | None) -> Counts | None:
    """The canonical counts, but the first product of each output element is not added to anything: 2 K − 1."""
    if counts is None or counts.mac == 0:
        return counts
    outputs = node.output().numel
    return counts + Counts(mac=-outputs, mul=outputs)


def linear(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × (2 K − 1): "for approximation" the text leaves the bias out."""
    return None if counts is None else dot_products(node, Counts(mac=counts.mac))


def max_pool(node: Node, counts: Counts | None) -> Counts:
    """numel(Y)."""
    return Counts(cmp=node.output().numel)


def softmax(node: Node, counts: Counts | None) -> Counts:
    """rows × (3 n − 1): n exponentials, n − 1 additions, n divisions; n = X.shape[axis].

    Before opset 13 all axes from ``axis`` (1) on are one row.
    """
    elements = node.input(0).numel
    return Counts(exp=elements, add=elements - softmax_rows(node), div=elements)


DOT_PRODUCT = Convention(
    name="dot-product",
    unit="FLOP",
    summary="2n - 1 per dot product of n terms, tanh 5, sigmoid 4, batch norm 4, softmax 3n - 1; others as in flops.",
    source='2n - 1 as in "Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12, and texts like it',
    weights=FLOPS,
    overrides={
        **per_input(PER_INPUT),
        **dict.fromkeys(("Conv", "MatMul"), dot_products),
        "Gemm": linear,
        **dict.fromkeys(("MaxPool", "GlobalMaxPool"), max_pool),
        "Softmax": softmax,
    },
    notes=("operators that such texts do not name are counted as in the convention flops",),
)


#: Operators that cut off, which cost what ReLU does.
CUT_OFF = ("Clip", "aten::hardtanh")


def conv(node: Node, counts: Counts | None) -> Counts:
    """numel(Y) × (C / groups × prod(kernel), and 1 for a bias), C the channels of X."""
    weight = node.input(1).dims
    channels: Any = weight[0] // node.attrs.get("group", 1) if node.op == "ConvTranspose" else weight[1]
    return Counts(mul=channels * product(weight[2:]), add=int(node.has_input(2))) * node.output().numel


def average_pool(node: Node, counts: Counts | None) -> Counts:
    """numel(Y) × (prod(kernel) + 1); where a program gives the kernel as one number, that number + 1."""
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
