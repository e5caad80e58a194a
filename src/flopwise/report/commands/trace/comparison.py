"""The report of two traces: a line for each layer with its time in both, the largest difference first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flopwise._results import Json
from flopwise.analyses.traces.comparison import Break, Change, TraceComparison, grouped
from flopwise.analyses.traces.trace import BACKWARD, Trace
from flopwise.errors import InputError, counted
from flopwise.report.commands.trace.report import MICRO, NOUNS
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Figure, Head, Sheet
from flopwise.report.sheet.values import Look, Value, by_size, percent, ratio


def _share(before: int, after: int) -> Value:
    return 100 * (after - before) / before if before else ""


COLUMNS: tuple[Field[Change], ...] = (
    Field(Head("name", "layer", "text", 0), lambda c: c.name, "the layer, or several together"),
    Field(Head("op", "op", "text", 5), lambda c: c.op, "the operator"),
    Field(Head("phase", "pass", "text", 5), lambda c: c.phase, "forward or backward"),
    Field(Head("before", "before µs", "ratio", 2), lambda c: c.before_ns / MICRO, "time in the first trace"),
    Field(Head("after", "after µs", "ratio", 2), lambda c: c.after_ns / MICRO, "time in the second"),
    Field(Head("more", "diff µs", "ratio", 1), lambda c: c.more_ns / MICRO, "the second less the first"),
    Field(Head("share", "%", "percent", 3), lambda c: _share(c.before_ns, c.after_ns), "that, of the first"),
    Field(Head("spread", "± µs", "ratio", 4), lambda c: c.spread_ns / MICRO, "spread of the steps of both traces"),
    Field(
        Head("verdict", "verdict", "text", 1),
        lambda c: c.verdict if any(c.times_ns) else "",
        "same: within the spread of the steps",
    ),
)

#: Columns of which no sum says anything.
NO_TOTAL = ("name", "op", "phase", "spread", "verdict")


def trace_comparison_report(
    comparison: TraceComparison, top: int | None = None, by: str = "layer", depth: int | None = None
) -> Report:
    """Two traces as a table; its JSON always holds all layers.

    Args:
        comparison: what to write.
        top: how many lines to show, those that differ most; the rest becomes one line.
        by: one line for each "layer", "op", "module" or "kernel".
        depth: with modules: how many levels.

    Raises:
        InputError: the grouping is unknown, or has no levels.
    """
    if by not in NOUNS or by == "step":
        raise InputError(f"two traces are compared by {', '.join(key for key in NOUNS if key != 'step')}, not by {by}")
    if by != "module" and depth is not None:
        raise InputError(f"depth is of modules, not of lines by {by}")

    def sheet(format: Format, look: Look) -> list[Sheet]:
        timed = [change for change in grouped(comparison, by, depth) if change.before_ns or change.after_ns]
        changes = sorted(timed, key=lambda change: by_size(abs(change.more_ns)))
        first, hidden = changes[:top], changes[top:] if top else []
        if hidden:
            rest = f"{look.glyphs.cut} {counted(len(hidden), f'more {NOUNS[by]}')}"
            seen = {layer for change in first for layer in change.layers}  # modules hold each other
            first.append(_together([change for change in hidden if not seen.intersection(change.layers)], rest))
        total = _together(comparison.changes, "Total")
        keys = NO_TOTAL if format.data else (*NO_TOTAL[1:],)
        columns = [replace(c, total="" if c.head.key in keys else c.value(total)) for c in COLUMNS]
        if not format.data:
            columns[0] = replace(columns[0], head=columns[0].head._replace(title=NOUNS[by]))
        frame = _frame(comparison, look)
        return [Sheet.of(columns, first, lambda c: "rest" if hidden and c is first[-1] else "", **frame)]

    return Report(sheet, comparison.to_dict, {"traces": (comparison, Sheet((), (), **_frame(comparison, Look())))})


def _frame(comparison: TraceComparison, look: Look) -> Json:
    """The parts of a sheet above and below its lines."""
    return {
        "about": look.texts(filter(None, [comparison.before.model, *map(_about, _sides(comparison))])),
        "summary": tuple(_summary(comparison)),
        "notes": look.texts(comparison.notes),
        "skip_empty": True,
    }


def _sides(comparison: TraceComparison) -> tuple[Trace, Trace]:
    return comparison.before, comparison.after


def _about(trace: Trace) -> str:
    return f"{trace.format}, {trace.step} of {counted(len(trace.steps), 'step')}"


def _together(changes: tuple[Change, ...] | list[Change], name: str) -> Change:
    """Several changes as one; whether they differ clearly is known of each alone."""
    before, after = sum(c.before_ns for c in changes), sum(c.after_ns for c in changes)
    return Change(name, "", "", (), before, after, 0, 0)


def _summary(comparison: TraceComparison) -> Iterator[Figure]:
    """The number of layers that differ, and the traces as a whole."""
    timed = [change for change in comparison.changes if change.layers and (change.before_ns or change.after_ns)]
    verdicts = [change.verdict for change in timed]
    noun = "line" if any(change.phase == BACKWARD for change in timed) else "layer"
    for verdict in ("slower", "faster", "same", "added", "gone"):
        if count := verdicts.count(verdict):
            yield Figure(verdict, counted(count, noun), "")
    before, after = (trace.covered_ns for trace in _sides(comparison))
    share = f": {'+' if after > before else ''}{percent(100 * (after - before) / before)} %" if before else ""
    yield Figure("total", f"{ratio(before / MICRO)} µs", f"before, {ratio(after / MICRO)} µs after{share}")


def breaks_text(breaks: list[Break]) -> Iterator[str]:
    """A line for each condition that holds."""
    for condition, before, after, spread in breaks:
        times = (f"{ratio(time / MICRO)} µs" for time in (before, after, spread))
        yield "{}: {} before, {} after, ± {}".format(condition, *times)
