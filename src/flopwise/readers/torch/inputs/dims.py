"""The sizes of named dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.errors import UnknownDimensionError


class Dims:
    """The sizes that the caller gives by name, and the names that were looked up."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self._names: set[str] = set()

    def find(self, name: str) -> int | None:
        """The size of this name; None where none is given."""
        self._names.add(name)
        return self._sizes.get(name)

    def knows(self, name: str) -> bool:
        """True if a size of this name is given."""
        return name in self._sizes and self.find(name) is not None

    def get(self, name: str, default: int) -> int:
        """The size of this name, else the default."""
        size = self.find(name)
        return default if size is None else size

    def check(self) -> None:
        """Refuse sizes of names that nobody has looked up.

        Raises:
            UnknownDimensionError: there is one.
        """
        for name in self._sizes.keys() - self._names:
            known = tuple(sorted(self._names))
            raise UnknownDimensionError(
                f"no input has a dimension named {name!r}; the named dimensions are: {', '.join(known) or 'none'}",
                name,
                known,
            )
