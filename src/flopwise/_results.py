"""Results as others see them: reports for ``print`` and notebooks, and fields by their names for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: An object of JSON: plain values by their keys.
Json: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A result with the functions that write it; without them it is shown as its ``repr``."""

    #: Writes it for ``print``.
    renderer: Callable[[object], str] | None = field(default=None, repr=False, compare=False)
    #: Writes it as HTML for a notebook.
    html_renderer: Callable[[object], str] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)

    def _repr_html_(self) -> str | None:
        """The result in HTML for a notebook; None leaves it to ``repr``."""
        return self.html_renderer(self) if self.html_renderer else None


def fields(item: object, names: str) -> Json:
    """Attributes of an object by their own names, in this order, for JSON.

    >>> fields(3 + 4j, "real imag")
    {'real': 3.0, 'imag': 4.0}
    """
    return {name: getattr(item, name) for name in names.split()}
