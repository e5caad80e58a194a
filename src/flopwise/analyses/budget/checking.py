"""Models held against a budget, and their figures of today as its new limits."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flopwise.analyses.budget.budget import THOUSAND, Limit, Settings, parse
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


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
    lines = _settings(settings) if settings else []
    lines += ["[model]", *(f"{name} = {values[name]}" for name in NEW if values[name] is not None)]
    text = "\n".join(lines) + "\n"
    parse(text)  # what is written can be read
    return text


def _settings(settings: Settings) -> list[str]:
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
