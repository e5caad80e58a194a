"""Gradients of ATen's pointwise operators that have no name in ONNX, as PyTorch's own formulas write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradients.rule import Backward, Keeps, Wanted, by, each, none, nothing, summed, x, y
from flopwise.operators.operator import words

_SIGMOID = Counts(bit=1, exp=1, add=1, div=1)


def operands(note: str, keeps: Keeps, *of: Counts, once: Counts | None = None) -> Backward:
    """A row for a function of several broadcast tensors.

    Args:
        note: the derivatives.
        keeps: what is kept.
        of: for each operand, the operations for each element of Y when its gradient is asked for.
        once: operations for each element that the gradients share.
    """
    common = once or Counts()

    def rule(node: Node, wanted: Wanted) -> Counts:
        per = common
        for place in wanted:
            per += of[min(place, len(of) - 1)]
        return per * node.output().numel + summed(node, wanted)

    parts = [words(c) or "nothing" for c in of]
    shared = f"{words(common)} for all; " if any(common) else ""
    formula = f"numel(Y) × ({shared}for each input in turn {', '.join(parts)}); a broadcast input numel(Y) add: {note}"
    return Backward(rule, formula, keeps)


def everything(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """All inputs are kept."""
    return node.known_inputs


def results(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """All inputs and the result are kept."""
    return (*node.known_inputs, node.output())


def _scaled(node: Node) -> int:
    return int(bool(node.attrs.get("scaled", 0)))


def addcmul(node: Node, wanted: Wanted) -> Counts:
    """dX = G; dA = G × (B × value), dB = G × (A × value): numel(Y) × 1 mul each, 2 mul when value ≠ 1; a broadcast
    input numel(Y) add.
    """
    products = len(wanted & {1, 2}) * (1 + _scaled(node))
    return Counts(mul=products * node.output().numel) + summed(node, wanted)


def addcdiv(node: Node, wanted: Wanted) -> Counts:
    """dX = G; dA = G × (value / B): numel(Y) × (1 mul + 1 div), without a value 1 div; dB = −G × (value × A / (B × B)):
    numel(Y) × (2 mul + 1 div + 1 bit), and 1 mul for a value; a broadcast input numel(Y) add.
    """
    scaled = _scaled(node)
    once = Counts(div=1, mul=scaled) * int(1 in wanted) + Counts(mul=2 + scaled, div=1, bit=1) * int(2 in wanted)
    return once * node.output().numel + summed(node, wanted)


def glu(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × (1 sigmoid + 4 mul + 1 add): da = G × s, db = G × a × s × (1 − s), s = sigmoid(b)."""
    return (_SIGMOID + Counts(mul=4, add=1)) * node.output().numel


