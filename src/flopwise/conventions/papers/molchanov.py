"""Molchanov et al.: 2HW(CK² + 1)C' for a convolution, (2I − 1)O for a fully connected layer, nothing else.

Source: P. Molchanov, S. Tyree, T. Karras, T. Aila, J. Kautz, "Pruning Convolutional Neural Networks for Resource
Efficient Inference", ICLR 2017, https://arxiv.org/abs/1611.06440, appendix A.1: convolution is a sliding window, and
nonlinearities are free. The paper says nothing of operators beyond convolutional networks. Here a matrix product counts
as a fully connected layer, whether an operand is a weight or not, because it is one dot product of I terms per output
element. Other operators that multiply and accumulate are unknown rather than free.
"""

from __future__ import annotations

from flopwise.conventions.convention import Convention
from flopwise.graph import Node
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.extents import product
from flopwise.operators.tables import OPERATORS

#: Operators whose main work is products, sums of squares or transforms: the paper has no formula for them.
WITHOUT_FORMULA = frozenset(
    {op for op, row in OPERATORS.items() if " mac" in row.formula or "as MoE" in row.formula}
    | {"DFT", "STFT", "com.microsoft::Rfft", "com.microsoft::Irfft", "aten::fft", "aten::stft", "aten::istft"}
    | {"aten::cdist", "aten::dist", "aten::pairwise_distance", "aten::pdist", "aten::triplet_margin_loss"}
) - {"AffineGrid"}  # as free as the sampling that it is for


def conv(node: Node, counts: Counts | None) -> Counts:
    """2 × numel(Y) × (prod(W.shape[1:]) + 1): the bias is one more term, and always there."""
    return Counts(mac=node.output().numel * (product(node.input(1).dims[1:]) + 1))


def fully_connected(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × (2 I − 1), the bias left out."""
    if counts is None or counts.mac == 0:
        return counts
    outputs = node.output().numel
    return Counts(mac=counts.mac - outputs, mul=outputs)


def _refused(node: Node, counts: Counts | None) -> None:
    """unknown: the paper has no formula"""


CONVENTION = Convention(
    name="molchanov",
    unit="FLOP",
    summary="2HW(CK^2 + 1)C' per convolution, (2I - 1)O per matrix product; all other layers are free.",
    source="Molchanov et al., arXiv:1611.06440, appendix A.1",
    weights=FLOPS,
    overrides={
        **dict.fromkeys(sorted(WITHOUT_FORMULA), _refused),
        "Conv": conv,
        **dict.fromkeys(("FC", "Gemm", "MatMul"), fully_connected),
    },
    others="free",
    notes=(
        "the paper counts convolutions and fully connected layers only: every other layer that flopwise knows is free",
    ),
)
