"""Results as others see them: reports for ``print`` and notebooks, and fields by their names for JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

from flopwise.answers import as_html, as_text

#: An object of JSON: plain values by their keys.
Json: TypeAlias = "dict[str, Any]"


class Printed:
    """A result that ``print`` shows as its command does, and a notebook as HTML where it has one."""

    __slots__ = ()

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str | None:
        """The result in HTML for a notebook; None leaves it to ``repr``."""
        return as_html(self)


def fields(item: object, names: str) -> Json:
    """Attributes of an object by their own names, in this order, for JSON.

    >>> fields(3 + 4j, "real imag")
    {'real': 3.0, 'imag': 4.0}
    """
    return {name: getattr(item, name) for name in names.split()}
