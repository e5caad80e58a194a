"""A bound as plain values: the JSON schema ``flopwise.bound/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flopwise.analyses.timing.engine import WhatIf, what_ifs

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound


def content(bound: Bound, workers: int | None = None) -> dict[str, Any]:
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
        "model": {
            "name": bound.profile.graph.name,
            "source": bound.profile.graph.source,
            "format": bound.profile.graph.format,
        },
        "environment": _environment(bound),
        "floors": {
            "physical_ns": _whole(bound.physical.ns),
            "engine_ns": _whole(engine.hot_ns) if engine else None,
            "streamed_ns": _whole(engine.streamed_ns) if engine else None,
            "critical_path_ns": _whole(engine.critical_ns) if engine else None,
            "at_measured_peaks_ns": _whole(bound.machine.ns) if bound.machine else None,
        },
        "measured_ns": _whole(engine.measured_ns) if engine else None,
        "noise": engine.noise if engine else None,
        "coverage": {
            "nodes": len(rows),
            "measured": sum(row.engine_ns is not None for row in rows),
            "macs_share": measured / macs if macs else None,
        },
        "verdict": bound.verdict,
        "rows": [
            {
                "name": row.name,
                "op": row.op,
                "time_ns": _whole(row.engine_ns),
                "floor_ns": _whole(row.floor_ns),
                "physical_ns": _whole(row.physical_ns),
                "roof": row.roof,
                "status": row.status,
                "roofline_ns": _whole(row.roofline_ns),
                "macs": row.work.macs,
                "flops": row.work.flops,
                "bytes": row.work.nbytes,
                "dtypes": list(row.work.dtypes),
                "streamed_ns": _whole(row.streamed_ns),
                "layers": list(row.layers),
            }
            for row in rows
        ],
        "notes": list(bound.notes),
        **({} if workers is None else {"what_if": [_other(each) for each in what_ifs(bound, workers)]}),
    }


def _other(each: WhatIf) -> dict[str, Any]:
    return {"what": each.what, "ns": _whole(each.ns), "kind": each.kind}


def _environment(bound: Bound) -> dict[str, Any]:
    device, floor = bound.device, bound.physical
    return {
        "device": {"id": device.id, "name": device.name, "kind": device.kind, "cores": device.cores},
        "threads": bound.threads,
        "engine": dict(bound.engine.environment.get("engine", {})) if bound.engine else None,
        "machine": dict(bound.engine.environment.get("machine", {})) if bound.engine else None,
        "sessions": bound.engine.sessions if bound.engine else 0,
        "roof": floor.roof,
        "compute_ns": _whole(floor.compute_ns),
        "memory_ns": _whole(floor.memory_ns),
        "must_move": {
            "weights": floor.movement.weights,
            "inputs": floor.movement.inputs,
            "outputs": floor.movement.outputs,
            "level": floor.level,
        },
        "peaks": [
            {
                "what": peak.what,
                "dtype": peak.dtype,
                "value": peak.scaled(bound.threads),
                "unit": peak.unit,
                "kind": peak.kind,
                "source": peak.source,
                "url": peak.url or None,
                "verified": peak.verified,
            }
            for peak in floor.peaks
        ],
    }


def _whole(nanoseconds: float | None) -> int | None:
    return None if nanoseconds is None else round(nanoseconds)
