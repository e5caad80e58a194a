"""Gradients of products and attention."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.aten.linear import pairs_in_a_row
from flopwise.operators.counts import Counts, total
from flopwise.operators.einsum import indices, order, pairs
from flopwise.operators.extents import extent, product, required
from flopwise.operators.gradient import Wrt
from flopwise.operators.masks import KERNEL
from flopwise.operators.onnx import attention as attended
from flopwise.operators.onnx import linear as forward
from flopwise.operators.tables import OPERATORS

# Gradients of contractions: one product of the forward's size for each operand whose gradient is asked for.


def conv(node: Node, wrt: Wrt) -> Counts:
    """dX and dW: numel(Y) × prod(W.shape[1:]) mac each; dB: numel(Y) add."""
    return _products(node, wrt, forward.conv(node).mac)


def conv_transpose(node: Node, wrt: Wrt) -> Counts:
    """dX and dW: numel(X) × prod(W.shape[1:]) mac each; dB: numel(Y) add."""
    return _products(node, wrt, forward.conv_transpose(node).mac)


def causal_conv(node: Node, wrt: Wrt) -> Counts:
    """dX and dW: numel(Y) × k mac each, k = W.shape[-1]; dB: numel(Y) add; activation silu or swish: numel(Y) × (3 mul
    + 1 bit + 1 exp + 3 add + 1 div).
    """
    counts = _products(node, wrt, forward.causal_conv_with_state(node).mac)
    if node.attrs.get("activation", "none") != "none":
        counts += Counts(mul=3, bit=1, exp=1, add=3, div=1) * node.output().numel
    return counts


def _products(node: Node, wrt: Wrt, size: int) -> Counts:
    """One product for each of inputs 0 and 1 that is wanted, and the sum of G when input 2, the bias, is."""
    return Counts(mac=size * len(wrt & {0, 1}), add=node.output().numel if 2 in wrt else 0)


def deform_conv(node: Node, wrt: Wrt) -> Counts:
    """X is sampled once more, as in the forward pass. dW: numel(Y) × prod(W.shape[1:]) mac; dX, doffset and dmask: the
    same mac once for the gradients of the samples; then for each of the S × C samples, with 2ʳ neighbours: dX 2ʳ,
    doffset r × (2ʳ + 1) and dmask 1 times (1 mul + 1 add), dX and doffset with a mask 1 mul; r > 2: doffset r × 2ʳ × (r
    − 2) mul for each sampling position. dB: numel(Y) add."""
    sampling = forward.deform_conv(node)
    outputs = node.output().numel
    products = outputs * product(node.input(1).dims[1:])
    x, offset = node.input(0), node.input(2)
    axes = len(x.dims) - 2
    samples = extent(node, x, 0) * extent(node, x, 1) * product(node.input(1).dims[2:]) * product(offset.dims[2:])
    again = Counts(mac=-products, add=-outputs if node.has_input(3) else 0)
    counts = sampling + again + Counts(mac=products * int(1 in wrt), add=outputs if 3 in wrt else 0)
    if wrt & {0, 2, 4}:
        steps = 2**axes * int(0 in wrt) + axes * (2**axes + 1) * int(2 in wrt) + int(4 in wrt)
        counts += Counts(mac=products) + Counts(mul=1, add=1) * (steps * samples)
        counts += Counts(mul=samples if node.has_input(4) and wrt & {0, 2} else 0)
    if 2 in wrt and axes > 2:
        counts += Counts(mul=offset.numel * 2**axes * (axes - 2))
    return counts


def gemm(node: Node, wrt: Wrt) -> Counts:
    """dA and dB: M × N × K mac each, and M × N mul once when alpha ≠ 1; dC: M × N add when C is broadcast, and numel(C)
    mul when beta ≠ 1.
    """
    outputs = node.output().numel
    counts = Counts(mac=forward.gemm(node).mac * len(wrt & {0, 1}))
    if wrt & {0, 1} and node.attrs.get("alpha", 1.0) != 1.0:
        counts += Counts(mul=outputs)
    if 2 in wrt:
        bias = node.input(2)
        counts += Counts(add=outputs if bias.numel != outputs else 0)
        if node.attrs.get("beta", 1.0) != 1.0:
            counts += Counts(mul=bias.numel)
    return counts


def matmul(node: Node, wrt: Wrt) -> Counts:
    """dA and dB: numel(Y) × K mac each; a broadcast batch is one more index that is summed over."""
    return Counts(mac=forward.matmul(node).mac * len(wrt))


def einsum(node: Node, wrt: Wrt) -> Counts:
    """for each pair of the forward pass P mac for each of the two that a gradient goes to; where no index was summed P
    mul, and P add where that factor is broadcast. What was summed beforehand: nothing, G is spread.
    """
    operands, result_labels = indices(node)
    counts = Counts()
    for pair in pairs(operands, result_labels, order(node)):
        sides = [factor for factor in pair.factors if wrt & factor.operands]
        spread = sum(len(factor.extents) < len(pair.extents) for factor in sides)
        products = Counts(mac=len(sides)) if pair.contracted else Counts(mul=len(sides), add=spread)
        counts += products * pair.terms
    return counts


def einsum_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Of each pair, each factor is kept for the gradient of the other: an operand, or what was computed."""
    operands, result_labels = indices(node)
    for pair in pairs(operands, result_labels, order(node)):
        for factor, partner in (pair.factors, pair.factors[::-1]):
            if wrt & partner.operands:
                (place, *_) = factor.operands
                operand = node.known_inputs[place]
                yield operand if factor.is_operand else factor.numel * BITS.get(operand.dtype or "", 0) // 8


