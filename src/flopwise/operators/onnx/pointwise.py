"""Pointwise operators: the same few operations for each element of the (broadcast) result.

Operators that the ONNX schema defines by a function body cost what the body does, selections and casts left out: both
sides of a selection are computed. Integer and boolean variants cost the same as the floating-point ones.
"""

from __future__ import annotations

import functools

from flopwise.graph import Node
from flopwise.operators import gradient, shape
from flopwise.operators.complex import MODULUS, TANGENT, WAVE, of_each
from flopwise.operators.counts import SIGMOID, SILU, Counts
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

#: A row for a pointwise operator whose result may overwrite an input.
in_place = functools.partial(each, in_place=True)

#: Two complex numbers compared: both of their parts.
_PAIR = of_each(Counts(cmp=2, bit=1))

OPERATORS: dict[str, Operator] = {
    # Arithmetic.
    "Add": in_place(
        add=1,
        inputs=inputs(WEIGHT, WEIGHT),
        gradient=gradient.by("pointwise:shared", gradient.none),
        value="arithmetic:add",
    ),
    "Sub": in_place(add=1, gradient=gradient.by("pointwise:sub", gradient.none), value="arithmetic:subtract"),
    "Mul": in_place(
        mul=1,
        inputs=inputs(WEIGHT, WEIGHT),
        gradient=gradient.by("pointwise:mul", gradient.factors),
        value="arithmetic:multiply",
    ),
    "Div": in_place(div=1, gradient=gradient.by("pointwise:div", "pointwise:div_keeps"), value="arithmetic:divide"),
    "Mod": in_place(
        "a remainder takes a division",
        div=1,
        gradient=gradient.by("pointwise:remainder", "pointwise:remainder_keeps"),
        value="arithmetic:remainder",
    ),
    "Pow": in_place(
        "whatever the exponent",
        pow=1,
        inputs=inputs(DATA, Input("setting", trained=True)),
        gradient=gradient.by("pointwise:power", "pointwise:power_keeps"),
        value="arithmetic:power",
    ),
    "Sqrt": in_place(
        sqrt=1, gradient=gradient.each("G / (2 y)", gradient.y, mul=1, div=1), value="arithmetic:square_root"
    ),
    "Reciprocal": in_place(div=1, gradient=gradient.each("−G × y²", gradient.y, mul=2, bit=1)),
    "Abs": in_place(
        _SIGN_BIT,
        bit=1,
        gradient=gradient.each("G × sign(x)", gradient.x, cmp=1, mul=1),
        complex=of_each(MODULUS, MODULUS + Counts(div=2, mul=2)),
        value="arithmetic:absolute",
    ),
    "Neg": in_place(_SIGN_BIT, bit=1, gradient=gradient.each("−G", gradient.none, bit=1), value="arithmetic:negate"),
    "Sign": in_place(
        "one three-way comparison with zero",
        cmp=1,
        gradient=gradient.FLAT,
        complex=of_each(MODULUS + Counts(div=2)),
        value="arithmetic:sign",
    ),
    "Floor": in_place(
        "rounding picks one of the two neighbouring integers", cmp=1, gradient=gradient.FLAT, value="arithmetic:floor"
    ),
    "Ceil": in_place(
        "rounding picks one of the two neighbouring integers", cmp=1, gradient=gradient.FLAT, value="arithmetic:ceil"
    ),
    "Round": in_place(
        "rounding picks one of the two neighbouring integers", cmp=1, gradient=gradient.FLAT, value="arithmetic:round_"
    ),
    "Clip": by(
        clip,
        inputs=inputs(DATA, SETTING, SETTING),
        gradient=gradient.by("pointwise:clip", gradient.x),
        in_place=True,
        shape=shape.alike,
        value="arithmetic:clipped",
    ),
    # Transcendental functions.
    "Exp": in_place(exp=1, gradient=gradient.each("G × y", gradient.y, mul=1)),
    "Log": in_place(log=1, gradient=gradient.each("G / x", gradient.x, div=1)),
    "Erf": in_place(erf=1, gradient=gradient.each("(2 / √π × exp(−x²)) × G", gradient.x, mul=3, bit=1, exp=1)),
    "Tanh": in_place(tanh=1, gradient=gradient.each("G × (1 − y²)", gradient.y, mul=2, add=1), complex=TANGENT),
    "Sin": in_place(trig=1, gradient=gradient.each("G × cos x", gradient.x, trig=1, mul=1), complex=WAVE),
    "Cos": in_place(trig=1, gradient=gradient.each("−G × sin x", gradient.x, trig=1, mul=1, bit=1), complex=WAVE),
    "Tan": in_place(trig=1, gradient=gradient.each("G × (1 + y²)", gradient.y, mul=2, add=1), complex=TANGENT),
    "Asin": in_place(trig=1, gradient=gradient.each("G / √(1 − x²)", gradient.x, mul=1, add=1, sqrt=1, div=1)),
    "Acos": in_place(trig=1, gradient=gradient.each("−G / √(1 − x²)", gradient.x, mul=1, add=1, sqrt=1, div=1, bit=1)),
    "Atan": in_place(trig=1, gradient=gradient.each("G / (x² + 1)", gradient.x, mul=1, add=1, div=1)),
    "Sinh": in_place(trig=1, gradient=gradient.each("G × cosh x", gradient.x, trig=1, mul=1), complex=WAVE),
    "Cosh": in_place(trig=1, gradient=gradient.each("G × sinh x", gradient.x, trig=1, mul=1), complex=WAVE),
    "Asinh": in_place(trig=1, gradient=gradient.each("G / √(x² + 1)", gradient.x, mul=1, add=1, sqrt=1, div=1)),
    "Acosh": in_place(trig=1, gradient=gradient.each("G / √(x² − 1)", gradient.x, mul=1, add=1, sqrt=1, div=1)),
    "Atanh": in_place(trig=1, gradient=gradient.each("G / (1 − x²)", gradient.x, mul=1, add=1, div=1)),
    # Activations.
    "Relu": in_place(
        "max(x, 0)", cmp=1, gradient=gradient.each("G where y > 0", gradient.y, cmp=1), value="arithmetic:positive"
    ),
    "LeakyRelu": in_place(
        "αx or x, by the sign of x",
        cmp=1,
        mul=1,
        gradient=gradient.each("G or α G", gradient.x, from_result=True, cmp=1, mul=1),
    ),
    "PRelu": in_place(
        "slope × x or x, by the sign of x",
        cmp=1,
        mul=1,
        inputs=inputs(DATA, WEIGHT),
        gradient=gradient.by("pointwise:prelu", gradient.first_two),
        shape=shape.alike,
    ),
    "ThresholdedRelu": in_place("x or 0, by x > α", cmp=1, gradient=gradient.each("G where x > α", gradient.x, cmp=1)),
    "Elu": in_place(
        "α(exp(x) − 1) or x, by the sign of x",
        exp=1,
        add=1,
        mul=1,
        cmp=1,
        gradient=gradient.each("G or G × (α exp x)", gradient.x, from_result=True, cmp=1, exp=1, mul=2),
    ),
    "Selu": in_place(
        "γ(α exp(x) − α) or γx, by the sign of x",
        exp=1,
        add=1,
        mul=3,
        cmp=1,
        gradient=gradient.each("γ G or G × (γα exp x)", gradient.x, from_result=True, cmp=1, exp=1, mul=3),
    ),
    "Celu": in_place(
        "α elu(x/α)",
        div=1,
        exp=1,
        add=1,
        mul=2,
        cmp=1,
        gradient=gradient.each("G or G × exp(x / α)", gradient.x, from_result=True, cmp=1, div=1, exp=1, mul=1),
    ),
    "Gelu": by(gelu, gradient=gradient.by("pointwise:gelu", gradient.x), in_place=True, shape=shape.alike),
    "Sigmoid": in_place(
        "1 / (1 + exp(−x))", SIGMOID, gradient=gradient.each("G × (1 − y) × y", gradient.y, mul=2, add=1)
    ),
    "Swish": in_place(
        "x × sigmoid(αx)",
        SILU,
        mul=1,
        gradient=gradient.each(
            "G × s × (1 + αx × (1 − s)), s = sigmoid(αx)", gradient.x, mul=4, bit=1, exp=1, add=3, div=1
        ),
    ),
    "SwiGLU": each("a × sigmoid(αa) × b", SILU, mul=2, gradient=gradient.by("pointwise:swiglu", gradient.inputs)),
    "Mish": in_place(
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
    ),
    "HardSigmoid": in_place(
        "αx + β between 0 and 1",
        mul=1,
        add=1,
        cmp=2,
        gradient=gradient.each("G × α where x is between the bounds", gradient.x, cmp=2, bit=1, mul=1),
    ),
    "HardSwish": in_place(
        "x × hardsigmoid(x)",
        mul=2,
        add=1,
        cmp=2,
        gradient=gradient.each("0, G × (2αx + β) or G, by x and the bounds", gradient.x, cmp=2, mul=2, add=1),
    ),
    "Softplus": in_place(
        "log(1 + exp(x))",
        exp=1,
        add=1,
        log=1,
        gradient=gradient.each("G × e / (1 + e), e = exp x", gradient.x, exp=1, add=1, mul=1, div=1),
    ),
    "Softsign": in_place(
        "x / (1 + |x|)",
        bit=1,
        add=1,
        div=1,
        gradient=gradient.each("G / (1 + |x|)²", gradient.x, bit=1, add=1, mul=1, div=1),
    ),
    "Shrink": in_place(
        "x + bias, x − bias or 0, by x < −λ and x > λ",
        cmp=2,
        add=2,
        gradient=gradient.each("G where x < −λ or x > λ", gradient.x, cmp=2, bit=1),
    ),
    # Comparison, logic and bits.
    "Equal": in_place(cmp=1, complex=_PAIR, value="arithmetic:equal", dtype="bool"),
    "Greater": in_place(cmp=1, complex=_PAIR, value="arithmetic:greater", dtype="bool"),
    "Less": in_place(cmp=1, complex=_PAIR, value="arithmetic:less", dtype="bool"),
    **dict.fromkeys(("IsNaN", "IsInf"), in_place(cmp=1, complex=_PAIR, dtype="bool")),
    "GreaterOrEqual": in_place(
        "one comparison, whatever the relation", cmp=1, value="arithmetic:greater_or_equal", dtype="bool"
    ),
    "LessOrEqual": in_place(
        "one comparison, whatever the relation", cmp=1, value="arithmetic:less_or_equal", dtype="bool"
    ),
    "Not": in_place(bit=1, value="arithmetic:not_", dtype="bool"),
    "And": in_place(bit=1, value="arithmetic:and_", dtype="bool"),
    "Or": in_place(bit=1, value="arithmetic:or_", dtype="bool"),
    "Xor": in_place(bit=1, value="arithmetic:xor", dtype="bool"),
    **dict.fromkeys(("BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), in_place(bit=1)),
    "BitShift": in_place(bit=1),
    "Where": nothing(
        "selects one of two elements by a flag",
        inputs=inputs(SETTING),
        gradient=gradient.by("pointwise:shared", gradient.x),
        in_place=True,
        shape=shape.common,
        value=shape.elements("arithmetic:selected", "some"),
        dtype=1,
    ),
}
