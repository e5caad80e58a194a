"""The files that a call reads and those that it writes: no output may be an input."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

from flopwise.errors import FlopwiseError, InputError
from flopwise.formats.table import every_format
from flopwise.report.formats.format import FIGURES
from flopwise.report.formats.format import FORMATS as REPORTS


def check(written: Mapping[str, str | os.PathLike[str] | None], *read: object) -> None:
    """Refuse outputs that are inputs, each other, or directories; links are followed.

    Args:
        written: option or argument -> the path to write; None writes nothing.
        read: what the call reads, as it was given: paths, URLs, ``file.py:callable``, inputs with ``@file``, open
            files, and collections of these. Other objects are no files.

    Raises:
        InputError: an output is one of these.
    """
    places: dict[object, tuple[str, str]] = {}
    for option, destination in written.items():
        if destination is None:
            continue
        path = os.fspath(destination)
        if "\0" in path:
            raise InputError(f"{path!r}: no such file")
        if path.endswith((os.sep, "/")) or os.path.isdir(path):
            raise InputError(f"{path}: is a directory; give {option} the name of a file")
        for identity in _identities(path):
            if identity in places:
                raise InputError(f"{path}: {option} and {places[identity][0]} name the same file; give each its own")
            places[identity] = option, path
    _refuse(places, read)


def check_folder(option: str, folder: str, endings: tuple[str, ...], *read: object) -> None:
    """Refuse a directory for files of some endings where one that is there, or that a link in it leads to, is read.

    Args:
        option: the option that names it.
        folder: the directory, which need not be there.
        endings: of the names of the files that are written into it.
        read: as in ``check``.

    Raises:
        InputError: a file in it is read.
    """
    files = os.listdir(folder) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, file) for file in files if file.lower().endswith(endings)]
    _refuse({identity: (option, path) for path in paths for identity in _identities(path)}, read)


def check_redirection(*read: object) -> None:
    """Refuse a command whose standard output a shell appends to a file that is read; directories are not looked into.

    Raises:
        InputError: it does.
    """
    with contextlib.suppress(OSError, ValueError):  # it is closed
        status = os.fstat(1)
        if stat.S_ISREG(status.st_mode):
            for path in (path for text in _texts(read) for path in _paths_in(text) if os.path.isfile(path)):
                if _inode(os.stat(path)) == _inode(status):
                    raise InputError(f"{path}: standard output would overwrite the file that is read")


def _texts(read: Iterable[object]) -> Iterator[str]:
    """The texts among arguments and collections of them."""
    for argument in read:
        if isinstance(argument, str):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _texts(argument)


def check_code(option: str, path: str) -> None:
    """Refuse to write over a Python file that was imported, as by the module of a callable or by a file of rules.

    Raises:
        InputError: it was.
    """
    if path.lower().endswith(".py") and os.path.isfile(path):
        own = _inode(os.stat(path))
        files = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
        if any(_inode(os.stat(file)) == own for file in files if isinstance(file, str) and os.path.isfile(file)):
            raise InputError(f"{path}: {option} would overwrite code that the model needs")


def _refuse(places: Mapping[object, tuple[str, str]], read: Iterable[object]) -> None:
    """Raise InputError if one of these places is read: identity -> option and path of an output."""
    if not any(os.path.exists(os.path.realpath(path)) for _, path in places.values()):
        return
    for name, path, identity in _inputs(read):
        if identity in places:
            option, output = places[identity]
            raise InputError(f"{output}: {option} would overwrite {_role(path, name)}")


def _role(path: str, name: str) -> str:
    return "the file that is read" if path == name else f"{path}, which {name} reads"


def _identities(path: str) -> Iterator[object]:
    """Identities that all names of a file share: its path without links; device and inode of an ordinary file.

    The second also finds names that differ in case, where the file system takes them for the same.
    """
    target = os.path.realpath(path)  # where it is written: of "a/../b" that is b, even if there is no a
    yield target
    if os.path.isfile(target):
        yield _inode(os.stat(target))


def _inode(status: os.stat_result) -> object:
    return status.st_dev, status.st_ino


def _inputs(read: Iterable[object]) -> Iterator[tuple[str, str, object]]:
    """The files that the call reads: the name as given, the path of a file that it stands for, the file's identity."""
    for argument in read:
        if isinstance(argument, str | os.PathLike):
            text = os.fsdecode(argument)
            for path in _files(text) if "\0" not in text else ():
                yield from ((text, path, identity) for identity in _identities(path))
        elif isinstance(argument, Mapping):
            yield from _inputs(argument.values())
        elif isinstance(argument, list | tuple | set):
            yield from _inputs(argument)
        else:
            yield from _open_file(argument)


