"""Operators of ``com.microsoft`` for models with a recurrent state, and the gates around them.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, SILU, SOFTMAX, Counts
from flopwise.operators.extents import extent, product, whole
from flopwise.operators.inputs import FACTOR, inputs
from flopwise.operators.onnx import attention, recurrent
from flopwise.operators.operator import Operator, by

_SOFTPLUS = Counts(exp=1, add=1, log=1)

#: RMSNormalization: for each element, and for each row of elements.
_NORMED = Counts(mul=2, add=1, div=1)
_ROW = Counts(div=1, add=1, sqrt=1)

#: The same without a scale of each element.
_UNSCALED = Counts(mul=1, add=1, div=1)


def causal_convolution(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when bias is given; activation silu or swish: numel(Y) × (1
    mul + 1 bit + 1 exp + 1 add + 1 div).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState
    """
    return _convolved(node, bias=2)


def packed_causal_convolution(node: Node) -> Counts:
    """as CausalConvWithState.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.VarlenCausalConvWithState
    """
    return _convolved(node, bias=3)


def _convolved(node: Node, bias: int) -> Counts:
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(bias) else 0)
    return work + (SILU * outputs if node.attrs.get("activation", "none") != "none" else Counts())


def gated_delta_net(node: Node) -> Counts:
    """S × (1 mac + 1 add) (k ⊗ v added to the state), S = tokens × Nv × dk × dv; S mac + numel(Y) mul (read and
    scaled). Update rules gated and gated_delta: S mul + numel(decay) exp; delta and gated_delta: S mac + tokens × Nv ×
    dv × (1 add + 1 mul). gate_activation: numel(decay) × (2 add + 1 exp + 1 log + 1 mul) + Nv × (1 exp + 1 bit);
    beta_activation: numel(beta) × (1 bit + 1 exp + 1 add + 1 div); qk_l2_norm: each element of Q and K (1 mul + 1 add +
    1 div), each of their rows 1 sqrt.

    Y is (tokens, Nv, dv); dk is the last extent of Q, or of initial_state where Q, K and V are packed.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedDeltaNet
    """
    y, packed = node.output(), not node.has_input(1)
    size = extent(node, node.input(6), -1) if packed else extent(node, node.input(0), -1)
    state = y.numel * size
    update = node.attrs.get("update_rule", "gated_delta")
    if update not in attention.UPDATES:
        raise ShapeError(f"{node.op} {node.name!r}: unknown update_rule {update!r}")
    work = Counts(mac=2 * state, add=state, mul=y.numel)
    if "gated" in update:
        work += Counts(mul=state, exp=node.input(4).numel)
    if "delta" in update:
        work += Counts(mac=state) + Counts(add=1, mul=1) * y.numel
    if node.attrs.get("gate_activation", "none") == "qwen":
        work += (_SOFTPLUS + Counts(add=1, mul=1)) * node.input(4).numel + Counts(exp=1, bit=1) * node.input(7).numel
    if node.attrs.get("beta_activation", "none") == "sigmoid":
        work += SIGMOID * node.input(5).numel
    if node.attrs.get("qk_l2_norm", 0):
        elements = node.input(0).numel - y.numel if packed else node.input(0).numel + node.input(1).numel
        work += Counts(mul=1, add=1, div=1) * elements + Counts(sqrt=elements // size)
    return work


def linear_attention_gate(node: Node) -> Counts:
    """numel(a) × (2 add + 1 exp + 1 log + 1 mul): decay_scale × softplus(a + dt_bias); and numel(b) × (1 bit + 1 exp +
    1 add + 1 div) when b is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttentionGate
    """
    work = (_SOFTPLUS + Counts(add=1, mul=1)) * node.input(0).numel
    return work + (SIGMOID * node.input(3).numel if node.has_input(3) else Counts())


def gated_rms_normalization(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt) (RMSNormalization of rows as long as scale),
    and numel(X) × 1 mul by the gate's silu, 1 mul + 1 bit + 1 exp + 1 add + 1 div; activation sigmoid: 1 mul less.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm
    """
    x = node.input(0)
    gate = SIGMOID if node.attrs.get("activation", "silu") == "sigmoid" else SILU
    return (_NORMED + gate + Counts(mul=1)) * x.numel + _ROW * (x.numel // node.input(1).numel)


def branchwise_rms_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add + 1 div), and 1 mul more when scale is given, + rows × (1 div + 1 add + 1 sqrt), rows =
    numel(X) / H.

    X is (..., C, H), or (..., C × H) with C = num_branches.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BranchwiseRMSNorm
    """
    x = node.input(0)
    rows = product(x.dims[:-1]) * (whole(node, "num_branches", 0) or 1)
    return (_NORMED if node.has_input(1) else _UNSCALED) * x.numel + _ROW * rows


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


def engram_gate(node: Node) -> Counts:
    """RMSNormalization of key and query, numel(key) mac (their products), rows × (1 div + 1 bit + 2 cmp + 1 sqrt + 1
    mul + a sigmoid of 1 bit + 1 exp + 1 add + 1 div) (the gate), numel(Y) mul; gated_value_normed: RMSNormalization of
    Y.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EngramGate
    """
    key, y = node.input(0), node.output()
    rows = product(key.dims[:-1])
    norms = 2 + int(len(node.outputs) > 1 and node.outputs[1] is not None)
    gate = Counts(div=1, bit=1, cmp=2, sqrt=1, mul=1) + SIGMOID
    normed = _NORMED * key.numel + _ROW * rows
    return normed * norms + Counts(mac=key.numel, mul=y.numel) + gate * rows


def attended_lstm(node: Node) -> Counts:
    """as LSTM whose input is X beside the attention, as wide as W says; numel(M) × A mac once for each direction (the
    keys); and for each direction, step and sample H × A mac (the query), Tm × A × (1 add + 1 tanh + 1 mac) + softmax
    over Tm (alignment), Tm × Dm mac (context), and (H + Dm) × aw mac when AW is given.

    M is (B, Tm, Dm), MW is (directions, Dm, A), AW is (directions, Dm + H, aw). All steps count.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM
    """
    x, w, r, memory, keys = node.input(0), node.input(1), node.input(2), node.input(11), node.input(9)
    wide = Tensor(x.name, (*x.dims[:2], extent(node, w, -1)), x.dtype)
    plain = recurrent.lstm(Node("LSTM", node.name, (wide, *node.inputs[1:8]), node.outputs, node.attrs))
    length, depth, hidden = extent(node, memory, 1), extent(node, memory, 2), extent(node, r, -1)
    attended = extent(node, keys, -1)
    layer = extent(node, node.input(13), 1) * extent(node, node.input(13), 2) if node.has_input(13) else 0
    once = Counts(mac=hidden * attended + length * depth + layer)
    once += Counts(add=1, tanh=1, mac=1) * (length * attended) + SOFTMAX * length
    steps = extent(node, x, 0) * extent(node, x, 1)
    return plain + (once * steps + Counts(mac=memory.numel * attended)) * extent(node, w, 0)


OPERATORS: dict[str, Operator] = {
    "com.microsoft::AttnLSTM": by(attended_lstm, shape=shape.by("state:lstm")),
    "com.microsoft::CausalConvWithState": by(
        causal_convolution, inputs=inputs(FACTOR, FACTOR), shape=shape.by("state:causal_convolution")
    ),
    "com.microsoft::VarlenCausalConvWithState": by(
        packed_causal_convolution, shape=shape.by("state:packed_causal_convolution")
    ),
    "com.microsoft::LinearAttention": by(
        attention.linear_attention, inputs=inputs(FACTOR, FACTOR, FACTOR), shape=shape.by("state:linear_attention")
    ),
    "com.microsoft::LinearAttentionGate": by(linear_attention_gate, shape=shape.by("state:gates")),
    "com.microsoft::GatedDeltaNet": by(gated_delta_net, shape=shape.by("state:gated_delta_net")),
    "com.microsoft::GatedRMSNorm": by(gated_rms_normalization, shape=shape.alike),
    "com.microsoft::BranchwiseRMSNorm": by(branchwise_rms_normalization, shape=shape.alike),
    "com.microsoft::HyperConnectionPreMix": by(mix_before, shape=shape.by("state:mixed")),
    "com.microsoft::HyperConnectionPostMix": by(mix_after, shape=shape.alike),
    "com.microsoft::EngramGate": by(engram_gate, shape=shape.both_alike),
}
