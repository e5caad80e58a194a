"""An operator as the lowerings hand it over, and the equation that they make it of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from flopwise.graph import Tensor
from flopwise.operators.size import larger, smaller


class Lowered(NamedTuple):
    """An operator's name, its inputs (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, object] = {}


class Equation(NamedTuple):
    """An application of a primitive: its parameters, and the tensors that it takes and makes."""

    primitive: str
    params: Mapping[str, Any]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: Devices along each named axis of the mesh around it.
    mesh: Mapping[str, int]


#: What makes an operator of an equation.
Lowering: TypeAlias = Callable[[Equation], Lowered]

#: Names of symbolic dimensions -> their sizes, while a function is traced with such.
SYMBOLS: ContextVar[Mapping[str, int]] = ContextVar("SYMBOLS", default={})  # noqa: B039 # nobody writes into it


def extent_of(extent: Any) -> int:
    """An extent as a number; a symbolic one with the sizes of its symbols, term by term."""
    if not hasattr(extent, "_sorted_terms"):
        return int(extent)
    total = 0
    for term, times in extent._sorted_terms:
        product = int(times)
        for factor, power in term._factors:
            for _ in range(power):
                product = _factor(factor) * product
        total = total + product
    return total


def _factor(factor: Any) -> int:
    """A symbol, or an operation on two extents."""
    if factor.var is not None:
        return SYMBOLS.get()[factor.var]
    one, other = map(extent_of, factor.operands)
    if factor.operation == "floordiv":
        return one // other
    if factor.operation == "mod":
        return one % other
    return larger(one, other) if factor.operation == "max" else smaller(one, other)
