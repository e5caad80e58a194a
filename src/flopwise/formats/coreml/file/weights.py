"""The file of weights beside a specification: a header before each tensor says its type, length and place.

https://github.com/apple/coremltools/blob/main/mlmodel/src/MILBlob/Blob/StorageFormat.hpp
"""

from __future__ import annotations

import struct

from flopwise.errors import ModelError
from flopwise.readers.source.source import Source

#: What a fileName of a specification begins with: the folder that the specification is in.
ROOT = "@model_path/"

#: The first number of the header of a tensor, and its fields: that number, a type, length and place in bytes.
_MARK = 0xDEADBEEF
_FIELDS = struct.Struct("<IIQQ")

#: Bytes of a header.
HEADER = 64


class Weights:
    """The files of weights of a model, opened when somebody reads; they need not be there."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._files: dict[str, Source | None] = {}
        #: The files that cannot be read -> why.
        self.missing: dict[str, str] = {}

    def place(self, file: str, offset: int, what: str) -> tuple[int, int] | None:
        """Where the elements of a tensor begin in a file, and how many bytes they are; None where it is not there.

        Raises:
            ModelError: the file has no tensor at that place.
        """
        opened = self._opened(file)
        if opened is None:
            return None
        fits = 0 <= offset <= opened.size - _FIELDS.size
        mark, _, length, start = _FIELDS.unpack(opened.read(offset, _FIELDS.size)) if fits else (0, 0, 0, 0)
        if mark != _MARK or start + length > opened.size:
            raise ModelError(f"{self._source.name}: damaged Core ML model ({what}: {file} has no tensor at {offset})")
        return start, length

    def read(self, file: str, start: int, length: int) -> bytes:
        """Bytes of a file."""
        opened = self._opened(file)
        return b"" if opened is None else opened.read(start, length)

    def _opened(self, file: str) -> Source | None:
        if file not in self._files:
            try:
                self._files[file] = self._source.beside(file, f"{self._source.name}: weights")
            except ModelError as error:
                if "refused" in str(error):
                    raise
                self._files[file], self.missing[file] = None, str(error)
        return self._files[file]

    def close(self) -> None:
        """Close the files that are open."""
        for file in self._files.values():
            if file is not None:
                file.close()
