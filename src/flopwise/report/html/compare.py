"""A comparison as one HTML page that needs nothing else: models, totals, operators and layers as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.compare.comparison import OF_MODEL, Values, difference
from flopwise.analyses.quantities import FIGURES
from flopwise.graph import Shape
from flopwise.report.html.model import Index, convention_data, number, port, text
from flopwise.report.html.page import Layout, page
from flopwise.report.sheet.sheet import Look, is_gap
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.analyses.compare.causes import Difference
    from flopwise.analyses.compare.comparison import Comparison, Group

LAYOUT = Layout(
    folder="compare",
    sections={"summary": "Summary", "operators": "Operators", "depth": "Depth", "layers": "Layers"},
    scripts="base summary causes operators depth table layers start",
    styles=("compare/page.css",),
    controls=True,
)

#: So many labels are in the title of the page.
NAMED = 4

#: Of the outputs of a layer with very many, these are shown.
SHAPES = 4

_LOOK = Look()


def render_comparison(
    comparison: Comparison, figures: Sequence[str], full: bool, titles: Mapping[str, str], look: Look
) -> str:
    """The page with all layers and figures; its table is sorted and filtered by the reader.

    Args:
        comparison: what to write.
        figures: of the layers, those that are shown at first.
        full: whether layers that are the same in all models are shown at first.
        titles: figure -> what it is called; the title of the count is the convention's.
        look: the page has a look of its own.
    """
    data = compare_data(comparison, figures, full, titles)
    labels = [model["label"] for model in data["models"]]
    more = [f"{len(labels) - NAMED} more"] if len(labels) > NAMED else []
    title = f"{' and '.join([*labels[:NAMED], *more])} – flopwise"
    return page(LAYOUT, title, data)


def compare_data(comparison: Comparison, shown: Sequence[str], full: bool, titles: Mapping[str, str]) -> Json:
    """The comparison for the page.

    A number that is None is unknown, and one that is "" belongs to a layer or an operator that a model does not have.
    """
    ops, shapes, ways = Index(), Index(), Index()
    groups = comparison.layers
    return {
        "schema": "flopwise.html-compare/1",
        "models": list(_models(comparison)),
        "notes": list(_notes(comparison)),
        "apart": [p.convention.unit != comparison.profiles[0].convention.unit for p in comparison.profiles],
        "causes": [_causes(difference) for difference in comparison.differences],
        "figures": {key: {"title": titles.get(key, key), "bytes": "bytes" in key} for key in (*FIGURES, *OF_MODEL)},
        "compared": list(FIGURES),
        "shown": list(shown),
        "full": full,
        "totals": {key: _entry(comparison.total(key), comparison.exact(key)) for key in (*FIGURES, *OF_MODEL)},
        "operators": [_operator(group, ops) for group in comparison.operators],
        "layers": {
            "op": [ops.number_of(text(group.op)) for group in groups],
            "name": [_names(groups, model) for model in range(len(comparison.profiles))],
            "ways": [[ways.number_of(way or "") for way in group.ways] for group in groups],
            "changed": [int(group.changed) for group in groups],
            "outputs": [[_outputs(item, shapes) for item in group.items] for group in groups],
            "values": {key: _columns(groups, key) for key in FIGURES},
            "symbols": {key: texts for key in FIGURES if (texts := dict(_symbols(groups, key)))},
        },
        "ops": ops.values,
        "shapes": shapes.values,
        "ways": ways.values,
    }


def _models(comparison: Comparison) -> Iterator[Json]:
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        graph = profile.graph
        yield {
            "label": text(label),
            **{key: text(getattr(graph, key)) for key in ("name", "source", "format")},
            "inputs": [port(tensor) for tensor in graph.inputs],
            "layers": len(profile.rows),
            "convention": convention_data(profile),
        }


def _causes(difference: Difference) -> Json:
    """Why a convention differs from the first on the same model, the largest cause first."""
    return {
        "conventions": [text(name) for name in difference.names],
        "unit": text(difference.unit),
        "totals": [number(total) for total in difference.totals],
        "difference": number(difference.difference) if difference.exact else None,
        "causes": [
            {
                "layers": text(cause.what),
                "reason": text(cause.why),
                "number": cause.layers,
                "difference": None if cause.unknown else number(cause.difference),
                "unknown": cause.unknown,
            }
            for cause in difference.causes
        ],
    }


def _notes(comparison: Comparison) -> Iterator[Json]:
    """The notes of the models, each once, with the models that it is about unless it is about all."""
    owners: dict[str, list[int]] = {}
    for model, profile in enumerate(comparison.profiles):
        for note in profile.notes:
            owners.setdefault(note, []).append(model)
    for note, models in owners.items():
        yield {
            "text": text(note),
            "gap": is_gap(note),
            "models": models if len(models) < len(comparison.profiles) else [],
        }


def _entry(values: Values, exact: Sequence[bool]) -> Json:
    """A figure in each model, and whether it is more than a lower bound; differences where JavaScript has none."""
    entry: Json = {"values": [number(value) for value in values], "exact": list(exact)}
    if any(_symbolic(value) for value in values):
        entry["differences"] = _differences(values)
    return entry


def _operator(group: Group, ops: Index) -> Json:
    content: Json = {"op": ops.number_of(text(group.op))}
    for key in ("layers", *FIGURES):
        entry = content[key] = _entry(group.values(key), group.exact(key))
        entry["values"] = ["" if i is None else v for v, i in zip(entry["values"], group.items, strict=True)]
    return content


def _names(groups: Sequence[Group], model: int) -> list[object]:
    """The name of each layer in a model: 0 where the first model calls it so too, None where there is none."""
    return [
        None if name is None else 0 if model and name == group.names[0] else text(name)
        for group in groups
        for name in (group.names[model],)
    ]


def _outputs(item: Row | Sum | None, shapes: Index) -> int:
    """The number of the text of a layer's shapes; -1 where there is no layer."""
    if not isinstance(item, Row):
        return -1
    outputs: list[Shape | None] = [tensor.shape for tensor in item.node.known_outputs]
    more = [f"+{len(outputs) - SHAPES}"] if len(outputs) > SHAPES else []
    return shapes.number_of(", ".join([*(_LOOK.shape(shape) for shape in outputs[:SHAPES]), *more]))


def _columns(groups: Sequence[Group], key: str) -> list[list[object]]:
    """For each model the figure of every layer."""
    rows = (
        [number(value) if item is not None else "" for value, item in zip(group.values(key), group.items, strict=True)]
        for group in groups
    )
    return [list(column) for column in zip(*rows, strict=True)]


def _symbols(groups: Sequence[Group], key: str) -> Iterator[tuple[int, list[str | None]]]:
    """The differences of figures in symbols, by layer: JavaScript cannot find them."""
    for index, group in enumerate(groups):
        values = group.values(key)
        if any(_symbolic(value) for value in values):
            yield index, _differences(values)


def _symbolic(value: object) -> bool:
    return value is not None and not isinstance(value, int)


def _differences(values: Values) -> list[str | None]:
    differences = (difference(values, model) for model in range(len(values)))
    return [None if more is None else str(more) for more in differences]
