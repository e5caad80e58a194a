"""Tell models from other XML files by their content."""

from __future__ import annotations

from flopwise.formats.sources.source import head

#: Bytes in which the root of a model begins.
HEAD = 4096


def is_net(head: bytes) -> bool:
    """True where bytes begin as the XML of a model.

    >>> is_net(b'<?xml version="1.0"?><net name="m">'), is_net(b"<project/>")
    (True, False)
    """
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"<net " in head


def is_net_file(path: str) -> bool:
    """True where a file begins as a model."""
    return is_net(head(path, HEAD))
