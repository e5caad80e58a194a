"""The report of a bound: its table and its figures, the table of what-ifs, its JSON, and what the page draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.analyses.timing.whatif import notes_on, what_ifs
from flopwise.errors import InputError, counted, entry
from flopwise.report.commands.bound.columns import (
    COLUMNS,
    DEFAULT,
    MEASURED,
    NO_TOTAL,
    Item,
    items_of,
    mark_of,
)
from flopwise.report.commands.what_ifs import plain_ways, what_if_sheet
from flopwise.report.report import Report
from flopwise.report.sheet.listing import model_name
from flopwise.report.sheet.sheet import Field, Figure, Sheet
from flopwise.report.sheet.values import Look, by_size, duration, human, percent

#: Grouping -> what a line is.
NOUNS = {"layer": "layer", "op": "operator"}

#: What a time below the floor says.
TOO_FAST = "the measured time is below the floor: another device, type (--dtype), input or unit (35ms) was measured"

#: What is said in place of other times where none can be given.
UNMEASURED = "what-ifs need a measured model: flopwise bench, or --try"

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, EngineFloor, Floor
    from flopwise.analyses.timing.utilisation import Utilisation
    from flopwise.report.formats.format import Format


def bound_report(
    bound: Bound,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    what_if: bool = False,
    workers: int = 2,
    run: Utilisation | None = None,
) -> Report:
    """The floors of a model; their JSON always holds all rows.

    Args:
        bound: what to write.
        by: one line for each "layer" or "op".
        columns: keys of columns; None for what suits the grouping.
        sort: key of the column to sort by, the largest first; None for the order of execution.
        top: how many lines to show, those with the largest roofline unless ``sort`` says otherwise.
        what_if: whether other ways are shown below: fused, parallel, at other levels.
        workers: how many nodes run at once in one of them.
        run: a measured time as shares of what is possible.

    Raises:
        InputError: the grouping or a column is unknown.
    """
    if by not in DEFAULT:
        raise InputError(f"cannot group by {by!r}; choose layer or op")
    for key in (*(columns or ()), *([sort] if sort else ())):
        entry(COLUMNS, key)

    def chosen(data: bool) -> list[Field[Item]]:
        shown = (MEASURED if bound.engine is not None else DEFAULT)[by].split()
        fields = [COLUMNS[key] for key in columns or (COLUMNS if data else shown)]
        return [replace(f, head=f.head._replace(title=NOUNS[by])) if f.head.key == "name" else f for f in fields]

    def sheet(data: bool, look: Look) -> Sheet:
        items = items_of(bound, by)
        if sort or top or by == "op":
            key = COLUMNS[sort or ("time" if bound.engine is not None else "roofline")]
            items.sort(key=lambda item: by_size(key.value(item)))
        first, hidden = items[:top], items[top:] if top else []
        if hidden:
            label = f"{look.glyphs.cut} {counted(len(hidden), f'more {NOUNS[by]}')}"
            first.append(Item(label, "", tuple(row for item in hidden for row in item.rows), bound))
        total = Item("Total", "", bound.rows, bound)
        return Sheet.of(
            [replace(c, total="" if c.head.key in NO_TOTAL else c.value(total)) for c in chosen(data)],
            first,
            lambda item: "rest" if hidden and item is first[-1] else mark_of(item),
            **_frame(bound, look, run),
        )

    def sheets(format: Format, look: Look) -> list[Sheet]:
        first = sheet(format.data, look)
        if not what_if or format.data:
            return [first]
        ways = what_ifs(bound, workers)
        if not ways:
            return [first._replace(notes=(*first.notes, look.text(UNMEASURED)))]
        notes = notes_on([way.what.partition(" ")[0] for way in bound.tried if way.kind == "estimate"])
        return [first, what_if_sheet(ways, look, notes)]

    return Report(
        sheets,
        lambda: {**content(bound, workers if what_if else None), **({} if run is None else {"run": _run(run)})},
        {"bound": (bound, Sheet((), (), **_frame(bound, Look(), run)))},
    )


def _frame(bound: Bound, look: Look, run: Utilisation | None = None) -> Json:
    """The parts of a sheet above and below its lines."""
    return {
        "about": (model_name(bound.profile, look), look.text(device_text(bound))),
        "summary": (*summary_of(bound, look), *(_run_figures(run, look) if run is not None else ())),
        "notes": look.texts([*bound.notes, *([TOO_FAST] if run is not None and run.floor_share > 1 else [])]),
    }


def _run_figures(run: Utilisation, look: Look) -> Iterable[Figure]:
    """The shares of a time that somebody measured."""
    yield Figure(look.text("measured time"), _time(run.measured_ns), "as given")
    peaks = ", ".join(f"{human(round(p.value), p.unit)} {p.dtype}" for p in run.peaks)
    what = f"products at the rated dense peak: {peaks}" if run.mfu is not None else "no peak of a product's type"
    yield Figure(look.text("  MFU"), _share(run.mfu), look.text(what))
    yield Figure(look.text("  share of the physical floor"), _share(run.floor_share), "floor over measured time")
    yield Figure(look.text("  share of the rooflines"), _share(run.roofline_share), "an estimate: nothing fused")


def _share(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:.1f} %"


def _run(run: Utilisation) -> Json:
    """The key "run" of the JSON schema."""
    return {"measured_ns": _rounded(run.measured_ns), **fields(run, "mfu floor_share roofline_share")}


def device_text(bound: Bound) -> str:
    """The device, and how much of it is used."""
    cores = f", {bound.threads} of {bound.device.cores} cores" if bound.threads and bound.device.cores else ""
    return f"{bound.device.name}{cores}"


def summary_of(bound: Bound, look: Look) -> Iterable[Figure]:
    """The floors of the whole model, and the figures that they rest on."""
    if bound.engine is not None:
        yield from _engine(bound, bound.engine, look)
    floor = bound.physical
    unknown = any(row.status == "unknown" for row in bound.rows)
    at_least = look.glyphs.at_least if unknown else ""
    yield Figure(look.text("physical floor"), at_least + _time(floor.ns), f"{floor.roof}-bound")
    yield Figure(look.text("  arithmetic at peak"), _time(floor.compute_ns), _rates(floor, bound, "FLOP/s"))
    moved = f"{human(floor.movement.total, 'B')} from {_LEVELS[floor.level]} at {_rates(floor, bound, 'B/s')}"
    yield Figure(look.text("  minimum memory traffic"), _time(floor.memory_ns), moved)
    if bound.machine is not None:
        yield Figure(look.text("at measured peaks"), _time(bound.machine.ns), f"{bound.machine.roof}-bound")
    yield Figure(look.text("sum of the rooflines"), _time(bound.roofline_ns), "an estimate: nothing fused")


_VERDICTS = {
    "holds": "the floor is not above the measured time",
    "noisy": "it holds, but the machine was busy",
    "BROKEN": "the floor is above the measured time",
    "roofline": "the whole was not measured",
}


def _engine(bound: Bound, engine: EngineFloor, look: Look) -> Iterable[Figure]:
    """The engine's floor beside the measured time."""
    facts = engine.environment.get("engine", {})
    threads = facts.get("threads", 1)
    plural = "s" if threads > 1 else ""
    how = f"{facts.get('name')} {facts.get('version')}, {facts.get('level')}, {threads} thread{plural}"
    yield Figure("measured", _time(engine.measured_ns), how)
    if engine.noise is not None:
        count = f"best of {engine.sessions} sessions" if engine.sessions > 1 else "one session"
        yield Figure("  noise", f"{percent(100 * engine.noise)} %", f"of two equal runs, {count}")
    bound_mark = "" if engine.complete else look.glyphs.at_least
    over = "" if engine.ratio is None else f"{100 * engine.ratio:.1f} % of the measured time"
    yield Figure("engine floor", bound_mark + _time(engine.hot_ns), over)
    yield Figure("  verdict", bound.verdict, _VERDICTS.get(bound.verdict, ""))
    error = ""
    if engine.measured_ns:
        error = f"an estimate, {100 * (engine.streamed_ns / engine.measured_ns - 1):+.1f} % off"
    yield Figure("  with streamed weights", bound_mark + _time(engine.streamed_ns), error)
    if engine.critical_ns < 0.999 * engine.hot_ns:
        yield Figure("  along the longest path", _time(engine.critical_ns), "if independent nodes ran at once")
    share = "" if engine.macs_share is None else f", {percent(100 * engine.macs_share)} % of the multiply-adds"
    yield Figure("  coverage", f"{engine.measured_nodes} of {engine.nodes}", f"nodes{share}")


