"""The time of segments divided among their layers: an estimate, where a trace knows their sum alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.traces.land import Landing, Place
from flopwise.analyses.traces.trace import Recording
from flopwise.errors import InputError


def split_by_macs(recording: Recording) -> Recording:
    """The recording with each segment's time divided in proportion to multiply-adds, in whole nanoseconds.

    A segment without multiply-adds stays whole. Its kernels are counted on the layer with the most.

    Raises:
        InputError: no segment has any.
    """
    places = {p for landing in recording.landings for p in landing.times if len(p.layers) > 1}
    weights = {p: w for p in places if any(w := [recording.layers[n].macs or 0 for n in p.layers])}
    if not weights:
        raise InputError("no segment has multiply-adds, so there is no time to split: leave split out")
    landings = tuple(_split(landing, weights) for landing in recording.landings)
    estimates = frozenset(Place((n,), p.phase) for p in weights for n in p.layers)
    return replace(recording, landings=landings, estimates=estimates)


def _split(landing: Landing, weights: Mapping[Place, Sequence[int]]) -> Landing:
    times: Counter[Place] = Counter()
    launches: Counter[Place] = Counter()
    kernels: Counter[tuple[Place, str]] = Counter()
    for place, time in landing.times.items():
        times.update(_shares(place, time, weights))
    for place, number in landing.launches.items():
        shares = weights.get(place)
        most = place if shares is None else Place((place.layers[shares.index(max(shares))],), place.phase)
        launches[most] += number
    for (place, name), time in landing.kernels.items():
        for part, share in _shares(place, time, weights).items():
            kernels[part, name] += share
    return replace(landing, times=dict(times), launches=dict(launches), kernels=dict(kernels))


def _shares(place: Place, time: int, weights: Mapping[Place, Sequence[int]]) -> dict[Place, int]:
    """The time of a segment by layer; what rounding leaves is the last one's that has any."""
    if place not in weights:
        return {place: time}
    shares = weights[place]
    total, before, passed = sum(shares), 0, 0
    parts: dict[Place, int] = {}
    for number, share in zip(place.layers, shares, strict=True):
        passed += share
        until = time * passed // total
        parts[Place((number,), place.phase)] = until - before
        before = until
    return parts
