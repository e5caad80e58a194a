"""A bound as one HTML page: its figures, a roofline, a waterfall to the measured time, and a table of layers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound
    from flopwise.analyses.timing.device import Peak
    from flopwise.report.sheet.sheet import Look, Sheet

LAYOUT = Layout(
    folder="bound",
    sections={"summary": "Summary", "roofline": "Roofline", "waterfall": "Waterfall", "rows": "Layers"},
    scripts="summary roofline waterfall rows",
    styles=("bound/page.css",),
)

#: Operators that have a bar of their own in the waterfall; the rest share one.
OWN_BARS = 8

_NAMES = {"l1": "L1", "l2": "L2", "llc": "last cache", "dram": "memory"}


def render_bound(bound: Bound, sheet: Sheet, look: Look) -> str:
    """The page of a bound and what a sheet of it says above and below its lines; the page has a look of its own."""
    model, device = sheet.about
    data = {"model": model, "device": device, "summary": sheet.summary, **page_data(bound)}
    return page(LAYOUT, f"{model} – time – flopwise", data)


def page_data(bound: Bound) -> Json:
    """The data of the page: rows as columns, roofs, and the steps of the waterfall."""
    rows = bound.rows
    return {
        "measured": bound.engine is not None,
        "notes": list(bound.notes),
        "roofs": roofs(bound),
        "waterfall": waterfall(bound),
        "layers": {
            **{key: [getattr(row, key) for row in rows] for key in ("name", "op", "roof", "status")},
            **{key: [getattr(row, f"{key}_ns") for row in rows] for key in ("roofline", "physical")},
            "time": [row.engine_ns for row in rows],
            "flops": [row.work.flops for row in rows],
            "bytes": [row.work.nbytes for row in rows],
            "work": [", ".join(row.layers) for row in rows],
        },
    }


def roofs(bound: Bound) -> list[Json]:
    """The lines of the roofline of a bound."""
    used = {peak.dtype for peak in bound.physical.peaks if peak.dtype}
    return roof_lines(bound.device.peaks, used, bound.threads)


def roof_lines(peaks: Iterable[Peak], used: Collection[str], threads: int | None = None) -> list[Json]:
    """The lines of a roofline: arithmetic by the types in use, and every level of memory, the best of a kind."""
    best: dict[tuple[str, str], Json] = {}
    for peak in peaks:
        compute = peak.unit == "FLOP/s"
        if not peak.dense or (peak.dtype not in used if compute else peak.what not in _NAMES):
            continue
        label = str(peak.dtype) if compute else _NAMES[peak.what]
        value = peak.scaled(threads)
        roof = {"label": label, "value": value, "unit": peak.unit, "kind": peak.kind}
        key = (label, "measured" if peak.kind == "measured" else "")
        if key not in best or best[key]["value"] < value:
            best[key] = roof
    return list(best.values())


def waterfall(bound: Bound) -> list[Json]:
    """The steps from the physical floor to the measured time; else to the sum of the rooflines."""
    engine = bound.engine
    floor = bound.physical.ns
    losses: dict[str, float] = {}
    physical = 0.0
    for row in bound.rows:
        least = row.physical_ns or 0.0
        taken = (row.floor_ns if engine is not None else row.roofline_ns) or 0.0
        physical += least
        losses[row.op] = losses.get(row.op, 0.0) + taken - least
    steps: list[Json] = [{"label": "physical floor", "from": 0.0, "to": floor, "kind": "sum"}]

    def step(label: str, size: float) -> None:
        at = steps[-1]["to"]
        steps.append({"label": label, "from": at, "to": at + size, "kind": "step"})

    if abs(physical - floor) > 1e-3 * max(floor, 1.0):
        step("each layer by itself", physical - floor)
    first = sorted(losses.items(), key=lambda item: -abs(item[1]))
    for op, size in first[:OWN_BARS]:
        if size:
            step(op, size)
    others = sum(size for _, size in first[OWN_BARS:])
    if others:
        step(f"{len(first) - OWN_BARS} other operators", others)
    label = "engine floor" if engine is not None else "sum of the rooflines"
    steps.append({"label": label, "from": 0.0, "to": steps[-1]["to"], "kind": "sum"})
    if engine is not None and engine.measured_ns is not None:
        step("weights from beyond the caches", engine.streamed_ns - engine.hot_ns)
        step("cold activations, dispatch, rest", engine.measured_ns - engine.streamed_ns)
        steps.append({"label": "measured", "from": 0.0, "to": engine.measured_ns, "kind": "sum"})
    return steps