def mask(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The scaled mask is kept."""
    return (node.output().nbytes,)


def loss(note: str, per: Counts, target: Counts | None = None) -> Backward:
    """A row for a loss of input and target: its operations for each element, and 1 div for a mean."""
    own = target or Counts(bit=1)

    def rule(node: Node, wanted: Wanted) -> Counts:
        counts = per * node.input(0).numel
        if 1 in wanted:
            counts += own * node.input(0).numel
        return counts + Counts(div=int(node.attrs.get("reduction", "mean") == "mean"))

    formula = f"numel(X) × {words(per)}, {words(own)} more for the target, and 1 div for reduction = mean: {note}"
    return Backward(rule, formula, everything)


def dense_cross_entropy(node: Node, wanted: Wanted) -> Counts:
    """numel(X) × (1 mul + 1 bit) + 1 div (the loss), numel(X) × (2 add + 1 exp + 1 mul) (log-softmax)."""
    return Counts(mul=2, bit=1, add=2, exp=1) * node.input(0).numel + Counts(div=1)


_FLAT = "the derivative is 0 almost everywhere"

BACKWARD: Mapping[str, Backward] = {
    "aten::add_scaled": operands("G, α G", none, Counts(), Counts(mul=1)),
    "aten::div_rounded": nothing(_FLAT),
    "aten::trunc": nothing(_FLAT),
    "aten::round_scaled": nothing(_FLAT),
    "aten::heaviside": nothing(_FLAT),
    "aten::frac": nothing("G passes"),
    "aten::square": each("G × 2x", x, mul=2),
    "aten::cube": each("G × 3x²", x, mul=3),
    "aten::rsqrt": each("−½ G y³", y, mul=4),
    "aten::exp2": each("G × y × ln 2", y, mul=2),
    "aten::expm1": each("G × (y + 1)", y, mul=1, add=1),
    "aten::log2": each("G / (x ln 2)", x, div=1, mul=1),
    "aten::log10": each("G / (x ln 10)", x, div=1, mul=1),
    "aten::log1p": each("G / (x + 1)", x, div=1, add=1),
    "aten::erfc": each("(−2 / √π × exp(−x²)) × G", x, mul=3, bit=1, exp=1),
    "aten::erfinv": each("G × (½ √π exp(y²))", y, mul=3, exp=1),
    "aten::sinc": each("G × (πx cos πx − sin πx) / (πx x)", x, cmp=1, mul=4, trig=2, add=1, div=1),
    "aten::scaled": each("G × c", none, mul=1),
    "aten::logit": each("G / (x (1 − x))", x, add=1, mul=1, div=1),
    "aten::log_sigmoid": each("G / (1 + exp x)", x, exp=1, add=1, div=1),
    "aten::silu": each("G × s × (1 + x × (1 − s)), s = sigmoid(x)", x, mul=3, bit=1, exp=1, add=3, div=1),
    "aten::hardtanh": each("G where x is between the bounds", x, cmp=2, bit=1),
    "aten::hardshrink": each("G where |x| > λ", x, cmp=2, bit=1),
    "aten::softplus_scaled": each("G × e / (e + 1), e = exp(βx)", x, mul=2, exp=1, add=1, div=1),
    "aten::elu_scaled": each("scale × G, or G × c × exp(c' x)", x, cmp=1, exp=1, mul=4),
    "aten::ndtr": each("G × exp(−½ x²) / √2π", x, mul=4, exp=1),
    "aten::entr": each("G × (−log x − 1)", x, log=1, bit=1, add=1, mul=1),
    "aten::nan_to_num": each("G where x is finite", x, cmp=1),
    "aten::dropout": Backward(
        lambda node, wanted: Counts(mul=node.output().numel), "numel(Y) × 1 mul: G × the scaled mask", mask
    ),
    "aten::alpha_dropout": Backward(
        lambda node, wanted: Counts(mul=node.output().numel), "numel(Y) × 1 mul: G × the scaled mask", mask
    ),
    "aten::glu": by(glu, x),
    "aten::addcmul": by(addcmul, everything),
    "aten::addcdiv": by(addcdiv, everything),
    "aten::lerp": operands(
        *("G (1 − w), G w, G (b − a)", everything, Counts(mul=1, add=1), Counts(mul=1)), Counts(add=1, mul=1)
    ),
    "aten::remainder": operands("G, −G ⌊a / b⌋", everything, Counts(), Counts(div=1, cmp=1, mul=1, bit=1)),
    "aten::atan2": operands(
        *("b r, −a r, r = G / (a² + b²)", everything, Counts(mul=1), Counts(mul=1, bit=1)),
        once=Counts(mul=2, add=1, div=1),
    ),
    "aten::hypot": operands("G a / y, G b / y", results, Counts(div=1, mul=1)),
    "aten::xlogy": operands("G log b, G a / b", everything, Counts(log=1, mul=1), Counts(mul=1, div=1)),
    "aten::xlog1py": operands(
        *("G log(1 + b), G a / (1 + b)", everything, Counts(log=1, add=1, mul=1), Counts(mul=1, add=1, div=1))
    ),
    "aten::logaddexp": operands("G / (1 + exp(b − a)), and the other way", everything, Counts(add=2, exp=1, div=1)),
    "aten::mse_loss": loss("(x − t) × 2G / N", Counts(add=1, mul=2)),
    "aten::l1_loss": loss("sign(x − t) × G / N", Counts(add=1, cmp=1, mul=1)),
    "aten::smooth_l1_loss": loss("by x − t against ±β", Counts(add=1, cmp=2, mul=1, div=1)),
    "aten::huber_loss": loss("by x − t against ±δ", Counts(add=1, cmp=2, mul=2)),
    "aten::binary_cross_entropy": loss("G (x − t) / max((1 − x) x, ε)", Counts(add=2, mul=2, cmp=1, div=1)),
    "aten::binary_cross_entropy_with_logits": loss("G (sigmoid(x) − t)", _SIGMOID + Counts(add=1, mul=1)),
    "aten::kl_div": loss("−G t", Counts(mul=1, bit=1), Counts(mul=2, log=1, add=2)),
    "aten::soft_margin_loss": loss("−t G z / (z + 1), z = exp(−t x)", Counts(mul=3, bit=2, exp=1, add=1, div=1)),
    "aten::cross_entropy_dense": by(dense_cross_entropy, everything),
}
