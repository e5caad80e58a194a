"""Counts: how many operations of each class.

The classes are fine because conventions weigh them differently: merging later is a dot product, splitting later is
a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Counts:
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
        return ((name, getattr(self, name)) for name in CLASSES)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in CLASSES))

    def __mul__(self, factor: int) -> Counts:
        return Counts(*(getattr(self, name) * factor for name in CLASSES))

    __rmul__ = __mul__

    def dot(self, weights: Counts) -> int:
        """The sum over classes of number times weight."""
        products: list[int] = [getattr(self, name) * getattr(weights, name) for name in CLASSES]
        return sum(products)

    def to_dict(self) -> dict[str, int]:
        """Class name -> number, zeros included."""
        return dict(self.items())


#: Names of the operation classes, in order.
CLASSES: tuple[str, ...] = tuple(f.name for f in fields(Counts))

#: Weights of a multiply-accumulate count.
MACS = Counts(mac=1)

#: Weights of flopwise's own floating-point operations: two for a multiply-accumulate, one for every other arithmetic
#: operation. ``bit`` is not arithmetic: logic on flags and sign changes (IEEE 754-2019, 5.5.1) cost no FLOP.
FLOPS = Counts(mac=2, **{name: 1 for name in CLASSES if name not in ("mac", "bit")})
