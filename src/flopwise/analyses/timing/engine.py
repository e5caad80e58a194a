"""The floor of an engine: the least times of the nodes that it executes, added up, beside the measured whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from flopwise.analyses.timing.bound import Bound, BoundRow, EngineFloor, Other, Status, Verdict, bound_row
from flopwise.analyses.timing.quantities import Work
from flopwise.errors import counted

if TYPE_CHECKING:
    from flopwise.analyses.timing.benchmark import Executed
    from flopwise.analyses.timing.store import Record


def with_engine(bound: Bound, record: Record) -> Bound:
    """The bound with an engine's floor: its rows are the nodes that the engine executes.

    Args:
        bound: the physical floors of the model on this machine.
        record: what the store knows of the model.
    """
    rows = tuple(_row(bound, node, record) for node in record.nodes)
    hot = [row.floor_ns or 0.0 for row in rows]
    streamed = [row.streamed_ns if row.streamed_ns is not None else row.floor_ns or 0.0 for row in rows]
    macs = sum(node.macs or 0 for node in record.nodes)
    measured = sum(node.macs or 0 for node, row in zip(record.nodes, rows, strict=True) if row.engine_ns is not None)
    least = min(record.wholes, key=lambda whole: whole.best_ns, default=None)
    floor = EngineFloor(
        environment=record.environment.facts,
        hot_ns=sum(hot),
        streamed_ns=sum(streamed),
        critical_ns=critical_path(hot, [node.needs for node in record.nodes]),
        measured_ns=least.best_ns if least else None,
        noise=least.noise if least else None,
        sessions=len(record.wholes),
        nodes=len(rows),
        measured_nodes=sum(row.engine_ns is not None for row in rows),
        macs_share=measured / macs if macs else None,
        machine=record.wholes[-1].verdict if record.wholes else "",
        needs=tuple(node.needs for node in record.nodes),
        others=tuple(Other(label, ns) for label, ns in record.others),
    )
    return replace(
        bound,
        rows=rows,
        engine=floor,
        verdict=verdict_of(floor),
        notes=(*bound.notes, *record.notes, *_notes(floor, rows)),
    )


def verdict_of(floor: EngineFloor) -> Verdict:
    """The verdict: BROKEN if the floor is above the measured time by more than the noise; never clipped."""
    if floor.measured_ns is None:
        return "roofline"
    if floor.hot_ns > floor.measured_ns * (1 + (floor.noise or 0.0)):
        return "BROKEN"
    return "holds" if floor.machine == "quiet" else "noisy"


def _row(bound: Bound, node: Executed, record: Record) -> BoundRow:
    work = Work(node.macs, node.flops, node.nbytes, node.dtypes or ("float32",))
    row = bound_row(node.name, node.op, work, bound.device, bound.threads)
    row = replace(row, layers=node.rows)
    if node.alias:
        return replace(row, status="alias", engine_ns=0.0, physical_ns=0.0, roof="none")
    hot, streamed = (record.best.get((node.key, mode), (None, 0))[0] for mode in ("hot", "streamed"))
    if hot is None:
        status = cast(Status, record.failed.get(node.key, "roofline"))
        return replace(row, status=status)
    least = hot if streamed is None else min(hot, streamed)  # the least that the node ever took alone
    return replace(row, status="ok", engine_ns=least, streamed_ns=streamed)


def _notes(floor: EngineFloor, rows: tuple[BoundRow, ...]) -> list[str]:
    notes = []
    missing = floor.nodes - floor.measured_nodes
    if missing:
        notes.append(
            f"{missing} of {floor.nodes} executed nodes were not measured and count with their physical floor: "
            "flopwise bench --missing measures them"
        )
    if floor.machine not in ("", "quiet"):
        notes.append(f"the machine was busy in the last session: {floor.machine}; a floor holds nevertheless")
    above = [row for row in rows if row.status == "ok" and (row.physical_ns or 0) > (row.engine_ns or 0) * 1.02 + 1]
    if above:
        are = "is" if len(above) == 1 else "are"
        notes.append(
            f"{counted(len(above), 'node')} {are} faster than the physical floor, the first {above[0].name}: "
            "a figure of the device is too low, or an algorithm needs fewer operations"
        )
    return notes


def critical_path(times: Sequence[float], needs: Sequence[Sequence[int]]) -> float:
    """The longest chain of nodes that wait for each other.

    Args:
        times: of each node, in an order in which they can run.
        needs: for each node the positions of the nodes that it waits for.

    >>> critical_path([1, 5, 2, 1], [[], [0], [0], [1, 2]])
    7
    """
    ends: list[float] = []
    for time, before in zip(times, needs, strict=True):
        ends.append(time + max((ends[place] for place in before), default=0))
    return max(ends, default=0)


def with_workers(times: Sequence[float], needs: Sequence[Sequence[int]], workers: int) -> float:
    """The least time of so many workers that share a device: the longest chain, or their share of the sum."""
    return max(critical_path(times, needs), sum(times) / workers)
