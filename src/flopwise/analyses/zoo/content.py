"""What a model's content is known by: a hash of its file, or the versions of the packages that make it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from flopwise.errors import ModelError
from flopwise.readers.source.location import is_callable

#: Files of more bytes are known by their length and time, and by their first and last bytes.
WHOLE = 64 << 20
_ENDS = 1 << 20

#: Packages whose version decides what a program does, beside its own.
_BENEATH = ("torch",)


def hashes(models: Iterable[str]) -> list[str]:
    """The hash of each model, read side by side; of a file that cannot be read, of its name."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(_content_or_name, models))


def _content_or_name(model: str) -> str:
    try:
        return content_hash(model)
    except ModelError:
        return _hash(model.encode("utf-8", "surrogatepass"))


def content_hash(model: str) -> str:
    """A hash of the content of a file, or of the versions of what makes a callable; of a URL, of its text.

    Raises:
        ModelError: the file cannot be read.
    """
    if os.path.isdir(model):
        model = os.path.join(model, "config.json")
    if os.path.isfile(model):
        return _of_file(model)
    return _hash(_of_callable(model).encode() if is_callable(model) else model.encode("utf-8", "surrogatepass"))


def _of_file(path: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
            else:
                digest.update(f"{size} {os.stat(path).st_mtime_ns}".encode())
                digest.update(file.read(_ENDS))
                file.seek(-_ENDS, os.SEEK_END)
                digest.update(file.read())
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()


def _of_callable(model: str) -> str:
    """A callable's name, and the version of its package or the hash of its files, with PyTorch's version."""
    where, _, name = model.rpartition(":")
    own = name if where.endswith(".py") else model
    return " ".join([own, *map(_version, (where, *_BENEATH))])


@lru_cache(maxsize=1024)
def _version(where: str) -> str:
    """The version of the package that a module is in, or a hash of the files where it is not installed."""
    from importlib import metadata

    if where.endswith(".py"):
        return _of_file(where) if os.path.isfile(where) else ""
    package = where.partition(".")[0]
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return _hash("".join(map(_of_file, _files_of(package))).encode())


def _files_of(package: str) -> list[str]:
    """The Python files of a package or module on the path, or in the current folder."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else [package]
    files = [os.path.join(at, f) for folder in folders for at, _, names in os.walk(folder) for f in sorted(names)]
    single = spec.origin if spec is not None else f"{package}.py"
    return [f for f in (*files, single or "") if f.endswith(".py") and os.path.isfile(f)]


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
