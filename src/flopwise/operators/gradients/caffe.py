"""Gradients of Caffe's own operators, as its backward functions define them (BVLC Caffe, src/caffe/layers)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.gradient import Wrt, summed

_UNIT = Counts(mul=2, add=1)


def power(node: Node, wrt: Wrt) -> Counts:
    """Y = (shift + scale × X) ^ p. p = 1: numel(Y) mul for scale ≠ 1; else numel(Y) × (2 mul + 1 div): c × G × Y /
    (shift + scale × X), c = scale × p, the sum as in the forward pass.
    """
    scale, shift, exponent = (node.attrs.get(name, usual) for name, usual in (("scale", 1), ("shift", 0), ("power", 1)))
    if scale == 0 or exponent == 0:
        return Counts()
    if exponent == 1:
        return Counts(mul=int(scale != 1)) * node.output().numel
    return Counts(mul=2 + int(scale != 1), add=int(shift != 0), div=1) * node.output().numel


def exponential(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × 1 mul, and 1 mul more for scale × log(base) ≠ 1: c × G × Y."""
    plain = node.attrs.get("base", -1) == -1 and node.attrs.get("scale", 1) == 1
    return Counts(mul=2 - int(plain)) * node.output().numel


def logarithm(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × 1 div: G / (shift + scale × X), the sum as in the forward pass; 1 mul for c = scale / log(base)."""
    scale, shift = node.attrs.get("scale", 1), node.attrs.get("shift", 0)
    constant = int(scale != 1 or node.attrs.get("base", -1) != -1)
    return Counts(div=1, mul=constant + int(scale != 1), add=int(shift != 0)) * node.output().numel


def scale(node: Node, wrt: Wrt) -> Counts:
    """dX = G × scale: numel(Y) mul; dscale = Σ G × X: numel(Y) × (1 mul + 1 add), without the add where it is as large
    as X; dB: numel(Y) add.
    """
    outputs = node.output().numel
    counts = Counts(mul=outputs * len(wrt & {0, 1})) + summed(node, wrt & {1})
    return counts + Counts(add=outputs * len(wrt - {0, 1}))


def eltwise(node: Node, wrt: Wrt) -> Counts:
    """for each bottom: SUM: numel(Y) mul for a coefficient other than 1 and −1, numel(Y) bit for −1; PROD: numel(Y) ×
    (k − 1) mul, the product of the others and G.
    """
    outputs = node.output().numel
    if node.attrs.get("operation", "SUM") == "PROD":
        return Counts(mul=outputs * (len(node.known_inputs) - 1) * len(wrt))
    coefficients = node.attrs.get("coeff") or [1] * len(node.known_inputs)
    counts = Counts()
    for place in wrt:
        counts += Counts(mul=int(coefficients[place] not in (1, -1)), bit=int(coefficients[place] == -1)) * outputs
    return counts


def eltwise_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The factors of a product are kept."""
    return node.known_inputs if node.attrs.get("operation", "SUM") == "PROD" else ()


def axpy(node: Node, wrt: Wrt) -> Counts:
    """dscale = Σ G × X: numel(Y) × (1 mul + 1 add); dX = G × scale: numel(Y) mul; dY = G."""
    return Counts(mul=len(wrt & {0, 1}), add=int(0 in wrt)) * node.output().numel


def embed(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) add for the weight, numel(Y) add for the bias."""
    return Counts(add=node.output().numel * len(wrt))


def reduction(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) mul for the coefficient, 1 div for MEAN; numel(X) × (1 cmp + 1 mul) for ASUM, 1 mul for SUMSQ."""
    operation = required(node, "operation")
    once = {"ASUM": Counts(cmp=1, mul=1), "SUMSQ": Counts(mul=1)}.get(operation, Counts())
    return once * node.input(0).numel + Counts(mul=1, div=int(operation == "MEAN")) * node.output().numel


def pyramid(node: Node, wrt: Wrt) -> Counts:
    """MAX: numel(Y) add; AVE: numel(Y) div + one add for each cell of each level."""
    outputs = node.output().numel
    if node.attrs.get("pool", "MAX") == "MAX":
        return Counts(add=outputs)
    source = node.input(0)
    maps = extent(node, source, 0) * extent(node, source, 1)
    levels = zip(required(node, "kernels"), required(node, "bins"), strict=True)
    return Counts(div=outputs, add=maps * sum(product(kernel) * bins for kernel, bins in levels))


def batch_norm(node: Node, wrt: Wrt) -> Counts:
    """with stored statistics numel(X) div: G / deviation; else (G − mean(G) − Y × mean(G Y)) / deviation: numel(X) × (2
    mul + 4 add + 1 div) + C × 2 div. scale_bias: numel(X) mul for dX, numel(X) × (1 mul + 1 add) for dscale, numel(X)
    add for dB.
    """
    source = node.input(0)
    n = source.numel
    counts = Counts()
    if 0 in wrt:
        if node.attrs.get("use_global_stats", 1):
            counts += Counts(div=n)
        else:
            counts += Counts(mul=2, add=4, div=1) * n + Counts(div=2) * extent(node, source, 1)
    if node.attrs.get("scale_bias", 0):
        counts += Counts(mul=n * int(0 in wrt))
        trained = sorted(wrt - {0})
        counts += Counts(mul=n, add=n) * int(bool(trained)) + Counts(add=n * int(len(trained) > 1))
    return counts


def mean_variance(node: Node, wrt: Wrt) -> Counts:
    """(G − mean(G) − Y × mean(G Y)) / deviation: numel(X) × (2 mul + 4 add + 1 div) + means × 2 div; without
    normalize_variance numel(X) × 2 add + means div.
    """
    source = node.input(0)
    means = product(source.dims[: 1 if node.attrs.get("across_channels", 0) else 2])
    if not node.attrs.get("normalize_variance", 1):
        return Counts(add=2) * source.numel + Counts(div=means)
    return Counts(mul=2, add=4, div=1) * source.numel + Counts(div=2) * means


def normalize(node: Node, wrt: Wrt) -> Counts:
    """dX: numel(X) × (3 mul + 2 add + 1 div): (g − x̂ × Σ g x̂) / norm, g = G × scale; dscale: numel(X) × (1 mul + 1
    add).
    """
    n = node.input(0).numel
    return Counts(mul=3, add=2, div=1) * (n * int(0 in wrt)) + Counts(mul=1, add=1) * (n * len(wrt - {0}))


def lrn_within(node: Node, wrt: Wrt) -> Counts:
    """numel(X) × (4 mul + 1 div + size² add + 1 pow + 1 add), as LRN with a square of that size."""
    size = required(node, "size")
    return Counts(mul=4, div=1, add=size * size + 1, pow=1) * node.input(0).numel


def recurrent(gates: int, squares: int, unit: Counts) -> Callable[[Node, Wrt], Counts]:
    """The rule of a layer that Caffe unrolls."""

    def rule(node: Node, wrt: Wrt) -> Counts:
        source, hidden = node.input(0), required(node, "hidden_size")
        streams = extent(node, source, 1)
        rows = extent(node, source, 0) * streams * hidden
        inner = product(source.dims[2:])
        counts = Counts(mac=rows * gates * inner * (1 + int(0 in wrt)), add=rows * gates)
        counts += Counts(mac=rows * gates * squares * hidden + (rows - streams * hidden) * gates * hidden)
        if squares > 1:
            counts += Counts(mac=rows * hidden * (squares - 1), add=rows)
        if node.attrs.get("static_input", 0):
            side = node.input(2)
            counts += Counts(mac=side.numel * gates * hidden * (1 + int(2 in wrt)), add=rows * gates)
        pointwise: Counts = unit * rows
        return counts + pointwise

    rule.__doc__ = (
        f"T × N × H times: {gates} D mac for dW, and for dX where it is asked for; {gates * squares} H mac for the "
        f"weights of the state and as many for the state itself, {gates} H less at step 1; {gates} add (bias); the "
        "units' work. All weights are taken as trained"
    )
    return rule


_LSTM = _UNIT * 5 + Counts(add=2, mul=7)


#: Caffe's LSTM and RNN.
lstm = recurrent(4, 1, _LSTM)
rnn = recurrent(1, 2, _UNIT * 2 + Counts(add=2, mul=1))
