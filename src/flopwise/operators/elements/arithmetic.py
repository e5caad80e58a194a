"""Elements of what works element by element, and of reductions."""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable, Sequence

from flopwise.operators.elements.places import picked, spread
from flopwise.operators.shape import Call, Element, Elements
from flopwise.operators.size import Dims, Most, UnresolvedError, axis_of, larger, smaller

_Rule = Callable[[Call, Sequence[Dims]], Elements]

#: Bits of the integers that wrap around or saturate where their type ends.
_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}

#: Floating-point types that round what Python computes in 64 bits, as `struct` writes them.
_NARROW = {"float32": "f", "float16": "e"}


def held(element: Element, dtype: str | None) -> Element:
    """A result as its element type has it; None where the type's own arithmetic would give something else."""
    if type(element) is int:
        bits = _BITS.get(dtype or "", 0)
        if bits and not (-(1 << bits - 1) <= element < 1 << bits - 1 if dtype[0] == "i" else 0 <= element < 1 << bits):  # type: ignore[index]
            return None
    elif type(element) is float and dtype in _NARROW:
        try:
            narrow: float = struct.unpack(_NARROW[dtype], struct.pack(_NARROW[dtype], element))[0]
        except OverflowError:
            return None
        return narrow
    elif type(element) is float and dtype == "bfloat16":
        return element if element.is_integer() and abs(element) <= 1 << 8 else None
    return element


def _each(function: Callable[..., object]) -> _Rule:
    """The rule of an operator on each element, broadcast."""

    def rule(call: Call, shapes: Sequence[Dims]) -> Elements:
        inputs = [place for place in range(call.inputs) if call.has(place)]
        columns = [spread(call.elements(place), call.shape(place), shapes[0]) for place in inputs]
        dtype = call.dtype(0)
        return [
            tuple([None if None in row else held(_tried(function, row), dtype) for row in zip(*columns, strict=True)])
        ]

    return rule


def _tried(function: Callable[..., object], row: Sequence[object]) -> object:
    try:
        return function(*row)
    except (ArithmeticError, UnresolvedError, TypeError, ValueError):
        return None


def _folded(function: Callable[[Element, Element], Element]) -> _Rule:
    """The rule of an operator that takes any number of inputs two by two."""
    return _each(lambda *row: functools.reduce(function, row))


def quotient(a: object, b: Element) -> object:
    """a / b; of integers towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        if b >= 0 if type(b) is Most else b > 0:  # by 0 nothing is divided
            return a // b if a >= 0 else -(-a // b)
        return -(a // -b) if a >= 0 else -a // -b
    return a / b


def _power(a: Element, b: Element) -> Element:
    if isinstance(a, int) and type(b) is float and b.is_integer():
        b = int(b)
    if type(a) is float and type(b) not in (int, float):
        return None
    if abs(b) > 64 and abs(a) > 1:
        return None
    raised = a**b
    return None if isinstance(raised, complex) else raised


def least(a: Element, b: Element) -> Element:
    return smaller(a, b) if isinstance(a, int) and isinstance(b, int) else min(a, b)


def largest(a: Element, b: Element) -> Element:
    return larger(a, b) if isinstance(a, int) and isinstance(b, int) else max(a, b)


def _equal(a: Element, b: Element) -> bool | None:
    if type(a) is Most or type(b) is Most:
        if type(b) is Most:
            a, b = b, a
        low, high = (b.low, b.high) if type(b) is Most else (b, b)
        return False if a.high < low or high < a.low else None
    return bool(a == b)


def _rounded(way: Callable[[Element], Element]) -> _Rule:
    """The rule of an operator that makes numbers whole, which keep their element type."""

    def rule(call: Call, shapes: Sequence[Dims]) -> Elements:
        def whole(x: Element) -> Element:
            if isinstance(x, int):
                return x
            number = way(x) if type(x) is float else x.rounded_to(way, call.dtype(0))
            return float(number) if type(number) is int else number.ratio()

        return _each(whole)(call, shapes)

    return rule


def _root(x: Element) -> Element:
    return math.sqrt(x) if type(x) in (int, float) else None


def _remainder_as_dividend(a: Element, b: Element) -> Element:
    if type(a) is float:
        return math.fmod(a, b)
    return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))


def _remainder(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The remainder has the sign of the divisor, with fmod that of what is divided."""
    if call.attr("fmod", 0):
        return _each(_remainder_as_dividend)(call, shapes)
    return _each(lambda a, b: a % b)(call, shapes)


add = _each(operator.add)
subtract = _each(operator.sub)
multiply = _each(operator.mul)
divide = _each(quotient)
remainder = _remainder
power = _each(_power)
square_root = _each(_root)
negate = _each(operator.neg)
absolute = _each(abs)
floor = _rounded(math.floor)
ceil = _rounded(math.ceil)
round_ = _rounded(round)
positive = _each(lambda x: largest(x, type(x)(0) if type(x) in (int, float) else 0))
sign = _each(lambda x: (x > 0) - (x < 0))
equal = _each(_equal)
greater = _each(lambda a, b: bool(a > b))
greater_or_equal = _each(lambda a, b: bool(a >= b))
less = _each(lambda a, b: bool(a < b))
less_or_equal = _each(lambda a, b: bool(a <= b))
not_ = _each(operator.not_)
and_ = _each(lambda a, b: bool(a) and bool(b))
or_ = _each(lambda a, b: bool(a) or bool(b))
xor = _each(lambda a, b: bool(a) != bool(b))
total = _folded(operator.add)
minimum = _folded(least)
maximum = _folded(largest)


