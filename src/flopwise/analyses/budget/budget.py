"""A budget: limits on figures of models and of their layers, read from TOML.

::

    convention = "fvcore"       # of "count"; flops when it is left out
    batch_size = 1

    [model]                     # for every model that is checked
    params = "25.6 M"
    unknown = 0

    [layers."*/conv*"]          # for each layer whose name fits
    macs = "120 M"

    [models."resnet*.onnx"]     # for the files whose name or path fits
    peak_activation_bytes = "10 MB"
    max_time_ratio = 1.25       # measured time over the engine's floor, on this machine
    roofline_us = { h100 = 900 } # rooflines of all layers added up, on a device
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flopwise.analyses.quantities import ALIASES, quantity
from flopwise.analyses.quantities import FIGURES as OF_LAYERS
from flopwise.conventions import get
from flopwise.errors import InputError, did_you_mean
from flopwise.formats.sources.text import parse_toml, text_of_file

#: Figures that a model can be limited in, beside those of its layers too.
FIGURES: tuple[str, ...] = (*OF_LAYERS, "peak_activation_bytes", "layers", "unknown", "roofline_us", "max_time_ratio")

#: A ratio of times is kept in thousandths, as all limits are whole numbers.
THOUSAND = 1000

_SETTINGS = ("convention", "batch_size", "inputs", "dims")
_SECTIONS = ("model", "models", "layers")


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of a budget: a figure that must not be larger."""

    #: Where it stands in the file: the keys of the tables, and its own.
    path: tuple[str, ...]
    figure: str
    most: int
    #: The convention of a count; "" for the one that is asked for.
    convention: str = ""
    #: The device of a roofline time.
    device: str = ""
    #: Which models it is for: a pattern of their paths or file names.
    models: str = "*"
    #: Which layers it is for: a pattern of their names; "" for the model as a whole.
    layers: str = ""

    def applies(self, source: str) -> bool:
        """True where the limit is for a model with this path."""
        path = source.replace(os.sep, "/")
        return any(fnmatch.fnmatchcase(name, self.models) for name in (path, path.rpartition("/")[2]))


@dataclass(frozen=True, slots=True)
class Settings:
    """The way the models of a budget are profiled; None where the budget says nothing."""

    convention: str | None = None
    batch_size: int | None = None
    inputs: Any = None
    dims: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a file."""

    source: str
    limits: tuple[Limit, ...]
    settings: Settings = field(default_factory=Settings)

    def for_model(self, source: str) -> tuple[Limit, ...]:
        """The limits for a model with this path.

        Raises:
            InputError: there are none.
        """
        limits = tuple(limit for limit in self.limits if limit.applies(source))
        if not limits:
            raise InputError(f"{self.source}: sets no limit for {source}; add a table [model]")
        return limits


def read_budget(path: str | os.PathLike[str]) -> Budget:
    """The budget in a TOML file.

    Raises:
        InputError: the file cannot be read, is not TOML, or holds something that is not a budget.
    """
    name = os.fspath(path)
    try:
        return parse(text_of_file(name), name)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file; --update writes one with today's figures") from None


#: Most dots in a line: in numbers, names and the steps of a key.
_DOTS = 1000


def parse(text: str, source: str = "budget") -> Budget:
    """The budget in a text of TOML.

    Raises:
        InputError: the text is not TOML, or holds something that is not a budget.
    """
    if any(line.count(".") > _DOTS for line in text.splitlines()):  # each dot costs a walk over all before it
        raise InputError(f"{source}: a line has more than {_DOTS} dots")
    try:
        content = parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: is not TOML: {error}") from None
    try:
        return budget_from_mapping(content, source)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def budget_from_mapping(content: Mapping[str, object], source: str = "budget") -> Budget:
    """The budget in a mapping of the same form as the file.

    Raises:
        InputError: the mapping is not a budget; the message says where.
    """
    _refuse_unknown("the budget", content, (*_SETTINGS, *_SECTIONS))
    return Budget(source, tuple(_limits(content)), _settings(content))


def _limits(content: Mapping[str, object]) -> Iterator[Limit]:
    """The limits of [model] and [layers], then those of each [models.PATTERN] and of its layers."""
    if "model" in content:
        yield from _figures(("model",), _table(("model",), content["model"]), "*")
    yield from _layers((), content, "*")
    for models, table in _tables(("models",), content.get("models", {})):
        path = ("models", models)
        yield from _figures(path, {key: value for key, value in table.items() if key != "layers"}, models)
        yield from _layers(path, table, models)


def _layers(path: tuple[str, ...], table: Mapping[str, object], models: str) -> Iterator[Limit]:
    for pattern, inner in _tables((*path, "layers"), table.get("layers", {})):
        yield from _figures((*path, "layers", pattern), inner, models, pattern)


def _figures(path: tuple[str, ...], table: Mapping[str, object], models: str, layers: str = "") -> Iterator[Limit]:
    """The limits in a table of figures, those of each convention and device among them."""
    where, names = _where(path), OF_LAYERS if layers else FIGURES
    _refuse_unknown(where, table, (*names, *(alias for alias, figure in ALIASES.items() if figure in names)))
    for key, value in table.items():
        figure = ALIASES.get(key, key)
        if figure == "count" and isinstance(value, Mapping):
            for name, most in value.items():
                get(name)  # says which conventions there are
                number = _number(f"{where} {key}.{name}", figure, most)
                yield Limit((*path, key, name), figure, number, name, "", models, layers)
        elif figure == "roofline_us":
            from flopwise.analyses.timing.catalog import find

            for name, most in _table((*path, key), value).items():
                number = _number(f"{where} {key}.{name}", figure, most)
                yield Limit((*path, key, name), figure, number, device=find(name).id, models=models)
        elif figure == "max_time_ratio":
            yield Limit((*path, key), figure, _thousandths(f"{where} {key}", value), models=models)
        else:
            yield Limit((*path, key), figure, _number(f"{where} {key}", figure, value), "", "", models, layers)


def _thousandths(where: str, value: object) -> int:
    """A ratio of times, in thousandths."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 1e6:
        raise InputError(f"{where}: {_shown(value)} is not a ratio of at least 1, such as 1.25")
    return int(THOUSAND * Fraction(str(value)))


