"""Stored tensors of an ONNX model: where they are allowed to lie, and how to load one when somebody asks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.readers.onnx.file.skeleton import CODES, Stored, kept
from flopwise.readers.source.source import Source
from flopwise.readers.source.wire import message, number_field

#: Opens the source of a model again; None when the model did not come from one.
Reopen = Callable[[], Source]


def check_external(stored: Iterable[Stored]) -> None:
    """Refuse external data outside the model's folder; the data itself need not be there.

    Raises:
        ModelError: a location is absolute, climbs out of the folder, or is not the name of a file.
    """
    for tensor, location in _locations(stored):
        if "\0" in location:
            raise ModelError(f"the data of tensor {tensor.name!r} are in {location!r}, and there is no such file")
        for path in (PurePosixPath(location), PureWindowsPath(location)):
            if path.anchor or ".." in path.parts:
                raise ModelError(
                    f"the data of tensor {tensor.name!r} are in {location!r}, outside the model's folder; refused"
                )


def hard_links(stored: Iterable[Stored], folder: Path | None) -> list[str]:
    """What to say about files of external data that have further names, which may be those of files elsewhere.

    Nothing tells a hard link to a file outside from a file of the model's own, so such data is read, but not silently.

    Args:
        stored: tensors whose locations have been checked.
        folder: the folder of the model; None when it did not come from a file.
    """
    remarks = []
    for location in dict.fromkeys(location for _, location in _locations(stored)) if folder else ():
        try:
            names = os.stat(folder / location).st_nlink  # type: ignore[operator] # there is a folder
        except (OSError, ValueError):
            continue
        if names > 1:
            remarks.append(
                f"the data file {location!r} is a hard link: the same file has {names - 1} more "
                f"{'names' if names > 2 else 'name'}, perhaps outside the model's folder"
            )
    return remarks


def _locations(stored: Iterable[Stored]) -> Iterator[tuple[Stored, str]]:
    """The tensors whose data is in another file, and that file."""
    for tensor in stored:
        if "location" in tensor.external:
            yield tensor, tensor.external["location"]
        yield from _locations(tensor.sparse or ())


def fill_small(graph: onnx.GraphProto, stored: dict[str, Stored], name: str, reopen: Reopen | None) -> None:
    """Put external elements that may steer shapes into the graph, where they can be had."""
    if not any(place.external for place in stored.values()):
        return
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL or not kept(tensor.data_type, tensor.dims):
            continue
        try:
            loaded = load(stored[tensor.name], name, reopen)
        except ModelError:  # the shapes that depend on it stay unresolved, and the report says so
            continue
        tensor.CopyFrom(numpy_helper.from_array(loaded, tensor.name))


def load(stored: Stored, name: str, reopen: Reopen | None) -> Any:
    """The elements of a stored tensor as a numpy array, read now.

    Args:
        stored: where they lie.
        name: the model, for messages.
        reopen: opens the source that the places of ``stored`` are in.

    Raises:
        ModelError: the data is not there, or is not what the tensor's type and shape say.
    """
    try:
        if stored.sparse:
            return _dense(stored, name, reopen)
        return numpy_helper.to_array(_whole(stored, name, reopen))
    except (
        ArithmeticError,
        DecodeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
        onnx.checker.ValidationError,
    ) as error:
        raise ModelError(f"{name}: tensor {stored.name!r} cannot be loaded ({' '.join(str(error).split())})") from error


def _whole(stored: Stored, name: str, reopen: Reopen | None) -> onnx.TensorProto:
    """The tensor with its elements."""
    if stored.proto is not None and not stored.external:
        held: onnx.TensorProto = stored.proto
        return held
    parts = [number_field(1, d) for d in stored.dims] + [number_field(2, CODES[stored.dtype])]
    if reopen is None:
        raise ModelError(f"{name}: the data of tensor {stored.name!r} was not loaded with the model")
    source = reopen()
    try:
        if stored.external:
            parts.append(message(9, [_external_bytes(stored, name, source)]))
        for place in stored.places:
            data = source.read(place.start, place.end - place.start)
            parts.append(data if place.whole else message(place.number, [data]))
    finally:
        source.close()
    read: onnx.TensorProto = onnx.TensorProto.FromString(b"".join(parts))
    return read


def _external_bytes(stored: Stored, name: str, source: Source) -> bytes:
    other = source.beside(stored.external.get("location", ""), f"{name}: tensor {stored.name!r}")
    try:
        start, end = external_range(stored, None, other.size, name)
        return other.read(start, end - start)
    finally:
        if other is not source:
            other.close()


def external_range(stored: Stored, needed: int | None, size: int, name: str) -> tuple[int, int]:
    """Where the external data of a tensor begins and ends in its file.

    Args:
        stored: the tensor.
        needed: the bytes that its shape and type say; None: whatever the file has.
        size: bytes of the file.
        name: the model, for messages.

    Raises:
        ModelError: there is no such place in the file, or it does not hold what is needed.
    """
    what, location = f"{name}: tensor {stored.name!r}", stored.external.get("location", "")
    try:
        offset, length = int(stored.external.get("offset", 0)), int(stored.external.get("length", -1))
    except ValueError:
        raise ModelError(f"{what} gives no number as offset or length of its data") from None
    if length < 0:
        length = size - offset if needed is None else needed
    if offset < 0 or length < 0 or offset > size:
        raise ModelError(f"the data of {what} begin at byte {offset} of {location!r}, which has {size}")
    if needed is not None and length != needed:
        raise ModelError(f"{what} of shape {stored.dims} and type {stored.dtype} takes {needed} bytes, not {length}")
    if needed is not None and offset + length > size:
        raise ModelError(
            f"the data of {what} are bytes {offset} to {offset + length} of {location!r}, which has {size}"
        )
    return offset, offset + length


def _dense(stored: Stored, name: str, reopen: Reopen | None) -> Any:
    """A sparse tensor's elements, zeros included. Its indices are places in row order, or one row of indices each."""
    assert stored.sparse is not None
    values, indices = (numpy_helper.to_array(_whole(part, name, reopen)) for part in stored.sparse)
    dense = numpy.zeros(math.prod(stored.dims), dtype=values.dtype)
    places = indices if indices.ndim == 1 else numpy.ravel_multi_index(tuple(indices.T), stored.dims)
    dense[places] = values
    return dense.reshape(stored.dims)
