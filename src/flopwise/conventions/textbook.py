"""Two texts: the functions of one to the digit (``textbook``), 2 n − 1 for each dot product (``dot-product``), and
Molchanov et al.

Source of the first two: "Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12: a function for each of ten
kinds of modules. What it has no function for costs nothing in ``textbook`` (additions of residual blocks, adaptive
pooling); operators whose main work is products, for which it has none either (attention, recurrent layers), are unknown
rather than free.

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

``molchanov`` has 2HW(CK² + 1)C' for a convolution, (2I − 1)O for a fully connected layer, and nothing else.
Source: P. Molchanov, S. Tyree, T. Karras, T. Aila, J. Kautz, "Pruning Convolutional Neural Networks for Resource
Efficient Inference", ICLR 2017, https://arxiv.org/abs/1611.06440, appendix A.1: convolution is a sliding window, and
nonlinearities are free. The paper says nothing of operators beyond convolutional networks. Here a matrix product counts
as a fully connected layer, whether an operand is a weight or not, because it is one dot product of I terms per output
element. Other operators that multiply and accumulate are unknown rather than free.
"""

from __future__ import annotations

from typing import Any

from flopwise.conventions.convention import Convention, per_input
from flopwise.graph import Node
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.extents import product, required
from flopwise.operators.onnx.reduction import softmax_rows
from flopwise.operators.tables import OPERATORS

#: Operators whose main work is products, sums of squares or transforms: the paper has no formula for them.
WITHOUT_FORMULA = frozenset(
    {op for op, row in OPERATORS.items() if " mac" in row.formula or "as MoE" in row.formula}
    | {"DFT", "STFT", "com.microsoft::Rfft", "com.microsoft::Irfft", "aten::fft", "aten::stft", "aten::istft"}
    | {"aten::cdist", "aten::dist", "aten::pairwise_distance", "aten::pdist", "aten::triplet_margin_loss"}
) - {"AffineGrid"}  # as free as the sampling that it is for

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
    size = node.arguments.get("kernel_size")
    window = size if isinstance(size, int) else product(required(node, "kernel_shape"))
    return Counts(add=window, div=1) * node.output().numel


def _without_function(node: Node, counts: Counts | None) -> None:
    """unknown: the text has no function for it"""


TEXTBOOK = Convention(
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


def _conv_with_bias(node: Node, counts: Counts | None) -> Counts:
    """2 × numel(Y) × (prod(W.shape[1:]) + 1): the bias is one more term, and always there."""
    return Counts(mac=node.output().numel * (product(node.input(1).dims[1:]) + 1))


def _fully_connected(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × (2 I − 1), the bias left out."""
    if counts is None or counts.mac == 0:
        return counts
    outputs = node.output().numel
    return Counts(mac=counts.mac - outputs, mul=outputs)


def _refused(node: Node, counts: Counts | None) -> None:
    """unknown: the paper has no formula"""


MOLCHANOV = Convention(
    name="molchanov",
    unit="FLOP",
    summary="2HW(CK^2 + 1)C' per convolution, (2I - 1)O per matrix product; all other layers are free.",
    source="Molchanov et al., arXiv:1611.06440, appendix A.1",
    weights=FLOPS,
    overrides={
        **dict.fromkeys(sorted(WITHOUT_FORMULA), _refused),
        "Conv": _conv_with_bias,
        **dict.fromkeys(("FC", "Gemm", "MatMul"), _fully_connected),
    },
    others="free",
    notes=(
        "the paper counts convolutions and fully connected layers only: every other layer that flopwise knows is free",
    ),
)
