"""Today's figures as the new limits of a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.analyses.budget.budget import THOUSAND, Settings, parse
from flopwise.analyses.budget.checking import Verdict
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

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
    lines = []
    if settings.convention is not None:
        lines.append(f'convention = "{settings.convention}"')
    if settings.batch_size is not None:
        lines.append(f"batch_size = {settings.batch_size}")
    if settings.inputs:
        lines.append(f"inputs = [{', '.join(_text(i) for i in settings.inputs)}]")
    if settings.dims:
        pairs: Sequence[str] = [f"{_text(name)} = {value}" for name, value in settings.dims.items()]
        lines.append(f"dims = {{ {', '.join(pairs)} }}")
    return [*lines, ""] if lines else []


def _text(value: str) -> str:
    """A basic string of TOML; JSON's escapes are among its own."""
    import json

    return json.dumps(value)
