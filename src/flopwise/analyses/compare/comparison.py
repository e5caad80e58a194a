"""Several profiles side by side: totals, operators and layers, with differences to the first."""

from __future__ import annotations

import functools
import math
import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from flopwise._arguments import checked
from flopwise._results import Json, Printed
from flopwise.analyses.compare.causes import Difference, common_unit, factor, why
from flopwise.analyses.compare.matching import Match, Way, match
from flopwise.analyses.quantities import ALIASES, FIGURES, quantity
from flopwise.errors import InputError, did_you_mean
from flopwise.profiles.profile import Profile
from flopwise.rows import Row, Sum

#: Figures of the model alone.
OF_MODEL: tuple[str, ...] = ("peak_activation_bytes", "layers", "unknown")

#: A figure in each model; None where it is not known, or there is no such layer.
Values = tuple["int | None", ...]


class Change(NamedTuple):
    """The difference of a figure from that of the first model; None where nothing can be said."""

    difference: int | None
    percent: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One line of a comparison: the same layer, or the same operator, of each model."""

    #: The name in each model; None where there is none.
    names: tuple[str | None, ...]
    op: str
    items: tuple[Row | Sum | None, ...]
    #: What each layer has in common with the one of the first model that has it; None for that one, and where there is
    #: none.
    ways: tuple[Way | None, ...] = ()

    def values(self, figure: str) -> Values:
        """The figure in each model."""
        return tuple(None if item is None else _value(item, figure) for item in self.items)

    def exact(self, figure: str) -> tuple[bool, ...]:
        """For each model, True where its figure is exact and not a lower bound."""
        return tuple(item is None or _exact(item, figure) for item in self.items)

    def subtracted(self, figure: str) -> Values:
        """The figure in each model as differences take it: 0 where there is no such layer, None for a lower bound."""
        values = zip(self.items, self.values(figure), self.exact(figure), strict=True)
        return tuple(0 if item is None else value if exact else None for item, value, exact in values)

    @property
    def missing(self) -> bool:
        """True where a model has no such layer."""
        return None in self.items

    @property
    def changed(self) -> bool:
        """True where a model has no such layer, or a figure is not the same in all."""
        return self.missing or any(len(set(self.values(figure))) > 1 for figure in FIGURES)


def _value(item: Row | Sum, figure: str) -> int | None:
    if figure == "layers":
        return 1 if isinstance(item, Row) else len(item.rows)
    rows = item.rows if isinstance(item, Sum) and figure in FIGURES else ()
    if rows and all(getattr(row, figure) is None for row in rows):
        return None
    value: int | None = getattr(item, figure)
    return value


def _exact(item: Row | Sum, figure: str) -> bool:
    if isinstance(item, Row) or figure not in FIGURES:
        return True
    return all(getattr(row, figure) is not None for row in item.rows)


@dataclass(frozen=True, eq=False)
class Comparison(Printed):
    """Two or more profiles; the first is what the others are compared with."""

    profiles: tuple[Profile, ...]
    #: What each is called.
    labels: tuple[str, ...]

    @functools.cached_property
    def matches(self) -> tuple[tuple[Match, ...], ...]:
        """For each profile after the first, which of its layers belong to which of the first."""
        first = self.profiles[0].rows
        return tuple(tuple(match(first, other.rows)) for other in self.profiles[1:])

    @functools.cached_property
    def layers(self) -> tuple[Group, ...]:
        """The layers that belong together. What the first model lacks stands after what precedes it in its own."""
        first = self.profiles[0].rows
        lines = {i: [first[i], *[None] * (len(self.profiles) - 1)] for i in range(len(first))}
        ways: dict[int, list[Way | None]] = {i: [None] * len(self.profiles) for i in lines}
        added: dict[int, list[Group]] = {}
        for model, (pairs, other) in enumerate(zip(self.matches, self.profiles[1:], strict=True), start=1):
            theirs = {m.second: m for m in pairs}
            after = -1
            for position, row in enumerate(other.rows):
                if position in theirs:
                    after = theirs[position].first
                    lines[after][model] = row
                    ways[after][model] = theirs[position].way
                else:
                    alone: list[Row | Sum | None] = [None] * len(self.profiles)
                    alone[model] = row
                    added.setdefault(after, []).append(_group(alone))
        groups = [*added.get(-1, ())]
        for i in lines:
            groups += [_group(lines[i], ways[i]), *added.get(i, ())]
        return tuple(groups)

    @functools.cached_property
    def operators(self) -> tuple[Group, ...]:
        """One group for each operator, those of the first model first, the most expensive first."""
        sums = [{s.name: s for s in p.by("op")} for p in self.profiles]
        names = dict.fromkeys(name for each in sums for name in each)
        return tuple(Group(tuple(n if n in s else None for s in sums), n, tuple(s.get(n) for s in sums)) for n in names)

    @functools.cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Of one graph in several conventions, why each differs from the first; () for different models."""
        first, *others = self.profiles
        counts = [row.count for p in self.profiles for row in p.rows]
        if any(p.graph is not first.graph for p in others) or not self.convertible:
            return ()
        if any(count is not None and not isinstance(count, int) for count in counts):  # symbols have no order
            return ()
        return tuple(why(first, other) for other in others if other.convention is not first.convention)

    @functools.cached_property
    def convertible(self) -> bool:
        """True where the counts of all conventions can be stated in one unit."""
        try:
            return bool(self._scales)
        except InputError:
            return False

    @functools.cached_property
    def _scales(self) -> tuple[int, ...]:
        """The factors from one unit of each profile's count to the common unit."""
        unit = common_unit(self.profiles)
        return tuple(factor(profile, unit) for profile in self.profiles)

    @checked
    def total(self, figure: str) -> Values:
        """A figure of each model; a lower bound where it is not ``exact``, None where it is unknown.

        Raises:
            InputError: there is no figure of that name.
        """
        if figure not in (*FIGURES, *OF_MODEL):
            raise InputError(f"unknown figure {figure!r}; known: {', '.join((*FIGURES, *OF_MODEL))}")
        if figure == "peak_activation_bytes":
            return tuple(p.peak_activation_bytes for p in self.profiles)
        return tuple(_value(p.sum, figure) for p in self.profiles)

    @checked
    def exact(self, figure: str) -> tuple[bool, ...]:
        """For each model, True where its total is exact and not a lower bound."""
        if figure in OF_MODEL:
            return tuple(value is not None for value in self.total(figure))
        return tuple(_exact(p.sum, figure) for p in self.profiles)

    @checked
    def comparable(self, figure: str) -> tuple[bool, ...]:
        """For each model, True where its figure is in the unit of the first, or both are converted to one unit."""
        units = [profile.convention.unit for profile in self.profiles]
        return tuple(figure != "count" or unit == units[0] or self.convertible for unit in units)

    @checked
    def subtracted(self, figure: str) -> Values:
        """The total of each model as differences take it: None where it is a lower bound."""
        return tuple(
            value if exact else None for value, exact in zip(self.total(figure), self.exact(figure), strict=True)
        )

    def changes(self, figure: str, values: Values) -> list[Change]:
        """The differences of the models from the first; in FLOP where the counts are in different units.

        Args:
            figure: what is compared.
            values: the figure of each model, as ``subtracted`` has it.
        """
        if figure == "count" and self.convertible:
            values = tuple(None if v is None else v * scale for v, scale in zip(values, self._scales, strict=True))
        return [
            Change(difference(values, model), percent(values, model)) if alike else Change(None, None)
            for model, alike in enumerate(self.comparable(figure))
        ]

    @checked
    def difference(self, figure: str, model: int = 1) -> int | None:
        """The difference of a model from the first; None when a figure is not exact, or the units differ.

        Raises:
            InputError: there is no figure of that name, or no such model.
        """
        if not 0 <= model < len(self.profiles):
            raise InputError(f"model {model}: there are {len(self.profiles)} models, the first of which is 0")
        return self.changes(figure, self.subtracted(figure))[model].difference

    def to_dict(self) -> Json:
        """The comparison in the stable JSON schema ``flopwise.compare/1``.

        Figures are integers or None, in the order of "models"; "difference" and "percent" are to the first model.
        """
        return {
            "schema": "flopwise.compare/1",
            "models": [
                {"label": label, **{key: data[key] for key in ("model", "inputs", "convention", "coverage", "notes")}}
                for label, data in zip(self.labels, (p.to_dict() for p in self.profiles), strict=True)
            ],
            "totals": {
                figure: _entry(self.total(figure), self.exact(figure), self.changes(figure, self.subtracted(figure)))
                for figure in (*FIGURES, *OF_MODEL)
            },
            "operators": [{"op": group.op, **self._figures(group, ("layers", *FIGURES))} for group in self.operators],
            "layers": [
                {
                    "names": list(group.names),
                    "op": group.op,
                    "matched_by": list(group.ways),
                    "changed": group.changed,
                    **self._figures(group, FIGURES),
                }
                for group in self.layers
            ],
            **({"differences": [d.to_dict() for d in self.differences]} if self.differences else {}),
        }

    def _figures(self, group: Group, figures: Sequence[str]) -> Json:
        return {
            figure: _entry(group.values(figure), group.exact(figure), self.of_group(group, figure))
            for figure in figures
        }

    def of_group(self, group: Group, figure: str) -> list[Change]:
        """The differences of a layer or operator of each model from that of the first; empty where neither has it."""
        changes = self.changes(figure, group.subtracted(figure))
        return [
            Change(None, None) if group.items[0] is None and item is None else change
            for item, change in zip(group.items, changes, strict=True)
        ]


