"""The operators and the conventions themselves, as tables and, on a terminal, as paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flopwise._results import Json, fields
from flopwise.conventions import CONVENTIONS, get
from flopwise.operators.counts import Counts
from flopwise.operators.onnx import training
from flopwise.operators.tables import FAMILIES
from flopwise.report.formats.table import paint, render_sheet, wrap
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet

INDENT = "    "


def operators() -> list[dict[str, str]]:
    """Every operator that has a rule: name, family, claim and formula."""
    return [
        {"operator": name, "family": family, "claim": row.claim, "formula": row.formula}
        for family, table in FAMILIES.items()
        for name, row in sorted(table.items())
    ]


def conventions(name: str | None = None) -> list[Json]:
    """Every convention, or one: name, unit, summary, source, the weights of the classes, and notes.

    Raises:
        InputError: there is no convention of that name.
    """
    return [
        {**fields(c, "name unit sees summary source"), "weights": c.weights.to_dict(), "notes": list(c.notes)}
        for c in (CONVENTIONS.values() if name is None else [get(name)])
    ]


def _sheet(rows: list[Json], short: tuple[str, ...], long: tuple[str, ...]) -> Sheet:
    heads = [Head(key, key, "text", rank, prose=key in long) for rank, key in enumerate((*short, *long))]
    return Sheet(tuple(heads), tuple(Line(tuple(row[h.key] for h in heads)) for row in rows))


def operators_report() -> Report:
    """The operators that have a rule."""
    return prose_report(_sheet(operators(), ("operator", "family", "claim"), ("formula",)), operators)


def conventions_report(name: str | None = None) -> Report:
    """The conventions, or one.

    Raises:
        InputError: there is no convention of that name.
    """
    sheet = _sheet(conventions(name), ("name", "unit", "sees"), ("summary", "source"))
    return prose_report(sheet, lambda: conventions(name))


def prose_report(sheet: Sheet, content: Callable[[], object]) -> Report:
    """A sheet with long cells: on a terminal a table would cut them, so there it is written as paragraphs."""

    def as_table(look: Look) -> str:
        return render_sheet(sheet, look) if look.width is None else "\n".join(_paragraphs(sheet, look)) + "\n"

    return Report(lambda format, look: [sheet], content, own={"table": as_table})


def _paragraphs(sheet: Sheet, look: Look) -> Iterator[str]:
    """For each line its first cell and the short ones after it, and below them the long cells, wrapped and indented."""
    if look.header:
        for part in sheet.about:
            yield from wrap(part, look.width)
        if sheet.about:
            yield ""
    for line in sheet.lines:
        cells = list(zip(sheet.heads, sheet.texts(line, look), strict=True))
        (_, title), *others = cells
        short = [text for head, text in others if text and not head.prose]
        yield paint(title, "bold", look) + (f"  {look.glyphs.dot.join(short)}" if short else "")
        for head, text in others:
            if head.prose and text:
                room = None if look.width is None else max(look.width - len(INDENT), len(INDENT))
                yield from (INDENT + piece for piece in wrap(text, room, INDENT))
    for note in sheet.notes:
        yield from wrap(note, look.width)


def spec_url(op: str) -> str:
    """The page that defines an operator; "" where it has none.

    >>> spec_url("ai.onnx.ml::Scaler")
    'https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html'
    """
    domain, _, name = op.rpartition("::")
    if domain == "com.microsoft":
        return f"https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#{domain}.{name}"
    if op in training.EARLY or domain == "ai.onnx.contrib" or (domain and not domain.startswith("ai.onnx")):
        return ""
    return f"https://onnx.ai/onnx/operators/onnx_{domain.replace('.', '')}_{name}.html"


def weighed(weights: Counts) -> str:
    """A convention's weights as a sum: the classes that count, with their factors.

    >>> weighed(Counts(mac=2, add=1))
    '2·mac + add'
    """
    terms = [name if n == 1 else f"{n}·{name}" for name, n in weights.items() if n]
    return " + ".join(terms) or "0"
