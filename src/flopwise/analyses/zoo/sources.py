"""The models that a source stands for: a directory, a glob, a list of models, or a catalogue of a library."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flopwise.errors import InputError
from flopwise.readers.formats import models_in
from flopwise.readers.source.location import is_callable, is_url

#: Files of more bytes are known by their length and time, and by their first and last bytes.
WHOLE = 64 << 20
_ENDS = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One model of a zoo, and how to call it."""

    #: What it is called in the data set; no two entries share one.
    name: str
    #: A path, a URL or ``package.module:callable``.
    model: str
    #: Texts as for ``-i``; () where the model says them itself.
    inputs: tuple[str, ...] = ()
    #: Keyword arguments of a callable.
    arguments: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    year: int | None = None
    tags: tuple[str, ...] = ()

    def key(self, version: str) -> str:
        """What decides its rows: the model's content, how it is called, and the version of flopwise."""
        facts = {**asdict(self), "content": _content(self.model), "flopwise": version}
        return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _content(model: str) -> str:
    """What stands for the content of a file; the version of the package of a callable."""
    if os.path.isfile(model):
        size, digest = os.path.getsize(model), hashlib.blake2b(digest_size=16)
        with open(model, "rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
            else:
                digest.update(f"{size} {os.stat(model).st_mtime_ns}".encode())
                digest.update(file.read(_ENDS))
                file.seek(-_ENDS, os.SEEK_END)
                digest.update(file.read())
        return digest.hexdigest()
    if is_callable(model):
        from importlib import metadata

        package = model.partition(":")[0].partition(".")[0]
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            return package
    return model


def entries(sources: Sequence[str]) -> list[Entry]:
    """The models of all sources, in their order, each with a name of its own.

    Args:
        sources: directories, globs, files that list models (``.txt``, ``.list``), catalogues such as
            ``timm:resnet*``, or models themselves.

    Raises:
        InputError: a source stands for nothing.
    """
    found = [entry for source in sources for entry in _of(source)]
    names: dict[str, int] = {}
    unique: list[Entry] = []
    for entry in found:
        names[entry.name] = names.get(entry.name, 0) + 1
        number = names[entry.name]
        unique.append(entry if number == 1 else Entry(**{**vars(entry), "name": f"{entry.name}#{number}"}))
    return unique


def _of(source: str) -> Iterator[Entry]:
    """The models of one source."""
    catalogue, colon, pattern = source.partition(":")
    if colon and catalogue in CATALOGUES:
        yield from _catalogue(catalogue, pattern or "*")
    elif os.path.isdir(source):
        yield from _of_directory(source)
    elif source.endswith((".txt", ".list")) and os.path.isfile(source):
        yield from _of_list(source)
    elif os.path.isfile(source) or is_url(source) or is_callable(source):
        yield Entry(source, source)
    else:
        paths = sorted(glob.glob(source, recursive=True))
        if not paths:
            known = ", ".join(f"{name}:*" for name in CATALOGUES)
            raise InputError(f"{source}: no such file, directory or model; catalogues: {known}")
        for path in paths:
            yield from _of_directory(path) if os.path.isdir(path) else (Entry(path, path),)


def _of_directory(directory: str) -> Iterator[Entry]:
    """The models in a directory; the folder that one lies in is its family."""
    for path in models_in(directory):
        relative = os.path.relpath(path, directory)
        yield Entry(relative, path, family=os.path.dirname(relative))


def _of_list(path: str) -> Iterator[Entry]:
    """The models that a file lists, one in a line, each with its options (``-i``, ``--arg``, ``--name`` ...).

    Raises:
        InputError: a line is not understood.
    """
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}") from error
        if words:
            yield _listed(f"{path}, line {number}", words[0], words[1:], os.path.dirname(path))


