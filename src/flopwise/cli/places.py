"""The files that a command reads and those that it writes: no output may be an input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from flopwise.errors import FlopwiseError, InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _File(click.types.StringParamType):
    """A path or what may be one, which shells complete to files."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Read(_File):
    """The type of an argument or option that names what is read: a model, a directory, a file of rules, inputs."""


class Model(Read):
    """The type of an argument that names a model of any format, or a directory of them."""


class Written(_File):
    """The type of an option that names a file to write."""


class Store(Written):
    """The type of an option that names the store of measured times: without it, the user's own."""

    @staticmethod
    def default() -> str:
        """The store where the option is not given."""
        from flopwise.analyses.timing.store import default_path

        return str(default_path())


def check(written: Mapping[str, str], read: Sequence[str]) -> None:
    """Refuse outputs that are inputs, each other, or directories; links are followed.

    Args:
        written: option -> the path to write.
        read: what the command reads, as it was typed: paths, URLs, ``file.py:callable``, inputs with ``@file``.

    Raises:
        InputError: an output is one of these.
    """
    places: dict[object, str] = {}
    for option, path in written.items():
        if "\0" in path:
            raise InputError(f"{path!r}: no such file")
        if path.endswith((os.sep, "/")) or os.path.isdir(path):
            raise InputError(f"{path}: is a directory; give {option} the name of a file")
        for identity in _identities(path):
            if identity in places:
                raise InputError(f"{path}: {option} and {places[identity]} name the same file; give each its own")
            places[identity] = option
    if not any(os.path.exists(path) for path in written.values()):
        return
    for text in read:
        for path in _files(text):
            option = next((places[i] for i in _identities(path) if i in places), "")
            if option:
                raise InputError(f"{written[option]}: {option} would overwrite {_role(path, text)}")


def _role(path: str, text: str) -> str:
    return "the file that is read" if path == text else f"{path}, which {text} reads"


def _identities(path: str) -> Iterator[object]:
    """What is the same for all names of a file: its path without links, and device and inode of an ordinary file."""
    yield os.path.realpath(path)
    if os.path.isfile(path):
        status = os.stat(path)
        yield status.st_dev, status.st_ino


def _files(text: str) -> Iterator[str]:
    """The files that a command-line argument refers to, and those beside a model that belong to it."""
    for path in _named(text):
        if os.path.isdir(path):
            paths = (os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files)
            for file in filter(_is_read, paths):
                yield from _with_beside(file)
        elif os.path.isfile(path):
            yield from _with_beside(path)


def _named(text: str) -> Iterator[str]:
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
    """Whether a file in a directory may be a model or a part of one, and is no report that was put there before."""
    from flopwise.readers.formats import FORMATS as MODELS
    from flopwise.report.formats.format import FORMATS as REPORTS

    name = path.lower()
    reports = tuple(ending for format in REPORTS.values() if format.name != "parquet" for ending in format.endings)
    own = tuple(ending for format in MODELS for ending in (*format.endings, *format.in_directories, *format.weights))
    return name.endswith(own) or not name.endswith(reports)


def _with_beside(path: str) -> Iterator[str]:
    """A file, and those beside it that belong to it."""
    yield path
    with contextlib.suppress(FlopwiseError, OSError, ValueError):  # what is wrong is said where it is read
        yield from _beside(path)


def _beside(model: str) -> Iterator[str]:
    """The files beside a model that hold a part of it: external data, the weights of a net, the parts of an index."""
    from flopwise.readers.source.open import open_source

    folder, name = os.path.split(model)
    stem = os.path.splitext(model)[0]
    with contextlib.closing(open_source(model)) as source:
        if name.lower().endswith(".index.json"):
            from flopwise.readers.weights.read import places_of

            parts: Iterable[str] = places_of(source).values()
        elif name.lower().endswith("config.json"):
            from flopwise.readers.formats import FORMATS

            endings = tuple(ending for format in FORMATS for ending in (*format.endings, *format.weights))
            parts = (file for file in os.listdir(folder or ".") if file.lower().endswith(endings))
        elif name.lower().endswith((".prototxt", ".caffemodel", ".h5")):
            from flopwise.readers.caffe.read import net_of_solver

            yield from (stem + ending for ending in (".caffemodel", ".caffemodel.h5", ".prototxt"))
            net = net_of_solver(source) if name.lower().endswith(".prototxt") else None
            parts = () if net is None else (net,)
        else:  # an ONNX model may have any name
            from flopwise.readers.onnx.file.walk import read_skeleton

            skeleton = read_skeleton(source)
            stored = (*skeleton.initializers.values(), *skeleton.inner.values())
            parts = {t.external["location"] for t in stored if "location" in t.external}
    yield from (os.path.join(folder, part) for part in parts)
