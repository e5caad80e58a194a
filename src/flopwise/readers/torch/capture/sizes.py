"""Sizes that a program may be handed in place of plain numbers: integers that carry an expression along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from flopwise.graph import Tensor


class Sizes(Protocol):
    """What knows more about sizes than their numbers, and learns it from the operations of a run."""

    def start(self) -> None:
        """A run begins; what is known of an earlier one is forgotten."""

    def shape(self, tensor: Tensor) -> tuple[int, ...] | None:
        """The extents that a program gets to see; None where they are plain numbers."""

    def made(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Tensor]) -> None:
        """An operation was recorded.

        Args:
            name: the ATen name with its namespace.
            args: what it was called with, with graph tensors, and with sizes as the program passed them.
            kwargs: likewise.
            outputs: its results.
        """


#: What hands out sizes in the runs of this context.
HANDED_OUT: ContextVar[Sizes | None] = ContextVar("sizes", default=None)


def plain(thing: Any) -> Any:
    """An argument with plain numbers in place of sizes."""
    kind = thing.__class__
    if kind is int or kind is float or kind is bool or kind is str:
        return thing
    if isinstance(thing, tuple):
        return kind([plain(part) for part in thing]) if not hasattr(thing, "_fields") else thing
    if kind is list:
        return [plain(part) for part in thing]
    if kind is dict:
        return {key: plain(part) for key, part in thing.items()}
    if kind is slice:
        return slice(plain(thing.start), plain(thing.stop), plain(thing.step))
    if isinstance(thing, int) and hasattr(thing, "expression"):
        return int(thing)
    return float(thing) if isinstance(thing, float) and hasattr(thing, "over") else thing
