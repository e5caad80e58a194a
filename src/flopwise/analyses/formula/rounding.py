"""Fractions that scales stand for, and where floating-point arithmetic with them misses whole numbers.

A side says where the floating-point value may lie while the fraction is whole: 0 there as well, 1 above it, -1 on both
sides.
"""

from __future__ import annotations

import functools
import struct
from fractions import Fraction
from typing import Protocol

from flopwise.analyses.formula.terms.polynomial import Term

#: Element type -> up to which number it has all whole ones; beyond, what models round was rounded before.
WHOLE = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}

#: Denominators up to this large are what a scale such as 0.33333334 stands for.
DENOMINATOR = 4096

#: Multiples of a denominator at which a scale is tried.
MULTIPLES = 4096


class Quotient(Protocol):
    """A size divided by a number."""

    over: Term
    by: int
    #: Its side.
    apart: int

    @property
    def rounded(self) -> bool: ...
    @property
    def shifts(self) -> bool: ...


def scale(number: float, double: bool) -> tuple[Fraction, int]:
    """The fraction that a scale stands for, and the side on which its products miss those of the fraction.

    Args:
        number: the scale.
        double: whether products with it have 64 bits though it has 32.
    """
    exact = Fraction(number)
    near = exact.limit_denominator(DENOMINATOR)
    fraction = near if abs(near - exact) <= abs(exact) / 1_000_000 else exact
    return fraction, _side(exact, fraction, double)


@functools.lru_cache(maxsize=256)
def _side(exact: Fraction, fraction: Fraction, double: bool) -> int:
    """The side on which a scale's products miss those of its fraction, whole or half."""
    if exact == fraction:
        return 0
    scale = float(exact)
    single = not double and _single(scale) == scale  # a number of ONNX's float, as its products are
    half = 2 - fraction.denominator % 2
    errors = set()
    for k in range(MULTIPLES):
        product = fraction.denominator // half * k * scale
        errors.add((_single(product) if single else product) - fraction.numerator * k / half)
    return -1 if min(errors) < 0 else int(max(errors) > 0)


def _single(number: float) -> float:
    """A number in 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def side_of_sum(left: Quotient, right: Quotient) -> int:
    """The side of a sum, which is both as if the two were rounded."""
    if min(left.apart, right.apart) < 0 or (left.rounded and right.rounded):
        return -1
    return max(left.apart, right.apart)


def side_of_product(left: Quotient, right: Quotient) -> int:
    """The side of a product, which is both as if it were rounded more than once."""
    if min(left.apart, right.apart) < 0:
        return -1
    for one, other in ((left, right), (right, left)):
        if one.rounded and (other.by > 2 if isinstance(one.over, int) else not other.shifts):
            return -1
    return max(left.apart, right.apart)
