"""Stored tensors of an ONNX model: where they are allowed to lie, and how to load one when somebody asks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from flopwise.errors import ModelError
from flopwise.formats.onnx.file.literal import FIELDS
from flopwise.formats.onnx.file.skeleton import CODES, RAW, Place, Stored, kept
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import fields
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Array

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
    """Remarks on files of external data that have further names, which may be those of files elsewhere.

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
    for tensor in [tensor for tensor in stored if tensor.external or tensor.sparse]:  # few among many
        if "location" in tensor.external:
            yield tensor, tensor.external["location"]
        yield from _locations(tensor.sparse or ())


def with_small(stored: Stored, name: str, reopen: Reopen) -> Stored:
    """A tensor with its elements if they may steer shapes and lie in a file of external data that can be had.

    Args:
        stored: the tensor.
        name: the model, for messages.
        reopen: opens its source.
    """
    if not stored.external or not kept(CODES[stored.dtype], stored.dims):
        return stored
    try:
        data = external_bytes(stored, name, reopen)
    except ModelError:  # the shapes that depend on it stay unresolved, and the report says so
        return stored
    return replace(stored, payload=data) if len(data) == stored.nbytes else stored


def load(stored: Stored, name: str, reopen: Reopen | None) -> object:
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
        if stored.dtype == "string":
            return _texts(stored, name, reopen)
        return _numbers(stored, name, reopen)
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise ModelError(f"{name}: tensor {stored.name!r} cannot be loaded ({' '.join(str(error).split())})") from error


def _numbers(stored: Stored, name: str, reopen: Reopen | None) -> Any:
    """The elements of a tensor as numbers."""
    import numpy

    from flopwise.formats.weights.tensor import encoding, numpy_type

    encoded = encoding(stored.dtype)
    assert encoded is not None
    if stored.external:
        data = numpy.frombuffer(external_bytes(stored, name, reopen), numpy.uint8)
    elif stored.places:
        parts = [_as_stored(place, data, stored.dtype) for place, data in _content(stored, name, reopen)]
        data = numpy.concatenate(parts)
    else:
        data = numpy.frombuffer(stored.payload, numpy.uint8)
    count = math.prod(stored.dims)
    if BITS[stored.dtype] == 6 and data.size == count and not stored.external:  # as numbers they take a byte each
        return data.view(numpy_type(stored.dtype)).astype(numpy.float32).reshape(stored.dims)
    if data.size != stored.nbytes:
        raise ValueError(
            f"shape {stored.dims} and type {stored.dtype} take {stored.nbytes} bytes, but {data.size} are stored"
        )
    return encoded.decode(data)[:count].reshape(stored.dims)


def _texts(stored: Stored, name: str, reopen: Reopen | None) -> object:
    """The elements of a tensor of texts."""
    import numpy

    contents = [data for _, data in _content(stored, name, reopen)] if stored.places else [stored.payload]
    texts = [data[a:b].decode() for data in contents for tag, a, b in fields(data) if tag >> 3 == FIELDS["string"]]
    return numpy.array(texts, object).reshape(stored.dims)


def _content(stored: Stored, name: str, reopen: Reopen | None) -> Iterator[tuple[Place, bytes]]:
    """The bytes with the elements of a tensor in the model's own file."""
    source = _opened(stored, name, reopen)
    try:
        for place in stored.places:
            yield place, source.read(place.start, place.end - place.start)
    finally:
        source.close()


def _opened(stored: Stored, name: str, reopen: Reopen | None) -> Source:
    if reopen is None:
        raise ModelError(f"{name}: the data of tensor {stored.name!r} was not loaded with the model")
    return reopen()


def _as_stored(place: Place, content: bytes, dtype: str) -> Array:
    """Elements as raw data has them, from the content of a field or from fields of one element each."""
    import numpy

    data = numpy.frombuffer(content, numpy.uint8)
    if place.number in (4, 10):
        width = 4 if place.number == 4 else 8
        return data.reshape(-1, 1 + width)[:, 1:].reshape(-1) if place.whole else data
    if place.number == RAW:
        return data
    numbers = varints_of(data)
    numbers = numbers[1::2] if place.whole else numbers  # each follows its tag
    width = 8 if FIELDS.get(dtype, 5) == 7 else max(BITS[dtype] // 8, 1)
    return numbers.astype(f"<u{width}").view(numpy.uint8)


def varints_of(data: Array) -> Array:
    """The numbers in an array of bytes that holds one varint after the other.

    Raises:
        ValueError: the last one does not end, or one is longer than ten bytes.
    """
    import numpy

    ends = numpy.flatnonzero(data < 128)
    if data.size and (not ends.size or ends[-1] != data.size - 1):
        raise ValueError("a number does not end")
    starts = numpy.concatenate([[0], ends[:-1] + 1]).astype(numpy.int64) if ends.size else ends
    lengths = ends - starts + 1
    if ends.size and lengths.max() > 10:
        raise ValueError("a number does not end")
    numbers = numpy.zeros(ends.size, numpy.uint64)
    for place in range(int(lengths.max()) if ends.size else 0):
        there = lengths > place
        numbers[there] |= (data[starts[there] + place] & 127).astype(numpy.uint64) << numpy.uint64(7 * place)
    return numbers


def external_bytes(stored: Stored, name: str, reopen: Reopen | None) -> bytes:
    """The elements of a tensor that lie in another file.

    Raises:
        ModelError: they are not there.
    """
    source = _opened(stored, name, reopen)
    try:
        other = source.beside(stored.external.get("location", ""), f"{name}: tensor {stored.name!r}")
        try:
            start, end = external_range(stored, None, other.size, name)
            return other.read(start, end - start)
        finally:
            if other is not source:
                other.close()
    finally:
        source.close()


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


def _dense(stored: Stored, name: str, reopen: Reopen | None) -> Array:
    """A sparse tensor's elements, zeros included. Its indices are places in row order, or one row of indices each."""
    import numpy

    assert stored.sparse is not None
    values, indices = (_numbers(part, name, reopen) for part in stored.sparse)
    dense = numpy.zeros(math.prod(stored.dims), dtype=values.dtype)
    places = indices if indices.ndim == 1 else numpy.ravel_multi_index(tuple(indices.T), stored.dims)
    dense[places] = values
    return dense.reshape(stored.dims)
