"""Fast Fourier transforms of counting numbers: butterflies of any size, in half as many where one side is real."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Complex(NamedTuple):
    """A complex number whose parts may be nothing at all; the sign of the second is a matter of what is added."""

    real: Any
    imaginary: Any = None
    sign: float = 1.0

    def conjugate(self) -> Complex:
        """The other one of a pair."""
        return self._replace(sign=-self.sign)

    def times(self, angle: float) -> Complex:
        """Turned by an angle: nothing to do for none."""
        if angle == 0.0:
            return self
        c, s = math.cos(angle), math.sin(angle)
        if self.imaginary is None:
            return Complex(self.real * c, self.real * s)
        d = s * self.sign
        return Complex(self.real * c - self.imaginary * d, self.real * s + self.imaginary * (c * self.sign))


def added(a: Complex, b: Complex, factor: float = 1.0) -> Complex:
    """a + b or a - b."""
    real = a.real + b.real if factor > 0 else a.real - b.real
    if b.imaginary is None:
        return Complex(real, a.imaginary, a.sign)
    sign = b.sign * factor
    if a.imaginary is None:
        return Complex(real, b.imaginary, sign)
    return Complex(real, a.imaginary + b.imaginary if a.sign == sign else a.imaginary - b.imaginary, a.sign)


def scaled(a: Complex, factor: float) -> Complex:
    """Times a real number."""
    return Complex(a.real * factor, None if a.imaginary is None else a.imaginary * factor, a.sign)


def quarter(a: Complex) -> Complex:
    """Times the imaginary unit."""
    if a.imaginary is None:
        return Complex(0.0, a.real)
    return Complex(a.imaginary * -1.0 if a.sign > 0 else a.imaginary, a.real)


def butterfly(t: list[Complex], sign: float) -> list[Complex]:
    """The transform of a prime number of terms, by sums and differences of pairs."""
    p = len(t)
    if p == 2:
        return [added(t[0], t[1]), added(t[0], t[1], -1.0)]
    half = (p - 1) // 2
    sums = [added(t[j], t[p - j]) for j in range(1, half + 1)]
    differences = [added(t[j], t[p - j], -1.0) for j in range(1, half + 1)]
    results = [t[0]] * p
    for one in sums:
        results[0] = added(results[0], one)
    for k in range(1, half + 1):
        even, odd = t[0], None
        for j in range(1, half + 1):
            angle = 2.0 * math.pi * (j * k % p) / p
            even = added(even, scaled(sums[j - 1], math.cos(angle)))
            term = scaled(differences[j - 1], sign * math.sin(angle))
            odd = term if odd is None else added(odd, term)
        assert odd is not None
        # even + i odd and even - i odd: the parts of odd change places
        if odd.imaginary is None:
            results[k], results[p - k] = Complex(even.real, odd.real), Complex(even.real, odd.real, -1.0)
            continue
        assert even.imaginary is not None
        a, b = even.real, even.imaginary
        c, d = odd.real, odd.imaginary
        plus = a - d if odd.sign > 0 else a + d
        minus = a + d if odd.sign > 0 else a - d
        results[k] = Complex(plus, b + c if even.sign > 0 else b - c, even.sign)
        results[p - k] = Complex(minus, b - c if even.sign > 0 else b + c, even.sign)
    return results


def smallest(n: int) -> int:
    """The smallest prime factor."""
    return next((p for p in range(2, n + 1) if n % p == 0), n)


def forward(x: list[Complex], sign: float) -> list[Complex]:
    """The transform of complex numbers."""
    n = len(x)
    if n == 1:
        return x
    p = smallest(n)
    m = n // p
    parts = [forward(x[r::p], sign) for r in range(p)]
    y = [x[0]] * n
    for k in range(m):
        turned = [parts[r][k].times(sign * 2.0 * math.pi * r * k / n) for r in range(p)]
        for j, one in enumerate(butterfly(turned, sign)):
            y[k + j * m] = one
    return y


def of_real(x: list[Any], sign: float) -> list[Complex]:
    """The first half of the transform of real numbers."""
    n = len(x)
    if n == 1:
        return [Complex(x[0])]
    p = smallest(n)
    m = n // p
    parts = [of_real(x[r::p], sign) for r in range(p)]
    y = [Complex(x[0])] * (n // 2 + 1)
    for k in range(m // 2 + 1):
        turned = [parts[r][k].times(sign * 2.0 * math.pi * r * k / n) for r in range(p)]
        for j, one in enumerate(butterfly(turned, sign)):
            place = k + j * m
            if place <= n // 2:
                y[place] = one
            elif n - place <= n // 2 and (k or j):
                y[n - place] = one.conjugate()
    return y


def whole(half: list[Complex], n: int) -> list[Complex]:
    """All of a spectrum whose second half mirrors the first."""
    return [half[k] if k < len(half) else half[n - k].conjugate() for k in range(n)]


def real_butterfly(t: list[Complex], sign: float) -> list[Any]:
    """The transform of a prime number of terms of which the later mirror the earlier: real numbers."""
    p = len(t)
    if p == 2:
        return [t[0].real + t[1].real, t[0].real - t[1].real]
    half = (p - 1) // 2
    results = [t[0].real] * p
    for j in range(1, half + 1):
        results[0] = results[0] + t[j].real * 2.0
    for r in range(1, half + 1):
        even, odd = t[0].real, None
        for j in range(1, half + 1):
            angle = 2.0 * math.pi * (j * r % p) / p
            even = even + t[j].real * (2.0 * math.cos(angle))
            term = t[j].imaginary * (-2.0 * sign * t[j].sign * math.sin(angle))
            odd = term if odd is None else odd + term
        results[r], results[p - r] = even + odd, even - odd
    return results


def to_real(half: list[Complex], n: int, sign: float) -> list[Any]:
    """The real numbers whose transform's first half is given, times their number."""
    if n == 1:
        return [half[0].real]
    p = smallest(n)
    m = n // p
    spectrum = whole(half, n)
    parts: list[list[Complex]] = [[Complex(0.0)] * (m // 2 + 1) for _ in range(p)]
    for k in range(m // 2 + 1):
        terms = [spectrum[k + j * m] for j in range(p)]
        if k == 0:
            for r, value in enumerate(real_butterfly(terms, sign)):
                parts[r][0] = Complex(value)
        elif 2 * k == m:  # of two terms the second mirrors the first
            parts[0][k] = Complex(terms[0].real * 2.0)
            parts[1][k] = Complex(terms[0].imaginary * (-2.0 * sign * terms[0].sign))
        else:
            for r, one in enumerate(butterfly(terms, sign)):
                parts[r][k] = one.times(sign * 2.0 * math.pi * r * k / n)
    x: list[Any] = [0.0] * n
    for r in range(p):
        x[r::p] = to_real(parts[r], m, sign)
    return x
