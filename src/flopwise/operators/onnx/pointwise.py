"""Pointwise operators: the same few operations for each element of the (broadcast) result.

Operators that the ONNX schema defines by a function body cost what the body does, selections and casts left out: both
sides of a selection are computed. Integer and boolean variants cost the same as the floating-point ones.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator, by, each, nothing


def clip(node: Node) -> Counts:
    """numel(Y) × 1 cmp for each bound that is given (min, max).

    The bounds are inputs since opset 11 and attributes before.

    https://onnx.ai/onnx/operators/onnx__Clip.html
    """
    bounds = sum((node.has_input(1), node.has_input(2), "min" in node.attrs, "max" in node.attrs))
    return Counts(cmp=bounds) * node.output().numel


def gelu(node: Node) -> Counts:
    """numel(Y) × (1 div + 1 erf + 1 add + 2 mul): x/2 × (1 + erf(x/√2)); approximate = "tanh": × (1 pow + 4 mul + 2
    add + 1 tanh).

    https://onnx.ai/onnx/operators/onnx__Gelu.html
    """
    once = Counts(div=1, erf=1, add=1, mul=2)
    if node.attrs.get("approximate", "none") == "tanh":
        once = Counts(pow=1, mul=4, add=2, tanh=1)
    return once * node.output().numel


_NEIGHBOUR = "rounding picks one of the two neighbouring integers"
_COMPARISON = "one comparison, whatever the relation"
_SIGN_BIT = "changes the sign bit"

OPERATORS: dict[str, Operator] = {
    # Arithmetic.
    "Add": each(add=1),
    "Sub": each(add=1),
    "Mul": each(mul=1),
    "Div": each(div=1),
    "Mod": each("a remainder takes a division", div=1),
    "Pow": each("whatever the exponent", pow=1),
    "Sqrt": each(sqrt=1),
    "Reciprocal": each(div=1),
    "Abs": each(_SIGN_BIT, bit=1),
    "Neg": each(_SIGN_BIT, bit=1),
    "Sign": each("one three-way comparison with zero", cmp=1),
    "Floor": each(_NEIGHBOUR, cmp=1),
    "Ceil": each(_NEIGHBOUR, cmp=1),
    "Round": each(_NEIGHBOUR, cmp=1),
    "Clip": by(clip),
    # Transcendental functions.
    "Exp": each(exp=1),
    "Log": each(log=1),
    "Erf": each(erf=1),
    "Tanh": each(tanh=1),
    "Sin": each(trig=1),
    "Cos": each(trig=1),
    "Tan": each(trig=1),
    "Asin": each(trig=1),
    "Acos": each(trig=1),
    "Atan": each(trig=1),
    "Sinh": each(trig=1),
    "Cosh": each(trig=1),
    "Asinh": each(trig=1),
    "Acosh": each(trig=1),
    "Atanh": each(trig=1),
    # Activations.
    "Relu": each("max(x, 0)", cmp=1),
    "LeakyRelu": each("αx or x, by the sign of x", cmp=1, mul=1),
    "PRelu": each("slope × x or x, by the sign of x", cmp=1, mul=1),
    "ThresholdedRelu": each("x or 0, by x > α", cmp=1),
    "Elu": each("α(exp(x) − 1) or x, by the sign of x", exp=1, add=1, mul=1, cmp=1),
    "Selu": each("γ(α exp(x) − α) or γx, by the sign of x", exp=1, add=1, mul=3, cmp=1),
    "Celu": each("α elu(x/α)", div=1, exp=1, add=1, mul=2, cmp=1),
    "Gelu": by(gelu),
    "Sigmoid": each("1 / (1 + exp(−x))", bit=1, exp=1, add=1, div=1),
    "Swish": each("x × sigmoid(αx)", mul=2, bit=1, exp=1, add=1, div=1),
    "SwiGLU": each("a × sigmoid(αa) × b", mul=3, bit=1, exp=1, add=1, div=1),
    "Mish": each("x × tanh(softplus(x))", exp=1, add=1, log=1, tanh=1, mul=1),
    "HardSigmoid": each("αx + β between 0 and 1", mul=1, add=1, cmp=2),
    "HardSwish": each("x × hardsigmoid(x)", mul=2, add=1, cmp=2),
    "Softplus": each("log(1 + exp(x))", exp=1, add=1, log=1),
    "Softsign": each("x / (1 + |x|)", bit=1, add=1, div=1),
    "Shrink": each("x + bias, x − bias or 0, by x < −λ and x > λ", cmp=2, add=2),
    # Comparison, logic and bits.
    "Equal": each(cmp=1),
    "Greater": each(cmp=1),
    "GreaterOrEqual": each(_COMPARISON, cmp=1),
    "Less": each(cmp=1),
    "LessOrEqual": each(_COMPARISON, cmp=1),
    "IsNaN": each(cmp=1),
    "IsInf": each(cmp=1),
    "Not": each(bit=1),
    "And": each(bit=1),
    "Or": each(bit=1),
    "Xor": each(bit=1),
    "BitShift": each(bit=1),
    "BitwiseNot": each(bit=1),
    "BitwiseAnd": each(bit=1),
    "BitwiseOr": each(bit=1),
    "BitwiseXor": each(bit=1),
    "Where": nothing("selects one of two elements by a flag"),
}
