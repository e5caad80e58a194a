"""Several models as one table for a paper: a line for each, one scale for each column, the convention said once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.errors import InputError, counted, entry
from flopwise.report.formats import latex
from flopwise.report.formats.latex import escape
from flopwise.report.report import Report
from flopwise.report.sheet.columns import COLUMNS, cell, count_title
from flopwise.report.sheet.sheet import PREFIXES, AtLeast, Head, Line, Look, Sheet, Value, data_sheet, exact, gaps_of

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Digits behind the point at most; a column has as many as its smallest figure needs for three digits.
DECIMALS = 3


#: Every column by key: its title, and "B" of bytes; "" where the title says what is counted.
MEASURES: dict[str, tuple[str, str]] = {
    "params": ("parameters", ""),
    "buffers": ("buffers", ""),
    "macs": ("MACs", ""),
    "flops": ("FLOPs", ""),
    "count": ("{count}", ""),
    "activations": ("activations", ""),
    "weight_bytes": ("weights", "B"),
    "output_bytes": ("outputs", "B"),
    "peak": ("peak activations", "B"),
    "layers": ("layers", ""),
}

#: Other names of a column.
ALIASES = {
    "weights": "weight_bytes",
    "outputs": "output_bytes",
    "peak_activation_bytes": "peak",
    "parameters": "params",
}

DEFAULT = ("params", "macs", "count", "peak")


def paper_report(
    profiles: Sequence[Profile],
    columns: Sequence[str] | None = None,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    human: bool = True,
) -> Report:
    """The table, one line for each model; programs always get every digit.

    Args:
        profiles: the models, in the order of the lines.
        columns: keys of MEASURES; None for what suits most papers.
        names: what the models are called, one for each; () for their own names.
        units: SI prefix ("k", "M", "G" ..., "" for none) of a column, or under the key "" of all others; a column
            without one gets the prefix that suits its figures.
        human: scaled figures; else every digit.

    Raises:
        InputError: a column or a prefix is unknown, or there are not as many names as models.
    """
    if names and len(names) != len(profiles):
        raise InputError(
            f"{counted(len(names), 'name')} for {counted(len(profiles), 'model')}: "
            "give --name once for each model, in their order"
        )
    keys = _keys(columns, profiles)
    values = [[_figure(key, profile) for key in keys] for profile in profiles]
    paper = _Paper(profiles, list(names) or [p.graph.name or "model" for p in profiles], keys, values)
    scales = _scales(paper.keys, paper.values, units or {}, human)
    return Report(
        lambda format, look: [_data(paper, look) if format.data else _sheet(paper, scales, look)],
        paper.content,
        own={"latex": lambda look: _latex(paper, scales, look)},
    )


@dataclass(frozen=True, slots=True)
class _Paper:
    """The figures of the table: a model's in each line, a measure's in each column."""

    profiles: Sequence[Profile]
    names: Sequence[str]
    keys: Sequence[str]
    values: Sequence[Sequence[Value]]

    def content(self) -> Json:
        """The JSON schema ``flopwise.table/1``: every number an integer or null, a lower bound unless "exact"."""
        return {
            "schema": "flopwise.table/1",
            "models": [
                {
                    "name": name,
                    "source": profile.graph.source,
                    "inputs": profile.to_dict()["inputs"],
                    "convention": fields(profile.convention, "name unit"),
                    **dict(zip(self.keys, values, strict=True)),
                    "exact": profile.exact,
                }
                for name, profile, values in zip(self.names, self.profiles, self.values, strict=True)
            ],
        }


def _sheet(paper: _Paper, scales: Sequence[_Scale], look: Look) -> Sheet:
    """The table for people; the scale of each column writes its figures."""

    def text(value: Value, scale: _Scale) -> Value:
        if not isinstance(value, int):
            return value
        return (look.glyphs.at_least if isinstance(value, AtLeast) else "") + scale.text(value)

    heads = [_head(key, scale, paper.profiles[0], look) for key, scale in zip(paper.keys, scales, strict=True)]
    notes = [(name, profile.notes) for name, profile in zip(paper.names, paper.profiles, strict=True)]
    return Sheet(
        (Head("name", "model", "text"), *heads),
        tuple(Line((name, *map(text, values, scales))) for name, values in zip(paper.names, paper.values, strict=True)),
        about=_about(paper.profiles, paper.names, look),
        notes=tuple(map(look.text, gaps_of(notes))),
    )


def _data(paper: _Paper, look: Look) -> Sheet:
    """The table for programs: each line with its convention, its unit and whether its figures are complete."""
    texts = ("name", "convention", "unit", "complete")
    lines = (
        (name, *values, p.convention.name, p.convention.unit, "yes" if p.exact else "no")
        for name, values, p in zip(paper.names, paper.values, paper.profiles, strict=True)
    )
    return data_sheet((texts[0], *paper.keys, *texts[1:]), texts, lines)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of a column's figures: divided by 1000 to the ``power``, with so many decimals."""

    power: int
    decimals: int
    #: Digits before the point of the largest figure.
    digits: int
    grouped: bool

    def text(self, value: int) -> str:
        """The figure; what is there but would round to nothing is "<0.001".

        A lower bound is rounded down, to as many decimals as it takes to say more than nothing.
        """
        if self.grouped:
            return exact(value)
        bound = isinstance(value, AtLeast)
        digits = Context(prec=28 + int(value).bit_length())  # loops in loops make figures of hundreds of digits
        scaled = Decimal(value).scaleb(-3 * self.power, digits)
        decimals = max(self.decimals, -scaled.adjusted()) if bound and value else self.decimals
        step = Decimal(1).scaleb(-decimals)
        rounded = scaled.quantize(step, ROUND_FLOOR if bound else ROUND_HALF_EVEN, digits)
        return f"<{step}" if value and not rounded else f"{rounded:,}"