def _group(items: Sequence[Row | Sum | None], ways: Sequence[Way | None] = ()) -> Group:
    rows = [item for item in items if isinstance(item, Row)]
    names = tuple(None if item is None else item.name for item in items)
    return Group(names, rows[0].node.op, tuple(items), tuple(ways) or (None,) * len(names))


def _entry(values: Values, exact: Sequence[bool], changes: Sequence[Change]) -> Json:
    return {
        "values": list(values),
        "exact": list(exact),
        "difference": [change.difference for change in changes],
        "percent": [change.percent for change in changes],
    }


def difference(values: Values, model: int) -> int | None:
    """The difference of a model from the first; None when one of them is not known."""
    first, other = values[0], values[model]
    return None if first is None or other is None else other - first


def percent(values: Values, model: int) -> float | None:
    """The difference in percent of the first; None when it is unknown, or a figure grows from 0."""
    more, first = difference(values, model), values[0]
    if more is None or first is None:
        return None
    return 100 * more / first if first else (0.0 if not more else None)


def compare_profiles(profiles: Sequence[Profile], labels: Sequence[str] | None = None) -> Comparison:
    """Profiles side by side.

    Args:
        profiles: two or more; the first is what the others are compared with.
        labels: what each is called; None for what tells them apart.

    Raises:
        InputError: there are fewer than two, or not as many labels.
    """
    if len(profiles) < 2:
        raise InputError("comparing takes two models, conventions, batch sizes or input sizes")
    if labels is not None and len(labels) != len(profiles):
        raise InputError(f"{len(profiles)} models are compared, and {len(labels)} labels are given")
    return Comparison(tuple(profiles), tuple(labels or _labels(profiles)))


