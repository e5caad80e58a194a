"""Published figures and the conventions that reproduce them: a line for each figure, or for each source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.analyses.zoo.published.figures import PREFIXES, Figure, Way, scaled, sources
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Look, Sheet, data_sheet

if TYPE_CHECKING:
    from flopwise.report.formats.format import Format


def published_report(figures: Sequence[Figure], complete: bool, versions: dict[str, str]) -> Report:
    """The figures, each with its page and the way that reproduces it.

    Args:
        figures: the figures.
        complete: whether they are all that there are; then people see a line for each source.
        versions: source -> what the recorded counts were made with.
    """

    def sheets(format: Format, look: Look) -> list[Sheet]:
        if format.data:
            return [_data(figures)]
        return [_sources(figures, versions) if complete and format.audience == "terminal" else _lines(figures, look)]

    return Report(sheets, lambda: _content(figures, versions))


def share(figures: Sequence[Figure]) -> float:
    """The percentage of figures that are reproduced."""
    return 100 * sum(figure.reproduced for figure in figures) / len(figures)


def counted(figure: Figure) -> str:
    """The count in the unit of the figure, with two more digits than are stated.

    Where no way gives the figure, it is the count in the first way of the source.
    """
    if figure.count is None:
        return ""
    if not PREFIXES.get(figure.unit):
        return f"{figure.count:,}"
    way = Way.from_text(figure.way) if figure.way else sources()[figure.source].ways[0]
    if figure.quantity == "parameters":
        way = replace(way, times=1)
    digits = len(figure.stated.partition(".")[2]) + 2
    return f"{scaled(figure, figure.count, way):,.{digits}f}"


def _about(figures: Sequence[Figure]) -> tuple[str, ...]:
    done = sum(figure.reproduced for figure in figures)
    return (
        f"{len(figures):,} published figures",
        f"{done:,} reproduced ({share(figures):.1f} %)" if done else "none reproduced",
    )


def _sources(figures: Sequence[Figure], versions: dict[str, str]) -> Sheet:
    sources: dict[str, list[Figure]] = {}
    for figure in figures:
        sources.setdefault(figure.source, []).append(figure)

    def ways(source: str) -> str:
        return ", ".join(dict.fromkeys(f.way for f in sources[source] if f.quantity == "operations" and f.way))

    return Sheet.of(
        [
            Field(Head("source", "source", "text", 0), lambda source: source, total="Total"),
            *_numbers("operations", 1, figures, sources),
            *_numbers("parameters", 2, figures, sources),
            Field(Head("ways", "conventions", "text", 3), ways),
        ],
        sources,
        about=_about(figures),
        notes=("the figures of a source: --source NAME; those that are not reproduced, with reasons: --missing",),
    )


def _numbers(
    quantity: str, rank: int, figures: Sequence[Figure], sources: Mapping[str, Sequence[Figure]]
) -> Iterator[Field[str]]:
    """The numbers of figures of a quantity, and of those that are reproduced."""

    def all_of(figures: Sequence[Figure]) -> int:
        return sum(figure.quantity == quantity for figure in figures)

    def reproduced(figures: Sequence[Figure]) -> int:
        return sum(figure.quantity == quantity and figure.reproduced for figure in figures)

    yield Field(Head(quantity, quantity, "number", rank), lambda s: all_of(sources[s]), total=all_of(figures))
    head = Head(f"{quantity}_reproduced", "reproduced", "number", rank)
    yield Field(head, lambda s: reproduced(sources[s]), total=reproduced(figures))


def _lines(figures: Sequence[Figure], look: Look) -> Sheet:
    columns: tuple[Field[Figure], ...] = (
        Field(Head("model", "model", "text", 0), lambda f: f.model),
        Field(Head("source", "source", "text", 5), lambda f: f.source),
        Field(Head("input", "input", "text", 4), lambda f: look.text(f.input.replace("x", look.glyphs.times))),
        Field(Head("quantity", "of", "text", 3), lambda f: f.quantity),
        Field(Head("stated", "stated", "text", 1), lambda f: f"{f.stated} {f.unit}".strip()),
        Field(Head("counted", "counted", "text", 1), counted),
        Field(Head("way", "under", "text", 1), lambda f: f.way),
        Field(Head("note", "why not", "text", 2, prose=True), lambda f: f.note),
    )
    return Sheet.of(
        columns, figures, lambda f: "" if f.reproduced else "unknown", about=_about(figures), skip_empty=True
    )


def _data(figures: Sequence[Figure]) -> Sheet:
    keys = ("source", "model", "quantity", "stated", "unit", "input", "year", "page", "build", "way", "count", "note")
    texts = [key for key in keys if key not in ("year", "count")]
    return data_sheet(keys, texts, (tuple(getattr(figure, key) for key in keys) for figure in figures))


def _content(figures: Sequence[Figure], versions: dict[str, str]) -> Json:
    """The schema ``flopwise.published/1``."""
    return {
        "schema": "flopwise.published/1",
        "reproduced": sum(figure.reproduced for figure in figures),
        "versions": versions,
        "figures": [
            {
                **fields(f, "source model quantity stated unit input year"),
                **{key: value or None for key, value in fields(f, "page build").items()},
                "convention": f.way or None,
                "count": f.count,
                "note": f.note or None,
            }
            for f in figures
        ],
    }