def _figure(key: str, profile: Profile) -> Value:
    return profile.peak_activation_bytes if key == "peak" else cell(COLUMNS[key], profile.sum, profile)


def _keys(columns: Sequence[str] | None, profiles: Sequence[Profile]) -> list[str]:
    if columns is None:
        own = {p.convention.name for p in profiles}
        return [key for key in DEFAULT if not (key == "count" and own <= {"macs"})]
    keys = []
    for name in columns:
        key = ALIASES.get(name.lower(), name.lower())
        entry(MEASURES, key, others=ALIASES, name=name)
        keys.append(key)
    return list(dict.fromkeys(keys))


def _scales(
    keys: Sequence[str], table: Sequence[Sequence[Value]], units: Mapping[str, str], human: bool
) -> list[_Scale]:
    for key, prefix in units.items():
        if ALIASES.get(key, key) not in (*keys, ""):
            raise InputError(f"--unit {key}={prefix}: the table has no column {key!r}; it has {', '.join(keys)}")
        if prefix not in PREFIXES:
            raise InputError(f"unknown prefix {prefix!r}; known: {', '.join(p for p in PREFIXES if p)}, or 1 for none")
    prefixes = {ALIASES.get(key, key): PREFIXES.index(prefix) for key, prefix in units.items()}
    scales = []
    for index, key in enumerate(keys):
        values = [abs(value) for value in (row[index] for row in table) if isinstance(value, int)]
        power = prefixes.get(key, prefixes.get("")) if human else 0
        scales.append(_scale([v for v in values if v], power, human))
    return scales


def _scale(sizes: Sequence[int], power: int | None, human: bool) -> _Scale:
    """The scale for these figures: the prefix that suits the one in the middle."""
    largest = max(sizes, default=0)
    if power is None:
        middle = sorted(sizes)[len(sizes) // 2] if sizes else 0
        power = min((len(str(middle)) - 1) // 3, len(PREFIXES) - 1)
    if not human or power == 0:
        return _Scale(0, 0, len(str(largest)), grouped=True)
    smallest = min((size for size in sizes if size * 10 >= 1000**power), default=0)
    decimals = 2 - math.floor(math.log10(smallest) - 3 * power) if smallest else DECIMALS
    digits = len(str(largest // 1000**power))
    return _Scale(power, min(max(decimals, 0), DECIMALS), digits, grouped=False)


def _head(key: str, scale: _Scale, profile: Profile, look: Look) -> Head:
    (title, of), convention = MEASURES[key], profile.convention
    title = look.text(title.format(count=count_title(convention.unit, convention.name)))
    unit = PREFIXES[scale.power] + of
    return Head(key, f"{title} [{unit}]" if unit else title, "number")


def _about(profiles: Sequence[Profile], names: Sequence[str], look: Look) -> tuple[str, ...]:
    """The convention, and the inputs where they are the same for all."""
    conventions = dict.fromkeys(f"convention {p.convention.name}, unit {p.convention.unit}" for p in profiles)
    inputs = [", ".join(look.shape(tensor.shape) for tensor in p.graph.inputs) or "none" for p in profiles]
    if len(set(inputs)) == 1:
        return (*map(look.text, conventions), f"input {inputs[0]}")
    each = (f"{look.text(name)} {shapes}" for name, shapes in zip(names, inputs, strict=True))
    return (*map(look.text, conventions), f"inputs {', '.join(each)}")


def _latex(paper: _Paper, scales: Sequence[_Scale], look: Look) -> str:
    """A table environment with booktabs rules and siunitx columns, in which the points stand below each other."""
    sheet = _sheet(paper, scales, look)
    titles = ["Model", *(f"{{{escape(_capitalised(head.title))}}}" for head in sheet.heads[1:])]
    figures = zip(paper.names, paper.values, strict=True)
    return latex.environment(
        ["needs \\usepackage{booktabs} and \\usepackage{siunitx}"],
        _capitalised("; ".join([*sheet.about, *sheet.notes])),
        f"l{''.join(map(_column, scales))}",
        titles if look.header else [],
        [latex.row([escape(look.text(name)), *map(_number, values, scales)]) for name, values in figures],
    )


def _column(scale: _Scale) -> str:
    """An S column: https://ctan.org/pkg/siunitx, "table-format"."""
    form = f"{max(scale.digits, 1)}.{scale.decimals}" if scale.decimals else f"{max(scale.digits, 1)}"
    grouped = ", group-minimum-digits=4, group-separator={,}" if scale.grouped or scale.digits > 3 else ""
    return f"S[table-format={form}{grouped}]"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(value: Value, scale: _Scale) -> str:
    """A number as siunitx reads it; anything else, and a lower bound, in braces."""
    if value is None:
        return "{?}"
    if not isinstance(value, int):
        return f"{{{escape(str(value))}}}"
    if isinstance(value, AtLeast):
        return f"{{$\\geq {scale.text(value).replace(',', '{,}')}$}}"
    text = str(value) if scale.grouped else scale.text(value).replace(",", "")
    return f"{{${text}$}}" if text.startswith("<") else text
