"""Complex numbers: counted in real operations, as their definitions execute them, and as elements where tools do so."""

from __future__ import annotations

import cmath
from collections import Counter
from typing import Any

import pytest
from tests.operators.nodes import gradient_of
from tests.operators.oracle.number import Number

import flopwise
from flopwise.graph import Node, Tensor
from flopwise.operators.complex import OPERATIONS, TANGENT, WAVE, of_each
from flopwise.operators.counts import Counts
from flopwise.operators.tables import ROWS, backward, count, on_elements

torch = pytest.importorskip("torch")


def made(real: float, imaginary: float, tally: Counter[str]) -> tuple[Number, Number]:
    return Number(real, tally), Number(imaginary, tally)


def node(op: str, *shapes: tuple[int, ...], out: tuple[int, ...] = (5,), to: str = "") -> Node:
    inputs = tuple(Tensor(f"x{i}", shape, "complex64") for i, shape in enumerate(shapes))
    return Node(op, "n", inputs, (Tensor("y", out, to or "complex64"),))


# --- the definitions, executed on numbers that count ---

Pair = tuple[Number, Number]


def times(z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w
    return a * c - b * d, a * d + b * c


def over(z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w
    length = c * c + d * d
    return (a * c + b * d) / length, (b * c - a * d) / length


def plus(z: Pair, w: Pair) -> Pair:
    return z[0] + w[0], z[1] + w[1]


def modulus(z: Pair) -> Number:
    square = z[0] * z[0] + z[1] * z[1]
    return square.does("sqrt", square.value**0.5)


def exponential(z: Pair) -> Pair:
    size = z[0].does("exp", cmath.exp(z[0].value).real)
    cosine, sine = (z[1].does("trig", f(z[1].value).real) for f in (cmath.cos, cmath.sin))
    return size * cosine, size * sine


def logarithm(z: Pair) -> Pair:
    size, quotient = modulus(z), z[1] / z[0]
    return size.does("log", cmath.log(size.value).real), quotient.does("trig", cmath.atan(quotient.value).real)


def root(z: Pair) -> Pair:
    half = (modulus(z) + z[0]) * 0.5
    real = half.does("sqrt", half.value**0.5)
    return real, z[1] / (real * 2.0)


def hyperbolic(x: Number) -> Pair:
    size = x.does("exp", cmath.exp(x.value).real)
    other = 1.0 / size
    return (size + other) * 0.5, (size - other) * 0.5


def sine(z: Pair) -> Pair:
    s, c = (z[0].does("trig", f(z[0].value).real) for f in (cmath.sin, cmath.cos))
    cosh, sinh = hyperbolic(z[1])
    return s * cosh, c * sinh


def hyperbolic_tangent(z: Pair) -> Pair:
    (cosh, sinh), angle = hyperbolic(z[0] * 2.0), z[1] * 2.0
    length = cosh + angle.does("trig", cmath.cos(angle.value).real)
    return sinh / length, angle.does("trig", cmath.sin(angle.value).real) / length


Z, W = 1.5 + 0.5j, 0.75 - 1.25j


@pytest.mark.parametrize(
    ("definition", "value", "counts"),
    [
        (lambda z, w: times(z, w), Z * W, OPERATIONS["mul"]),
        (lambda z, w: over(z, w), Z / W, OPERATIONS["div"]),
        (lambda z, w: plus(z, w), Z + W, OPERATIONS["add"]),
        (lambda z, w: exponential(z), cmath.exp(Z), OPERATIONS["exp"]),
        (lambda z, w: logarithm(z), cmath.log(Z), OPERATIONS["log"]),
        (lambda z, w: root(z), cmath.sqrt(Z), OPERATIONS["sqrt"]),
        (lambda z, w: exponential(times(w, logarithm(z))), Z**W, OPERATIONS["pow"]),
        (lambda z, w: (-z[0], -z[1]), -Z, OPERATIONS["bit"]),
        (lambda z, w: sine(z), cmath.sin(Z), WAVE.rule(node("Sin", (), out=()))),
        (lambda z, w: hyperbolic_tangent(z), cmath.tanh(Z), TANGENT.rule(node("Tanh", (), out=()))),
    ],
)
def test_definitions(definition: Any, value: complex, counts: Counts) -> None:
    tally: Counter[str] = Counter()
    real, imaginary = definition(made(Z.real, Z.imag, tally), made(W.real, W.imag, tally))
    assert complex(real.value, imaginary.value) == pytest.approx(value)
    assert counts == Counts(**tally)


# --- operators ---


@pytest.mark.parametrize(
    ("op", "shapes", "out", "to", "expected"),
    [
        ("Mul", [(5,), (5,)], (5,), "", Counts(mul=20, add=10)),
        ("MatMul", [(4, 16), (16, 16)], (4, 16), "", Counts(mac=4096)),
        ("ReduceSum", [(5,)], (), "", Counts(add=10)),
        ("Abs", [(5,)], (5,), "float32", Counts(mul=10, add=5, sqrt=5)),
        ("Equal", [(5,), (5,)], (5,), "bool", Counts(cmp=10, bit=5)),
        ("ReduceL2", [(5,)], (), "float32", Counts(mul=10, add=10, sqrt=1)),
        ("Transpose", [(5,)], (5,), "", Counts()),
        ("Cast", [(5,)], (5,), "float32", Counts()),
        ("Conv", [(1, 2, 4), (3, 2, 2)], (1, 3, 3), "", Counts(mac=3 * 36, add=8 + 12 + 27)),
        ("Conv", [(1, 2, 4), (3, 2, 2), (3,)], (1, 3, 3), "", Counts(mac=3 * 36, add=8 + 12 + 27 + 18 + 3)),
    ],
)
def test_operators(op: str, shapes: Any, out: Any, to: str, expected: Counts) -> None:
    assert count(node(op, *shapes, out=out, to=to)) == expected


def test_real_numbers_times_complex_ones_are_complex() -> None:
    """PyTorch brings both to one type first."""
    x, z, y = Tensor("x", (5,), "float32"), Tensor("z", (5,), "complex64"), Tensor("y", (5,), "complex64")
    mixed = Node("Mul", "n", (x, z), (y,))
    assert count(mixed) == Counts(mul=20, add=10)


@pytest.mark.parametrize(
    ("op", "to"), [("Asin", ""), ("Erf", ""), ("ReduceLogSum", "float32"), ("aten::hypot", "float32")]
)
def test_what_nobody_knows_is_no_zero(op: str, to: str) -> None:
    with pytest.raises(flopwise.FlopwiseError, match=f"{op} 'n' has no count for complex numbers"):
        count(node(op, (5,), to=to))


def test_rules_of_the_user_are_taken_as_they_are() -> None:
    rules = {"Mul": lambda one: Counts(mul=7)}
    assert count(node("Mul", (5,), (5,)), rules) == Counts(mul=7)


def test_gradients() -> None:
    one = node("MatMul", (4, 16), (16, 16), out=(4, 16))
    wanted = frozenset({0, 1})
    assert backward(one, wanted) == gradient_of("MatMul").rule(one, wanted) * 4 == Counts(mac=8192)
    conv = node("Conv", (1, 2, 4), (3, 2, 2), out=(1, 3, 3))
    assert backward(conv, wanted) == Counts(mac=2 * 3 * 36, add=18 + 16 + 24)
    assert backward(node("aten::var", (5,), out=(), to="float32"), frozenset({0})) is None


def test_every_row_that_says_what_it_computes_of_them_says_it_for_real_ones() -> None:
    assert of_each(Counts(add=1)).gradient is None
    assert all(row.counted for row in ROWS.values() if row.complex is not None)


# --- profiles ---


def random(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.cfloat)


def test_as_the_same_work_on_real_numbers() -> None:
    a, b = random(4, 16), random(16, 16)
    plain = flopwise.profile(lambda a, b: a @ b, [a, b])
    apart = flopwise.profile(lambda a, b: (a.real @ b.real, a.imag @ b.imag, a.real @ b.imag, a.imag @ b.real), [a, b])
    assert plain.total("macs") == apart.total("macs") == 4096
    assert "complex numbers: 1 operator is counted in real operations (a product is 4 mul + 2 add)" in plain.notes
    assert flopwise.profile(lambda a: a * a, [random(10)]).total("flops") == 60


MODULES = {
    "product": (lambda a, b: a @ b, (4, 16), (16, 16)),
    "batched": (torch.bmm, (2, 4, 16), (2, 16, 16)),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), (3, 5), (5, 2)),
    "elements": (lambda a: a * a, (7,)),
    "transform": (torch.fft.fft, (8,)),
    "linear": (torch.nn.Linear(5, 6, dtype=torch.cfloat), (3, 5)),
    "convolution": (torch.nn.Conv2d(3, 4, 3, dtype=torch.cfloat), (1, 3, 8, 8)),
    "transposed": (torch.nn.ConvTranspose2d(3, 4, 3, dtype=torch.cfloat), (1, 3, 8, 8)),
    "groups": (torch.nn.Conv2d(4, 4, 3, groups=2, dtype=torch.cfloat), (1, 4, 8, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_flop_counter_mode_itself(name: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    module, *shapes = MODULES[name]
    given = [random(*shape) for shape in shapes]
    with FlopCounterMode(display=False) as forward:
        y = module(*given)
    assert flopwise.profile(module, given, convention="torch").total("count") == forward.get_total_flops()
    if isinstance(module, torch.nn.Module):
        with FlopCounterMode(display=False) as back:
            y.abs().sum().backward()
        trained = flopwise.profile(module, given, convention="torch", train=True).to_dict()["training"]
        assert trained["backward"] == back.get_total_flops()


def test_tools_see_elements() -> None:
    one = node("MatMul", (4, 16), (16, 16), out=(4, 16))
    assert on_elements(one) == Counts(mac=1024)
    given = [random(4, 16), random(16, 16)]
    assert flopwise.profile(lambda a, b: a @ b, given, convention="fvcore").total("count") == 1024
