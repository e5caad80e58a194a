"""The models that a source stands for: a directory, a glob, a list of models, or a catalogue of a library."""

from __future__ import annotations

import glob
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from flopwise.analyses.zoo.entry import Entry
from flopwise.errors import InputError
from flopwise.formats.format import late
from flopwise.formats.sources.location import is_callable, is_url, shown
from flopwise.formats.sources.text import text_of_file
from flopwise.formats.table import models_in

# The catalogues of libraries: their models by name, each with its own input size, its family and its paper's year.

#: A module of a library, repaired where torchvision needs it.
imported = late("torch.libraries:imported")

#: What says the year and month of a paper in a text or a link.
_ARXIV = re.compile(r"arxiv(?:\.org/(?:abs|pdf)/|:)\s*(\d\d)(\d\d)\.\d{4,5}", re.IGNORECASE)

#: Rooms of torchvision's models, and the names of them that are tags.
_ROOMS = ("segmentation", "video", "optical_flow")


def year_of(*texts: str | None) -> int | None:
    """The year of the first paper that the texts name, by its number at arXiv.

    >>> year_of(None, "Deep Residual Learning - https://arxiv.org/abs/1512.03385"), year_of("arXiv:2010.11929")
    (2015, 2020)
    """
    match = next(filter(None, (_ARXIV.search(text) for text in texts if text)), None)
    return None if match is None else 2000 + int(match[1])


def torchvision(pattern: str) -> Iterator[Entry]:
    """torchvision's models whose names match, each at the input size of its weights."""
    models = imported("torchvision").models
    for name in models.list_models():
        if not fnmatchcase(name, pattern):
            continue
        builder = models.get_model_builder(name)
        kind = builder.__module__.partition("torchvision.models.")[2].partition(".")[0]
        if kind in ("detection", "quantization"):
            continue  # what they do follows from the elements of their weights, which a catalogue has not
        room = kind if kind in _ROOMS else ""
        family = builder.__module__.rpartition(".")[2]
        yield Entry(
            f"torchvision/{name}",
            f"torchvision.models{'.' + room if room else ''}:{name}",
            *_torchvision_call(models.get_model_weights(name).DEFAULT, name, room),
            family=family,
            year=year_of(builder.__doc__, getattr(inspect.getmodule(builder), "__doc__", None)),
            tags=(room or "classification",),
        )


