"""Opens what a model is named by (a path, a URL, bytes, a stream), and names the format of what is no model."""

from __future__ import annotations

import os

from flopwise._kinds import described
from flopwise.errors import ModelError, OtherFormatError
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
    from flopwise.readers.source.remote import RemoteSource

    if scheme in ("http", "https"):
        from flopwise.readers.source.http import Http

        return RemoteSource(shown(url), Http(url))
    from flopwise.readers.source.remote import Fsspec

    return RemoteSource(shown(url), Fsspec(url))


_PICKLE = "a Python pickle, which is never loaded; export the model to ONNX"

#: First bytes of what people hand over by mistake, and what to do about it.
_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive (a PyTorch checkpoint or TorchScript file?); export the model to ONNX"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    *((b"\x80" + version, _PICKLE) for version in (b"\x02", b"\x03", b"\x04", b"\x05")),
    (b"\x89HDF\r\n", "an HDF5 file; convert the model to ONNX"),
    (b"\x1f\x8b", "gzip data; unpack it first"),
    (b"BZh", "bzip2 data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (b"(\xb5/\xfd", "zstd data; unpack it first"),
    (b"GGUF", "a GGUF weight file; it holds no graph"),
    (b"\x93NUMPY", "a NumPy array; it holds no graph"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file with 'git lfs pull'"),
    *((start, "an HTML page; the download went wrong") for start in (b"<!DOCTYPE", b"<!doctype", b"<html")),
)


def refuse_other_formats(source: Source) -> None:
    """Refuse what cannot be an ONNX file.

    Raises:
        ModelError: the source is empty; OtherFormatError: it is known to be something else.
    """
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    if source.name.endswith(".py"):
        names = ", ".join(_defined(source)) or "no function or class"
        raise ModelError(f"{source.name}: Python code; say what makes the model, as {source.name}:NAME; it has {names}")
    head = source.read(0, min(source.size, 32))
    for start, what in _OTHERS:
        if head.startswith(start):
            raise OtherFormatError(f"{source.name}: not an ONNX model but {what}")
    if head[4:8] == b"TFL3":
        raise ModelError(f"{source.name}: not an ONNX model but a TensorFlow Lite model; convert it to ONNX")


def refuse_text(source: Source) -> None:
    """Refuse a file of text, for one that is no ONNX model: a model may begin with its documentation.

    Raises:
        OtherFormatError: its first kilobyte is printable ASCII and line ends.
    """
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in source.read(0, min(source.size, 1024))):
        raise OtherFormatError(f"{source.name}: not an ONNX model but text")


def _defined(source: Source) -> list[str]:
    """Names of the classes and functions that a Python file defines; it is not run."""
    import ast

    try:
        body = ast.parse(source.read(0, min(source.size, 1 << 20))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [thing.name for thing in body if isinstance(thing, kinds) and not thing.name.startswith("_")][:20]
