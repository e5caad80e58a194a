"""The configuration of a model in a file: a member of a ``.keras`` archive, a text inside an ``.h5`` file, or a
file in the folder of a preset.

Sources: keras/src/saving/saving_lib.py (``config.json``, ``model.weights.h5``) and
keras/src/legacy/saving/legacy_h5_format.py (the attribute ``model_config``) of Keras 3.15.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator

from flopwise._limits import within_limit
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.keras.kinds import PRESET
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.zip import Archive

#: The signature of HDF5 files, section II.A of their specification.
HDF5 = b"\x89HDF\r\n\x1a\n"

_CONFIG, _ATTRIBUTE = "config.json", b"model_config\0"

#: Bytes that are searched at once.
_STEP = 4 << 20

#: Bytes that an attribute's message may have before its value: its sizes, its name, a type and a shape.
_MESSAGE = 512

#: Classes of datatypes: strings of a fixed length, and of any length.
_FIXED, _VARIABLE = 3, 9

#: Attributes of one name that are looked at, and members of a heap, which have numbers of 16 bits.
_MOST_ATTRIBUTES, _MOST_MEMBERS = 16, 1 << 16


def config_of(path: str | os.PathLike[str]) -> Json:
    """The configuration of the model in a file, or in the folder of a preset, as plain values.

    Raises:
        ModelError: the file cannot be read, or holds weights alone.
    """
    source = open_source(os.path.join(path, PRESET) if os.path.isdir(path) else path)
    try:
        if os.path.isdir(path):
            return _parsed(_text(source, 0, source.size), source.name)
        head = source.read(0, min(source.size, 8))
        if head == HDF5:
            return _in_hdf5(source)
        if not head.startswith(b"PK"):
            raise ModelError(f"{source.name}: not a Keras model: neither a ZIP archive nor an HDF5 file")
        return _parsed(_in_archive(source), source.name)
    finally:
        source.close()


def _in_archive(source: Source) -> bytes:
    storage = SourceStorage.from_source(source)
    try:
        archive = Archive(storage)
        if _CONFIG not in archive.members:
            raise ModelError(f"{source.name}: an archive without {_CONFIG}, so no Keras model")
        within_limit("text_bytes", archive.members[_CONFIG].file_size, f"{source.name}: {_CONFIG} has")
        return archive.content(_CONFIG)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
        raise ModelError(f"{source.name}: truncated or damaged archive ({error})") from error


def _in_hdf5(source: Source) -> Json:
    """The value of the attribute; so HDF5's library, which trusts a file, is not needed.

    Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html, sections III.E (global heaps) and IV.A.2.m (attributes).

    Raises:
        ModelError: there is none.
    """
    texts = filter(None, (_attribute(source, at) for at in _places(source, _ATTRIBUTE)))
    for text in itertools.islice(texts, _MOST_ATTRIBUTES):
        config = _decoded(text.decode("utf-8", "replace"))
        if isinstance(config, dict) and {"class_name", "config"} <= config.keys():
            return config
    if next(_places(source, _ATTRIBUTE[:-1]), -1) < 0:
        raise ModelError(
            f"{source.name}: an HDF5 file without the configuration of a Keras model; if it holds weights alone, save "
            "the model with model.save('NAME.keras')"
        )
    raise ModelError(f"{source.name}: the configuration of its model is truncated or damaged")


def _places(source: Source, what: bytes) -> Iterator[int]:
    """The places where some bytes stand in a file, one after the other: each byte is read once."""
    for start in range(0, source.size, _STEP):
        part, at = _read(source, start, _STEP + len(what) - 1), -1
        while (at := part.find(what, at + 1)) >= 0:
            yield start + at


def _read(source: Source, start: int, length: int) -> bytes:
    """So many bytes from a place on, or those that there are."""
    return bytes(source.read(start, max(0, min(length, source.size - start)))) if 0 <= start < source.size else b""


def _attribute(source: Source, at: int) -> bytes | None:
    """The text of an attribute whose name stands at a place; None where no attribute does."""
    if at < 9:
        return None
    message = _read(source, at - 9, _MESSAGE)
    first = 0 if message[0] == 3 else 1  # version 3 says the encoding of the name as well
    sizes = struct.unpack_from("<HHH", message, first + 2)
    if message[first] not in (1, 2, 3) or sizes[0] != len(_ATTRIBUTE):
        return None
    padded = [-(-size // 8) * 8 for size in sizes] if message[first] == 1 else sizes
    datatype, value = message[9 + padded[0] :][:8], at + sum(padded)
    if len(datatype) < 8:
        return None
    kind, length = datatype[0] & 15, int.from_bytes(datatype[4:], "little")
    if kind == _VARIABLE:
        place = _read(source, value, 16)
        return _in_heap(source, *struct.unpack("<IQI", place)) if len(place) == 16 else None
    return _text(source, value, length) if kind == _FIXED else None


def _in_heap(source: Source, length: int, address: int, index: int) -> bytes | None:
    """The first bytes of a member of a global heap; None where there is no such member."""
    at = address + 16
    for _ in range(_MOST_MEMBERS):
        head = _read(source, at, 16)
        if len(head) < 16:
            return None
        number, _, size = struct.unpack("<HHxxxxQ", head)
        if number == index:
            return _text(source, at + 16, min(length, size))
        at += 16 + -(-size // 8) * 8
    return None


def _text(source: Source, start: int, length: int) -> bytes:
    """A text of so many bytes, without the zeros behind it."""
    within_limit("text_bytes", length, f"{source.name}: has")
    return _read(source, start, length).rstrip(b"\0")


def _decoded(text: str) -> object:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _parsed(text: bytes, name: str) -> Json:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: {_CONFIG} is no JSON ({' '.join(str(error).split())[:100]})") from error
    if not isinstance(config, dict):
        raise ModelError(f"{name}: {_CONFIG} holds no model")
    return config
