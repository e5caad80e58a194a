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
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from flopwise.analyses.quantities import ALIASES, quantity
from flopwise.analyses.quantities import FIGURES as OF_LAYERS
from flopwise.conventions import get
from flopwise.errors import InputError, did_you_mean
from flopwise.formats.sources.text import parse_toml, text_of_file
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

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


# Models held against a budget, and their figures of today as its new limits.


#: Figures of time, and their units.
TIMES: Mapping[str, str] = {"roofline_us": "µs", "max_time_ratio": "‰ of the floor"}

#: The value of a figure of time, and whether it is exact.
Timed: TypeAlias = "tuple[int | None, bool]"

_UNMEASURED = "nothing was measured: flopwise bench"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit and what a model has of the figure."""

    limit: Limit
    #: Path of the model.
    model: str
    #: The layer that has the most, of a limit on layers; "" when none fits the pattern.
    layer: str
    #: What the model or the layer has; None when unknown.
    value: int | None
    #: Whether the value is exact, not a lower bound.
    exact: bool
    unit: str = ""

    @property
    def missing(self) -> bool:
        """True where the limit is on layers and the model has none of that name."""
        return bool(self.limit.layers) and not self.layer

    @property
    def broken(self) -> bool:
        """True where the model has more than the limit allows, or may have more."""
        return self.missing or self.value is None or not self.exact or self.value > self.limit.most

    @property
    def why(self) -> str:
        """The reason why the limit is not kept; "" where it is."""
        if self.missing:
            return "no layer has such a name"
        if self.value is None:
            return _UNMEASURED if self.limit.figure == "max_time_ratio" else "the figure is unknown"
        if self.value > self.limit.most and self.limit.figure in TIMES:
            return "too slow"
        if self.value > self.limit.most:
            return f"{self.value - self.limit.most:,} too many"
        return "" if self.exact else "a lower bound: there are layers without a count"


def check_profiles(
    source: str,
    limits: Sequence[Limit],
    profiled: Callable[[str], Profile],
    timed: Callable[[Limit, Profile], Timed] = lambda limit, profile: (None, True),
) -> list[Verdict]:
    """A verdict on each limit, in the order of the budget.

    Args:
        source: path of the model.
        limits: the ones that are for this model.
        profiled: the model's profile in a convention, "" for the one that is asked for.
        timed: the value of a figure of time, None when unknown, and whether it is exact.
    """
    profiles: dict[str, Profile] = {}
    verdicts = []
    for limit in limits:
        if limit.convention not in profiles:
            profiles[limit.convention] = profiled(limit.convention)
        profile = profiles[limit.convention]
        if limit.figure in TIMES:
            value, exact = timed(limit, profile)
            verdicts.append(Verdict(limit, source, "", value, exact, TIMES[limit.figure]))
            continue
        verdicts.append(
            _layers_verdict(source, limit, profile) if limit.layers else _model_verdict(source, limit, profile)
        )
    return verdicts


def _model_verdict(source: str, limit: Limit, profile: Profile) -> Verdict:
    """The verdict on a figure of the model as a whole."""
    figure, unit = limit.figure, _unit(limit, profile)
    if figure == "peak_activation_bytes":
        peak = profile.peak_activation_bytes
        return Verdict(limit, source, "", peak, peak is not None, unit)
    if figure in ("layers", "unknown"):
        return Verdict(limit, source, "", len(profile.rows) if figure == "layers" else profile.sum.unknown, True, unit)
    complete = [getattr(row, figure) is not None for row in profile.rows]
    value = profile.total(figure) if any(complete) or not complete else None
    return Verdict(limit, source, "", value, all(complete), unit)


def _layers_verdict(source: str, limit: Limit, profile: Profile) -> Verdict:
    """The verdict on the layer that has the most; an unknown one is worse than any."""
    rows = [row for row in profile.rows if fnmatch.fnmatchcase(row.name, limit.layers)]
    unit = _unit(limit, profile)
    if not rows:
        return Verdict(limit, source, "", None, True, unit)

    def size(row: Row) -> tuple[bool, int]:
        value: int | None = getattr(row, limit.figure)
        return value is None, value or 0

    worst = max(rows, key=size)
    return Verdict(limit, source, worst.name, getattr(worst, limit.figure), True, unit)


_UNITS: Mapping[str, str] = {"macs": "MAC", "flops": "FLOP"}


def _unit(limit: Limit, profile: Profile) -> str:
    if limit.figure == "count":
        return profile.convention.unit
    return "B" if "bytes" in limit.figure else _UNITS.get(limit.figure, "")


#: What a new budget limits.
NEW = ("params", "macs", "flops", "weight_bytes", "peak_activation_bytes", "unknown")


def updated(text: str, verdicts: Iterable[Verdict], source: str = "budget") -> str:
    """The text of a budget with the figures of the verdicts as its limits; comments and order stay.

    Of several models under one limit, the largest figure counts. A limit on layers that no model has stays.

    Raises:
        InputError: a figure is not known, or the library that keeps comments is not installed.
    """
    try:
        import tomlkit
    except ImportError:
        raise InputError("updating a budget needs tomlkit: pip install 'flopwise[budget]'") from None

    values: dict[tuple[str, ...], int] = {}
    for verdict in verdicts:
        if verdict.missing:
            continue
        if verdict.value is None or not verdict.exact:
            where = ".".join(verdict.limit.path)
            raise InputError(
                f"{source}: {where} cannot be updated: this figure of {verdict.model} is not known exactly"
            )
        values[verdict.limit.path] = max(values.get(verdict.limit.path, 0), verdict.value)
    document: Any = tomlkit.parse(text)
    for path, value in values.items():
        table = document
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value / THOUSAND if path[-1] == "max_time_ratio" else value
    result: str = tomlkit.dumps(document)
    parse(result, source)  # what is written can be read
    return result


def new_budget(profile: Profile, settings: Settings | None = None) -> str:
    """The text of a budget that limits a model to the figures of its profile.

    Figures that are unknown or lower bounds are left out: such a limit would be broken at once.

    Args:
        profile: the model.
        settings: how it was profiled.
    """
    figures = {"peak_activation_bytes": profile.peak_activation_bytes, "unknown": profile.sum.unknown}
    added = [key for key in NEW if key not in figures]
    complete = {key: all(getattr(row, key) is not None for row in profile.rows) for key in added}
    values = {**figures, **{key: profile.total(key) if complete[key] else None for key in added}}
    lines = _settings_lines(settings) if settings else []
    lines += ["[model]", *(f"{name} = {values[name]}" for name in NEW if values[name] is not None)]
    text = "\n".join(lines) + "\n"
    parse(text)  # what is written can be read
    return text


def _settings_lines(settings: Settings) -> list[str]:
    """The settings as lines of TOML."""
    lines, text = [], json.dumps  # a basic string of TOML: JSON's escapes are among its own
    if settings.convention is not None:
        lines.append(f'convention = "{settings.convention}"')
    if settings.batch_size is not None:
        lines.append(f"batch_size = {settings.batch_size}")
    if settings.inputs:
        lines.append(f"inputs = [{', '.join(text(i) for i in settings.inputs)}]")
    if settings.dims:
        pairs: Sequence[str] = [f"{text(name)} = {value}" for name, value in settings.dims.items()]
        lines.append(f"dims = {{ {', '.join(pairs)} }}")
    return [*lines, ""] if lines else []
