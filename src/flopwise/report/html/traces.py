"""Two traces as one HTML page: where the difference comes from, and a table of layers, modules and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.traces.comparison import grouped
from flopwise.report.html.model import Index, text
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.analyses.traces.comparison import TraceComparison
    from flopwise.report.sheet.sheet import Sheet
    from flopwise.report.sheet.values import Look

LAYOUT = Layout(
    folder="traces",
    sections={"summary": "Summary", "waterfall": "Difference", "largest": "Largest", "layers": "Layers"},
    scripts="base waterfall largest table layers",
    styles=("bound/page.css", "compare/page.css", "traces/page.css"),
)

#: Operators that have a bar of their own in the waterfall; the rest share one.
OWN_BARS = 8

#: The groupings of the page.
GROUPINGS = {"layer": "layers", "op": "operators", "module": "modules", "kernel": "kernels"}


def render_traces(comparison: TraceComparison, sheet: Sheet, look: Look) -> str:
    """The page of two traces and what a sheet says above and below its lines; the page has a look of its own."""
    return page(LAYOUT, f"{comparison.before.model or 'two'} – traces – flopwise", page_data(comparison, sheet))


def page_data(comparison: TraceComparison, sheet: Sheet) -> Json:
    """The data of the page: the lines of all groupings as columns, and the steps of the waterfall."""
    lines = [(place, change) for place, by in enumerate(GROUPINGS) for change in grouped(comparison, by)]
    ops = Index()
    return {
        "schema": "flopwise.html-traces/1",
        "title": text(comparison.before.model or "Two traces"),
        "about": " · ".join(sheet.about[1:] if comparison.before.model else sheet.about),
        "summary": sheet.summary,
        "notes": list(sheet.notes),
        "groupings": list(GROUPINGS.values()),
        "covered": [comparison.before.covered_ns, comparison.after.covered_ns],
        "layers": {
            "name": [text(change.name) for _, change in lines],
            "op": [ops.number_of(text(c.op or ("several" if any(c.times_ns) else "no layer"))) for _, c in lines],
            "by": [place for place, _ in lines],
            "phase": [change.phase for _, change in lines],
            **{key: [getattr(c, f"{key}_ns") for _, c in lines] for key in ("before", "after", "spread")},
            "verdict": [change.verdict if any(change.times_ns) else "no layer" for _, change in lines],
        },
        "ops": ops.values,
        "waterfall": waterfall(comparison),
    }


def waterfall(comparison: TraceComparison) -> list[Json]:
    """The steps from the time that the first trace covers to that of the second, by operator."""
    steps: list[Json] = [{"label": "before", "from": 0, "to": comparison.before.covered_ns, "kind": "sum"}]
    changes = sorted(grouped(comparison, "op"), key=lambda change: -abs(change.more_ns))
    sizes = [(text(change.name), change.more_ns) for change in changes if change.more_ns]
    rest = sizes[OWN_BARS:]
    if len(rest) > 1:
        sizes[OWN_BARS:] = [(f"{len(rest)} others", sum(size for _, size in rest))]
    for label, size in sizes:
        at = steps[-1]["to"]
        steps.append({"label": label, "from": at, "to": at + size, "kind": "step"})
    return [*steps, {"label": "after", "from": 0, "to": comparison.after.covered_ns, "kind": "sum"}]
