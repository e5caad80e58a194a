"""The figures of the whole model: measured time, floors, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flopwise.report.sheet.sheet import Figure, Look
from flopwise.report.sheet.units import human, percent, ratio

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, EngineFloor, Floor


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
    yield Figure(look.text("physical floor"), at_least + milliseconds(floor.ns), f"{floor.roof}-bound")
    yield Figure(look.text("  arithmetic at peak"), milliseconds(floor.compute_ns), _rates(floor, bound, "FLOP/s"))
    moved = f"{human(floor.movement.total, 'B')} from {_LEVELS[floor.level]} at {_rates(floor, bound, 'B/s')}"
    yield Figure(look.text("  bytes that must move"), milliseconds(floor.memory_ns), moved)
    if bound.machine is not None:
        yield Figure(look.text("at measured peaks"), milliseconds(bound.machine.ns), f"{bound.machine.roof}-bound")
    yield Figure(look.text("rooflines added up"), milliseconds(bound.roofline_ns), "an estimate: nothing fused")


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
    many = "s" if threads > 1 else ""
    how = f"{facts.get('name')} {facts.get('version')}, {facts.get('level')}, {threads} thread{many}"
    yield Figure("measured", milliseconds(engine.measured_ns), how)
    if engine.noise is not None:
        count = f"best of {engine.sessions} sessions" if engine.sessions > 1 else "one session"
        yield Figure("  noise", f"{percent(100 * engine.noise)} %", f"of two equal runs, {count}")
    bound_mark = "" if engine.complete else look.glyphs.at_least
    over = "" if engine.ratio is None else f"{100 * engine.ratio:.1f} % of the measured time"
    yield Figure("engine floor", bound_mark + milliseconds(engine.hot_ns), over)
    yield Figure("  verdict", bound.verdict, _VERDICTS.get(bound.verdict, ""))
    error = ""
    if engine.measured_ns:
        error = f"an estimate, {100 * (engine.streamed_ns / engine.measured_ns - 1):+.1f} % off"
    yield Figure("  with streamed weights", bound_mark + milliseconds(engine.streamed_ns), error)
    if engine.critical_ns < 0.999 * engine.hot_ns:
        yield Figure("  along the longest path", milliseconds(engine.critical_ns), "if independent nodes ran at once")
    share = "" if engine.macs_share is None else f", {percent(100 * engine.macs_share)} % of the multiply-adds"
    yield Figure("  coverage", f"{engine.measured_nodes} of {engine.nodes}", f"nodes{share}")


_LEVELS = {"l1": "L1", "l2": "L2", "llc": "the last cache", "dram": "memory"}


def milliseconds(nanoseconds: float | None) -> str:
    """A time for people.

    >>> milliseconds(2582.58), milliseconds(4.09e9), milliseconds(None)
    ('0.00258 ms', '4,090 ms', '?')
    """
    return "?" if nanoseconds is None else f"{ratio(nanoseconds / 1e6)} ms"


def _rates(floor: Floor, bound: Bound, unit: str) -> str:
    rates = []
    for peak in floor.peaks:
        if peak.unit == unit:
            text = human(round(peak.scaled(bound.threads)), unit)
            rates.append(f"{text} {peak.dtype}" if peak.dtype else text)
    return ", ".join(rates) or "an unknown rate"
