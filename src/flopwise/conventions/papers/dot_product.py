"""n multiplications and n − 1 additions for each dot product of n terms: 2 n − 1 operations.

Texts on the cost of networks say so, among them "Flops Model: Benchmarking Neural Networks", Prince, 2022-09-12, whose
prices of activations and normalisations are taken too; its own functions differ and are the convention ``textbook``.
What such texts do not name is counted as flopwise itself does, so transposed convolutions, einsum and recurrent layers
cost 2 per multiply-accumulate, and data movement nothing. Average pooling, k + 1 per output, and dropout, zero, need no
entry: flopwise counts them alike.
"""

from __future__ import annotations

from flopwise.conventions.convention import Convention, per_input
from flopwise.graph import Node
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.extents import extent, product

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
    x = node.input(0)
    if 0 < node.version < 13:
        rows = product(x.dims[: node.attrs.get("axis", 1)])
    else:
        axis = node.attrs.get("axis", -1)
        extent(node, x, axis)  # raises for an axis that is not there
        rows = product(x.dims[:axis]) * product(x.dims[axis:][1:])
    return Counts(exp=x.numel, add=x.numel - rows, div=x.numel)


CONVENTION = Convention(
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