def _listed(where: str, model: str, words: Sequence[str], folder: str) -> Entry:
    options: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=False):
        options.setdefault(option, []).append(value)
    known = {"-i", "--arg", "--name", "--family", "--year", "--tag"}
    if len(words) % 2 or not options.keys() <= known:
        raise InputError(f"{where}: after the model stand {', '.join(sorted(known))}, each with its value")
    year = options.get("--year", [""])[0]
    if year and not year.isdecimal():
        raise InputError(f"{where}: {year!r} is not a year")
    beside = os.path.join(folder, model)
    place = beside if not os.path.exists(model) and os.path.exists(beside) else model
    return Entry(
        name=options.get("--name", [model])[0],
        model=place,
        inputs=tuple(options.get("-i", ())),
        arguments=dict(text.partition("=")[::2] for text in options.get("--arg", ())),
        family=options.get("--family", [""])[0],
        year=int(year) if year else None,
        tags=tuple(options.get("--tag", ())),
    )


def _catalogue(catalogue: str, pattern: str) -> Iterator[Entry]:
    """The models of a library whose names match.

    Raises:
        InputError: the library is missing, or no name matches.
    """
    try:
        every = CATALOGUES[catalogue]()
    except ImportError:
        raise InputError(f"{catalogue}:{pattern}: {catalogue} is not installed: pip install {catalogue}") from None
    chosen = [entry for entry in every if fnmatchcase(entry.name.partition("/")[2], pattern)]
    if not chosen:
        raise InputError(f"{catalogue}:{pattern}: no model of {catalogue} has such a name")
    yield from chosen


def _torchvision() -> Iterator[Entry]:
    """torchvision's models, each at the input size of its weights."""
    from flopwise.readers.torch.imports import repaired

    def imported() -> Any:
        import torchvision

        return torchvision

    models = repaired(imported).models
    for name in models.list_models():
        builder = models.get_model_builder(name)
        kind = builder.__module__.partition("torchvision.models.")[2].partition(".")[0]
        if kind in ("detection", "quantization"):
            continue  # they take lists of images, or weights in int8, and are profiled by name with inputs of one's own
        options = {"weights": "None"} | ({"weights_backbone": "None"} if kind == "segmentation" else {})
        if name in ("inception_v3", "googlenet"):
            options |= {"init_weights": "False"}
        yield Entry(
            f"torchvision/{name}",
            f"torchvision.models{'.' + kind if kind in ('segmentation', 'video', 'optical_flow') else ''}:{name}",
            _torchvision_inputs(models, name, kind),
            options,
            family=builder.__module__.rpartition(".")[2],
            tags=(kind,) if kind in ("segmentation", "video", "optical_flow") else ("classification",),
        )


def _torchvision_inputs(models: Any, name: str, kind: str) -> tuple[str, ...]:
    weights = models.get_model_weights(name).DEFAULT
    keywords = getattr(weights.transforms, "keywords", {})
    crop = keywords.get("crop_size") or keywords.get("resize_size") or 224
    side = (crop, crop) if isinstance(crop, int) else tuple(crop) * (2 if len(tuple(crop)) == 1 else 1)
    if kind == "video":
        return (f"1x3x16x{side[0]}x{side[-1]}",)
    if kind == "optical_flow":
        return ("1x3x512x512", "1x3x512x512")
    return (f"1x3x{side[0]}x{side[-1]}",)


def _timm() -> Iterator[Entry]:
    """timm's models, each at its own input size."""
    from flopwise.readers.torch.imports import repaired

    def imported() -> Any:
        import timm

        return timm

    timm = repaired(imported)
    for name in timm.list_models():
        size = (timm.get_pretrained_cfg(name) or timm.models._pretrained.PretrainedCfg()).input_size or (3, 224, 224)
        shape = "x".join(map(str, (1, *size)))
        family = name.partition("_")[0]
        yield Entry(f"timm/{name}", "timm:create_model", (shape,), {"model_name": name}, family=family)


def _transformers() -> Iterator[Entry]:
    """The model types of transformers, each with its default configuration and inputs."""
    from flopwise.readers.torch.imports import repaired

    def imported() -> Any:
        import transformers

        return transformers.CONFIG_MAPPING, transformers.MODEL_MAPPING

    configurations, models = repaired(imported)
    for kind in configurations:
        config = configurations[kind]
        if config in models:
            arguments = {"config": f"{config.__module__}:{config.__name__}"}
            yield Entry(f"transformers/{kind}", "transformers:AutoModel", (), arguments, family=kind)


#: Name of a catalogue -> its models.
CATALOGUES: dict[str, Callable[[], Iterator[Entry]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
}
