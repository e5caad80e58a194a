"""Operators of PyTorch element by element, and quantized ones."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.complex import Complex, of_each, of_sums
from flopwise.operators.counts import SILU, Counts
from flopwise.operators.extents import integers, product
from flopwise.operators.onnx import pointwise
from flopwise.operators.operator import Operator, by, each, each_input, nothing, unknown
from flopwise.operators.shape import common

# Pointwise functions of PyTorch's that ONNX has no operator for; each as its documentation defines it.


def addcmul(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add), and 1 mul when value ≠ 1.

    https://docs.pytorch.org/docs/stable/generated/torch.addcmul.html
    """
    return Counts(mul=1 + int(node.attrs.get("scaled", 0)), add=1) * node.output().numel


def addcdiv(node: Node) -> Counts:
    """numel(Y) × (1 div + 1 add), and 1 mul when value ≠ 1.

    https://docs.pytorch.org/docs/stable/generated/torch.addcdiv.html
    """
    return Counts(div=1, mul=int(node.attrs.get("scaled", 0)), add=1) * node.output().numel


def isin(node: Node) -> Counts:
    """numel(X) × numel(test elements) × (1 cmp + 1 bit): each pair is compared, and any that is equal will do.

    https://docs.pytorch.org/docs/stable/generated/torch.isin.html
    """
    tests = node.input(1).numel if node.has_input(1) else 1
    return Counts(cmp=1, bit=1) * (node.input(0).numel * tests)


def angle(node: Node) -> Counts:
    """numel(Y) × (1 div + 1 trig): the arc tangent of a quotient; of real numbers, 1 cmp: 0, or π below it.

    https://docs.pytorch.org/docs/stable/generated/torch.angle.html
    """
    turned = (node.input(0).dtype or "complex").startswith("complex")
    return (Counts(div=1, trig=1) if turned else Counts(cmp=1)) * node.output().numel


def logit(node: Node) -> Counts:
    """numel(Y) × (1 add + 1 div + 1 log): log(x / (1 − x)); eps: x between two bounds first, 2 cmp.

    https://docs.pytorch.org/docs/stable/special.html
    """
    return Counts(add=1, div=1, log=1, cmp=2 * int(node.attrs.get("bounded", 0))) * node.output().numel


