"""Opens what a model is named by: a path, a URL, bytes, or an open stream."""

from __future__ import annotations

import os

from flopwise.errors import ModelError, with_article
from flopwise.readers.source.location import is_url, shown
from flopwise.readers.source.source import BytesSource, FileSource, Source, StreamSource


def open_source(thing: object) -> Source:
    """A source for a path, a URL, bytes or an open binary stream.

    Raises:
        ModelError: it is none of these, or cannot be read.
    """
    if is_url(thing):
        return _open_remote(str(thing))
    if isinstance(thing, (str, os.PathLike)):
        return FileSource(thing)
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return BytesSource(thing)
    if hasattr(thing, "read") and hasattr(thing, "seek") and hasattr(thing, "tell"):
        return StreamSource(thing)  # type: ignore[arg-type] # duck-typed: anything that reads and seeks
    raise ModelError(
        f"cannot read a model from {with_article(type(thing).__name__)}; give a path, bytes or an open binary file"
    )


def _open_remote(url: str) -> Source:
    """A source for the file behind a URL.

    Raises:
        ModelError: it is not there, does not come in ranges, or needs a library that is not installed.
    """
    scheme = url.partition("://")[0].lower()
    if scheme == "file":
        import urllib.parse
        import urllib.request

        parts = urllib.parse.urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise ModelError(f"{url}: a file on another machine; give it by http, or copy it")
        return FileSource(urllib.request.url2pathname(parts.path))
    from flopwise.readers.source.remote import RemoteSource

    if scheme in ("http", "https"):
        from flopwise.readers.source.http import Http

        return RemoteSource(shown(url), Http(url))
    from flopwise.readers.source.remote import Fsspec

    return RemoteSource(shown(url), Fsspec(url))
