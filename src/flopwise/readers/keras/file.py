"""The configuration of a model in a file: a member of a ``.keras`` archive, a text inside an ``.h5`` file, or a
file in the folder of a preset.

Sources: keras/src/saving/saving_lib.py (``config.json``, ``model.weights.h5``) and
keras/src/legacy/saving/legacy_h5_format.py (the attribute ``model_config``) of Keras 3.15.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib

from flopwise._limits import within_limit
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.readers.keras.kinds import PRESET
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.zip import Archive

#: The signature of HDF5 files, section II.A of their specification.
HDF5 = b"\x89HDF\r\n\x1a\n"

_CONFIG, _ATTRIBUTE = "config.json", b"model_config"

#: What a configuration's text begins with, in the order in which versions of Keras write its keys.
_BEGINS = (b'{"module":', b'{"class_name":', b'{"config":', b'{"registered_name":', b'{"keras_version":')


def config_of(path: str | os.PathLike[str]) -> Json:
    """The configuration of the model in a file, or in the folder of a preset, as plain values.

    Raises:
        ModelError: the file cannot be read, or holds weights alone.
    """
    source = open_source(os.path.join(path, PRESET) if os.path.isdir(path) else path)
    try:
        if os.path.isdir(path):
            return _parsed(_text(source), source.name)
        head = source.read(0, min(source.size, 8))
        if head == HDF5:
            return _in_hdf5(source)
        if not head.startswith(b"PK"):
            raise ModelError(f"{source.name}: not a Keras model: neither a ZIP archive nor an HDF5 file")
        return _parsed(_in_archive(source), source.name)
    finally:
        source.close()


def _text(source: Source) -> bytes:
    within_limit("text_bytes", source.size, f"{source.name}: has")
    return bytes(source.read(0, source.size))


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
    """The text of the attribute, which HDF5 stores in one piece; so its library, which trusts a file, is not needed.

    Raises:
        ModelError: there is none.
    """
    data = _Window(source)
    if data.find(_ATTRIBUTE, 0) < 0:
        raise ModelError(
            f"{source.name}: an HDF5 file without the configuration of a Keras model; if it holds weights alone, save "
            "the model with model.save('NAME.keras')"
        )
    at = 0
    while (at := data.first(_BEGINS, at)) >= 0:
        text = data.text(at)
        config = _decoded(text)
        if isinstance(config, dict) and {"class_name", "config"} <= config.keys():
            return config
        at += 1
    raise ModelError(f"{source.name}: the configuration of its model is truncated or damaged")


class _Window:
    """A file that is searched, some megabytes at a time."""

    _STEP = 4 << 20

    def __init__(self, source: Source) -> None:
        self.source = source

    def find(self, what: bytes, start: int) -> int:
        return self.first((what,), start)

    def first(self, what: tuple[bytes, ...], start: int) -> int:
        """The first place at or behind ``start`` where one of some bytes stands; -1 where none does."""
        size, longest = self.source.size, max(map(len, what))
        while start < size:
            part = self.source.read(start, min(self._STEP + longest, size - start))
            places = [place for one in what if (place := part.find(one)) >= 0]
            if places:
                return start + min(places)
            start += self._STEP
        return -1

    def text(self, start: int) -> str:
        """The text from a place on, as far as one may go."""
        from flopwise._limits import current

        length = min(self.source.size - start, current().text_bytes)
        return self.source.read(start, length).partition(b"\0")[0].decode("utf-8", "replace")


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
