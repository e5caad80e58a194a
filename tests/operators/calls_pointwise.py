"""Pointwise functions of PyTorch's; both sides of a selection are computed, as a plain kernel does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from tests.operators.arrays import Input, given, positive, real
from tests.operators.calls import Call, call, complex_of, each
from tests.operators.oracle.number import (
    Number,
    erf,
    exp,
    floor,
    function,
    larger,
    log,
    nearest,
    plain,
    pointwise,
    select,
    smaller,
    sqrt,
)
from tests.operators.oracle.pointwise import sigmoid

sine = function("trig", math.sin)
cosine = function("trig", math.cos)
arctangent = function("trig", math.atan)
truncated = function("cmp", math.trunc)
is_nan = function("cmp", math.isnan)
power_of_2 = function("exp", lambda x: 2.0**x)
power_of_10 = function("pow", lambda x: 10.0**x)
logarithm_of_2 = function("log", math.log2)
NAN = math.nan


def both() -> Input:
    """Numbers of either sign, and 0."""
    return Input(np.array([[-1.7, 0.0, 0.4, 2.3], [1.2, -0.6, -2.2, 0.1]]))


def turned(y: Any, x: Any) -> Any:
    """The arc tangent of a quotient; the quadrant is read off the signs."""
    angle = arctangent(y / x)
    return angle if plain(x) > 0 else Number(angle.value + math.copysign(math.pi, plain(y)), angle.tally)


def inverse_of_erf(y: Any) -> Any:
    """As PyTorch has it where |y| ≤ 0.7 (calc_erfinv, aten/src/ATen/native/Math.h)."""
    assert abs(plain(y)) <= 0.7
    z = y * y
    above = ((z * -0.140543331 + 0.914624893) * z + -1.645349621) * z + 0.886226899
    below = (((z * 0.012229801 + -0.329097515) * z + 1.442710462) * z + -2.118377725) * z + 1.0
    x = y * above / below
    for _ in range(2):
        x = x - (erf(x) - y) / (exp(-x * x) * (2.0 / math.sqrt(math.pi)))
    return x


def decimals(x: Any, places: int) -> Any:
    """A number rounded after so many decimals, or before the point."""
    if places < 0:
        return nearest(x / 10.0**-places) * 10.0**-places
    return nearest(x * 10.0**places) / 10.0**places


def times_log(x: Any, y: Any, of: Any = log) -> Any:
    """x times a logarithm; NaN where y is NaN, 0 where x is 0."""
    return select(is_nan(y), NAN, select(x.equals(0.0), 0.0, x * of(y)))


def entropy(x: Any) -> Any:
    """-x log x, 0 at 0, and minus infinity below."""
    value = -(x * x.does("log", math.log(x.value) if x.value > 0 else 0.0))
    return select(x > 0.0, value, select(x.equals(0.0), 0.0, -math.inf))


def sinc(x: Any) -> Any:
    angle = x * math.pi
    quotient = sine(angle).does("div", sine_over(angle.value))
    return select(x.equals(0.0), 1.0, quotient)


def sine_over(x: float) -> float:
    return math.sin(x) / x if x else NAN


def replaced(x: Any) -> Any:
    """Finite numbers for what is none."""
    largest = float(np.finfo(float).max)
    return select(is_nan(x), 0.0, select(x.equals(math.inf), largest, select(x.equals(-math.inf), -largest, x)))


def among(x: Any, tests: Any) -> Any:
    """Whether each element equals one of the others."""

    def found(v: Any) -> Any:
        flag: Any = False
        for t in tests.flat:
            flag = v.equals(t) | flag
        return flag

    return pointwise(found, x)


def halves(x: Any) -> Any:
    a, b = np.split(x, 2, axis=-1)
    return a * pointwise(sigmoid, b)


def parts(x: Any) -> Any:
    """The mantissa and the exponent in the bits of each element."""
    mantissas, exponents = np.empty(x.shape, object), np.empty(x.shape, object)
    for at, v in np.ndenumerate(x):
        mantissas[at], exponents[at] = v.does("bit", None), math.frexp(v.value)[1]
        mantissas[at].value = math.frexp(v.value)[0]
    return mantissas, exponents


def next_after(x: Any, y: Any) -> Any:
    return (x < y).does("bit", math.nextafter(x.value, y.value))


def rounded(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    """A number quantized: the nearest integer, the zero point added, between two bounds."""
    return smaller(high, larger(low, nearest(x / scale) + zero))


def extremes(x: Any) -> tuple[Any, Any]:
    low: Any = Number(math.inf, x.flat[0].tally)
    high: Any = Number(-math.inf, x.flat[0].tally)
    for v in x.flat:
        low, high = smaller(v, low), larger(v, high)
    return low, high


def quantized_by_range(x: Any) -> Any:
    """Quantized to 8 bits by the range of the elements and 0, as DynamicQuantizeLinear of ONNX."""
    low, high = extremes(x)
    low, high = smaller(0.0, low), larger(0.0, high)
    scale = (high - low) / 255.0
    zero = smaller(255.0, larger(0.0, nearest(0.0 - low / scale)))
    return pointwise(lambda v: rounded(v, scale, zero, 0, 255), x)


def kept(p: float) -> Any:
    """What training keeps: a draw is compared with p, and what is kept grows."""
    return lambda x, draws: x * pointwise(lambda d: d >= p, draws) * (1.0 / (1.0 - p))


def arithmetic() -> Iterator[Call]:
    x, y = real(3, 4), positive(3, 4)
    yield call("add_scaled", lambda x, y: torch.add(x, y, alpha=2), each(lambda a, b: a + 2.0 * b), x, real(4))
    yield call("add_scaled", lambda x, y: torch.sub(x, y, alpha=3), each(lambda a, b: a - 3.0 * b), x, y)
    yield call(
        "div_rounded", lambda x, y: torch.div(x, y, rounding_mode="floor"), each(lambda a, b: floor(a / b)), x, y
    )
    yield call("div_rounded", lambda x: torch.div(x, 0.3, rounding_mode="trunc"), each(lambda a: truncated(a / 0.3)), x)
    yield call("div_rounded", torch.floor_divide, each(lambda a, b: floor(a / b)), x, y)
    yield call("remainder", torch.remainder, each(lambda a, b: a % b), x, y)
    yield call("remainder", lambda x: x % 0.7, each(lambda a: a % 0.7), x)
    yield call("square", torch.square, each(lambda a: a * a), x)
    yield call("square", lambda x: x**2, each(lambda a: a * a), x)
    yield call("cube", lambda x: x**3, each(lambda a: a * a * a), x)
    yield call("rsqrt", torch.rsqrt, each(lambda a: 1.0 / sqrt(a)), y)
    yield call("rsqrt", lambda x: x**-0.5, each(lambda a: 1.0 / sqrt(a)), y)
    yield call("trunc", torch.trunc, each(truncated), both())
    for d in (2, -1):
        given_places = lambda x, d=d: torch.round(x, decimals=d)  # noqa: E731
        yield call("round_scaled", given_places, each(lambda a, d=d: decimals(a, d)), Input(37.0 * real(3, 4).array))
    yield call("frac", torch.frac, each(lambda a: a - truncated(a)), both())
    yield call("hypot", torch.hypot, each(lambda a, b: sqrt(a * a + b * b)), x, y)
    yield call("scaled", torch.deg2rad, each(lambda a: a * (math.pi / 180.0)), x)
    yield call("scaled", torch.rad2deg, each(lambda a: a * (180.0 / math.pi)), x)
    yield call("ldexp", torch.ldexp, each(lambda a, b: a * power_of_2(b)), x, Input(np.array([1.0, -2.0, 3.0, 0.0])))
    yield call("frexp", torch.frexp, parts, x)
    yield call("lerp", torch.lerp, each(lambda a, b, w: a + w * (b - a)), x, y, positive(4))
    yield call("lerp", lambda x, y: torch.lerp(x, y, 0.3), each(lambda a, b: a + 0.3 * (b - a)), x, y)
    yield call("addcmul", torch.addcmul, each(lambda a, b, c: a + b * c), x, y, real(4))
    yield call(
        "addcmul", lambda *t: torch.addcmul(*t, value=2), each(lambda a, b, c: a + 2.0 * b * c), x, y, real(3, 4)
    )
    yield call("addcdiv", torch.addcdiv, each(lambda a, b, c: a + b / c), x, real(3, 1), positive(4))
    yield call("addcdiv", lambda *t: torch.addcdiv(*t, value=2), each(lambda a, b, c: a + 2.0 * (b / c)), x, x, y)
    yield call("add_scaled", lambda x, y: torch.rsub(x, y, alpha=3), each(lambda a, b: b - 3.0 * a), x, y)
    powers = lambda a: a + pointwise(power_of_10, spaced(a.flat[0].tally))  # noqa: E731
    yield call("linspace", lambda a: a + torch.logspace(0.5, 2.0, 5), powers, real(5))
    yield call("linspace", lambda a: a + torch.linspace(0.5, 2.0, 5), lambda a: a + spaced(a.flat[0].tally), real(5))


def spaced(tally: Any) -> Any:
    """Five numbers from 0.5 to 2, the step a constant."""
    return np.array([Number(i, tally) * 0.375 + 0.5 for i in range(5)], object)


def functions() -> Iterator[Call]:
    x, y = both(), positive(2, 4)
    yield call("exp2", torch.exp2, each(power_of_2), x)
    yield call("expm1", torch.expm1, each(lambda a: exp(a) - 1.0), x)
    yield call("log2", torch.log2, each(logarithm_of_2), y)
    yield call("log10", torch.log10, each(function("log", math.log10)), y)
    yield call("log1p", torch.log1p, each(lambda a: log(1.0 + a)), y)
    yield call("erfc", torch.erfc, each(lambda a: 1.0 - erf(a)), x)
    yield call("ndtr", torch.special.ndtr, each(lambda a: 0.5 * (1.0 + erf(a / math.sqrt(2.0)))), x)
    yield call("erfcx", torch.special.erfcx, each(lambda a: exp(a * a) * (1.0 - erf(a))), x)
    yield call("erfinv", torch.erfinv, each(inverse_of_erf), Input(np.array([[0.5, -0.25], [0.125, -0.6]])))
    yield call("atan2", torch.atan2, each(turned), real(2, 4), real(2, 4))
    pairs = Input(real(3).array + 1j * real(3).array)
    yield call("angle", torch.angle, each(lambda z: turned(imaginary(z), real_part(z))), pairs)
    yield call("angle", torch.angle, each(lambda a: select(a < 0.0, math.pi, 0.0)), x)
    yield call("polar", torch.polar, each(lambda r, a: complex_of(r * cosine(a), r * sine(a))), y, real(2, 4))
    yield call("sinc", torch.sinc, each(sinc), x)
    yield call("logit", torch.logit, each(lambda a: log(a / (1.0 - a))), y)
    yield call("logit", lambda x: torch.logit(x, 0.3), each(lambda a: logit(smaller(0.7, larger(0.3, a)))), y)
    yield call("log_sigmoid", F.logsigmoid, each(lambda a: smaller(0.0, a) - log(1.0 + exp(-abs(a)))), x)
    yield call(
        "logaddexp", torch.logaddexp, each(lambda a, b: larger(a, b) + log(1.0 + exp(-abs(a - b)))), x, real(2, 4)
    )
    twos = each(lambda a, b: larger(a, b) + logarithm_of_2(1.0 + power_of_2(-abs(a - b))))
    yield call("logaddexp", torch.logaddexp2, twos, x, real(2, 4))
    yield call("xlogy", torch.xlogy, each(times_log), x, y)
    yield call("xlogy", torch.xlogy, each(times_log), x, Input(np.array([[NAN], [1.5]])))
    yield call("xlog1py", torch.special.xlog1py, each(lambda a, b: times_log(a, b, lambda v: log(1.0 + v))), x, y)
    yield call("entr", torch.special.entr, each(entropy), x)


def imaginary(z: Any) -> Any:
    return Number(z.value.imag, z.tally)


def real_part(z: Any) -> Any:
    return Number(z.value.real, z.tally)


def logit(x: Any) -> Any:
    return log(x / (1.0 - x))


def activations() -> Iterator[Call]:
    x = both()
    yield call("silu", F.silu, each(lambda a: a * sigmoid(a)), x)
    yield call("glu", F.glu, halves, x)
    yield call("hardtanh", F.relu6, each(lambda a: smaller(6.0, larger(0.0, a))), x)
    yield call("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.5), each(lambda a: smaller(0.5, larger(-0.5, a))), x)
    yield call("hardshrink", F.hardshrink, each(lambda a: select(a > 0.5, a, select(a < -0.5, a, 0.0))), x)
    scaled = each(lambda a: log(1.0 + exp(a * 2.0)) * (1.0 / 2.0))
    yield call("softplus_scaled", lambda x: F.softplus(x, beta=2), scaled, x)
    elu = each(lambda a: select(a < 0.0, (2.0 * 1.5) * (exp(a * 3.0) - 1.0), a * 2.0))
    yield call("elu_scaled", lambda x: torch.ops.aten.elu(x, 1.5, 2.0, 3.0), elu, x)


def close(a: Number, b: Number) -> Number:
    return abs(a - b) <= 1e-8 + 1e-5 * abs(b)


def every(flags: Any) -> Any:
    """Whether all of some flags are set; the accumulator starts from true."""
    result = True
    for flag in flags.flat:
        result = flag.does("bit", float(bool(flag.value) and bool(getattr(result, "value", result))))
    return result


def relations() -> Iterator[Call]:
    x, y = both(), real(2, 4)
    equal = Input(x.array.copy())
    yield call("ne", torch.ne, each(lambda a, b: a.does("cmp", a.value != b.value)), x, equal)
    yield call("isclose", torch.isclose, each(close), x, equal)
    same = each(lambda a, b: a.does("cmp", float(a.value == b.value)))
    yield call("equal", lambda x, y: torch.tensor(torch.equal(x, y)), lambda x, y: every(same(x, y)), x, equal)
    yield call("allclose", lambda x, y: torch.tensor(torch.allclose(x, y)), lambda x, y: every(each(close)(x, y)), x, y)
    yield call("isin", torch.isin, among, x, Input(np.array([0.4, 7.0, 0.0, 1.2, 5.0])))
    yield call("signbit", torch.signbit, each(function("bit", lambda v: math.copysign(1.0, v) < 0)), x)
    yield call("copysign", torch.copysign, each(lambda a, b: a.does("bit", math.copysign(a.value, b.value))), x, y)
    yield call(
        "heaviside", torch.heaviside, each(lambda a, v: select(a.equals(0.0), v, select(a < 0.0, 0.0, 1.0))), x, y
    )
    yield call("nextafter", torch.nextafter, each(next_after), x, y, tolerance=1e-300)
    odd = Input(np.array([[NAN, 1.0, math.inf], [-math.inf, 2.0, 0.0]]))
    yield call("nan_to_num", torch.nan_to_num, each(replaced), odd)
    pairs = Input(real(2, 3).array + 1j * real(2, 3).array)
    conjugate = each(function("bit", lambda v: v.conjugate()))
    yield call("resolve_conj", lambda z: torch.resolve_conj(z.conj()), conjugate, pairs)


def draws() -> Iterator[Call]:
    """What is dropped is known by its value afterwards."""
    p = 0.4
    gone = lambda y: np.where(y == 0.0, 0.0, 1.0)  # noqa: E731
    yield call("dropout", lambda x: F.dropout(x, p, True), kept(p), real(5, 6), drawn=gone)
    channels = lambda y: gone(y).max((2, 3), keepdims=True)  # noqa: E731
    yield call("dropout", lambda x: F.dropout2d(x, p, True), kept(p), real(5, 6, 2, 2), drawn=channels)
    alpha = -1.67326319217681884765625 * 1.05070102214813232421875
    factor = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * alpha * alpha))
    shift = -factor * p * alpha
    low = factor * alpha + shift

    def alive(x: Any, draws: Any) -> Any:
        chosen = pointwise(lambda d: d >= p, draws)
        return pointwise(lambda v, f: select(f, v, Number(alpha, v.tally)) * factor + shift, x, chosen)

    spared = lambda y: np.where(np.isclose(y, low), 0.0, 1.0)  # noqa: E731
    yield call("alpha_dropout", lambda x: F.alpha_dropout(x, p, True), alive, real(5, 6), drawn=spared)

    some = lambda y: spared(y).max((2, 3), keepdims=True)  # noqa: E731
    yield call("alpha_dropout", lambda x: F.feature_alpha_dropout(x, p, True), alive, real(5, 6, 2, 2), drawn=some)


def quantized() -> Iterator[Call]:
    """Integers of 8 bits; PyTorch quantizes single precision alone."""
    x = real(3, 4)

    def tensor(x: Any) -> Any:
        return torch.quantize_per_tensor(x.float(), 0.05, 100, torch.quint8)

    here = each(lambda a: rounded(a, 0.05, 100, 0, 255))
    yield call("quantize", lambda x: tensor(x).int_repr(), here, x)
    yield call("dequantize", lambda x: tensor(x).dequantize(), lambda x: (here(x) - 100) * 0.05, x)
    yield call(
        "quantize",
        lambda x, s, z: torch.quantize_per_channel(x.float(), s, z, 0, torch.qint8).int_repr(),
        lambda x, s, z: pointwise(lambda a, b, c: rounded(a, b, c, -128, 127), x, s[:, None], z[:, None]),
        x, given([0.1, 0.02, 0.05], np.float64), given([0, 10, -3]),
    )  # fmt: skip
    yield call(
        "fake_quantize",
        lambda x: torch.fake_quantize_per_tensor_affine(x.float(), 0.05, 100, 0, 255),
        lambda x: (here(x) - 100) * 0.05,
        x,
    )
    yield call(
        "quantize_dynamic",
        lambda x: torch.quantize_per_tensor_dynamic(x.float(), torch.quint8, False).int_repr(),
        quantized_by_range,
        x,
    )


def calls() -> Iterator[Call]:
    yield from arithmetic()
    yield from functions()
    yield from activations()
    yield from relations()
    yield from draws()
    yield from quantized()