def _labels(profiles: Sequence[Profile]) -> list[str]:
    """A label for each profile: the file, else the name, the convention, the input shapes; else a number."""
    ways: list[Callable[[Profile], str]] = [
        lambda p: os.path.basename(p.graph.source) if not p.graph.source.startswith("<") else p.graph.name,
        lambda p: p.graph.source if p.graph.source and not p.graph.source.startswith("<") else p.graph.name,
        lambda p: p.graph.name,
        lambda p: p.convention.name,
        lambda p: ", ".join("x".join(map(str, t.shape)) if t.shape else "scalar" for t in p.graph.inputs),
    ]
    for way in ways:
        labels = [way(p) for p in profiles]
        if all(labels) and len(set(labels)) == len(labels):
            return labels
    return [f"{p.graph.name or 'model'} {i}" for i, p in enumerate(profiles, start=1)]


# Differences that make a comparison fail: ``macs>+1%,params>0``.


#: Signs of conditions.
SIGNS: dict[str, Callable[[Fraction | float, Fraction], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

_FORM = re.compile(
    r"\s*(?P<figure>\w+)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<minus>[+-]?)\s*(?P<limit>[^%+-]+?)\s*(?P<share>%?)\s*"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A difference from the first model that makes a comparison fail."""

    text: str
    figure: str
    sign: str
    #: In the figure's unit, or in per cent of what the first model has.
    limit: Fraction
    percent: bool

    def holds(self, first: int, other: int) -> bool:
        """True where the figures of the first and of another model differ as the condition says."""
        more: Fraction | float = Fraction(other - first)
        if self.percent and more:
            more = 100 * more / first if first else math.copysign(math.inf, more)
        return SIGNS[self.sign](more, self.limit)


def conditions(text: str) -> list[Condition]:
    """The conditions of a text such as ``macs>+1%,params>0``: differences to the first model.

    Raises:
        InputError: the text is not of that form, or names an unknown figure.

    >>> [(c.figure, c.sign, c.limit, c.percent) for c in conditions("macs>+1%, params>25 k")]
    [('macs', '>', Fraction(1, 1), True), ('params', '>', Fraction(25000, 1), False)]
    """
    parts = [_condition(part) for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{text!r} contains no condition; write for example macs>+1%,params>0")
    return parts


def _condition(text: str) -> Condition:
    parts = _FORM.fullmatch(text)
    if parts is None:
        raise InputError(
            f"cannot understand {text.strip()!r}; write a figure, a sign and a limit: macs>+1% or params>0"
        )
    figure = ALIASES.get(parts["figure"].lower(), parts["figure"].lower())
    if figure not in (*FIGURES, *OF_MODEL):
        figures = (*FIGURES, *OF_MODEL)
        hint = did_you_mean(figure, [*figures, *ALIASES], " ")
        raise InputError(f"unknown figure {parts['figure']!r};{hint} known: {', '.join(figures)}")
    try:
        limit = quantity(parts["limit"], bytes_="bytes" in figure)
    except InputError as error:
        raise InputError(f"{text.strip()!r}: {error}") from None
    signed = -limit if parts["minus"] == "-" else limit
    return Condition(text.strip(), figure, parts["sign"], signed, bool(parts["share"]))


@dataclass(frozen=True, slots=True)
class Break:
    """A condition that holds for a model: what the first model has, and what it has; None where it may hold."""

    condition: Condition
    label: str
    first: int | None
    other: int | None


def broken(comparison: Comparison, conditions: list[Condition]) -> Iterator[Break]:
    """The conditions that hold or may hold, for each model but the first."""
    for condition in conditions:
        first, *others = comparison.subtracted(condition.figure)
        units = [p.convention.unit for p in comparison.profiles]
        comparable = [condition.figure != "count" or unit == units[0] for unit in units[1:]]
        for label, other, alike in zip(comparison.labels[1:], others, comparable, strict=True):
            if not alike:
                raise InputError(f"{condition.text}: {label} counts in a different unit from {comparison.labels[0]}")
            if first is None or other is None or condition.holds(first, other):
                yield Break(condition, label, first, other)