def clipped(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Between two bounds, either of which may be left out."""
    low, high = (
        call.elements(place)[0] if call.has(place) else call.attr(name) for place, name in ((1, "min"), (2, "max"))
    )
    results = []
    for x in call.elements(0):
        if x is not None and low is not None:
            x = largest(x, low)
        if x is not None and high is not None:
            x = least(x, high)
        results.append(None if (low is None and call.has(1)) or (high is None and call.has(2)) else x)
    return [tuple(results)]


def selected(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One of two by a flag; between both where the flag is not known."""
    flags, yes, no = (_open_or(call, place, shapes[0]) for place in range(3))
    return [tuple([_chosen(*row) for row in zip(flags, yes, no, strict=True)])]


def _open_or(call: Call, place: int, shape: Dims) -> tuple[object, ...]:
    try:
        return spread(call.elements(place), call.shape(place), shape)
    except UnresolvedError:
        extents = call.shape(place)
        if not all(type(n) is int for n in extents):
            raise
        return (None,) * math.prod(shape)


def _chosen(flag: object, yes: object, no: object) -> object:
    if flag is not None:
        return yes if flag else no
    if yes is no or (type(yes) is type(no) and type(yes) in (int, float, bool) and yes == no):
        return yes
    if not isinstance(yes, int) or not isinstance(no, int):
        return None
    low = smaller(yes.low if type(yes) is Most else yes, no.low if type(no) is Most else no)
    high = larger(yes.high if type(yes) is Most else yes, no.high if type(no) is Most else no)
    return Most(high, low)


def _reduced(function: Callable[[list[Element]], Element]) -> _Rule:
    """The rule of a reduction along axes."""

    def rule(call: Call, shapes: Sequence[Dims]) -> Elements:
        x, data, named = call.shape(0), call.elements(0), call.settings("axes", 1)
        if not named and call.attr("noop_with_empty_axes", 0):
            return [data]
        axes = {axis_of(axis, len(x)) for axis in named or range(len(x))}
        starts = picked(x, [[0] if axis in axes else range(n) for axis, n in enumerate(x)])
        offsets = picked(x, [range(n) if axis in axes else [0] for axis, n in enumerate(x)])
        groups = [[data[start + place] for place in offsets] for start in starts]
        dtype = call.dtype(0)
        return [tuple([None if None in group else held(_tried(function, (group,)), dtype) for group in groups])]

    return rule


def _mean(group: list[Element]) -> object:
    return sum(group) / len(group) if isinstance(group[0], float) else quotient(sum(group), len(group))


sum_of = _reduced(sum)
product_of = _reduced(lambda group: functools.reduce(operator.mul, group, 1))
largest_of = _reduced(lambda group: functools.reduce(largest, group))
smallest_of = _reduced(lambda group: functools.reduce(least, group))
mean_of = _reduced(_mean)


def summed_up(call: Call, shapes: Sequence[Dims]) -> Elements:
    """CumSum of a vector."""
    data = list(call.elements(0))
    if len(call.shape(0)) != 1:
        raise UnresolvedError
    if call.attr("reverse", 0):
        data.reverse()
    sums, so_far = [], data[0] * 0 if data and data[0] is not None else 0
    for element in data:
        before = so_far
        so_far = None if so_far is None or element is None else so_far + element
        sums.append(before if call.attr("exclusive", 0) else so_far)
    return [tuple(sums[::-1] if call.attr("reverse", 0) else sums)]


def converted(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements in another type: whole numbers, ratios or flags."""
    target = call.dtype(1) if call.op == "CastLike" else call.type_attribute("to", "float32")
    convert = _CONVERSIONS.get(target.rstrip("0123456789").replace("bfloat", "float"))
    if convert is None:
        raise UnresolvedError
    before = call.dtype(0)
    return [tuple([None if x is None else held(_tried(convert, (x, before)), target) for x in call.elements(0)])]


def _to_whole(x: Element, before: str) -> Element:
    if isinstance(x, int):
        return x + 0 if type(x) is bool else x
    return int(x) if type(x) in (float, str) else x.rounded_to(math.trunc, before)


def _to_float(x: Element, before: str) -> Element:
    if type(x) in (int, bool, str):
        return float(x)
    return x if type(x) in (float, Most) or isinstance(x, float) else x.ratio()


def _to_flag(x: object, before: str) -> object:
    return bool(x)


_CONVERSIONS: dict[str, Callable[[Element, str], Element]] = {
    "int": _to_whole,
    "uint": _to_whole,
    "float": _to_float,
    "bool": _to_flag,
}