_LEVELS = {"l1": "L1", "l2": "L2", "llc": "the last cache", "dram": "memory"}


def _time(nanoseconds: float | None) -> str:
    return "?" if nanoseconds is None else duration(nanoseconds / 1e9)


def _rates(floor: Floor, bound: Bound, unit: str) -> str:
    rates = []
    for peak in floor.peaks:
        if peak.unit == unit:
            text = human(round(peak.scaled(bound.threads)), unit)
            rates.append(f"{text} {peak.dtype}" if peak.dtype else text)
    return ", ".join(rates) or "an unknown rate"


def content(bound: Bound, workers: int | None = None) -> Json:
    """The JSON schema ``flopwise.bound/1``: nanoseconds are integers, what is not known is null.

    Args:
        bound: what to write.
        workers: with a number, "what_if" holds other ways, one of them with so many nodes at once.
    """
    rows, engine = bound.rows, bound.engine
    macs = sum(row.work.macs or 0 for row in rows)
    measured = sum(row.work.macs or 0 for row in rows if row.engine_ns is not None)
    return {
        "schema": "flopwise.bound/1",
        "model": fields(bound.profile.graph, "name source format"),
        "environment": _environment(bound),
        "floors": {
            "physical_ns": _rounded(bound.physical.ns),
            "engine_ns": _rounded(engine.hot_ns) if engine else None,
            "streamed_ns": _rounded(engine.streamed_ns) if engine else None,
            "critical_path_ns": _rounded(engine.critical_ns) if engine else None,
            "at_measured_peaks_ns": _rounded(bound.machine.ns) if bound.machine else None,
        },
        "measured_ns": _rounded(engine.measured_ns) if engine else None,
        "noise": engine.noise if engine else None,
        "coverage": {
            "nodes": len(rows),
            "measured": sum(row.engine_ns is not None for row in rows),
            "macs_share": measured / macs if macs else None,
        },
        "verdict": bound.verdict,
        "rows": [
            {
                **fields(row, "name op"),
                "time_ns": _rounded(row.engine_ns),
                "floor_ns": _rounded(row.floor_ns),
                "physical_ns": _rounded(row.physical_ns),
                **fields(row, "roof status"),
                "roofline_ns": _rounded(row.roofline_ns),
                **fields(row.work, "macs flops"),
                "bytes": row.work.nbytes,
                "dtypes": list(row.work.dtypes),
                "streamed_ns": _rounded(row.streamed_ns),
                "layers": list(row.layers),
            }
            for row in rows
        ],
        "notes": list(bound.notes),
        **({} if workers is None else {"what_if": plain_ways(what_ifs(bound, workers))}),
    }


def _environment(bound: Bound) -> Json:
    device, floor = bound.device, bound.physical
    return {
        "device": fields(device, "id name kind cores"),
        "threads": bound.threads,
        "engine": dict(bound.engine.environment.get("engine", {})) if bound.engine else None,
        "machine": dict(bound.engine.environment.get("machine", {})) if bound.engine else None,
        "sessions": bound.engine.sessions if bound.engine else 0,
        "roof": floor.roof,
        "compute_ns": _rounded(floor.compute_ns),
        "memory_ns": _rounded(floor.memory_ns),
        "must_move": {**fields(floor.movement, "weights inputs outputs"), "level": floor.level},
        "peaks": [
            {
                **fields(peak, "what dtype"),
                "value": peak.scaled(bound.threads),
                **fields(peak, "unit kind source"),
                "url": peak.url or None,
            }
            for peak in floor.peaks
        ],
    }


def _rounded(nanoseconds: float | None) -> int | None:
    return None if nanoseconds is None else round(nanoseconds)