def _torchvision_call(weights: Any, name: str, room: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The inputs and arguments of a model: the size that its weights are evaluated at."""
    arguments = {"weights": "None"}
    if room == "segmentation":
        arguments["weights_backbone"] = "None"
    if name in ("inception_v3", "googlenet"):
        arguments["init_weights"] = "False"
    keywords = getattr(weights.transforms, "keywords", {})
    crop = keywords.get("crop_size") or keywords.get("resize_size") or 224
    sides = [crop, crop] if isinstance(crop, int) else list(crop) * (2 if len(crop) == 1 else 1)
    if name.startswith("vit_") and sides[0] != 224:
        arguments["image_size"] = str(sides[0])
    size = f"{sides[0]}x{sides[-1]}"
    if room == "video":
        return (f"1x3x16x{size}",), arguments
    if room == "optical_flow":
        return ("1x3x512x512", "1x3x512x512"), arguments
    return (f"1x3x{size}",), arguments


def timm(pattern: str) -> Iterator[Entry]:
    """timm's models whose names match, each at its own input size."""
    library = imported("timm")
    for name in library.list_models():
        if not fnmatchcase(name, pattern):
            continue
        config = library.get_pretrained_cfg(name)
        size = getattr(config, "input_size", None) or (3, 224, 224)
        papers = getattr(config, "paper_ids", None) or ""
        maker = library.model_entrypoint(name)
        module: Any = inspect.getmodule(maker)
        yield Entry(
            f"timm/{name}",
            "timm:create_model",
            ("x".join(map(str, (1, *size))),),
            {"model_name": name},
            family=module.__name__.rpartition(".")[2],
            year=year_of(maker.__doc__, module.__doc__, papers if isinstance(papers, str) else " ".join(papers)),
            tags=("classification",),
        )


def transformers(pattern: str) -> Iterator[Entry]:
    """The model types of transformers whose names match, each with its default configuration and inputs."""
    auto = "transformers.models.auto"  # its names alone: to import all of them takes a minute
    configurations = imported(f"{auto}.configuration_auto").CONFIG_MAPPING_NAMES
    models = imported(f"{auto}.modeling_auto").MODEL_MAPPING_NAMES
    for kind, name in configurations.items():
        if kind in models and fnmatchcase(kind, pattern):
            arguments = {"config": f"transformers:{name}"}
            yield Entry(f"transformers/{kind}", "transformers:AutoModel", (), arguments, family=kind.replace("-", "_"))


#: Name of each catalogue -> its models whose names match a pattern.
CATALOGUES: dict[str, Callable[[str], Iterator[Entry]]] = {
    "torchvision": torchvision,
    "timm": timm,
    "transformers": transformers,
}


#: Options of a line of a list, each with its value.
OPTIONS = ("-i", "--arg", "--name", "--family", "--year", "--tag")

#: Characters of the longest word in a list.
LONGEST = 4096

#: Values of arguments that name neither code nor files: words and numbers, several with commas.
_PLAIN = re.compile(r"([A-Za-z_][\w-]*|[+-]?\d+(\.\d+)?(e[+-]?\d+)?)(,([A-Za-z_][\w-]*|[+-]?\d+(\.\d+)?))*", re.ASCII)


def entries(sources: Sequence[str], trust_code: bool = False) -> list[Entry]:
    """The models of all sources, in their order; see ``with_own_names`` for the names that several have.

    Args:
        sources: directories, globs, files that list models (``.txt``, ``.list``), catalogues such as
            ``timm:resnet*``, or models themselves.
        trust_code: whether a list may name code: callables, in place of models and as arguments.

    Raises:
        InputError: a source stands for nothing.
    """
    return [entry for source in sources for entry in _entries(source, trust_code)]


def with_own_names(
    models: Sequence[Entry], is_taken: Callable[[str, int], bool] = lambda name, position: False
) -> list[Entry]:
    """The models under unique names: ``name#2`` where a name is in use.

    Args:
        models: in their order.
        is_taken: whether a name is that of a model other than the one at a position.
    """
    names: dict[str, Entry] = {}
    for position, entry in enumerate(models):
        name, number = entry.name, 1
        while name in names or is_taken(name, position):
            number += 1
            name = f"{entry.name}#{number}"
        names[name] = replace(entry, name=name)
    return list(names.values())


def _entries(source: str, trust_code: bool) -> Iterator[Entry]:
    """The models of one source."""
    if _is_of_catalogue(source):
        yield from _catalogue_models(source)
    elif os.path.isdir(source):
        yield from _directory_models(source)
    elif source.endswith((".txt", ".list")) and os.path.isfile(source):
        yield from _list_models(source, trust_code)
    elif os.path.isfile(source) or _is_remote(source) or is_callable(source):
        yield Entry(shown(source), source)
    else:
        paths = sorted(glob.glob(source, recursive=True)) if "\0" not in source else []
        if not paths:
            choices = ", ".join(f"{name}:*" for name in CATALOGUES)
            raise InputError(f"{source}: no such file, directory or model; catalogues: {choices}")
        for path in paths:
            yield from _directory_models(path) if os.path.isdir(path) else (Entry(path, path),)


def _directory_models(directory: str) -> Iterator[Entry]:
    """The models in a directory; a model's folder is its family."""
    for path in models_in(directory):
        relative = os.path.relpath(path, directory)
        name = os.path.basename(os.path.abspath(path)) if relative == "." else relative
        yield Entry(name, path, family=os.path.dirname(relative))


def _list_models(path: str, trust_code: bool) -> Iterator[Entry]:
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
            yield from _line_models(where, words[0], words[1:], os.path.dirname(path), trust_code)
    if empty:
        raise InputError(f"{path}: lists no model")


def _line_models(where: str, model: str, words: Sequence[str], folder: str, trust_code: bool) -> Iterator[Entry]:
    """The models of a line, with its options: one, or several of a catalogue."""
    options = _options(where, model, words)
    arguments = _arguments(where, options.get("--arg", ()))
    if not trust_code:
        _refuse_code(where, model, folder, arguments)
    try:
        listed = list(_catalogue_models(model)) if _is_of_catalogue(model) else [_path_model(where, model, folder)]
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    names = options.get("--name", [])
    if names and len(listed) > 1:
        raise InputError(f"{where}: --name is for one model, and {model} has {len(listed):,}")
    for entry in listed:
        if conflicts := [name for name in arguments if name in entry.arguments]:
            raise InputError(f"{where}: --arg {conflicts[0]}: is set by the catalogue")
        yield replace(
            entry,
            name=names[0] if names else entry.name,
            inputs=tuple(options.get("-i", entry.inputs)),
            arguments={**entry.arguments, **arguments},
            family=options.get("--family", [entry.family])[0],
            year=int(options["--year"][0]) if "--year" in options else entry.year,
            tags=(*entry.tags, *options.get("--tag", ())),
        )


def _options(where: str, model: str, words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each option of a line.

    Raises:
        InputError: a word is none, or an option has too many.
    """
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
    for year in options.get("--year", ()):
        if not re.fullmatch(r"[0-9]{4}", year):
            raise InputError(f"{where}: {year!r} is not a year")
    return options


def _arguments(where: str, texts: Iterable[str]) -> dict[str, str]:
    """Keyword arguments from texts such as ``depth=3``."""
    parts = [text.partition("=") for text in texts]
    if not all(name and equals for name, equals, _ in parts):
        raise InputError(f"{where}: --arg takes NAME=VALUE")
    return {name: value for name, _, value in parts}


def _path_model(where: str, model: str, folder: str) -> Entry:
    """The model of a path, a URL or a callable; one that is not there has a problem."""
    place = _place(model, folder)
    if os.path.exists(place) or _is_remote(place) or is_callable(place):
        return Entry(shown(model), place)
    choices = "a path, a URL, hf:ORG/NAME, a catalogue's name or (with --trust-code) package.module:callable"
    return Entry(shown(model), place, problem=f"{where}: {model}: no such file; a line has {choices}")


def _refuse_code(where: str, model: str, folder: str, arguments: Mapping[str, str]) -> None:
    """Refuse a line that names code: a list comes from somebody else as easily as a model.

    Raises:
        InputError: it does.
    """
    how = "which a list runs only with --trust-code (trust_code=True)"
    if not _is_of_catalogue(model) and is_callable(_place(model, folder)):
        raise InputError(f"{where}: {model}: is code, {how}")
    for name, value in arguments.items():
        if not _PLAIN.fullmatch(value):
            what = "a value is a number or a word, or several with commas; what names a file or code is a callable's"
            raise InputError(f"{where}: --arg {name}={value}: {what}, {how}")


def _place(model: str, folder: str) -> str:
    """The path of a model in a list: beside the list, else relative to here; beside the list where there is none."""
    if _is_remote(model):
        return model
    program, _, name = model.rpartition(":")
    file = program if program.endswith(".py") and is_callable(model) else model
    if file == model and is_callable(model):
        return model
    beside = os.path.join(folder, file)
    if not os.path.exists(beside) and os.path.exists(file):
        beside = file
    if file != model:
        return f"{beside}:{name}"
    return os.path.abspath(beside) if ":" in beside else beside  # a file is none that is called, though it may go


def _is_remote(model: str) -> bool:
    """True for a URL or a model on a hub."""
    return is_url(model) or model.startswith("hf:")


def _is_of_catalogue(source: str) -> bool:
    """True where a source names models of a library's catalogue."""
    catalogue, colon, pattern = source.partition(":")
    return bool(colon) and catalogue in CATALOGUES and not pattern.startswith("//")


def _catalogue_models(source: str) -> Iterator[Entry]:
    """The models of a library whose names match.

    Raises:
        InputError: the library is missing, or no name matches.
    """
    catalogue, _, pattern = source.partition(":")
    pattern = pattern or "*"
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