def contraction(node: Node, wrt: Wrt) -> Counts:
    """one product of the forward's mac for each of the two factors; the addend: numel(Y) add when it is broadcast."""
    products = Counts(mac=OPERATORS[node.op].rule(node).mac * len(wrt & {0, 1}))
    outputs = node.output().numel
    for place in wrt - {0, 1}:
        products += Counts(add=outputs if node.input(place).numel != outputs else 0)
    return products


def bilinear(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × in1 × in2 mac for each of X1, X2 and W; for X1 as many mul and numel(Y) × in1 add, for X2 numel(Y) ×
    in2 × (1 mul + 1 add), for W numel(Y) × in1 mul; bias: numel(Y) add.

    PyTorch multiplies the first two of G, X1, W and X2 that it needs, and the result by the third, for one extent of
    ``out`` after the other.
    """
    outputs, weight = node.output().numel, node.input(2)
    first, second = extent(node, weight, 1), extent(node, weight, 2)
    each = (
        Counts(mac=first * second, mul=first * second, add=first),
        Counts(mac=first * second, mul=second, add=second),
        Counts(mac=first * second, mul=first),
        Counts(add=1),
    )
    return total(each[place] for place in wrt) * outputs


def weight_norm(node: Node, wrt: Wrt) -> Counts:
    """n = numel(V), rows = numel(g): Σ G v: n × (1 mul + 1 add); dg: rows div; dv = (g / ‖v‖) × (G − v × Σ/‖v‖²): n ×
    (2 mul + 1 add) + rows × (2 div + 1 mul).
    """
    n, rows = node.input(0).numel, node.input(1).numel
    counts = Counts(mul=1, add=1) * n
    if 1 in wrt:
        counts += Counts(div=rows)
    if 0 in wrt:
        counts += Counts(mul=2, add=1) * n + Counts(div=2, mul=1) * rows
    return counts


def weight_norm_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """V, g and the norms are kept."""
    return node.input(0), node.input(1), node.input(1).nbytes


def cdist(node: Node, wrt: Wrt) -> Counts:
    """for each of the two: numel(Y) div + numel(Y) × K × (2 add + 1 mul): Σ (a − b) × G / y, K the width of a row.

    Raises:
        ShapeError: a norm other than 2.
    """
    if node.attrs.get("p", 2.0) != 2.0:
        raise ShapeError(f"{node.op} {node.name!r}: there is a rule for the gradient of p = 2 only")
    outputs, width = node.output().numel, product(node.input(0).dims[-1:])
    return (Counts(div=1) + Counts(add=2, mul=1) * width) * (outputs * len(wrt))


# Gradients of attention. The weights of the forward pass are kept, so the scores are not made a second time.
#
# Fused kernels (flash attention) keep one number for each query instead, and make the scores once more on the way
# back: what that takes is counted by itself.

#: The efficient kernel keeps numbers for as many queries as are a multiple of this (``kAlignLSE``, PyTorch 2.13).
_ALIGNED = 32


def attention(node: Node, wrt: Wrt) -> Counts:
    """scores = B × Hq × S × T. dV: scores × dv mac (PᵀG). For Q, K or the mask: scores × dv mac (GVᵀ) + scores × (2 mul
    + 2 add) (softmax); dQ: scores × d mac + numel(Q) mul; dK: scores × d mac + B × Hq × T × d mul; softcap:
    scores × (2 mul + 1 add + 1 mul + 1 div) more; the mask: scores add when it is broadcast. Dropout: scores × 1 mul.
    """
    batch, heads, length, total, width = _extents(node)
    scores = batch * heads * length * total
    through_values = node.output().numel * total
    counts = Counts()
    if 2 in wrt or 5 in wrt:
        counts += Counts(mac=through_values)
    inner = wrt & {0, 1, 3, 4}
    if inner:
        counts += Counts(mac=through_values) + Counts(mul=2, add=2) * scores
        if _dropout(node):
            counts += Counts(mul=scores)
        if node.attrs.get("softcap", 0.0) and inner - {3}:
            counts += Counts(mul=3, add=1, div=1) * scores
    if 0 in wrt:
        counts += Counts(mac=scores * width, mul=node.input(0).numel)
    if wrt & {1, 4}:
        counts += Counts(mac=scores * width, mul=batch * heads * total * width)
    if 3 in wrt and node.input(3).numel != scores:
        counts += Counts(add=scores)
    return counts


def _dropout(node: Node) -> bool:
    """True where some of the weights are dropped: PyTorch's argument dropout_p."""
    chance = node.arguments.get("dropout_p", 0.0)
    return isinstance(chance, int | float) and chance > 0


def _extents(node: Node) -> tuple[int, int, int, int, int]:
    """Batch, query heads, queries, keys, and the width of a query's head."""
    query, key = node.input(0), node.input(1)
    length, total = extent(node, query, -2), extent(node, key, -2)
    if node.has_input(4):
        total += extent(node, node.input(4), -2)
    if len(query.dims) == 3 and "q_num_heads" in node.attrs:
        heads = node.attrs["q_num_heads"]
        return extent(node, query, 0), heads, length, total, extent(node, query, 2) // heads
    heads = extent(node, query, -3) if len(query.dims) > 2 else 1
    return product(query.dims[:-3]), heads, length, total, extent(node, query, -1)


def is_fused(node: Node) -> bool:
    """True where a kernel computes it that recomputes the scores in the backward pass."""
    return bool(node.attrs.get(KERNEL, "math") != "math")


def recomputed(node: Node) -> Counts:
    """scores × d mac (QKᵀ) + scores × (1 add + 1 exp) (the weights, from the number that is kept for each query).

    By a fused kernel; any other keeps the weights.
    """
    if not is_fused(node):
        return Counts()
    batch, heads, length, total, width = _extents(node)
    scores = batch * heads * length * total
    return Counts(mac=scores * width, mul=node.input(0).numel, add=scores, exp=scores)


def keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Q and K scaled, the weights after the softmax (and, with dropout, those that were dropped), and V; of a fused
    kernel Q, K, V, the mask and Y as they are, and one number for each query.
    """
    batch, heads, length, total, width = _extents(node)
    if is_fused(node):
        yield from [node.input(i) for i in range(4) if node.has_input(i)]
        yield node.output()
        aligned = -(-length // _ALIGNED) * _ALIGNED if node.attrs[KERNEL] == "efficient" else length
        yield batch * heads * aligned * (8 if node.input(0).dtype == "float64" else 4)
        return
    element = BITS.get(node.input(0).dtype or "float32", 32) // 8
    scores = batch * heads * length * total * element
    if 1 in wrt:
        yield node.input(0).numel * element
    if 0 in wrt:
        yield batch * heads * total * width * element
    yield scores
    if _dropout(node):
        yield 2 * scores
    if wrt & {0, 1, 3, 4}:
        value = node.input(2)
        repeated = len(value.dims) > 3 and extent(node, value, -3) != heads
        yield batch * heads * total * extent(node, value, -1) * element if repeated else value


def rotary(node: Node, wrt: Wrt) -> Counts:
    """R × (2 mul + 1 add), R the number of rotated elements: each pair is turned back."""
    return attended.rotary_embedding(node)


#: Tokens of a chunk, at the start of which kernels of linear attention keep the state (flash-linear-attention).
_CHUNK = 64


def _states(node: Node) -> tuple[int, int]:
    """Products of a key with a value, and of a query with a column of the state, over all tokens."""
    size = extent(node, node.input(2), -1) // required(node, "kv_num_heads")
    return node.input(1).numel * size, node.input(0).numel * size


def linear_attention(node: Node, wrt: Wrt) -> Counts:
    """S = B × T × Hkv × dk × dv, R = numel(Q) × dv. dQ: R mac; dS: R mac (q ⊗ G); dK and dV: S mac each.

    Update rules gated and gated_delta: S mul (dS goes on), for the decay S mac; delta and gated_delta: 2 S mac +
    numel(V) × (1 add + 1 mul).
    """
    state, read = _states(node)
    counts = Counts(mac=read * (1 + (0 in wrt)) + state * len(wrt & {1, 2}))
    update = str(node.attrs.get("update_rule", "gated_delta"))
    if "gated" in update:
        counts += Counts(mul=state, mac=state * (4 in wrt))
    if "delta" in update:
        counts += Counts(mac=2 * state) + Counts(add=1, mul=1) * node.input(2).numel
    return counts


def keeps_states(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The inputs, and the state in single precision before each 64 tokens, from which those between are made again."""
    yield from node.known_inputs
    key = node.input(1)
    tokens = extent(node, key, -2)
    yield _states(node)[0] // tokens * -(-tokens // _CHUNK) * 4


def states_again(node: Node) -> Counts:
    """S mac: the states between those that are kept."""
    return Counts(mac=_states(node)[0])


def ragged(node: Node, wrt: Wrt) -> Counts:
    """P = Hq × the sum of S × T over the sequences. dV: P × dv mac (PᵀG). For Q or K: P × dv mac (GVᵀ) + P × (2 mul +
    2 add) (softmax); dQ: P × d mac + numel(Q) mul; dK: P × d mac + numel(K) × Hq / Hk mul.
    """
    query, key, value = (node.input(place) for place in range(3))
    pairs, (heads, groups) = pairs_in_a_row(node), node.attrs["heads"]
    through_values, through_keys = pairs * extent(node, value, -1), pairs * extent(node, query, -1)
    counts = Counts(mac=through_values) if 2 in wrt else Counts()
    if wrt & {0, 1}:
        counts += Counts(mac=through_values) + Counts(mul=2, add=2) * pairs
    if 0 in wrt:
        counts += Counts(mac=through_keys, mul=query.numel)
    if 1 in wrt:
        counts += Counts(mac=through_keys, mul=key.numel * (heads // groups))
    return counts


def keeps_in_a_row(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Q, K, V and Y, and one number for each query and head."""
    yield from [node.input(place) for place in range(3)]
    yield node.output()
    yield 4 * (node.input(0).numel // extent(node, node.input(0), -1))


def recomputed_in_a_row(node: Node) -> Counts:
    """P × d mac + P × (1 add + 1 exp) + numel(Q) mul, where borders are arguments: that kernel is fused."""
    if len(node.input(0).dims) != 3:
        return Counts()
    pairs = pairs_in_a_row(node)
    width = extent(node, node.input(0), -1)
    return Counts(mac=pairs * width, mul=node.input(0).numel, add=pairs, exp=pairs)
