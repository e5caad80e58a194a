"""Errors that flopwise raises on purpose: each is one line that names the file, the layer and the cure."""

from __future__ import annotations


class FlopwiseError(Exception):
    """Anything flopwise refuses to do; the message is one line, meant for the person at the terminal."""


class ModelError(FlopwiseError):
    """The model cannot be read: missing, truncated, damaged, hostile or in an unknown format."""


class InputError(FlopwiseError):
    """The question is not answerable as asked: an input without a shape, an unknown option value."""


class ShapeError(FlopwiseError):
    """A figure needs a shape that nobody could resolve."""


class OtherFormatError(ModelError):
    """A file is known to be something else than it was taken for."""
