"""The files that a command reads and those that it writes: no output may be an input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
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
            yield from (os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files)
        elif os.path.isfile(path):
            yield path
            with contextlib.suppress(FlopwiseError, OSError, ValueError):  # what is wrong is said where it is read
                yield from _beside(path)


def _named(text: str) -> Iterator[str]:
    """The paths in a text: itself, the file of ``file.py:callable``, and that of an input's ``@file``."""
    yield text
    yield text.partition(":")[0]
    if "@" in text:
        yield text.partition("@")[2]


def _beside(model: str) -> Iterator[str]:
    """The files beside a model that hold a part of it: external data, the weights of a net, the parts of an index."""
    folder, stem = os.path.dirname(model), os.path.splitext(model)[0]
    if model.lower().endswith(".index.json"):
        import json

        with open(model, encoding="utf-8") as file:
            yield from (os.path.join(folder, part) for part in set(json.load(file).get("weight_map", {}).values()))
    elif model.lower().endswith((".prototxt", ".caffemodel", ".h5")):
        yield from (stem + ending for ending in (".caffemodel", ".caffemodel.h5", ".prototxt"))
    elif model.lower().endswith(".onnx"):
        from flopwise.readers.onnx.file.walk import read_skeleton
        from flopwise.readers.source.open import open_source

        with contextlib.closing(open_source(model)) as source:
            skeleton = read_skeleton(source)
        stored = (*skeleton.initializers.values(), *skeleton.inner.values())
        yield from {os.path.join(folder, t.external["location"]) for t in stored if "location" in t.external}
