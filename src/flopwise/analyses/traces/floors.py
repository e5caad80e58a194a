"""The least time of each layer of a trace on the device that it was recorded on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from flopwise.analyses.timing.bound import physical_bound
from flopwise.analyses.timing.device import LEVELS, Device, arithmetic
from flopwise.analyses.timing.roofline import assumptions, fastest, roofline
from flopwise.analyses.traces.trace import Layer, Recording
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
