"""Counts: how many operations of each class, and the words in which a row says so.

The classes are fine because conventions weigh them differently: merging later is a dot product, splitting later is
a rewrite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias


class Counts(NamedTuple):
    """Operations by class. Frozen; ``+`` adds, ``*`` scales, ``dot`` weighs.

    mac is a multiply whose product is accumulated; add covers subtraction; cmp covers minimum and maximum; trig covers
    the trigonometric functions and their inverses; bit covers logic on bits and flags, and sign changes.

    >>> (Counts(mac=3, add=1) + Counts(add=1) * 2).add
    3
    """

    mac: int = 0
    add: int = 0
    mul: int = 0
    div: int = 0
    cmp: int = 0
    exp: int = 0
    log: int = 0
    pow: int = 0
    sqrt: int = 0
    trig: int = 0
    tanh: int = 0
    erf: int = 0
    bit: int = 0

    def items(self) -> Iterator[tuple[str, int]]:
        """Pairs of class name and number, in the order of the fields."""
        return zip(CLASSES, self, strict=True)

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override] # numbers add up, they do not concatenate
        return Counts(*map(operator.add, self, other))

    def __mul__(self, factor: int) -> Counts:  # type: ignore[override] # and scale, they do not repeat
        return Counts(*[number * factor for number in self])

    def __rmul__(self, factor: int) -> Counts:  # type: ignore[override] # see __mul__
        return self * factor

    def dot(self, weights: Counts) -> int:
        """The sum over classes of number times weight."""
        return sum(map(operator.mul, self, weights))

    def to_dict(self) -> dict[str, int]:
        """Class name -> number, zeros included."""
        return dict(self.items())


#: Names of the operation classes, in order.
CLASSES: tuple[str, ...] = Counts._fields

#: Weights of a multiply-accumulate count.
MACS = Counts(mac=1)

#: Weights of flopwise's own floating-point operations: two for a multiply-accumulate, one for every other arithmetic
#: operation. ``bit`` is not arithmetic: logic on flags and sign changes (IEEE 754-2019, 5.5.1) cost no FLOP.
FLOPS = Counts(mac=2, **{name: 1 for name in CLASSES if name not in ("mac", "bit")})


#: One sigmoid, 1 / (1 + exp(−x)); x × it; one element of a softmax: maximum, difference, exponential, sum, division.
SIGMOID = Counts(bit=1, exp=1, add=1, div=1)
SILU = Counts(bit=1, exp=1, add=1, div=1, mul=1)
SOFTMAX = Counts(cmp=1, add=2, exp=1, div=1)

#: log(1 + exp(x)).
SOFTPLUS = Counts(exp=1, add=1, log=1)

#: RMSNormalization with a scale: for each element, and for each row of elements.
RMS = Counts(mul=2, add=1, div=1)
RMS_ROW = Counts(div=1, add=1, sqrt=1)


def total(counts: Iterable[Counts]) -> Counts:
    """The sum, column by column: with thousands of layers, adding one after the other takes several times as long."""
    columns = list(zip(*counts, strict=True))
    return Counts(*map(sum, columns)) if columns else Counts()


def words(counts: Counts) -> str:
    """The classes that are not zero, as a formula shows them.

    >>> words(Counts(mul=1, add=2))
    '(2 add + 1 mul)'
    >>> words(Counts(exp=1))
    '1 exp'
    """
    terms = [f"{n} {name}" for name, n in counts.items() if n]
    return f"({' + '.join(terms)})" if len(terms) > 1 else "".join(terms)


#: A text, or what makes it: most runs show no formula.
Note: TypeAlias = "str | Callable[[], str]"


def text(note: Note) -> str:
    """The text of a note."""
    return note if isinstance(note, str) else note()


def first_paragraph(function: Callable[..., object]) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())
