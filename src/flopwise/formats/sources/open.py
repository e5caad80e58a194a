"""Opens what a model is named by (a path, a URL, bytes, a stream), and names the format of what is no model."""

from __future__ import annotations

import os

from flopwise._kinds import described
from flopwise.errors import ModelError, OtherFormatError
from flopwise.formats.sources.location import is_url, shown
from flopwise.formats.sources.source import BytesSource, FileSource, Source, StreamSource, by_content, by_name


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
    raise ModelError(f"cannot read a model from {described(thing)}; give a path, bytes or an open binary file")


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
    from flopwise.formats.sources.remote import RemoteSource

    if scheme in ("http", "https"):
        from flopwise.formats.sources.remote import Http

        return RemoteSource(shown(url), Http(url))
    from flopwise.formats.sources.remote import Fsspec

    return RemoteSource(shown(url), Fsspec(url))


def refuse_other_formats(source: Source) -> None:
    """Refuse what cannot be an ONNX file.

    Raises:
        ModelError: the source is empty, or is known to be something else.
    """
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    if source.name.endswith(".py"):
        names = ", ".join(_defined(source)) or "no function, class or instance"
        raise ModelError(f"{source.name}: Python code; say what makes the model, as {source.name}:NAME; it has {names}")
    if what := by_content(source.read(0, min(source.size, 32)), source.name):
        raise ModelError(f"{source.name}: not an ONNX model but {what}")


def refuse_other_names(source: Source) -> None:
    """Refuse a file that is no ONNX model by what it seems to be: a model may have any name and begin with text.

    Raises:
        ModelError: it has the name of another format's files; OtherFormatError: its first kilobyte is printable ASCII
            and line ends.
    """
    if what := by_name(source.name):
        raise ModelError(f"{source.name}: not an ONNX model but, by its name, {what}")
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in source.read(0, min(source.size, 1024))):
        raise OtherFormatError(f"{source.name}: not an ONNX model but text")


def _defined(source: Source) -> list[str]:
    """Names of the classes, functions and assigned calls of a Python file, which is not run."""
    import ast

    try:
        body = ast.parse(source.read(0, min(source.size, 1 << 20))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = [thing.name for thing in body if isinstance(thing, (ast.ClassDef, ast.FunctionDef))]
    calls = (thing for thing in body if isinstance(thing, ast.Assign) and isinstance(thing.value, ast.Call))
    names += (target.id for call in calls for target in call.targets if isinstance(target, ast.Name))
    return [name for name in names if not name.startswith("_")][:20]
