"""The open sizes of a step of a language model: the batch, the tokens in its state and the tokens fed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from flopwise.analyses.formula.domains import OpenShape, Point
from flopwise.analyses.formula.terms import least, symbol
from flopwise.errors import InputError
from flopwise.graph import Tensor

#: Sizes that no other dimension of a model has, by which the symbols are found in the shapes of its inputs: the first
#: that fit into its context.
APART = (
    {"batch": 307, "past": 313, "new": 317},
    {"batch": 11, "past": 89, "new": 29},
    {"batch": 11, "past": 23, "new": 13},
)

#: Sizes at which programs take other ways: nothing before, one token, parts of chunks and windows, and those beyond.
TRIED = {
    "batch": (313, 1, 2),
    "past": (313, 0, 1, 2, 41, 100, 1024, 5003, 70001),
    "new": (317, 1, 2, 3, 16, 37, 64, 65, 100, 128, 256, 1024, 5003),
}

#: Tokens in a state that fill no window.
FEW = 5

Shape: TypeAlias = "Sequence[int | None]"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Batch, past and new tokens, each a number or the name of a symbol."""

    sizes: Mapping[str, int | str]
    #: The most tokens that the model takes; None where nothing says so.
    longest: int | None = None
    #: Whether all sizes are small, for programs that build masks too large to be followed at others.
    small: bool = False

    @classmethod
    def of(
        cls,
        batch_size: int | None,
        past: int | str | None,
        new: int | str | None,
        dims: Mapping[str, int],
        longest: int | None = None,
    ) -> Lengths:
        """The lengths of a request, in which ``dims`` are symbols that have a size.

        Raises:
            InputError: all are numbers.
        """
        sizes = {"batch": "batch" if batch_size is None else batch_size, "past": past or 0, "new": new or 1}
        lengths = cls(
            {kind: dims.get(size, size) if isinstance(size, str) else size for kind, size in sizes.items()}, longest
        )
        if not lengths.symbols:
            raise InputError("no size is open; write a name in place of a number, such as --past past")
        return lengths

    @property
    def symbols(self) -> dict[str, str]:
        """The name of the symbol of each open size: "batch", "past" or "new" -> name."""
        return {kind: size for kind, size in self.sizes.items() if isinstance(size, str)}

    @property
    def distinct(self) -> Mapping[str, int]:
        """Sizes that lie apart, of batch, past and new tokens."""
        fits = (a for a in APART[self.small :] if self.longest is None or a["past"] + a["new"] <= self.longest)
        return next(fits, APART[-1])

    @property
    def hints(self) -> dict[str, int]:
        """Sizes that lie apart, by symbol."""
        return {name: self.distinct[kind] for kind, name in self.symbols.items()}

    @property
    def tried(self) -> dict[str, Sequence[int]]:
        """Sizes at which programs may take other ways, by symbol."""
        first = self.distinct if self.small else {kind: sizes[0] for kind, sizes in TRIED.items()}
        return {name: (first[kind], *TRIED[kind][1:]) for kind, name in self.symbols.items()}

    def fixed(self, point: Point) -> Lengths:
        """The lengths with numbers for those that are smallest at a point."""
        sizes = {
            kind: point[size] if isinstance(size, str) and point[size] <= min(TRIED[kind]) else size
            for kind, size in self.sizes.items()
        }
        return replace(self, sizes=sizes)

    def at(self, point: Point) -> dict[str, int]:
        """Batch, past and new tokens at a point."""
        return {kind: point[size] if isinstance(size, str) else size for kind, size in self.sizes.items()}

    def shapes(
        self,
        inputs: Iterable[Tensor],
        short: Mapping[str, Shape] = MappingProxyType({}),
        long: Mapping[str, Shape] = MappingProxyType({}),
    ) -> list[OpenShape]:
        """The shapes of inputs at ``hints``, in the symbols.

        Args:
            inputs: the inputs at these sizes.
            short: the shapes of the state after few tokens, which say what is a window that is full.
            long: the same after more tokens than any window holds.
        """
        sizes = self.distinct
        names: dict[int, Any] = {sizes[kind]: symbol(name) for kind, name in self.symbols.items()}
        past, new = (
            (sizes[kind], symbol(size)) if isinstance(size, str) else (size, size)
            for kind, size in (("past", self.sizes["past"]), ("new", self.sizes["new"]))
        )
        names.setdefault(past[0] + new[0], past[1] + new[1])

        def term(size: int, before: int | None, after: int | None) -> Any:
            if before == FEW and "past" in self.symbols:
                window = size if before < size < sizes["past"] else after if size == sizes["past"] else None
                if window is not None:
                    return least(symbol(self.symbols["past"]), window)
            return names.get(size, size)

        shapes: list[OpenShape] = []
        for tensor in inputs:
            unknown = (None,) * len(tensor.dims)
            dims = zip(tensor.dims, short.get(tensor.name, unknown), long.get(tensor.name, unknown), strict=True)
            shapes.append((tensor.name, tensor.dtype, tuple([term(int(size), b, a) for size, b, a in dims])))
        return shapes
