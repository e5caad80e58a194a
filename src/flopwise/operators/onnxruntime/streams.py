"""Hyper-connections of ``com.microsoft``: residual streams in several branches, their norms, gates and mixtures.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, SILU, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, factor, inputs
from flopwise.operators.operator import Operator, by

#: One element of RMSNormalization without a scale.
_UNSCALED = Counts(mul=1, add=1, div=1)


def branchwise_rms_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add + 1 div), and 1 mul more when scale is given, + rows × (1 div + 1 add + 1 sqrt), rows =
    numel(X) / H.

    X is (..., C, H), or (..., C × H) with C = num_branches.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BranchwiseRMSNorm
    """
    x = node.input(0)
    rows = product(x.dims[:-1]) * (integer(node, "num_branches", 0) or 1)
    return (RMS if node.has_input(1) else _UNSCALED) * x.numel + RMS_ROW * rows


def mix_before(node: Node) -> Counts:
    """numel(X) mac; reduction_scale ≠ 1: numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPreMix
    """
    scaled = node.attrs.get("reduction_scale", 1.0) != 1.0
    return Counts(mac=node.input(0).numel, mul=node.output().numel if scaled else 0)


def mix_after(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add) (the gated output of the block), and numel(Y) × C mac when stream_mix is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPostMix
    """
    outputs = node.output().numel
    mixed = outputs * extent(node, node.input(3), -1) if node.has_input(3) else 0
    return Counts(mac=mixed, mul=outputs, add=outputs)


def mix_by_rank(node: Node) -> Counts:
    """n × (2 mul + 1 add + 1 div) + rows × C × (1 div + 1 add + 1 sqrt) (RMSNormalization of the n = numel(streams)
    elements); n × R mac (down), rows × R × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (silu, 1 mul more when silu_alpha ≠
    1), n × R mac (up), n × (1 bit + 1 exp + 1 add + 1 div) (sigmoid); n mac (sum over branches), numel(Y) mul when
    reduction_scale ≠ 1; n × C mac (inject), rows × C × (1 bit + 1 exp + 1 add + 1 div), 1 div more when gate_div ≠ 1, 1
    mul more when gate_mul ≠ 1; prev_block_output: n × (1 mul + 1 add).

    streams is (..., C × H), down_weight (C × H, R), C = num_branches.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionLowRankMix
    """
    x, branches, rank = node.input(0), integer(node, "num_branches"), extent(node, node.input(2), 1)
    rows, n = product(x.dims[:-1]), x.numel
    scaled, divided, multiplied, reduced = (
        int(node.attrs.get(name, 1.0) != 1.0) for name in ("silu_alpha", "gate_div", "gate_mul", "reduction_scale")
    )
    before = Counts(mul=n, add=n) if node.has_input(5) else Counts()
    normed = RMS * n + RMS_ROW * (rows * branches)
    gates = Counts(mac=2 * n * rank) + (SILU + Counts(mul=scaled)) * (rows * rank) + SIGMOID * n
    after = Counts(mac=n * branches) + (SIGMOID + Counts(div=divided, mul=multiplied)) * (rows * branches)
    return before + normed + gates + after + Counts(mac=n, mul=reduced * node.output().numel)


OPERATORS: dict[str, Operator] = {
    "com.microsoft::BranchwiseRMSNorm": by(branchwise_rms_normalization, shape=shape.alike),
    "com.microsoft::HyperConnectionPreMix": by(mix_before, types="state:mixed"),
    "com.microsoft::HyperConnectionPostMix": by(mix_after, shape=shape.alike),
    "com.microsoft::HyperConnectionLowRankMix": by(
        mix_by_rank, inputs=inputs(FACTOR, DATA, *[factor("right")] * 3), types="state:mixed_by_rank"
    ),
}
