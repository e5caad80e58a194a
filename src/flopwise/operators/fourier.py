"""Counts of a fast Fourier transform, behind every operator that has one.

A length is taken apart into its prime factors (Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex
Fourier Series", Mathematics of Computation 19, 1965). A factor p takes N / p butterflies; each turns p − 1 numbers by a
factor, 4 mul + 2 add, and adds them up: 4 add for p = 2, which makes 5 N log₂ N operations for a power of two; with the
symmetric sums of Singleton ("An Algorithm for Computing the Mixed Radix Fast Fourier Transform", IEEE Transactions on
Audio and Electroacoustics 17, 1969) (p − 1)² mul + (p − 1)(p + 3) add for an odd one. Where large prime factors make
that cost more than a convolution of a power of two, it is taken (Bluestein, "A Linear Filtering Approach to
the Computation of the Discrete Fourier Transform", IEEE Transactions on Audio and Electroacoustics 18, 1970). A
transform of real numbers, or to real numbers, takes half (Sorensen, Jones, Heideman and Burrus, "Real-Valued Fast
Fourier Transform Algorithms", IEEE Transactions on Acoustics, Speech and Signal Processing 35, 1987).

Libraries leave out factors that are 1 and know better butterflies, so this is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product

#: A product of two complex numbers.
_PRODUCT = Counts(mul=4, add=2)


def fourier(node: Node, length: Dim, real: bool) -> Counts:
    """One transform of a length.

    Args:
        node: the operator.
        length: how many numbers go into it.
        real: whether the numbers on one of its sides are real.

    Raises:
        ShapeError: the length is a symbol.
    """
    if type(length) is not int:  # a size that is also an expression has no prime factors either
        raise ShapeError(
            f"{node.op} {node.name!r} needs a number for its length: what a fast transform takes follows from the "
            "prime factors; give it with --dim NAME=VALUE"
        )
    counts = transform(length)
    return Counts(mul=counts.mul // 2, add=counts.add // 2) if real else counts


def half_spectrum(node: Node, bins: Dim) -> Counts:
    """One transform of real numbers of which only the bins are at hand: 2 (bins − 1) numbers, or one more.

    Raises:
        ShapeError: the number of bins is a symbol.
    """
    even, odd = fourier(node, 2 * bins - 2, real=True), fourier(node, 2 * bins - 1, real=True)
    return Counts(mul=max(even.mul, odd.mul), add=max(even.add, odd.add))


def lines(node: Node, tensor: Tensor, axis: int) -> int:
    """The number of lines of a tensor along an axis.

    Raises:
        ShapeError: it has no such axis.
    """
    extent(node, tensor, axis)
    return product(tensor.dims[:axis]) * product(tensor.dims[axis:][1:])


def transform(length: int) -> Counts:
    """A transform of ``length`` complex numbers.

    >>> transform(4096)
    Counts(mac=0, add=147456, mul=98304, div=0, cmp=0, exp=0, log=0, pow=0, sqrt=0, trig=0, tanh=0, erf=0, bit=0)
    """
    direct = Counts()
    for factor in _primes(length):
        direct += _butterfly(factor) * (length // factor)
    if direct.mul <= 4 * length * length.bit_length():  # small factors
        return direct
    filtered = _convolution(length)
    return min(direct, filtered, key=lambda counts: counts.mul + counts.add)


def _butterfly(factor: int) -> Counts:
    """Numbers turned and added up: one of the parts of a transform."""
    if factor == 2:
        return _PRODUCT + Counts(add=4)
    return _PRODUCT * (factor - 1) + Counts(mul=(factor - 1) ** 2, add=(factor - 1) * (factor + 3))


def _convolution(length: int) -> Counts:
    """A transform as a convolution with a chirp, whose own transform is a constant."""
    size = 1 << (2 * length - 2).bit_length()
    steps = size.bit_length() - 1
    return _butterfly(2) * (size // 2 * steps * 2) + _PRODUCT * (size + 2 * length)


def _primes(number: int) -> Iterator[int]:
    """The prime factors, each as often as it divides."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1 + factor % 2
    if number > 1:
        yield number
