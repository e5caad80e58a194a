"""What fast transforms execute, beside transforms of counting numbers and the figures that papers give."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.operators.nodes import cost
from tests.operators.oracle import fourier
from tests.operators.oracle.number import numbers, plain

from flopwise.errors import ShapeError
from flopwise.operators.counts import FLOPS, Counts
from flopwise.operators.fourier import transform

RANDOM = np.random.default_rng(0)
LENGTHS = [*range(1, 33), 35, 45, 49, 60, 64, 77, 100, 101, 128]


def value(one: fourier.Complex) -> complex:
    return complex(plain(one.real), 0.0 if one.imaginary is None else plain(one.imaginary) * one.sign)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_transform_of_complex_numbers_takes_no_more(length: int) -> None:
    tally: Counter[str] = Counter()
    z = RANDOM.normal(size=length) + 1j * RANDOM.normal(size=length)
    pairs = zip(numbers(z.real, tally), numbers(z.imag, tally), strict=True)
    spectrum = fourier.forward([fourier.Complex(a, b) for a, b in pairs], -1.0)
    np.testing.assert_allclose([value(one) for one in spectrum], np.fft.fft(z), atol=1e-9)
    assert all(number <= getattr(transform(length), name) for name, number in tally.items())


@pytest.mark.parametrize("length", LENGTHS)
def test_real_numbers_take_half(length: int) -> None:
    half = transform(length)
    for inverse in (False, True):
        tally: Counter[str] = Counter()
        x = RANDOM.normal(size=length)
        if inverse:
            known = np.fft.rfft(x)
            pairs = list(zip(numbers(known.real, tally), numbers(known.imag, tally), strict=True))
            result = fourier.to_real([fourier.Complex(a, b) for a, b in pairs], length, 1.0)
            np.testing.assert_allclose([plain(one) / length for one in result], x, atol=1e-9)
        else:
            spectrum = fourier.of_real(list(numbers(x, tally)), -1.0)
            np.testing.assert_allclose([value(one) for one in spectrum], np.fft.rfft(x), atol=1e-9)
        assert all(2 * number <= getattr(half, name) for name, number in tally.items())


@pytest.mark.parametrize("digits", range(13))
def test_a_power_of_two_takes_5_n_log_n(digits: int) -> None:
    """http://www.fftw.org/speed/method.html"""
    length = 2**digits
    assert transform(length).dot(FLOPS) == 5 * length * digits


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (3, Counts(mul=12, add=16)),
        (5, Counts(mul=32, add=40)),
        (9, Counts(mul=72, add=96)),
        (400, Counts(mul=8320, add=11_200)),
    ],
)
def test_rows(length: int, expected: Counts) -> None:
    """Singleton's butterflies of 3: 4 mul + 12 add, of 5: 16 mul + 32 add, beside the turned numbers."""
    assert transform(length) == expected


def test_large_primes_are_convolutions() -> None:
    prime = 10_007
    assert transform(prime).dot(FLOPS) < 80 * prime * 14 < prime * prime
    assert transform(prime) == transform(32_768) * 2 + Counts(mul=4, add=2) * (32_768 + 2 * prime)


def test_signals_without_an_axis_of_components_are_real() -> None:
    """As onnxruntime takes them: https://github.com/microsoft/onnxruntime (core/providers/cpu/signal/dft.cc)."""
    frames = [(1, 3001, 201, 2)]
    flat = cost("STFT", [(1, 480_400), (), (400,)], frames)
    assert flat == cost("STFT", [(1, 480_400, 1), (), (400,)], frames)
    assert flat.dot(FLOPS) == 3001 * (19_520 // 2 + 400)
    assert cost("STFT", [(1, 480_402), (), None, ()], frames) == cost("STFT", [(1, 480_402, 1), (), None, ()], frames)
    assert cost("DFT", [(2, 64)], [(2, 64, 2)], axis=1) == cost("DFT", [(2, 64, 1)], [(2, 64, 2)], axis=1)
    assert cost("DFT", [(64, 2), None, ()], [(64, 2)]) == transform(64)


def test_a_symbol_has_no_prime_factors() -> None:
    sympy = pytest.importorskip("sympy")
    with pytest.raises(ShapeError, match="--dim"):
        cost("DFT", [(2, sympy.Symbol("n"), 1)], [(2, sympy.Symbol("n"), 2)])


def test_several_axes() -> None:
    rows = cost("com.microsoft::Rfft", [(4, 8, 16)], [(4, 8, 9, 2)], signal_ndim=2)
    half = transform(16)
    assert rows == Counts(mul=half.mul // 2, add=half.add // 2) * 32 + transform(8) * 36
    back = cost("com.microsoft::Irfft", [(4, 8, 9, 2)], [(4, 8, 16)], signal_ndim=2)
    assert back == rows + Counts(div=512)
