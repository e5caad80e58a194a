"""The open sizes of a step of a language model: the batch, the tokens in its state and the tokens fed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flopwise.analyses.formula.subject import OpenShape, Point
from flopwise.analyses.formula.terms.bounds import least
from flopwise.analyses.formula.terms.polynomial import symbol
from flopwise.errors import InputError
from flopwise.graph import Tensor

#: Sizes that no other dimension of a model has, by which the symbols are found in the shapes of its inputs.
APART = {"batch": 11, "past": 1013, "new": 29}

#: Tokens in a state that fill no window.
FEW = 5


@dataclass(frozen=True, slots=True)
class Lengths:
    """Batch, past and new tokens, each a number or the name of a symbol."""

    sizes: Mapping[str, int | str]

    @classmethod
    def of(
        cls, batch_size: int | None, past: int | str | None, new: int | str | None, dims: Mapping[str, int]
    ) -> Lengths:
        """The lengths of a request, in which ``dims`` are symbols that have a size.

        Raises:
            InputError: all are numbers.
        """
        lengths = {"batch": "batch" if batch_size is None else batch_size, "past": past or 0, "new": new or 1}
        made = cls({kind: dims.get(size, size) if isinstance(size, str) else size for kind, size in lengths.items()})
        if not made.symbols:
            raise InputError("no size is open; write a name in place of a number, such as --past past")
        return made

    @property
    def symbols(self) -> dict[str, str]:
        """What is open, and the name of its symbol."""
        return {kind: size for kind, size in self.sizes.items() if isinstance(size, str)}

    @property
    def hints(self) -> dict[str, int]:
        """Sizes that lie apart, by symbol."""
        return {name: APART[kind] for kind, name in self.symbols.items()}

    def at(self, point: Point) -> dict[str, int]:
        """Batch, past and new tokens at a point."""
        return {kind: point[size] if isinstance(size, str) else size for kind, size in self.sizes.items()}

    def shapes(
        self, inputs: Iterable[Tensor], state: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    ) -> list[OpenShape]:
        """The shapes of inputs at ``hints``, in the symbols.

        Args:
            inputs: the inputs at these sizes.
            state: the shapes of the state after few tokens, which say what a full window is.
        """
        names: dict[int, Any] = {APART[kind]: symbol(name) for kind, name in self.symbols.items()}
        past, new = (
            (APART[kind], symbol(size)) if isinstance(size, str) else (size, size)
            for kind, size in (("past", self.sizes["past"]), ("new", self.sizes["new"]))
        )
        names.setdefault(past[0] + new[0], past[1] + new[1])

        def term(size: int, few: int | None) -> Any:
            if few == FEW and few < size < APART["past"] and "past" in self.symbols:
                return least(symbol(self.symbols["past"]), size)  # a window that is full
            return names.get(size, size)

        shapes: list[OpenShape] = []
        for tensor in inputs:
            before = state.get(tensor.name, ())
            fews = before if len(before) == len(tensor.dims) else (None,) * len(tensor.dims)
            dims = tuple([term(int(size), few) for size, few in zip(tensor.dims, fews, strict=True)])
            shapes.append((tensor.name, tensor.dtype, dims))
        return shapes
