"""Ranges of a file in a file system that fsspec knows: s3, gs, hf and the like."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flopwise.errors import FlopwiseError, ModelError
from flopwise.readers.source.location import shown
from flopwise.readers.source.remote import Transport


class Fsspec(Transport):
    """A file in such a file system."""

    def __init__(self, url: str, system: Any = None) -> None:
        """
        Args:
            url: where the file is; with a ``system``, its path there.
            system: the file system; None: the one that the URL's scheme names.
        """
        self.name = shown(url)
        self._path, self._system = url, system
        if system is None:
            scheme = url.partition("://")[0]
            try:
                from fsspec.core import url_to_fs
            except ImportError:
                raise ModelError(
                    f"{self.name}: {scheme}:// needs fsspec: pip install 'flopwise[remote]', or download the file"
                ) from None
            self._system, self._path = self._explained(lambda: url_to_fs(url))

    def _explained(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except FlopwiseError:
            raise
        except FileNotFoundError:
            raise ModelError(f"{self.name}: no such file") from None
        except ImportError as error:
            raise ModelError(
                f"{self.name}: fsspec needs more for that ({' '.join(str(error).split())[:150]})"
            ) from None
        except Exception as error:  # each file system has errors of its own
            why = " ".join(str(error).split())[:150] or type(error).__name__
            raise ModelError(f"{self.name}: cannot be read ({why})") from error

    def first(self, length: int) -> tuple[int, bytes]:
        size = self._explained(lambda: self._system.info(self._path)["size"])
        if not isinstance(size, int) or size < 0:
            raise ModelError(f"{self.name}: its length is unknown; download it first")
        return size, self.fetch(0, min(length, size))

    def fetch(self, start: int, end: int) -> bytes:
        if start == end:
            return b""
        data = self._explained(lambda: self._system.cat_file(self._path, start=start, end=end))
        if not isinstance(data, bytes) or len(data) != end - start:
            raise ModelError(f"{self.name}: gave {len(data):,} bytes in place of {end - start:,}; download it first")
        return data

    def beside(self, location: str) -> tuple[str, Transport]:
        other = Fsspec(f"{os.path.dirname(self._path)}/{location}", self._system)
        other.name = f"{self.name.rpartition('/')[0]}/{location}"
        return other.name, other
