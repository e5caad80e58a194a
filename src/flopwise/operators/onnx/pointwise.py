"""Pointwise operators: the same few operations for each element of the (broadcast) result.

Operators that the ONNX schema defines by a function body cost what the body does, selections and casts left out: both
sides of a selection are computed. Integer and boolean variants cost the same as the floating-point ones.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.inputs import DATA, SETTING, WEIGHT, Input, inputs
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


_SIGN_BIT = "changes the sign bit"

OPERATORS: dict[str, Operator] = {
    # Arithmetic.
    "Add": each(
        add=1, inputs=inputs(WEIGHT, WEIGHT), gradient=gradient.by("pointwise:shared", gradient.none), in_place=True
    ),
    "Sub": each(add=1, gradient=gradient.by("pointwise:sub", gradient.none), in_place=True),
    "Mul": each(
        mul=1, inputs=inputs(WEIGHT, WEIGHT), gradient=gradient.by("pointwise:mul", gradient.factors), in_place=True
    ),
    "Div": each(div=1, gradient=gradient.by("pointwise:div", "pointwise:div_keeps"), in_place=True),
    "Mod": each(
        "a remainder takes a division",
        div=1,
        gradient=gradient.by("pointwise:remainder", "pointwise:remainder_keeps"),
        in_place=True,
    ),
    "Pow": each(
        "whatever the exponent",
        pow=1,
        inputs=inputs(DATA, Input("setting", trained=True)),
        gradient=gradient.by("pointwise:power", "pointwise:power_keeps"),
        in_place=True,
    ),
    "Sqrt": each(sqrt=1, gradient=gradient.each("G / (2 y)", gradient.y, mul=1, div=1), in_place=True),
    "Reciprocal": each(div=1, gradient=gradient.each("−G × y²", gradient.y, mul=2, bit=1), in_place=True),
    "Abs": each(_SIGN_BIT, bit=1, gradient=gradient.each("G × sign(x)", gradient.x, cmp=1, mul=1), in_place=True),
    "Neg": each(_SIGN_BIT, bit=1, gradient=gradient.each("−G", gradient.none, bit=1), in_place=True),
    "Sign": each(
        "one three-way comparison with zero",
        cmp=1,
        gradient=gradient.FLAT,
        in_place=True,
    ),
    **dict.fromkeys(
        ("Floor", "Ceil", "Round"),
        each("rounding picks one of the two neighbouring integers", cmp=1, gradient=gradient.FLAT, in_place=True),
    ),
    "Clip": by(
        clip, inputs=inputs(DATA, SETTING, SETTING), gradient=gradient.by("pointwise:clip", gradient.x), in_place=True
    ),
    # Transcendental functions.
    "Exp": each(exp=1, gradient=gradient.each("G × y", gradient.y, mul=1), in_place=True),
    "Log": each(log=1, gradient=gradient.each("G / x", gradient.x, div=1), in_place=True),
    "Erf": each(
        erf=1, gradient=gradient.each("(2 / √π × exp(−x²)) × G", gradient.x, mul=3, bit=1, exp=1), in_place=True
    ),
    "Tanh": each(tanh=1, gradient=gradient.each("G × (1 − y²)", gradient.y, mul=2, add=1), in_place=True),
    "Sin": each(trig=1, gradient=gradient.each("G × cos x", gradient.x, trig=1, mul=1), in_place=True),
    "Cos": each(trig=1, gradient=gradient.each("−G × sin x", gradient.x, trig=1, mul=1, bit=1), in_place=True),
    "Tan": each(trig=1, gradient=gradient.each("G × (1 + y²)", gradient.y, mul=2, add=1), in_place=True),
    "Asin": each(
        trig=1, gradient=gradient.each("G / √(1 − x²)", gradient.x, mul=1, add=1, sqrt=1, div=1), in_place=True
    ),
    "Acos": each(
        trig=1, gradient=gradient.each("−G / √(1 − x²)", gradient.x, mul=1, add=1, sqrt=1, div=1, bit=1), in_place=True
    ),
    "Atan": each(trig=1, gradient=gradient.each("G / (x² + 1)", gradient.x, mul=1, add=1, div=1), in_place=True),
    "Sinh": each(trig=1, gradient=gradient.each("G × cosh x", gradient.x, trig=1, mul=1), in_place=True),
    "Cosh": each(trig=1, gradient=gradient.each("G × sinh x", gradient.x, trig=1, mul=1), in_place=True),
    "Asinh": each(
        trig=1, gradient=gradient.each("G / √(x² + 1)", gradient.x, mul=1, add=1, sqrt=1, div=1), in_place=True
    ),
    "Acosh": each(
        trig=1, gradient=gradient.each("G / √(x² − 1)", gradient.x, mul=1, add=1, sqrt=1, div=1), in_place=True
    ),
    "Atanh": each(trig=1, gradient=gradient.each("G / (1 − x²)", gradient.x, mul=1, add=1, div=1), in_place=True),
    # Activations.
    "Relu": each("max(x, 0)", cmp=1, gradient=gradient.each("G where y > 0", gradient.y, cmp=1), in_place=True),
    "LeakyRelu": each(
        "αx or x, by the sign of x",
        cmp=1,
        mul=1,
        gradient=gradient.each("G or α G", gradient.x, from_result=True, cmp=1, mul=1),
        in_place=True,
    ),
    "PRelu": each(
        "slope × x or x, by the sign of x",
        cmp=1,
        mul=1,
        inputs=inputs(DATA, WEIGHT),
        gradient=gradient.by("pointwise:prelu", gradient.first_two),
        in_place=True,
    ),
    "ThresholdedRelu": each(
        "x or 0, by x > α", cmp=1, gradient=gradient.each("G where x > α", gradient.x, cmp=1), in_place=True
    ),
    "Elu": each(
        "α(exp(x) − 1) or x, by the sign of x",
        exp=1,
        add=1,
        mul=1,
        cmp=1,
        gradient=gradient.each("G or G × (α exp x)", gradient.x, from_result=True, cmp=1, exp=1, mul=2),
        in_place=True,
    ),
    "Selu": each(
        "γ(α exp(x) − α) or γx, by the sign of x",
        exp=1,
        add=1,
        mul=3,
        cmp=1,
        gradient=gradient.each("γ G or G × (γα exp x)", gradient.x, from_result=True, cmp=1, exp=1, mul=3),
        in_place=True,
    ),
    "Celu": each(
        "α elu(x/α)",
        div=1,
        exp=1,
        add=1,
        mul=2,
        cmp=1,
        gradient=gradient.each("G or G × exp(x / α)", gradient.x, from_result=True, cmp=1, div=1, exp=1, mul=1),
        in_place=True,
    ),
    "Gelu": by(gelu, gradient=gradient.by("pointwise:gelu", gradient.x), in_place=True),
    "Sigmoid": each(
        "1 / (1 + exp(−x))",
        bit=1,
        exp=1,
        add=1,
        div=1,
        gradient=gradient.each("G × (1 − y) × y", gradient.y, mul=2, add=1),
        in_place=True,
    ),
    "Swish": each(
        "x × sigmoid(αx)",
        mul=2,
        bit=1,
        exp=1,
        add=1,
        div=1,
        gradient=gradient.each(
            "G × s × (1 + αx × (1 − s)), s = sigmoid(αx)", gradient.x, mul=4, bit=1, exp=1, add=3, div=1
        ),
        in_place=True,
    ),
    "SwiGLU": each(
        "a × sigmoid(αa) × b",
        mul=3,
        bit=1,
        exp=1,
        add=1,
        div=1,
        gradient=gradient.by("pointwise:swiglu", gradient.inputs),
    ),
    "Mish": each(
        "x × tanh(softplus(x))",
        exp=1,
        add=1,
        log=1,
        tanh=1,
        mul=1,
        gradient=gradient.each(
            "G × (t + x × s × (1 − t²)), t = tanh(log(1 + exp x)), s = sigmoid(x)",
            gradient.x,
            exp=2,
            add=4,
            log=1,
            tanh=1,
            div=1,
            bit=1,
            mul=4,
        ),
        in_place=True,
    ),
    "HardSigmoid": each(
        "αx + β between 0 and 1",
        mul=1,
        add=1,
        cmp=2,
        gradient=gradient.each("G × α where x is between the bounds", gradient.x, cmp=2, bit=1, mul=1),
        in_place=True,
    ),
    "HardSwish": each(
        "x × hardsigmoid(x)",
        mul=2,
        add=1,
        cmp=2,
        gradient=gradient.each("0, G × (2αx + β) or G, by x and the bounds", gradient.x, cmp=2, mul=2, add=1),
        in_place=True,
    ),
    "Softplus": each(
        "log(1 + exp(x))",
        exp=1,
        add=1,
        log=1,
        gradient=gradient.each("G × e / (1 + e), e = exp x", gradient.x, exp=1, add=1, mul=1, div=1),
        in_place=True,
    ),
    "Softsign": each(
        "x / (1 + |x|)",
        bit=1,
        add=1,
        div=1,
        gradient=gradient.each("G / (1 + |x|)²", gradient.x, bit=1, add=1, mul=1, div=1),
        in_place=True,
    ),
    "Shrink": each(
        "x + bias, x − bias or 0, by x < −λ and x > λ",
        cmp=2,
        add=2,
        gradient=gradient.each("G where x < −λ or x > λ", gradient.x, cmp=2, bit=1),
        in_place=True,
    ),
    # Comparison, logic and bits.
    **dict.fromkeys(("Equal", "Greater", "Less", "IsNaN", "IsInf"), each(cmp=1)),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), each("one comparison, whatever the relation", cmp=1)),
    **dict.fromkeys(
        ("Not", "And", "Or", "Xor", "BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), each(bit=1, in_place=True)
    ),
    "BitShift": each(bit=1),
    "Where": nothing(
        "selects one of two elements by a flag",
        inputs=inputs(SETTING),
        gradient=gradient.by("pointwise:shared", gradient.x),
        in_place=True,
    ),
}
