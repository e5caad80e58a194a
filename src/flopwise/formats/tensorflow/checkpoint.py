"""Where the elements of a SavedModel's variables lie: the index of its checkpoint.

The index is a table of LevelDB: blocks of sorted keys, each written as what it adds to the one before it.
Sources: tensorflow/core/lib/io/format.h and table_format.txt, tensorflow/core/protobuf/tensor_bundle.proto and
trackable_object_graph.proto of TensorFlow 2.21.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import BytesSource, Source
from flopwise.formats.sources.wire import read_varint
from flopwise.formats.tensorflow.file import DTYPES, Decoder

#: The last bytes of a table: two handles of blocks, filled up, and a number that marks it.
_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57

#: Behind each block: how it is compressed, and a sum.
_TRAILER = 5

#: The entry whose elements say which variable each key is.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Variable(NamedTuple):
    """A variable of a checkpoint: its type and shape, and its bytes in one of the data files."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    start: int
    end: int


class Checkpoint(NamedTuple):
    """The variables of a checkpoint by their names, and the data files by their numbers."""

    variables: dict[str, Variable]
    files: list[str]
    folder: str

    def find(self, name: str) -> Variable | None:
        """The variable of a name, with the number that tells copies of one apart or without; None for none."""
        return self.variables.get(name) or self.variables.get(unnumbered(name))


def unnumbered(name: str) -> str:
    """The name of a variable without the number that tells copies of it apart.

    >>> unnumbered("dense/kernel_1"), unnumbered("dense_1/kernel")
    ('dense/kernel', 'dense_1/kernel')
    """
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() else name


def checkpoint_of(folder: str) -> Checkpoint | None:
    """The checkpoint of a SavedModel's directory; None where it has none.

    Raises:
        ModelError: it is damaged.
    """
    path = os.path.join(folder, "variables", "variables.index")
    if not os.path.isfile(path):
        return None
    source = opened(path, folder)
    try:
        within_limit("header_bytes", source.size, f"{path}: has")
        data = source.read(0, source.size)
    finally:
        source.close()
    try:
        entries = dict(_entries(data))
    except (IndexError, ValueError) as error:
        raise ModelError(f"{path}: truncated or damaged ({error})") from error
    header = Decoder(BytesSource(entries.pop(b"", b""), path))
    shards = header.message("BundleHeaderProto", (0, header.size)).get("num_shards", 1)
    found = {key.decode("utf-8", "replace"): _variable(value, path) for key, value in entries.items()}
    within_limit("header_bytes", shards * 64, f"{path}: names data files of")
    ending = f"-of-{shards:05d}"
    files = [os.path.join(folder, "variables", f"variables.data-{n:05d}{ending}") for n in range(min(shards, 10_000))]
    held = {key: variable for key, variable in found.items() if variable.shard < len(files)}
    return Checkpoint(_by_name(held, files, folder), files, folder)


def opened(path: str, folder: str) -> Source:
    """A file of a SavedModel's directory.

    Raises:
        ModelError: it is not there, or a link leads out of the directory.
    """
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        raise ModelError(f"{path}: leads out of the model's folder; refused")
    return open_source(path)


def _block(data: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block that lies at a place."""
    end = start + size
    if end + _TRAILER > len(data) or size < 4:
        raise ValueError("a block ends behind the file")
    if data[end]:
        raise ValueError("a block is compressed")
    stop = end - 4 - 4 * int.from_bytes(data[end - 4 : end], "little")
    key, at = b"", start
    while at < stop:
        shared, at = read_varint(data, at)
        more, at = read_varint(data, at)
        length, at = read_varint(data, at)
        if shared > len(key) or at + more + length > stop:
            raise ValueError("an entry ends behind its block")
        key = key[:shared] + data[at : at + more]
        yield key, data[at + more : at + more + length]
        at += more + length


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table."""
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("no index of a checkpoint")
    footer = data[-_FOOTER:]
    _, at = read_varint(footer, 0)
    _, at = read_varint(footer, at)
    start, at = read_varint(footer, at)
    size, at = read_varint(footer, at)
    seen = 0
    for _, handle in _block(data, start, size):
        place, at = read_varint(handle, 0)
        length, _ = read_varint(handle, at)
        seen += length
        if seen > len(data):
            raise ValueError("blocks overlap")
        yield from _block(data, place, length)


def _variable(data: bytes, path: str) -> Variable:
    decoder = Decoder(BytesSource(data, path))
    message = decoder.message("BundleEntryProto", (0, decoder.size))
    start = message.get("offset", 0)
    shape = decoder.shape(message.get("shape", {})) or ()
    end = start + message.get("size", 0)
    return Variable(DTYPES.get(message.get("dtype", 0), ""), shape, message.get("shard_id", 0), start, end)


def _by_name(found: dict[str, Variable], files: list[str], folder: str) -> dict[str, Variable]:
    """Variables by the names that the objects in the checkpoint have, else by their keys."""
    objects = found.pop(_OBJECTS, None)
    if objects is None:
        return found
    source = opened(files[objects.shard], folder)
    try:
        within_limit("header_bytes", objects.end - objects.start, f"{source.name}: its objects have")
        data = source.read(objects.start, min(objects.end, source.size) - objects.start)
    finally:
        source.close()
    try:
        _, at = read_varint(data, 0)  # the length of the one text, then a sum of four bytes
    except (IndexError, ValueError):
        return found
    names = _names(BytesSource(data[at + 4 :], files[0]))
    return {**found, **{name: found[key] for name, key in names if key in found}}


def _names(source: Source) -> Iterator[tuple[str, str]]:
    """The full name of each variable, and its key."""
    decoder = Decoder(source)
    for node in decoder.message("TrackableObjectGraph", (0, decoder.size)).get("nodes", ()):
        for one in node.get("attributes", ()):
            if one.get("full_name") and one.get("checkpoint_key"):
                yield one["full_name"], one["checkpoint_key"]
