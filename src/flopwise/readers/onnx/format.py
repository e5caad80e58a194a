"""ONNX in the table of formats. What is not a path, and what has an ending that is unknown, is taken for it.

A file of another format is recognised by its first bytes, so that it is named in the error instead of misread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from flopwise.errors import ModelError, OtherFormatError
from flopwise.readers.format import Format, ends_in
from flopwise.readers.options import OnnxOptions

if TYPE_CHECKING:
    from flopwise.graph import Graph
    from flopwise.readers.source.source import Source
    from flopwise.readers.weights.tensor import StoredTensors

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
    """Nothing, for what may be an ONNX file.

    Raises:
        ModelError: the source is empty; OtherFormatError: it is known to be something else.
    """
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    if source.name.endswith(".py"):
        made = ", ".join(_defined(source)) or "no function or class"
        raise ModelError(f"{source.name}: Python code; say what makes the model, as {source.name}:NAME; it has {made}")
    head = source.read(0, min(source.size, 32))
    for start, what in _OTHERS:
        if head.startswith(start):
            raise OtherFormatError(f"{source.name}: not an ONNX model but {what}")
    if _is_text(head):
        raise OtherFormatError(f"{source.name}: not an ONNX model but text")
    if head[4:8] == b"TFL3":
        raise ModelError(f"{source.name}: not an ONNX model but a TensorFlow Lite model; convert it to ONNX")


def _is_text(head: bytes) -> bool:
    """Whether nothing is in it but printable ASCII and line ends; what a model begins with is not."""
    return all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head)


def _defined(source: Source) -> list[str]:
    """Names of the classes and functions that a Python file defines; it is not run."""
    import ast

    try:
        body = ast.parse(source.read(0, min(source.size, 1 << 20))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    made = (ast.ClassDef, ast.FunctionDef)
    return [thing.name for thing in body if isinstance(thing, made) and not thing.name.startswith("_")][:20]


def _matches(model: object) -> bool:
    return not isinstance(model, (str, os.PathLike)) or ends_in(model, ONNX.endings)


def _read(model: object, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: OnnxOptions) -> Graph:
    from flopwise.readers.onnx.read import read_onnx

    return read_onnx(model, inputs, dims, batch_size, options, progress)


def _stored(model: object, inputs: Any, dims: Any, batch_size: Any, options: OnnxOptions) -> StoredTensors:
    from flopwise.readers.onnx.read import read_stored
    from flopwise.readers.weights.graphs import of_graph

    return of_graph(read_stored(model, inputs=inputs, dims=dims, batch_size=batch_size, options=options))


ONNX = Format(
    "onnx",
    "ONNX models",
    _read,
    endings=(".onnx",),
    matches=_matches,
    options=OnnxOptions,
    stored=_stored,
    in_directories=(".onnx",),
    formulas=True,
    writable=True,
)