def linspace(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add): start + i × step; logspace: numel(Y) pow more.

    https://docs.pytorch.org/docs/stable/generated/torch.linspace.html
    """
    return Counts(mul=1, add=1, pow=int(node.attrs.get("power", 0))) * node.output().numel


def dropout(node: Node) -> Counts:
    """numel(Y) × (1 cmp + 2 mul): training: a draw is compared with p; x × mask / (1 − p). Whole channels: a cmp for
    each of them.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
    """
    return Counts(cmp=_draws(node), mul=2 * node.output().numel)


def alpha_dropout(node: Node) -> Counts:
    """numel(Y) × (1 cmp + 1 mul + 1 add): training: a draw is compared with p; a (x or α) + b. Whole channels: a cmp
    for each of them.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AlphaDropout.html
    """
    return Counts(cmp=_draws(node)) + Counts(mul=1, add=1) * node.output().numel


def _draws(node: Node) -> int:
    """One for each element, or for each channel of each sample."""
    return product(node.input(0).dims[:2]) if node.attrs.get("channels", 0) else node.output().numel


def quantize_dynamic(node: Node) -> Counts:
    """numel(X) × (5 cmp + 1 div + 1 add) + 5 cmp + 2 div + 2 add: minimum and maximum of X and 0, scale and zero point
    from them, then quantized.

    https://docs.pytorch.org/docs/stable/generated/torch.quantize_per_tensor_dynamic.html
    """
    return Counts(cmp=5, div=1, add=1) * node.input(0).numel + Counts(cmp=5, div=2, add=2)


_SPECIAL = "a special function: how many operations it takes is the choice of the library that computes it"

#: Special functions, which stay without a count.
_FUNCTIONS = (
    *("digamma", "gcd", "i0", "i0e", "i1", "i1e", "igamma", "igammac", "lcm", "lgamma", "mvlgamma", "ndtri"),
    *("polygamma", "special_zeta", "special_log_ndtr", "special_airy_ai", "special_bessel_j0", "special_bessel_j1"),
    *("special_bessel_y0", "special_bessel_y1", "special_multigammaln", "special_polygamma"),
)

#: Of a pair, whether its members are close.
_CLOSE = Counts(add=2, bit=2, mul=1, cmp=1)

_ROWS: dict[str, Operator] = {
    "aten::add_scaled": each(
        "x + αy", mul=1, add=1, gradient=gradient.operands("G, α G", gradient.none, Counts(), Counts(mul=1))
    ),
    "aten::div_rounded": each("a quotient, rounded", div=1, cmp=1, gradient=gradient.FLAT),
    "aten::remainder": each(
        "a remainder takes a division",
        div=1,
        gradient=gradient.operands("G, −G ⌊a / b⌋", gradient.inputs, Counts(), Counts(div=1, cmp=1, mul=1, bit=1)),
    ),
    "aten::square": each(mul=1, gradient=gradient.each("G × 2x", gradient.x, mul=2)),
    "aten::cube": each("x × x × x", mul=2, gradient=gradient.each("G × 3x²", gradient.x, mul=3)),
    "aten::rsqrt": each("1 / √x", sqrt=1, div=1, gradient=gradient.each("−½ G y³", gradient.y, mul=4)),
    "aten::trunc": each("rounding picks one of the two neighbouring integers", cmp=1, gradient=gradient.FLAT),
    "aten::round_scaled": each(
        "round(x × 10ᵈ) / 10ᵈ, or the other way round for d < 0", mul=1, cmp=1, div=1, gradient=gradient.FLAT
    ),
    "aten::frac": each("x − trunc(x)", cmp=1, add=1, gradient=gradient.nothing("G passes")),
    "aten::exp2": each(exp=1, gradient=gradient.each("G × y × ln 2", gradient.y, mul=2)),
    "aten::expm1": each("exp(x) − 1", exp=1, add=1, gradient=gradient.each("G × (y + 1)", gradient.y, mul=1, add=1)),
    "aten::log2": each(log=1, gradient=gradient.each("G / (x ln 2)", gradient.x, div=1, mul=1)),
    "aten::log10": each(log=1, gradient=gradient.each("G / (x ln 10)", gradient.x, div=1, mul=1)),
    "aten::log1p": each("log(1 + x)", log=1, add=1, gradient=gradient.each("G / (x + 1)", gradient.x, div=1, add=1)),
    "aten::erfc": each(
        "1 − erf(x)", erf=1, add=1, gradient=gradient.each("(−2 / √π × exp(−x²)) × G", gradient.x, mul=3, bit=1, exp=1)
    ),
    "aten::ndtr": each(
        "(1 + erf(x / √2)) / 2",
        div=1,
        erf=1,
        add=1,
        mul=1,
        gradient=gradient.each("G × exp(−½ x²) / √2π", gradient.x, mul=4, exp=1),
    ),
    "aten::erfinv": each(
        "a quotient of two polynomials and two steps of Newton's method, as PyTorch has it where |x| ≤ 0.7",
        mul=13,
        add=11,
        div=3,
        bit=2,
        erf=2,
        exp=2,
        gradient=gradient.each("G × (½ √π exp(y²))", gradient.y, mul=3, exp=1),
    ),
    "aten::erfcx": each("exp(x²) erfc(x)", mul=2, exp=1, erf=1, add=1),
    "aten::atan2": each(
        "the arc tangent of a quotient",
        div=1,
        trig=1,
        gradient=gradient.operands(
            "b r, −a r, r = G / (a² + b²)",
            gradient.inputs,
            Counts(mul=1),
            Counts(mul=1, bit=1),
            once=Counts(mul=2, add=1, div=1),
        ),
    ),
    "aten::angle": by(angle, complex=Complex(angle)),
    "aten::polar": each("r cos φ and r sin φ", trig=2, mul=2, complex=of_each(Counts(trig=2, mul=2))),
    "aten::sinc": each(
        "sin(πx) / (πx), or 1 at 0",
        mul=1,
        trig=1,
        div=1,
        cmp=1,
        gradient=gradient.each("G × (πx cos πx − sin πx) / (πx x)", gradient.x, cmp=1, mul=4, trig=2, add=1, div=1),
    ),
    "aten::hypot": each(
        "√(x² + y²)",
        mul=2,
        add=1,
        sqrt=1,
        gradient=gradient.operands("G a / y, G b / y", gradient.all_of_it, Counts(div=1, mul=1)),
    ),
    "aten::scaled": each("times a constant", mul=1, gradient=gradient.each("G × c", gradient.none, mul=1)),
    "aten::ldexp": each("x × 2ʸ", exp=1, mul=1),
    "aten::frexp": each("splits a number into its bits", bit=1),
    "aten::logit": by(logit, gradient=gradient.each("G / (x (1 − x))", gradient.x, add=1, mul=1, div=1)),
    "aten::log_sigmoid": each(
        "min(x, 0) − log(1 + exp(−|x|))",
        cmp=1,
        bit=2,
        exp=1,
        add=2,
        log=1,
        gradient=gradient.each("G / (1 + exp x)", gradient.x, exp=1, add=1, div=1),
    ),
    "aten::logaddexp": each(
        "max(x, y) + log(1 + exp(−|x − y|))",
        cmp=1,
        add=3,
        bit=2,
        exp=1,
        log=1,
        gradient=gradient.operands(
            "G / (1 + exp(b − a)), and the other way", gradient.inputs, Counts(add=2, exp=1, div=1)
        ),
    ),
    "aten::xlogy": each(
        "x log y, 0 for x = 0, NaN for y = NaN",
        cmp=2,
        log=1,
        mul=1,
        gradient=gradient.operands("G log b, G a / b", gradient.inputs, Counts(log=1, mul=1), Counts(mul=1, div=1)),
    ),
    "aten::xlog1py": each(
        "x log(1 + y), 0 for x = 0, NaN for y = NaN",
        cmp=2,
        add=1,
        log=1,
        mul=1,
        gradient=gradient.operands(
            "G log(1 + b), G a / (1 + b)", gradient.inputs, Counts(log=1, add=1, mul=1), Counts(mul=1, add=1, div=1)
        ),
    ),
    "aten::entr": each(
        "−x log x, 0 for x = 0, −∞ below",
        cmp=2,
        log=1,
        mul=1,
        bit=1,
        gradient=gradient.each("G × (−log x − 1)", gradient.x, log=1, bit=1, add=1, mul=1),
    ),
    "aten::silu": each(
        "x × sigmoid(x)",
        SILU,
        gradient=gradient.each(
            "G × s × (1 + x × (1 − s)), s = sigmoid(x)", gradient.x, mul=3, bit=1, exp=1, add=3, div=1
        ),
    ),
    "aten::glu": each("a × sigmoid(b)", SILU, gradient=gradient.by("pointwise:glu", gradient.x), shape=None),
    "aten::hardtanh": each(
        "x between two bounds",
        cmp=2,
        gradient=gradient.each("G where x is between the bounds", gradient.x, cmp=2, bit=1),
    ),
    "aten::hardshrink": each(
        "x, or 0 between −λ and λ", cmp=2, gradient=gradient.each("G where |x| > λ", gradient.x, cmp=2, bit=1)
    ),
    "aten::softplus_scaled": each(
        "log(1 + exp(βx)) / β",
        mul=2,
        exp=1,
        add=1,
        log=1,
        gradient=gradient.each("G × e / (e + 1), e = exp(βx)", gradient.x, mul=2, exp=1, add=1, div=1),
    ),
    "aten::elu_scaled": each(
        "s x, or s α (exp(β x) − 1)",
        mul=3,
        exp=1,
        add=1,
        cmp=1,
        gradient=gradient.each("scale × G, or G × c × exp(c' x)", gradient.x, from_result=True, cmp=1, exp=1, mul=4),
    ),
    "aten::lerp": each(
        "x + w (y − x)",
        mul=1,
        add=2,
        gradient=gradient.operands(
            "G (1 − w), G w, G (b − a)", gradient.inputs, Counts(mul=1, add=1), Counts(mul=1), Counts(add=1, mul=1)
        ),
    ),
    "aten::addcmul": by(addcmul, gradient=gradient.by("pointwise:addcmul", gradient.inputs)),
    "aten::addcdiv": by(addcdiv, gradient=gradient.by("pointwise:addcdiv", gradient.inputs)),
    "aten::ne": each("one comparison, whatever the relation", cmp=1, complex=of_each(Counts(cmp=2, bit=1))),
    "aten::isclose": each("|x − y| ≤ a + r |y|", _CLOSE),
    "aten::equal": each_input(
        Counts(cmp=1, bit=1),
        note="each pair is compared, and all must be equal",
        complex=of_sums(Counts(cmp=2, bit=2), Counts()),
    ),
    "aten::allclose": each_input(_CLOSE + Counts(bit=1), note="as isclose, and all must be close"),
    "aten::isin": by(isin),
    "aten::signbit": each("reads the sign bit", bit=1),
    "aten::copysign": each("copies the sign bit", bit=1),
    "aten::heaviside": each("two comparisons with zero", cmp=2, gradient=gradient.FLAT),
    "aten::nextafter": each("steps the bits up or down, by a comparison", cmp=1, bit=1),
    "aten::nan_to_num": each(
        "replaces NaN and both infinities", cmp=3, gradient=gradient.each("G where x is finite", gradient.x, cmp=1)
    ),
    "aten::resolve_conj": each(
        "changes the sign bit of the imaginary part",
        bit=1,
        gradient=gradient.nothing("G passes"),
        complex=of_each(Counts(bit=1), Counts(bit=1)),
    ),
    "aten::dropout": by(dropout, gradient=gradient.each("G × the scaled mask", "pointwise:mask", mul=1)),
    "aten::alpha_dropout": by(alpha_dropout, gradient=gradient.each("G × the scaled mask", "pointwise:mask", mul=1)),
    "aten::quantize": each("round(x / scale) + zero point, between two bounds", div=1, cmp=3, add=1),
    "aten::dequantize": each("(x − zero point) × scale", add=1, mul=1),
    "aten::fake_quantize": each("quantized and dequantized", div=1, cmp=3, add=2, mul=1),
    "aten::quantize_dynamic": by(quantize_dynamic),
    "aten::linspace": by(linspace),
    "aten::random": nothing("draws random numbers, which is not arithmetic of the model"),
    "aten::im2col": nothing("copies elements to other places", gradient=gradient.by("movement:picked", gradient.none)),
    **{f"aten::{op}": unknown(_SPECIAL) for op in _FUNCTIONS},
}

#: Operators whose results have other shapes than their inputs together.
_SHAPED = {"aten::glu", "aten::im2col", "aten::linspace", "aten::random"}

OPERATORS: dict[str, Operator] = {
    op: row if row.shape is not None or op in _SHAPED else row._replace(shape=common) for op, row in _ROWS.items()
}


# Operators of PyTorch's quantized tensors, which always have a scale and a zero point.

#: For each element: (x − zero point) × scale; and round(y / scale) + zero point, between two bounds.
_FROM, _TO = Counts(add=1, mul=1), Counts(div=1, cmp=3, add=1)

#: From a sum to the scale of the result.
_AGAIN = Counts(mul=1, add=1, cmp=3)


def quantized_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) + numel(W) add (zero points), numel(Y) add when B is given; numel(Y) ×
    (1 mul + 1 add + 3 cmp) to requantise, and the ratio of the scales, 1 mul + 1 div. Dynamic: numel(X) × (1 div + 1
    add + 5 cmp) + 5 cmp + 2 div + 2 add to quantise X first; Y is only scaled, 1 mul (the product of the scales) +
    numel(Y) mul, and numel(Y) cmp for a ReLU, which is else a bound of the output's range.

    As QLinearConv, and DynamicQuantizeMatMul of com.microsoft: a quantised tensor of PyTorch always has a zero point,
    and the packed weight has one too. It does not tell how many scales it has: one is counted, also where each feature
    has its own.

    https://docs.pytorch.org/docs/stable/quantization.html
    """
    outputs = node.output().numel
    counts = half_layer(node) + Counts(add=node.input(0).numel + node.input(1).numel)
    if node.attrs.get("dynamic", 0):
        return counts + quantize_dynamic(node) + Counts(mul=1 + outputs)
    return counts + Counts(mul=1, add=1, cmp=3) * outputs + Counts(mul=1, div=1)


