"""Gradients of pointwise operators: the derivative as PyTorch's own formulas write it, element by element.

Selections by a flag are free, as they are in the forward pass. An input that is broadcast gets the sum of its elements'
gradients: numel(Y) add.
"""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import STORED, Node, Tensor
from flopwise.operators.counts import SIGMOID, SILU, Counts
from flopwise.operators.gradient import Wrt, summed


def shared(node: Node, wrt: Wrt) -> Counts:
    """nothing: G is the gradient of each input; a broadcast one numel(Y) add."""
    return summed(node, wrt)


def sub(node: Node, wrt: Wrt) -> Counts:
    """dA = G; dB = −G: numel(Y) bit; a broadcast input numel(Y) add."""
    return summed(node, wrt) + Counts(bit=node.output().numel if _second(node) in wrt else 0)


def _second(node: Node) -> int:
    """The place of the second operand: in a program the first may be a number, which is not an input."""
    args = node.arguments
    if not args or len(node.known_inputs) > 1:
        return 1
    swapped = "rsub" in node.origin
    return int(isinstance(args.get("input", args.get("self")), Tensor)) ^ int(swapped)


def mul(node: Node, wrt: Wrt) -> Counts:
    """dA = G × B, dB = G × A: numel(Y) mul each; a broadcast input numel(Y) add."""
    return summed(node, wrt) + Counts(mul=node.output().numel * len(wrt))


def div(node: Node, wrt: Wrt) -> Counts:
    """dA = G / B: numel(Y) div; dB = −G × ((A / B) / B): numel(Y) × (2 div + 1 mul + 1 bit); a broadcast input
    numel(Y) add.
    """
    second = _second(node)
    once = Counts(div=int(1 - second in wrt)) + Counts(div=2, mul=1, bit=1) * int(second in wrt)
    return once * node.output().numel + summed(node, wrt)


def div_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """B is kept where it is a tensor, and A for the gradient of B."""
    if len(node.known_inputs) == 1:
        return node.known_inputs if _second(node) == 0 else ()
    return [node.input(1), *([node.input(0)] if 1 in wrt else [])]


def power(node: Node, wrt: Wrt) -> Counts:
    """dA = G × (B × A^(B − 1)): numel(Y) × (1 pow + 2 mul), and numel(B) add when B is not a constant; dB = G × (Y ×
    log A): numel(Y) × (1 log + 2 mul); a broadcast input numel(Y) add.
    """
    second = _second(node)
    counts = Counts(pow=1, mul=2) * int(1 - second in wrt) + Counts(log=1, mul=2) * int(second in wrt)
    counts = counts * node.output().numel + summed(node, wrt)
    if 0 in wrt and node.has_input(1) and (1 in wrt or node.input(1).kind not in STORED):
        counts += Counts(add=node.input(1).numel)
    return counts


def power_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """A is kept, an exponent that is a tensor of the model's data, and Y for the gradient of the exponent."""
    yield node.input(0)
    if node.has_input(1):
        yield node.input(1)
    if _second(node) in wrt:
        yield node.output()


def clip(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × 1 cmp for each bound that is given, and 1 bit when both are: G where X is within.

    The bounds themselves get no gradient.
    """
    bounds = sum((node.has_input(1), node.has_input(2), "min" in node.attrs, "max" in node.attrs))
    return Counts(cmp=bounds, bit=max(bounds - 1, 0)) * node.output().numel


def extreme(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) cmp for each input whose gradient is asked for: G where it equals Y; a broadcast input numel(Y) add."""
    return Counts(cmp=len(wrt) * node.output().numel) + summed(node, wrt)


def mean(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) div: G / k for k inputs; a broadcast input numel(Y) add."""
    return Counts(div=node.output().numel) + summed(node, wrt)


def prelu(node: Node, wrt: Wrt) -> Counts:
    """dX: numel(Y) × (1 cmp + 1 mul): G or slope × G; dslope: numel(Y) × (1 cmp + 1 mul): 0 or X × G, and numel(Y) add
    when the slope is broadcast.
    """
    return Counts(cmp=1, mul=1) * (node.output().numel * len(wrt)) + summed(node, wrt)


def gelu(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × (7 mul + 1 erf + 2 add + 1 exp): G × (Φ(x) + x φ(x)), Φ(x) = ½ (1 + erf(x / √2)), φ(x) = exp(−½ x²) /
    √2π; approximate = "tanh": numel(Y) × (12 mul + 5 add + 1 tanh).
    """
    once = Counts(mul=7, erf=1, add=2, exp=1)
    if node.attrs.get("approximate", "none") == "tanh":
        once = Counts(mul=12, add=5, tanh=1)
    return once * node.output().numel


def swiglu(node: Node, wrt: Wrt) -> Counts:
    """s = sigmoid(α a): numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div); da = G × b × s × (1 + α a × (1 − s)): × (4
    mul + 2 add); db = G × a × s: × 2 mul.
    """
    once = SILU
    once += Counts(mul=4, add=2) * int(0 in wrt) + Counts(mul=2) * int(1 in wrt)
    return once * node.output().numel


def remainder(node: Node, wrt: Wrt) -> Counts:
    """dA = G; dB = −G × ⌊A / B⌋: numel(Y) × (1 div + 1 cmp + 1 mul + 1 bit); a broadcast input numel(Y) add."""
    return Counts(div=1, cmp=1, mul=1, bit=1) * (node.output().numel * int(1 in wrt)) + summed(node, wrt)


def remainder_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """For the gradient of B, A and B are kept."""
    return node.known_inputs if 1 in wrt else ()


def _scaled(node: Node) -> int:
    return int(bool(node.attrs.get("scaled", 0)))


def addcmul(node: Node, wrt: Wrt) -> Counts:
    """dX = G; dA = G × (B × value), dB = G × (A × value): numel(Y) × 1 mul each, 2 mul when value ≠ 1; a broadcast
    input numel(Y) add.
    """
    products = len(wrt & {1, 2}) * (1 + _scaled(node))
    return Counts(mul=products * node.output().numel) + summed(node, wrt)


def addcdiv(node: Node, wrt: Wrt) -> Counts:
    """dX = G; dA = G × (value / B): numel(Y) × (1 mul + 1 div), without a value 1 div; dB = −G × (value × A / (B × B)):
    numel(Y) × (2 mul + 1 div + 1 bit), and 1 mul for a value; a broadcast input numel(Y) add.
    """
    scaled = _scaled(node)
    once = Counts(div=1, mul=scaled) * int(1 in wrt) + Counts(mul=2 + scaled, div=1, bit=1) * int(2 in wrt)
    return once * node.output().numel + summed(node, wrt)


def glu(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × (1 sigmoid + 4 mul + 1 add): da = G × s, db = G × a × s × (1 − s), s = sigmoid(b)."""
    return (SIGMOID + Counts(mul=4, add=1)) * node.output().numel


def mask(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The scaled mask is kept."""
    return (node.output().nbytes,)


def dense_cross_entropy(node: Node, wrt: Wrt) -> Counts:
    """numel(X) × (1 mul + 1 bit) + 1 div (the loss), numel(X) × (2 add + 1 exp + 1 mul) (log-softmax)."""
    return Counts(mul=2, bit=1, add=2, exp=1) * node.input(0).numel + Counts(div=1)
