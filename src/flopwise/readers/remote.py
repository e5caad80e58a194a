"""Models by URL."""

from __future__ import annotations

from flopwise.errors import ModelError
from flopwise.readers.formats import shown
from flopwise.readers.source import Source


def open_remote(url: str) -> Source:
    """A source for the file behind a URL.

    Raises:
        ModelError: it cannot be read.
    """
    raise ModelError(f"{shown(url)}: models are read from local files; download it first")
