"""The least time of each layer of a trace on the device that it was recorded on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.timing.bound import WhatIf, physical_bound
from flopwise.analyses.timing.device import LEVELS, Device, arithmetic, assumptions, fastest, roofline
from flopwise.analyses.timing.whatif import estimate
from flopwise.analyses.traces.trace import FORWARD, Layer, Recording, Trace
from flopwise.operators.tables import row as operator
from flopwise.profiles.profile import Profile

#: Nanoseconds in a second.
_SECOND = 1e9


def with_floors(recording: Recording, device: Device, profile: Profile | None) -> Recording:
    """The recording with the least time of its layers on a device.

    A forward pass takes at least its physical floor (``flopwise.bound``), a backward pass at least its products. Where
    products were computed in another type than the model is stored in, the floor is that of the products alone.

    Args:
        recording: the times.
        device: what they were recorded on.
        profile: the model, whose rows the layers are; None where there is none.
    """
    if profile is None:
        dtypes = arithmetic((recording.dtype or "float32",))
        least_ns = [_products(device, dtypes, layer.macs) for layer in recording.layers]
        layers = [
            layer._replace(floor_ns=least, peak_ns=least)
            for layer, least in zip(recording.layers, least_ns, strict=True)
        ]
        macs = {dtypes: sum(layer.macs or 0 for layer in recording.layers)}
        return _noted(replace(recording, layers=tuple(layers)), device, macs)
    bound = physical_bound(profile, device)
    as_stored = _as_stored(recording, profile)
    floored: list[Layer] = []
    work: Counter[tuple[str, ...]] = Counter()
    for layer, row, own in zip(recording.layers, bound.rows, profile.rows, strict=True):
        dtypes = row.work.arithmetic if as_stored else arithmetic((recording.dtype,))
        peak = _products(device, dtypes, row.work.least)
        least = row.physical_ns if as_stored else peak
        back = _products(device, dtypes, own.backward_macs)
        floored.append(layer._replace(floor_ns=least, backward_floor_ns=back, peak_ns=peak))
        work[dtypes] += row.work.least or 0
    return _noted(replace(recording, layers=tuple(floored)), device, work)


def _noted(recording: Recording, device: Device, work: Mapping[tuple[str, ...], int]) -> Recording:
    """The recording with a note on what the floors rest on, and the device's figures for it."""
    notes = [f"{device.name}: {text}" for text in assumptions(work, device)]
    used = [peak for dtypes, macs in work.items() if macs and (peak := fastest(device, dtypes)) is not None]
    memory = [peak for peak in device.peaks if peak.what in LEVELS]
    return replace(recording, notes=(*recording.notes, *notes), peaks=(*dict.fromkeys(used), *memory))


def _as_stored(recording: Recording, profile: Profile) -> bool:
    """True where the products of the trace are of the type of the model's inputs or weights."""
    stored = {t.dtype for node in profile.graph.nodes for t in node.known_inputs if t.kind == "weight"}
    return not recording.dtype or recording.dtype in stored


def _products(device: Device, dtypes: tuple[str, ...], macs: int | None) -> float | None:
    """Nanoseconds of multiply-adds at the device's peak; None where there are none, or no figure for them."""
    if not macs:
        return None
    seconds = roofline(device, {dtypes: macs}).compute_seconds
    return _SECOND * seconds if seconds else None


# Times that a recorded step would take otherwise: floors with some of them removed, and estimates for other devices.
#
# A device swap is estimated from the kernels that were measured: of each row the roofline changes, and what its kernels
# took beside it stays. No roofline alone says it: five models whose kernels were measured on H100 and on MI300X took
# 0.59 to 1.40 of the time, where the peaks say 0.76 of all.


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
