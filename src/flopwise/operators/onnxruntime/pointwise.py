"""Pointwise operators of ``com.microsoft``, most of them fused to a bias or an activation.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, SILU, Counts
from flopwise.operators.extents import product
from flopwise.operators.onnx import pointwise
from flopwise.operators.onnxruntime.linear import FAST_GELU
from flopwise.operators.operator import Operator, by, counted_as, each, nothing

_ERF_GELU = Counts(div=1, erf=1, add=1, mul=2)


def fast_gelu(node: Node) -> Counts:
    """numel(Y) × (1 pow + 4 mul + 2 add + 1 tanh): Gelu by tanh; numel(Y) add when bias is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FastGelu
    """
    return (FAST_GELU + Counts(add=int(node.has_input(1)))) * node.output().numel


def split_gelu(node: Node) -> Counts:
    """numel(X) add (bias), and numel(Y) × (1 div + 1 erf + 1 add + 3 mul): one half times Gelu of the other.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSplitGelu
    """
    return Counts(add=node.input(0).numel) + (_ERF_GELU + Counts(mul=1)) * node.output().numel


def quick_gelu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when alpha ≠ 1: x × sigmoid(αx).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QuickGelu
    """
    return (SILU + Counts(mul=int(node.attrs.get("alpha", 1.702) != 1.0))) * node.output().numel


def scaled_silu(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div), and 1 mul when scale is given or alpha ≠ 1: z × sigmoid(z), z
    = scale × x.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ScaledSiLU
    """
    scaled = node.has_input(1) or node.attrs.get("alpha", 1.0) != 1.0
    return (SILU + Counts(mul=int(scaled))) * node.output().numel


def gated_add(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add): x + gate × y; gate_weight: rows × (K mac + 1 bit + 1 exp + 1 add + 1 div), the
    sigmoid of a product of the gate's K elements with it.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedAdd
    """
    work = Counts(mul=1, add=1) * node.output().numel
    if not node.has_input(3):
        return work
    gate = node.input(2)
    return work + Counts(mac=gate.numel) + SIGMOID * product(gate.dims[:-1])


def swiglu(node: Node, clamped: bool) -> Counts:
    """One element of a swiglu: g × sigmoid(activation_alpha × g) × (l + activation_beta), both clamped or not."""
    alpha, beta = node.attrs.get("activation_alpha", 1.0), node.attrs.get("activation_beta", 0.0)
    return SILU + Counts(mul=1 + int(alpha != 1.0), add=int(beta != 0.0), cmp=3 if clamped else 0)


def clamped_swiglu(node: Node) -> Counts:
    """numel(Y) × (2 mul + 1 bit + 1 exp + 1 add + 1 div): gate × sigmoid(gate) × up; 1 mul more when activation_alpha ≠
    1, 1 add more when activation_beta ≠ 0, 3 cmp more when limit > 0.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SwiGLU
    """
    return swiglu(node, limited(node)) * node.output().numel


def limited(node: Node) -> bool:
    """True where the attribute limit clamps both halves."""
    limit = node.attrs.get("limit", 0.0)
    return isinstance(limit, int | float) and limit > 0


def bias_dropout(node: Node) -> Counts:
    """numel(Y) add for bias, and numel(Y) add for residual; dropout passes its input on at inference.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasDropout
    """
    return Counts(add=1 + int(node.has_input(2))) * node.output().numel


def complex_product(node: Node) -> Counts:
    """numel(Y) / 2 × (4 mul + 2 add): a complex number is two elements.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ComplexMul
    """
    return Counts(mul=4, add=2) * (node.output().numel // 2)


def finite(node: Node) -> Counts:
    """1 cmp for each element of all inputs.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.IsAllFinite
    """
    return Counts(cmp=sum(t.numel for t in node.known_inputs))


OPERATORS: dict[str, Operator] = {
    "com.microsoft::BiasAdd": each("bias and skip", add=2, shape=shape.alike, in_place=True),
    "com.microsoft::BiasDropout": by(bias_dropout, types="pointwise:with_flags"),
    "com.microsoft::BitmaskBiasDropout": by(bias_dropout, types="pointwise:with_bits"),
    "com.microsoft::BitmaskDropout": nothing("passes its input on at inference", types="pointwise:with_bits"),
    "com.microsoft::BiasGelu": each("Gelu of a sum", add=2, div=1, erf=1, mul=2, shape=shape.alike, in_place=True),
    "com.microsoft::BiasSplitGelu": by(split_gelu, types="pointwise:halved"),
    "com.microsoft::Gelu": counted_as(pointwise.OPERATORS["Gelu"], shape=shape.alike, in_place=True),
    "com.microsoft::FastGelu": by(fast_gelu, shape=shape.alike, in_place=True),
    "com.microsoft::QuickGelu": by(quick_gelu, shape=shape.alike, in_place=True),
    "com.microsoft::GatedAdd": by(gated_add, shape=shape.alike),
    "com.microsoft::SwiGLU": by(clamped_swiglu, types="pointwise:gated"),
    "com.microsoft::ScaledSiLU": by(scaled_silu, shape=shape.alike, in_place=True),
    "com.microsoft::ComplexMul": by(complex_product, shape=shape.alike),
    "com.microsoft::ComplexMulConj": by(complex_product, shape=shape.alike),
    "com.microsoft::IsAllFinite": by(finite, types="pointwise:scalar"),
}
