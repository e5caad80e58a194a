"""A number that counts the operations it takes part in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np


class Number:
    """A value and the tally that its operations go to; the other operand may be a plain constant."""

    __array_priority__ = 100
    __slots__ = ("tally", "value")

    def __init__(self, value: Any, tally: Counter[str]) -> None:
        self.value = value
        self.tally = tally

    def does(self, kind: str, value: Any) -> Number:
        """The result of one operation of a class."""
        self.tally[kind] += 1
        return Number(value, self.tally)

    def __add__(self, other: Any) -> Number:
        return self.does("add", self.value + plain(other))

    def __sub__(self, other: Any) -> Number:
        return self.does("add", self.value - plain(other))

    def __rsub__(self, other: Any) -> Number:
        return self.does("add", plain(other) - self.value)

    def __mul__(self, other: Any) -> Number:
        return self.does("mul", self.value * plain(other))

    def __truediv__(self, other: Any) -> Number:
        return self.does("div", self.value / plain(other))

    def __rtruediv__(self, other: Any) -> Number:
        return self.does("div", plain(other) / self.value)

    def __mod__(self, other: Any) -> Number:
        return self.does("div", self.value % plain(other))

    def __pow__(self, other: Any) -> Number:
        return self.does("pow", self.value ** plain(other))

    def __neg__(self) -> Number:
        return self.does("bit", -self.value)

    def __abs__(self) -> Number:
        return self.does("bit", abs(self.value))

    def __lt__(self, other: Any) -> Number:
        return self.does("cmp", self.value < plain(other))

    def __le__(self, other: Any) -> Number:
        return self.does("cmp", self.value <= plain(other))

    def __gt__(self, other: Any) -> Number:
        return self.does("cmp", self.value > plain(other))

    def __ge__(self, other: Any) -> Number:
        return self.does("cmp", self.value >= plain(other))

    def equals(self, other: Any) -> Number:
        """Whether the values are the same (``==`` is left to Python)."""
        return self.does("cmp", self.value == plain(other))

    def __and__(self, other: Any) -> Number:
        return self.does("bit", self.value & plain(other))

    def __or__(self, other: Any) -> Number:
        return self.does("bit", self.value | plain(other))

    def __xor__(self, other: Any) -> Number:
        return self.does("bit", self.value ^ plain(other))

    def __lshift__(self, other: Any) -> Number:
        return self.does("bit", self.value << plain(other))

    def __rshift__(self, other: Any) -> Number:
        return self.does("bit", self.value >> plain(other))

    __radd__ = __add__
    __rmul__ = __mul__


def plain(x: Any) -> Any:
    """The value of a number; anything else as it is."""
    return x.value if isinstance(x, Number) else x


def mac(total: Any, a: Number, b: Any) -> Number:
    """``total + a * b``, one multiply-accumulate."""
    return a.does("mac", plain(total) + a.value * plain(b))


def minus_mac(total: Any, a: Number, b: Any) -> Number:
    """``total - a * b``, one multiply-accumulate."""
    return a.does("mac", plain(total) - a.value * plain(b))


def weighed(total: Any, a: Number, b: Any) -> Number:
    """``total + a * b`` of an average or a scale, which is no contraction: one multiplication and one addition."""
    return a * b + plain(total)


def minus_weighed(total: Any, a: Number, b: Any) -> Number:
    """``total - a * b``, likewise."""
    return plain(total) - a * b


def larger(a: Any, b: Number) -> Number:
    """The larger of two, one comparison."""
    return b.does("cmp", max(plain(a), b.value))


def smaller(a: Any, b: Number) -> Number:
    """The smaller of two, one comparison."""
    return b.does("cmp", min(plain(a), b.value))


def select(flag: Number, a: Any, b: Any) -> Any:
    """``a`` where the flag is set, else ``b``; both are there already, so nothing is computed."""
    return a if plain(flag) else b


def function(kind: str, of: Callable[[Any], Any]) -> Callable[[Number], Number]:
    """A function of one number that counts as one operation of a class."""
    return lambda x: x.does(kind, of(x.value))


exp = function("exp", math.exp)
log = function("log", math.log)
sqrt = function("sqrt", math.sqrt)
tanh = function("tanh", math.tanh)
erf = function("erf", math.erf)
floor = function("cmp", math.floor)
ceil = function("cmp", math.ceil)
nearest = function("cmp", lambda x: float(np.rint(x)))
sign = function("cmp", lambda x: float(np.sign(x)))
invert = function("bit", lambda x: not x if isinstance(x, bool | np.bool_) else ~x)


def numbers(array: Any, tally: Counter[str]) -> Any:
    """An array of counting numbers with the values of an array."""
    array = np.asarray(array)
    out = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        out[index] = Number(array[index].item(), tally)
    return out


def values(array: Any) -> Any:
    """The plain values of an array of numbers (constants among them stay)."""
    array = np.asarray(array, dtype=object)
    out = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        out[index] = plain(array[index])
    return np.array(out.tolist())


def pointwise(of: Callable[..., Any], *arrays: Any) -> Any:
    """``of`` applied to each element of the broadcast arrays."""
    spread = np.broadcast_arrays(*(np.asarray(a, object) for a in arrays))
    out = np.empty(spread[0].shape, object)
    for index in np.ndindex(out.shape):
        out[index] = of(*(a[index] for a in spread))
    return out
