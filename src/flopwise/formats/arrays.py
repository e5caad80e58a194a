"""Arrays in NumPy's files: shape and type from the header, elements only where they are few. Nothing is ever unpickled.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy
from numpy.lib import format as npy

from flopwise.errors import FlopwiseError, InputError
from flopwise.formats.weights.storage import refuse_rare_compression
from flopwise.graph.stored import DType

#: Bytes that these may take; only words are that long.
ROOM = 1 << 20

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True, slots=True)
class Held:
    """An array in a file."""

    shape: tuple[int, ...]
    dtype: DType
    #: The elements; None when there are more than were asked for.
    value: Any


def read_npy(path: str, most: int) -> Held:
    """The array in a file.

    Args:
        path: the file.
        most: elements up to which they are read.

    Raises:
        InputError: the file is not there, is damaged or no such file, or holds Python objects.
    """
    with _open_array_file(path) as file:
        return _array(file, path, os.fstat(file.fileno()).st_size, most)


def read_npz(path: str, most: int) -> dict[str, Held]:
    """The arrays in an archive, by name; arguments and errors as for `read_npy`."""
    arrays: dict[str, Held] = {}
    with _open_array_file(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                refuse_rare_compression(member, path)
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as inner:
                    arrays[name] = _array(inner, f"{path}: array {name!r}", member.file_size, most)
    return arrays


@contextlib.contextmanager
def _open_array_file(path: str) -> Iterator[IO[bytes]]:
    """The open file; whatever NumPy raises about it becomes an InputError of one line."""
    if not os.path.isfile(path):
        what = "no such file" if not os.path.exists(path) else "not a regular file"
        raise InputError(f"{path}: {what}")
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except FlopwiseError:
        raise
    except Exception as error:  # zipfile and NumPy raise all kinds for damaged files
        raise InputError(f"{path}: not a NumPy file, or damaged ({' '.join(str(error).split())[:200]})") from error


def _array(file: IO[bytes], what: str, size: int, most: int) -> Held:
    """The array at the start of a stream of ``size`` bytes."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"format version {version}")
    shape, by_columns, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise InputError(f"{what}: holds Python objects, which are never loaded")
    if dtype.names is not None or min(shape, default=0) < 0:
        raise InputError(f"{what}: holds no plain numbers")
    elements = math.prod(shape)
    length = elements * dtype.itemsize
    if length > size:
        raise InputError(f"{what}: is truncated; an array of shape {shape} takes {length} bytes")
    if elements > most or length > ROOM:
        return Held(shape, dtype, None)
    data = file.read(length)
    if len(data) < length:
        raise InputError(f"{what}: is truncated; an array of shape {shape} takes {length} bytes")
    return Held(shape, dtype, numpy.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C"))
