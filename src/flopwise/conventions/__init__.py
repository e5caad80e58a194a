"""How published tools and texts add operations up: one file each, merged here."""

from __future__ import annotations

from flopwise.conventions import benanza, molchanov, onnx_tool, own, textbook
from flopwise.conventions.convention import Convention, Override
from flopwise.errors import InputError

__all__ = ["CONVENTIONS", "Convention", "Override", "get"]

#: Every convention by name, flopwise's own first.
CONVENTIONS: dict[str, Convention] = {
    c.name: c
    for c in (
        *own.CONVENTIONS,
        textbook.CONVENTION,
        molchanov.CONVENTION,
        benanza.CONVENTION,
        onnx_tool.CONVENTION,
    )
}


def get(name: str | Convention) -> Convention:
    """The convention of that name; a Convention is returned as it is.

    Raises:
        InputError: there is none of that name.
    """
    if isinstance(name, Convention):
        return name
    if name not in CONVENTIONS:
        raise InputError(f"unknown convention {name!r}; known: {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]
