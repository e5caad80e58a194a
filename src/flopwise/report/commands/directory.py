"""The models of a directory, a line for each, and their total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.errors import InputError, counted
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Column, cell, select
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, Value, gaps_of, is_gap, total_of

if TYPE_CHECKING:
    from flopwise.conventions import Convention
    from flopwise.profiles.profile import Profile

#: The peak of the activations: of the whole model alone, so that no layer has it.
PEAK = Column(
    "peak_activation_bytes", "peak bytes", "bytes", lambda item, profile: profile.peak_activation_bytes, "", 5
)

#: What people see unless columns are asked for, and what else programs get.
SHOWN = ("layers", "params", "macs", "count", "weight_bytes")
ALL = ("layers", "params", "buffers", "macs", "flops", "count", "weight_bytes", "activations", "output_bytes")

#: What a training step adds.
TRAINING = ("backward_flops", "saved_bytes")


@dataclass(frozen=True, slots=True)
class Model:
    """The figures of one model."""

    path: str
    #: Key of a column -> figure.
    figures: Mapping[str, Value]
    #: Its part of the JSON schema ``flopwise.profiles/1``.
    content: Json
    exact: bool
    convention: Convention
    gaps: tuple[str, ...]


def columns_of(columns: Sequence[str] | None, train: bool) -> tuple[Column, ...]:
    """The columns with a figure for each model; those that are shown first.

    Raises:
        InputError: a column is unknown, or says nothing of a whole model.
    """
    every = select([*ALL, *(TRAINING if train else ())])
    if columns is None:
        return (*every, PEAK)
    chosen: list[Column] = []
    for name in columns:
        if name.lower() in ("name", "model"):  # stands in front anyway
            continue
        column = PEAK if name.lower() in ("peak", PEAK.key) else select([name])[0]
        if column.kind not in ("number", "bytes", "ratio") or column.key in ("times", "depth"):
            raise InputError(f"the column {column.key!r} has no value for a whole model; --each shows the layers")
        chosen.append(column)
    return tuple(dict.fromkeys(chosen)) or (*every, PEAK)


def model_of(path: str, profile: Profile, columns: Sequence[Column]) -> Model:
    """The figures of one model, so that its layers need not be kept."""
    plain = profile.to_dict()
    return Model(
        path,
        {column.key: cell(column, profile.sum, profile) for column in columns},
        {key: value for key, value in plain.items() if key not in ("schema", "convention", "layers")},
        profile.exact,
        profile.convention,
        tuple(note for note in profile.notes if is_gap(note)),
    )


def directory_report(
    folder: str,
    models: Sequence[Model],
    errors: Sequence[str],
    columns: Sequence[Column],
    chosen: bool,
    sort: str | None = None,
    top: int | None = None,
) -> Report:
    """A line for each model and their total; as JSON the schema ``flopwise.profiles/1``.

    Args:
        folder: the directory.
        models: its models.
        errors: a message for each of its files that could not be counted.
        columns: the columns with figures.
        chosen: whether the user chose the columns; else people see the main ones, and programs all.
        sort: key of the column to sort by, largest first, or "name"; None: the order of the names.
        top: how many lines people see, those of the largest count (else of the first column) unless ``sort`` says
            otherwise; the rest is one line.

    Raises:
        InputError: there is no column to sort by.
    """
    keys = [column.key for column in columns]
    ordered = _sorted(models, columns, sort or (("count" if "count" in keys else keys[0]) if top else None))

    def sheets(format: Format, look: Look) -> list[Sheet]:
        if format.data:
            return [_data(ordered, columns, chosen)]
        shown = columns if chosen else [c for c in columns if c.key in (*SHOWN, *TRAINING, PEAK.key)]
        if not chosen and all(m.convention.name in ("macs", "flops") for m in models):  # the count says it already
            shown = [c for c in shown if c.key != "macs" or models[0].convention.name == "flops"]
        return [_sheet(folder, ordered, errors, shown, top, look)]

    return Report(sheets, lambda: _content(ordered, columns, errors))


def _sorted(models: Sequence[Model], columns: Sequence[Column], sort: str | None) -> list[Model]:
    if sort is None or sort.lower() in ("name", "model"):
        return list(models)
    key = PEAK.key if sort.lower() == "peak" else select([sort])[0].key if sort != PEAK.key else sort
    if key not in {column.key for column in columns}:
        raise InputError(f"cannot sort by {sort!r}: the table has the columns {', '.join(c.key for c in columns)}")

    def size(model: Model) -> tuple[bool, float]:
        value = model.figures[key]
        return (value is None, float(value) if isinstance(value, int | float) else 0.0)

    return sorted(models, key=size, reverse=True)


def _total_of(models: Sequence[Model], column: Column) -> Value:
    """The sum of a column; None for peaks and quotients."""
    if column is PEAK or column.kind == "ratio":
        return ""
    values = [model.figures[column.key] for model in models]
    figures = [value for value in values if value is None or isinstance(value, int)]
    return total_of(figures) if values and len(figures) == len(values) else ""


def _sheet(
    folder: str, models: Sequence[Model], errors: Sequence[str], columns: Sequence[Column], top: int | None, look: Look
) -> Sheet:
    convention = models[0].convention
    names = [model.path.removeprefix(folder).lstrip("/\\") or model.path for model in models]
    pairs = zip(names, models, strict=True)
    lines = [Line((look.text(name), *(model.figures[c.key] for c in columns))) for name, model in pairs]
    if top is not None and top < len(lines):
        hidden = models[top:]
        label = f"{look.glyphs.cut} {counted(len(hidden), 'more model')}"
        lines[top:] = [Line((label, *(_total_of(hidden, c) for c in columns)), "rest")]
    failed = [f"not in the table: {counted(len(errors), 'file')} that failed"] if errors else []
    notes = (*gaps_of((name, m.gaps) for name, m in zip(names, models, strict=True)), *failed)
    return Sheet(
        heads=(
            Head("model", "model", "text", 0),
            *(column.head(convention) for column in columns),
        ),
        lines=tuple(lines),
        total=Line(("Total", *(_total_of(models, c) for c in columns))),
        about=(
            look.text(folder),
            counted(len(models), "model"),
            look.text(f"convention {convention.name}, unit {convention.unit}"),
        ),
        notes=look.texts(notes),
        hint="the layers of each: --each",
        squeeze=True,
    )


def _data(models: Sequence[Model], columns: Sequence[Column], chosen: bool) -> Sheet:
    """A line for each model, with its convention and whether its figures are complete; no total."""
    texts = () if chosen else ("name", "format", "inputs")
    heads = (
        Head("model", "model", "text"),
        *(Head(key, key, "text") for key in texts),
        *(Head(c.key, c.key, c.kind) for c in columns),
        *(Head(key, key, "text") for key in ("convention", "unit", "exact")),
    )
    lines = []
    for model in models:
        about, inputs = model.content["model"], model.content["inputs"]
        shapes = "; ".join("?" if i["shape"] is None else "x".join(map(str, i["shape"])) for i in inputs)
        facts = {"name": about["name"], "format": about["format"], "inputs": shapes}
        end = (model.convention.name, model.convention.unit, "yes" if model.exact else "no")
        figures = (model.figures[c.key] for c in columns)
        lines.append(Line((model.path, *(facts[key] for key in texts), *figures, *end)))
    return Sheet(heads, tuple(lines))


def _content(models: Sequence[Model], columns: Sequence[Column], errors: Sequence[str]) -> Json:
    """The schema ``flopwise.profiles/1``: for each model ``flopwise.profile/1`` without its layers."""
    convention = models[0].convention
    sums = [column for column in columns if column is not PEAK and column.kind != "ratio"]
    totals = {column.key: _total_of(models, column) for column in sums}
    return {
        "schema": "flopwise.profiles/1",
        "convention": fields(convention, "name unit"),
        "models": [{"path": model.path, **model.content} for model in models],
        "totals": {key: None if value == "" else value for key, value in totals.items()},
        "exact": all(model.exact for model in models) and not errors,
        "errors": list(errors),
    }
