"""The parts of a jaxpr that are read; JAX's own have them, and so do the programs that a StableHLO module becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard


class Atom(Protocol):
    """A variable or a literal."""

    @property
    def aval(self) -> object: ...


class Literal(Atom, Protocol):
    """A number that stands in the program."""

    @property
    def val(self) -> object: ...


class JaxprEqn(Protocol):
    """A primitive applied to atoms."""

    @property
    def primitive(self) -> Any: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def invars(self) -> Sequence[Atom]: ...
    @property
    def outvars(self) -> Sequence[Atom]: ...
    @property
    def source_info(self) -> Any: ...


class Jaxpr(Protocol):
    """Equations in order, between the variables that they take and the atoms that they give back."""

    @property
    def invars(self) -> Sequence[Atom]: ...
    @property
    def constvars(self) -> Sequence[Atom]: ...
    @property
    def eqns(self) -> Sequence[JaxprEqn]: ...
    @property
    def outvars(self) -> Sequence[Atom]: ...


class Closed(Protocol):
    """A program with its constants."""

    @property
    def jaxpr(self) -> Jaxpr: ...
    @property
    def consts(self) -> Sequence[Any]: ...


def is_literal(atom: Atom) -> TypeGuard[Literal]:
    return hasattr(atom, "val")
