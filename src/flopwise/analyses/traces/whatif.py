"""Times that a recorded step would take otherwise: floors with some of them removed, and estimates for other devices.

A device swap is estimated from the kernels that were measured: of each row the roofline changes, and what its kernels
took beside it stays. No roofline alone says it: five models whose kernels were measured on H100 and on MI300X took 0.59
to 1.40 of the time, where the peaks say 0.76 of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flopwise.analyses.timing.bound import WhatIf
from flopwise.analyses.timing.device import Device
from flopwise.analyses.timing.roofline import roofline
from flopwise.analyses.timing.whatif import estimate
from flopwise.analyses.traces.trace import FORWARD, Layer, Trace
from flopwise.operators.tables import row as operator

#: Name in the remainder -> the way without it.
_REMOVED = {
    "gaps": "without gaps",
    "copies": "without copies",
    "layout": "without the engine's layout changes",
    "communication": "communication fully overlapped",
    "data loading": "without data loading",
    "constants": "constants folded",
}


def what_ifs(trace: Trace) -> list[WhatIf]:
    """Floors of the step, each with some of its times removed, from the least that goes; then what was tried."""
    now = trace.window_ns
    removed = {text: trace.remainder.get(name, 0) for name, text in _REMOVED.items()}
    timed = [row for row in trace.rows if row.time_ns]
    removed["element-wise layers fused"] = sum(r.time_ns or 0 for r in timed if operator(r.op).in_place)
    removed["without layers that only move data"] = sum(r.time_ns or 0 for r in timed if operator(r.op).moves)
    above = [(row.time_ns or 0) - row.floor_ns for row in timed if row.floor_ns is not None]
    removed["every layer at its roofline floor"] = sum(max(0, over) for over in above)
    ways = [WhatIf(text, max(0, now - ns), "floor", now) for text, ns in removed.items() if ns]
    return [WhatIf("as it is", now, "measured", now), *sorted(ways, key=lambda way: -way.ns), *trace.tried]


def on_device(trace: Trace, layers: Sequence[Layer], dtype: str, now: Device, other: Device) -> WhatIf:
    """The time of the step's kernels on another device, without gaps: an estimate.

    Args:
        trace: the step.
        layers: of the recording.
        dtype: the element type of most products.
        now: the device that it was recorded on.
        other: the other device.
    """
    before = list(_rooflines(trace, layers, dtype, now))
    after = list(_rooflines(trace, layers, dtype, other))
    changed = sum(then - min(at, time) for (time, at), (_, then) in zip(before, after, strict=True))
    ns = trace.busy_ns + changed
    return estimate("device", f"kernels on {other.name}", ns, trace.busy_ns)


def _rooflines(trace: Trace, layers: Sequence[Layer], dtype: str, device: Device) -> Iterator[tuple[float, float]]:
    """Time and roofline of each row and segment of the step."""
    each = len(trace.rows) // len(layers) if layers else 1
    least: dict[tuple[str, str], float] = {}
    for number, row in enumerate(trace.rows):
        layer = layers[number // each]
        macs = (layer.macs or 0) if row.phase == FORWARD else (layer.backward_flops or 0) // 2
        own = layer.flops if row.phase == FORWARD else layer.backward_flops
        runs = row.flops / own if row.flops and own else 1
        seconds = roofline(device, {(dtype,): macs}, layer.bytes or 0).seconds
        least[row.name, row.phase] = runs * 1e9 * seconds
        if row.time_ns:
            yield row.time_ns, least[row.name, row.phase]
    for segment in trace.segments:
        yield segment.time_ns, sum(least.get((name, segment.phase), 0.0) for name in segment.layers)