def cortex_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) add (its zero point), numel(Y) add when B is given, numel(Y) × (1 mul
    + 1 add + 3 cmp) to requantise: times a multiplier, plus the zero point, between two bounds. W has no zero point.

    executorch, backends/cortex_m/ops, on CMSIS-NN
    """
    outputs = node.output().numel
    return half_layer(node) + Counts(add=node.input(0).numel) + _AGAIN * outputs


def cortex_pool(node: Node) -> Counts:
    """numel(Y) × (prod(kernel_shape) add + 1 div), numel(Y) × (1 mul + 1 add + 3 cmp) to requantise."""
    return (Counts(add=product(integers(node, "kernel_shape")), div=1) + _AGAIN) * node.output().numel


def half_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(Y) add when B is given, numel(Y) cmp for a ReLU: the weight is kept in 16
    bits, a float that has no zero point.
    """
    once = Counts(mac=product(node.input(1).dims[1:]), add=int(node.has_input(2)), cmp=node.attrs.get("relu", 0))
    return once * node.output().numel


def _between(op: str) -> Operator:
    """A row for an operator of real numbers between quantized ones."""
    plain = pointwise.OPERATORS[op]

    def rule(node: Node) -> Counts:
        inner = Node(op, node.name, node.inputs, node.outputs, node.attrs)
        elements = sum([t.numel for t in node.known_inputs])
        return plain.rule(inner) + _FROM * elements + _TO * node.output().numel

    return Operator(
        rule,
        f"as {op}, with 1 add + 1 mul for each element of an operand and 1 div + 3 cmp + 1 add for each of the result: "
        "what is quantized becomes real and is quantized again; a ReLU is one of the bounds",
    )


def concat(node: Node) -> Counts:
    """numel(Y) × (2 add + 1 mul + 1 div + 3 cmp): each element becomes real and is quantized again.

    https://docs.pytorch.org/docs/stable/quantization-support.html
    """
    return (_FROM + _TO) * node.output().numel


QUANTIZED: dict[str, Operator] = {
    **dict.fromkeys(("quantized::linear", "quantized::conv"), by(quantized_layer)),
    **dict.fromkeys(("cortex_m::linear", "cortex_m::conv"), by(cortex_layer)),
    "cortex_m::avg_pool": by(cortex_pool),
    "quantized::linear_fp16": by(half_layer),
    "quantized::add": _between("Add"),
    "quantized::mul": _between("Mul"),
    "quantized::hardswish": _between("HardSwish"),
    "quantized::leaky_relu": _between("LeakyRelu"),
    "quantized::cat": by(concat),
}