def _open_file(file: object) -> Iterator[tuple[str, str, object]]:
    """An open file; nothing for other objects, and for bytes in memory."""
    if hasattr(file, "read") and hasattr(file, "fileno"):
        with contextlib.suppress(OSError, ValueError):  # it has no file, or is closed
            yield "the open file", "the open file", _inode(os.fstat(file.fileno()))


def _files(text: str) -> Iterator[str]:
    """The files that a text refers to, and those beside a model that belong to it."""
    for path in _paths_in(text):
        if os.path.isdir(path):
            paths = (os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files)
            for file in filter(_is_read, paths):
                yield from _with_beside(file)
        elif os.path.isfile(path):
            yield from _with_beside(path)


def _paths_in(text: str) -> Iterator[str]:
    """The paths in a text: itself, of a URL the path, the file of a callable, and that of an input's ``@file``."""
    yield text
    if "://" in text:
        from urllib.parse import unquote, urlsplit

        with contextlib.suppress(ValueError):  # it is no URL
            yield unquote(urlsplit(text).path)
        yield text.rpartition("::")[2]  # the archive that a file system of fsspec looks into
    module = text.partition(":")[0]
    yield module
    parts = module.replace(".", os.sep)
    yield from (parts + ".py", os.path.join(parts, "__init__.py"))
    yield from (part.partition("@")[2] for part in text.split("|") if "@" in part)


def _is_read(path: str) -> bool:
    """True where a file in a directory may be a model or a part of one and is no report that was put there before."""
    name = path.lower()
    reports = [ending for format in REPORTS.values() if format.name != "parquet" for ending in format.endings]
    reports += [f".{format}" for format in FIGURES]
    own = tuple(
        ending for format in every_format() for ending in (*format.endings, *format.in_directories, *format.weights)
    )
    return name.endswith(own) or not name.endswith(tuple(reports))


def _with_beside(path: str) -> Iterator[str]:
    """A file, and those beside it that belong to it."""
    yield path
    with contextlib.suppress(FlopwiseError, OSError, ValueError):  # what is wrong is said where it is read
        yield from _beside(path)


def _beside(model: str) -> Iterator[str]:
    """The files beside a model that hold a part of it: external data, the weights of a net, the parts of an index."""
    from flopwise.formats.sources.open import open_source

    folder, name = os.path.split(model)
    stem = os.path.splitext(model)[0]
    with contextlib.closing(open_source(model)) as source:
        if name.lower().endswith(".index.json"):
            from flopwise.formats.weights.read import places_of

            parts: Iterable[str] = places_of(source).values()
        elif name.lower().endswith("config.json"):  # the files of a language model, its own code among them
            parts = filter(_is_read, os.listdir(folder or "."))
        elif name.lower().endswith((".prototxt", ".caffemodel", ".h5")):
            from flopwise.formats.caffe.read import net_of_solver

            yield from (stem + ending for ending in (".caffemodel", ".caffemodel.h5", ".prototxt"))
            net = net_of_solver(source) if name.lower().endswith(".prototxt") else None
            parts = () if net is None else (net,)
        else:  # an ONNX model may have any name
            from flopwise.formats.onnx.walk import read_skeleton
            from flopwise.writers.onnx import write

            parts = write.files(read_skeleton(source))
    yield from (os.path.join(folder, part) for part in parts)
