"""Arithmetic on complex numbers in real operations, which is what machines execute and what counts are of.

The count of a row is of operations on elements. Where these are complex numbers, each operation is so many on their
real and imaginary parts, by its class; an operator that is computed in another way says so in its row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import is_complex
from flopwise.operators.counts import Counts

#: (a + bi)(c + di); |a + bi|.
PRODUCT = Counts(mul=4, add=2)
MODULUS = Counts(mul=2, add=1, sqrt=1)

#: eᵃ (cos b + i sin b); log |z| and the angle of z, the arc tangent of a quotient.
_EXPONENTIAL = Counts(exp=1, trig=2, mul=2)
_LOGARITHM = MODULUS + Counts(log=1, div=1, trig=1)

#: What one operation on complex numbers takes, by its class. A quotient is the product with the conjugate over |z|²; a
#: root t = √((|z| + |a|) / 2) and b / 2t; a power exp(w log z). The larger of two is that of |a| + |b|, as pivots are
#: chosen. Of functions that are not here there is no count but in the row of the operator.
OPERATIONS: dict[str, Counts] = {
    "mac": Counts(mac=4),
    "add": Counts(add=2),
    "mul": PRODUCT,
    "div": PRODUCT + Counts(mul=2, add=1, div=2),
    "cmp": Counts(cmp=1, add=1),
    "exp": _EXPONENTIAL,
    "log": _LOGARITHM,
    "pow": _LOGARITHM + PRODUCT + _EXPONENTIAL,
    "sqrt": MODULUS + Counts(add=1, mul=2, sqrt=1, div=1),
    "bit": Counts(bit=2),
}


class Complex(NamedTuple):
    """The real operations that an operator executes on complex numbers."""

    rule: Callable[[Node], Counts]
    #: Its gradient, for the places of the inputs whose gradients are asked for; None when nobody wrote it down.
    gradient: Callable[[Node, frozenset[int]], Counts] | None = None


def of_each(once: Counts, gradient: Counts | None = None) -> Complex:
    """The given operations for each element of output 0, and those of the gradient."""
    return of_sums(Counts(), once, None if gradient is None else (Counts(), gradient))


def of_sums(per_element: Counts, per_result: Counts, gradient: tuple[Counts, Counts] | None = None) -> Complex:
    """The given operations for each element of input 0 and of output 0, and those of the gradient."""

    def rule(node: Node) -> Counts:
        return per_element * node.input(0).numel + per_result * node.output().numel

    if gradient is None:
        return Complex(rule)
    element, result = gradient
    return Complex(rule, lambda node, wrt: element * node.input(0).numel + result * node.output().numel)


def takes_or_makes(node: Node) -> bool:
    """True where a node takes or makes complex numbers."""
    return _any_complex(node.inputs) or _any_complex(node.outputs)


def in_real_operations(node: Node, counts: Counts) -> Counts:
    """Operations on complex numbers in real ones, for an operator that has no rule of its own for them.

    Raises:
        ShapeError: nobody says what it takes: its result is real, or it computes a function that is not one of the
            classes.
    """
    if not any(counts):
        return counts
    unknown = [name for name, number in counts.items() if number and name not in OPERATIONS]
    if unknown or not _any_complex(node.outputs):
        raise ShapeError(f"{node.op} {node.name!r} has no count for complex numbers")
    parts = (OPERATIONS[name] * number for name, number in counts.items() if number)
    return sum(parts, Counts())


def _any_complex(tensors: Sequence[Tensor | None]) -> bool:
    return any(tensor is not None and is_complex(tensor.dtype) for tensor in tensors)


#: sin (a + bi) = sin a cosh b + i cos a sinh b, and its kin; tanh (a + bi) = (sinh 2a + i sin 2b) / (cosh 2a + cos 2b).
#: Both hyperbolic functions are made of one exponential and its reciprocal.
_WAVE = Counts(trig=2, exp=1, div=1, add=2, mul=4)
WAVE = of_each(_WAVE, _WAVE + PRODUCT)
TANGENT = of_each(Counts(trig=2, exp=1, div=3, add=3, mul=4), PRODUCT * 2 + Counts(add=2))