def _number(where: str, figure: str, value: object) -> int:
    """A limit as a whole number, rounded down."""
    if isinstance(value, str):
        try:
            return int(quantity(value, "bytes" in figure))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    if isinstance(value, float) and value == value and abs(value) < 1e30:
        value = int(Fraction(value))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f'{where}: {_shown(value)} is not a number of at least 0, such as 25600000 or "25.6 M"')
    return value


def _settings(content: Mapping[str, object]) -> Settings:
    convention, batch, inputs, dims = (content.get(key) for key in _SETTINGS)
    if convention is not None:
        if not isinstance(convention, str):
            raise InputError(f"convention: {_shown(convention)} is not the name of a convention")
        get(convention)
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 1):
        raise InputError(f"batch_size: {_shown(batch)} is not a whole number of at least 1")
    if inputs is not None and not _are_inputs(inputs):
        raise InputError('inputs: write texts such as ["x:f32:1x3x224x224"], or a table of lists x = [1, 3, 224, 224]')
    if dims is not None and not (isinstance(dims, Mapping) and all(type(d) is int and d >= 0 for d in dims.values())):
        raise InputError("dims: write a table of whole numbers, such as sequence = 128")
    return Settings(convention, batch, inputs, dims)


def _are_inputs(value: object) -> bool:
    """True for a list of texts, and for a table of lists of whole numbers."""
    if isinstance(value, Mapping):
        return all(isinstance(shape, list) and all(type(d) is int for d in shape) for shape in value.values())
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _tables(path: tuple[str, ...], value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    for key, table in _table(path, value).items():
        yield key, _table((*path, key), table)


def _table(path: tuple[str, ...], value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InputError(f"{_where(path)} is not a table but {_shown(value)}")
    return value


def _where(path: Sequence[str]) -> str:
    return f"[{'.'.join(key if key.isidentifier() else repr(key) for key in path)}]"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _refuse_unknown(where: str, table: Mapping[str, object], names: Collection[str]) -> None:
    """Refuse an unknown key, and name the nearest known one.

    Raises:
        InputError: there is one.
    """
    for key in table:
        if key not in names:
            hint = did_you_mean(key, names, " ")
            raise InputError(f"{where}: unknown key {key!r};{hint} known: {', '.join(names)}")
