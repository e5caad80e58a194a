"""Operators of ``com.microsoft`` for models with a recurrent state, and the gates around them.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SIGMOID, SILU, SOFTMAX, SOFTPLUS, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, SETTING, STATE, inputs
from flopwise.operators.onnx import attention, recurrent
from flopwise.operators.operator import Operator, by, nothing, unknown


def causal_convolution(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when bias is given; activation silu or swish: numel(Y) × (1
    mul + 1 bit + 1 exp + 1 add + 1 div).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState
    """
    return _convolved(node, bias=2)


def packed_causal_convolution(node: Node) -> Counts:
    """as CausalConvWithState; kernel_delta: numel(Y) × (2 add + 1 mul) (both taps of each element, and the mask).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.VarlenCausalConvWithState
    """
    work = _convolved(node, bias=3)
    return work + Counts(add=2, mul=1) * node.output().numel if node.has_input(6) else work


def _convolved(node: Node, bias: int) -> Counts:
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(bias) else 0)
    return work + (SILU * outputs if node.attrs.get("activation", "none") != "none" else Counts())


def gated_delta_net(node: Node) -> Counts:
    """S × (1 mac + 1 add) (k ⊗ v added to the state), S = tokens × Nv × dk × dv; S mac + numel(Y) mul (read and
    scaled). Update rules gated and gated_delta: S mul + numel(decay) exp; delta and gated_delta: S mac + tokens × Nv ×
    dv × (1 add + 1 mul). gate_activation softplus, or qwen: numel(decay) × (2 add + 1 exp + 1 log + 1 mul) + Nv × (1
    exp + 1 bit); sigmoid, or kda: numel(decay) × (2 add + 2 mul + 1 bit + 1 exp + 1 div) + Nv exp; beta_activation:
    numel(beta) × (1 bit + 1 exp + 1 add + 1 div); qk_l2_norm: each element of Q and K (1 mul + 1 add + 1 div), each of
    their rows 1 sqrt.

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
    gate = node.attrs.get("gate_activation", "none")
    if gate in ("softplus", "qwen"):
        work += (SOFTPLUS + Counts(add=1, mul=1)) * node.input(4).numel + Counts(exp=1, bit=1) * node.input(7).numel
    elif gate in ("sigmoid", "kda"):
        work += (SIGMOID + Counts(add=1, mul=2)) * node.input(4).numel + Counts(exp=node.input(7).numel)
    elif gate != "none":
        raise ShapeError(f"{node.op} {node.name!r}: unknown gate_activation {gate!r}")
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
    work = (SOFTPLUS + Counts(add=1, mul=1)) * node.input(0).numel
    return work + (SIGMOID * node.input(3).numel if node.has_input(3) else Counts())


def gated_rms_normalization(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt) (RMSNormalization of rows as long as scale),
    and numel(X) × 1 mul by the gate's silu, 1 mul + 1 bit + 1 exp + 1 add + 1 div; activation sigmoid: 1 mul less.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm
    """
    x = node.input(0)
    gate = SIGMOID if node.attrs.get("activation", "silu") == "sigmoid" else SILU
    return (RMS + gate + Counts(mul=1)) * x.numel + RMS_ROW * (x.numel // node.input(1).numel)


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
    normed = RMS * key.numel + RMS_ROW * rows
    return normed * norms + Counts(mac=key.numel, mul=y.numel) + gate * rows


def mamba(node: Node) -> Counts:
    """c × (k mac + 1 add) and c × (1 mul + 1 bit + 1 exp + 1 add + 1 div) (convolution and silu of the R × channels
    elements, k taps); R × heads × (2 add + 2 exp + 1 log + 1 cmp + 1 mul) (the step, and its decay); S × (1 mul + 2 mac
    + 1 add) (the state decays, takes x ⊗ B up, and is read), S = numel(Y) × d_state; numel(Y) × (2 mul + 1 add) (the
    step times x, D times x); numel(Y) × (2 mul + 1 bit + 1 exp + 1 add + 1 div) (the gate's silu); and RMSNormalization
    of Y in n_groups rows for each token.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Mamba2Verify
    """
    y, taps = node.output(), node.input(3)
    rows, heads, groups = extent(node, y, 0), integer(node, "heads"), integer(node, "n_groups")
    convolved = rows * extent(node, taps, 0)
    work = (Counts(mac=extent(node, taps, -1), add=1) + SILU) * convolved
    work += (SOFTPLUS + Counts(add=1, cmp=1, mul=1, exp=1)) * (rows * heads)
    work += Counts(mac=2, mul=1, add=1) * (y.numel * integer(node, "d_state", 128))
    return work + (Counts(mul=3, add=1) + SILU + RMS) * y.numel + RMS_ROW * (rows * groups)


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
    "com.microsoft::AttnLSTM": by(attended_lstm, types="state:lstm"),
    "com.microsoft::CausalConvWithState": by(
        causal_convolution, inputs=inputs(FACTOR, FACTOR), types="state:causal_convolution"
    ),
    "com.microsoft::VarlenCausalConvWithState": by(packed_causal_convolution, types="state:packed_causal_convolution"),
    "com.microsoft::LinearAttention": by(
        attention.linear_attention, inputs=inputs(FACTOR, FACTOR, FACTOR), types="state:linear_attention"
    ),
    "com.microsoft::LinearAttentionGate": by(linear_attention_gate, types="state:gates"),
    "com.microsoft::GatedDeltaNet": by(gated_delta_net, types="state:gated_delta_net"),
    "com.microsoft::GatedRMSNorm": by(gated_rms_normalization, shape=shape.alike),
    "com.microsoft::Mamba2Verify": by(
        mamba, inputs=inputs(FACTOR, STATE, STATE, FACTOR, *(DATA,) * 5, SETTING), types="state:mamba"
    ),
    "com.microsoft::ConvStateReplay": nothing(
        "copies elements of a state and of what was captured after it",
        inputs=inputs(STATE, DATA, DATA, SETTING),
        types="state:written",
    ),
    "com.microsoft::GatedDeltaNetStateReplay": unknown(
        "repeats as many updates of a state as its metadata say, which are data, as is the size of the state",
        inputs=inputs(STATE, DATA, DATA, SETTING),
        types="state:written",
    ),
    "com.microsoft::EngramGate": by(engram_gate, shape=shape.both_alike),
}
