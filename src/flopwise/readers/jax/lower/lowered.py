"""An operator as the lowerings hand it over, and the equation that they make it of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from flopwise.graph import Tensor


class Lowered(NamedTuple):
    """An operator's name, its inputs (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, Any] = {}


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
