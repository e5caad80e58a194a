"""The models that a source stands for: a directory, a glob, a list of models, or a catalogue of a library."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from flopwise.analyses.zoo.catalogues import CATALOGUES
from flopwise.analyses.zoo.entry import Entry
from flopwise.errors import InputError
from flopwise.readers.formats import models_in
from flopwise.readers.source.location import is_callable, is_url, shown
from flopwise.readers.source.text import text_of_file

#: Options of a line of a list, each with its value.
OPTIONS = ("-i", "--arg", "--name", "--family", "--year", "--tag")

#: Characters of the longest word in a list.
LONGEST = 4096


def entries(sources: Sequence[str]) -> list[Entry]:
    """The models of all sources, in their order; see ``with_own_names`` for the names that several have.

    Args:
        sources: directories, globs, files that list models (``.txt``, ``.list``), catalogues such as
            ``timm:resnet*``, or models themselves.

    Raises:
        InputError: a source stands for nothing.
    """
    return [entry for source in sources for entry in _of(source)]


def with_own_names(
    models: Sequence[Entry], taken: Callable[[str, int], bool] = lambda name, position: False
) -> list[Entry]:
    """The models under unique names: ``name#2`` where a name is in use.

    Args:
        models: in their order.
        taken: whether a name is that of a model other than the one at a position.
    """
    names: dict[str, Entry] = {}
    for position, entry in enumerate(models):
        name, number = entry.name, 1
        while name in names or taken(name, position):
            number += 1
            name = f"{entry.name}#{number}"
        names[name] = replace(entry, name=name)
    return list(names.values())


def _of(source: str) -> Iterator[Entry]:
    """The models of one source."""
    catalogue, colon, pattern = source.partition(":")
    if colon and catalogue in CATALOGUES and not pattern.startswith("//"):
        yield from _of_catalogue(catalogue, pattern or "*")
    elif os.path.isdir(source):
        yield from _of_directory(source)
    elif source.endswith((".txt", ".list")) and os.path.isfile(source):
        yield from _of_list(source)
    elif os.path.isfile(source) or is_url(source) or is_callable(source):
        yield Entry(shown(source), source)
    else:
        paths = sorted(glob.glob(source, recursive=True)) if "\0" not in source else []
        if not paths:
            choices = ", ".join(f"{name}:*" for name in CATALOGUES)
            raise InputError(f"{source}: no such file, directory or model; catalogues: {choices}")
        for path in paths:
            yield from _of_directory(path) if os.path.isdir(path) else (Entry(path, path),)


def _of_directory(directory: str) -> Iterator[Entry]:
    """The models in a directory; a model's folder is its family."""
    for path in models_in(directory):
        relative = os.path.relpath(path, directory)
        name = os.path.basename(os.path.abspath(path)) if relative == "." else relative
        yield Entry(name, path, family=os.path.dirname(relative))


def _of_list(path: str) -> Iterator[Entry]:
    """The models that a file lists, one in a line, each with its options (``-i``, ``--arg``, ``--name`` ...).

    Raises:
        InputError: the file cannot be read, lists nothing, or a line is not understood.
    """
    try:
        lines = text_of_file(path).splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    empty = True
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from error
        if words:
            empty = False
            yield _listed(where, words[0], words[1:], os.path.dirname(path))
    if empty:
        raise InputError(f"{path}: lists no model")


def _listed(where: str, model: str, words: Sequence[str], folder: str) -> Entry:
    """The model of a line, with its options."""
    options: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=False):
        options.setdefault(option, []).append(value)
    if len(words) % 2 or not options.keys() <= set(OPTIONS):
        raise InputError(f"{where}: only these options may follow the model: {', '.join(OPTIONS)}, each with its value")
    for single in ("--name", "--family", "--year"):
        if len(options.get(single, ())) > 1:
            raise InputError(f"{where}: has {single} more than once")
    if max(map(len, (model, *words))) > LONGEST or "\0" in model:
        raise InputError(f"{where}: has a word of more than {LONGEST:,} characters, or a character that no path has")
    year = options.get("--year", [""])[0]
    if year and not re.fullmatch(r"[0-9]{4}", year):
        raise InputError(f"{where}: {year!r} is not a year")
    arguments = [text.partition("=") for text in options.get("--arg", ())]
    if not all(name and equals for name, equals, _ in arguments):
        raise InputError(f"{where}: --arg takes NAME=VALUE")
    place = _place(model, folder)
    there = os.path.exists(place) or is_url(place) or is_callable(place)
    return Entry(
        name=options.get("--name", [shown(model)])[0],
        model=place,
        inputs=tuple(options.get("-i", ())),
        arguments={name: value for name, _, value in arguments},
        family=options.get("--family", [""])[0],
        year=int(year) if year else None,
        tags=tuple(options.get("--tag", ())),
        problem="" if there else f"{where}: {model}: no such file; a line has a path, a URL or package.module:callable",
    )


def _place(model: str, folder: str) -> str:
    """Where a model of a list is: beside the list, else relative to here; beside the list where there is none."""
    if is_url(model):
        return model
    program, _, name = model.rpartition(":")
    file = program if program.endswith(".py") and is_callable(model) else model
    if file == model and is_callable(model):
        return model
    beside = os.path.join(folder, file)
    if not os.path.exists(beside) and os.path.exists(file):
        return model
    return beside if file == model else f"{beside}:{name}"


def _of_catalogue(catalogue: str, pattern: str) -> Iterator[Entry]:
    """The models of a library whose names match.

    Raises:
        InputError: the library is missing, or no name matches.
    """
    try:
        listed = list(CATALOGUES[catalogue](pattern))
    except ImportError as error:
        raise InputError(
            f"{catalogue}:{pattern}: {catalogue} cannot be imported ({' '.join(str(error).split())}); "
            f"pip install {catalogue}"
        ) from None
    if not listed:
        raise InputError(f"{catalogue}:{pattern}: no model of {catalogue} has such a name")
    yield from listed
