"""The trace of one step of a recording: what landed on each layer, on segments of them, and under names."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.traces.land import Landing, Place
from flopwise.analyses.traces.trace import (
    BACKWARD,
    FORWARD,
    Layer,
    Moment,
    Recording,
    Segment,
    Status,
    StepTime,
    TimedRow,
    Trace,
)
from flopwise.errors import InputError, ModelError, did_you_mean

# The time of segments divided among their layers: an estimate, where a trace knows their sum alone.


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


# The critical path of a step, as far as the times of its events alone tell it.


def critical_path(timeline: Sequence[Moment]) -> list[int]:
    """The positions of the events on the critical path, in the order of time.

    Traces name no dependencies. The path goes back from the event that ends last, each time to the one that ended last
    before the event began, on whatever lane; what lies between two events of the path is waiting.

    >>> lanes = [("a", 0, 10), ("b", 2, 12), ("a", 10, 20), ("b", 13, 15)]
    >>> critical_path([Moment("", "", "", lane, start, end, None) for lane, start, end in lanes])
    [0, 2]
    """
    order = sorted(range(len(timeline)), key=lambda place: (timeline[place].end_ns, timeline[place].start_ns))
    ends = [timeline[place].end_ns for place in order]
    path: list[int] = []
    at = len(order) - 1
    while at >= 0:
        path.append(order[at])
        at = min(bisect_right(ends, timeline[order[at]].start_ns), at) - 1
    return path[::-1]


def trace_of(
    recording: Recording,
    model: str,
    format: str,
    step: str | int = "median",
    phase: str | None = None,
    file: str = "the trace",
) -> Trace:
    """The trace of one step of a recording.

    Args:
        recording: what landed where.
        model: name of the model; "" without one.
        format: name of the format.
        step: "median": the step whose time is the median (of two the shorter); "all": the sum of the steps; else the
            name of a step, or its position.
        phase: only "forward" or "backward": the time of other layers' phases is named among the remainder.
        file: name of the trace.

    Raises:
        InputError: there is no such step or phase, or no layer of the step has time in it.
        ModelError: nothing was recorded.
    """
    if phase not in (None, FORWARD, BACKWARD):
        raise InputError(f"unknown phase {phase!r}; known: {FORWARD}, {BACKWARD}")
    landings = recording.landings
    chosen, name = _chosen(landings, step) if landings else ([], "")
    if not any(landing.busy_ns for landing in landings):
        raise ModelError(f"{file}: no step has any work in it: none of its events has a duration")
    times, launches = _sum(landing.times for landing in chosen), _sum(landing.launches for landing in chosen)
    phases = _phases(times, phase)
    if not phases:
        raise InputError(f"no layer has time in a {phase} pass of step {name}")
    at_peak = {landing.name: _at_peak(recording, landing) for landing in landings}
    return Trace(
        model=model,
        format=format,
        device=recording.device,
        steps=tuple(landing.name for landing in landings),
        step=name,
        window_ns=sum(landing.window_ns for landing in chosen),
        rows=tuple(_rows(recording, chosen, times, launches, phases)),
        segments=tuple(
            _segment(recording, p, times[p], launches[p], _runs(chosen, p)) for p in _segments(times, phase)
        ),
        remainder=_remainder(times, phase, sum(landing.gaps_ns for landing in chosen)),
        covered_ns=sum(landing.covered_ns for landing in chosen),
        busy_ns=sum(landing.busy_ns for landing in chosen),
        wall_ns=sum(landing.wall_ns for landing in chosen),
        matched=recording.matched,
        notes=(*recording.notes, *_missing(recording), *_without_share(recording, chosen)),
        kernels=_kernels(recording, chosen),
        kernel_times=_kernel_times(landings),
        timeline=tuple(_timeline(recording, chosen)),
        times=tuple(_step_time(landing, at_peak[landing.name]) for landing in landings),
        peaks=recording.peaks,
        peak_ns=sum(at_peak[each.name] for each in chosen) or None,
        split="macs" if recording.estimates else "",
    )


def _step_time(landing: Landing, peak: float) -> StepTime:
    return StepTime(landing.name, landing.window_ns, landing.busy_ns, landing.wall_ns, landing.start_ns, peak or None)


def _sum(figures: Iterable[Mapping[Place, int]]) -> Counter[Place]:
    """Figures of places in several steps, added up."""
    total: Counter[Place] = Counter()
    for step in figures:
        total.update(step)
    return total


def _phases(times: Mapping[Place, int], phase: str | None) -> tuple[str, ...]:
    """The phases that are shown: those in which layers have time; () where they have none in the one that is meant."""
    timed = {place.phase for place in times if place.layers}
    if phase is None:
        return tuple(each for each in (FORWARD, BACKWARD) if each in timed) or (FORWARD,)
    return (phase,) if phase in timed else ()


def _remainder(times: Mapping[Place, int], phase: str | None, gaps: int) -> dict[str, int]:
    """Time of no layer by name, the longest first; that of layers in another phase is named by the phase."""
    remainder: Counter[str] = Counter()
    for place, time in times.items():
        if not place.layers:
            remainder[place.name] += time
        elif phase is not None and place.phase != phase:
            remainder[place.phase] += time
    remainder["gaps"] += gaps
    return {name: time for name, time in remainder.most_common() if time}


def _missing(recording: Recording) -> list[str]:
    """A note where more than a hundredth of a model's multiply-adds has no time: it may be another model's trace."""
    seen = {number for landing in recording.landings for place in landing.times for number in place.layers}
    macs = [layer.macs or 0 for layer in recording.layers]
    absent = sum(count for number, count in enumerate(macs) if number not in seen)
    if 100 * absent <= sum(macs):
        return []
    share = f"{100 * absent / sum(macs):.1f} % of the model's MACs"
    return [f"{share} are in layers without time in the trace: it may be of another model"]


def _at_peak(recording: Recording, landing: Landing) -> float:
    """The time of the products of a step at the device's peak; 0.0 where that is not known."""
    runs = {(n, p.phase): landing.runs.get(p, 1) for p in landing.times for n in p.layers}
    layers = recording.layers
    if any(_is_uncounted(layers[n], phase) for n, phase in runs):
        return 0.0
    return sum(
        number * ((layers[n].peak_ns if phase == FORWARD else layers[n].backward_floor_ns) or 0.0)
        for (n, phase), number in runs.items()
    )


def _is_uncounted(layer: Layer, phase: str) -> bool:
    """True where a pass of a layer has products, but nothing says how many multiply-adds."""
    return layer.uncounted or (phase == BACKWARD and layer.peak_ns is not None and layer.backward_floor_ns is None)


def _without_share(recording: Recording, chosen: Sequence[Landing]) -> list[str]:
    """A note where the products of the steps cannot be held against the peak of a device that is known."""
    places = {(number, place.phase) for landing in chosen for place in landing.times for number in place.layers}
    if not recording.peaks or not any(_is_uncounted(recording.layers[n], phase) for n, phase in places):
        return []
    return [
        "no MFU: the MACs of some operators are not known; without a model, those of backward passes "
        "and of convolutions without recorded strides"
    ]


def _timeline(recording: Recording, chosen: Sequence[Landing]) -> Iterator[Moment]:
    for work in sorted((w for landing in chosen for w in landing.works if w.launches), key=lambda w: w.start_ns):
        parts = [recording.layers[number] for number in work.place.layers]
        flops = [part.flops if work.place.phase == FORWARD else part.backward_flops for part in parts]
        yield Moment(
            _label(work.place, [part.name for part in parts]) if parts else work.place.name,
            work.place.phase if parts else "",
            work.name,
            work.lane,
            work.start_ns,
            work.end_ns,
            None if None in flops or not flops else sum(each or 0 for each in flops),
            work.place.layers[0] if len(parts) == 1 else None,
        )


def _kernels(recording: Recording, chosen: Sequence[Landing]) -> dict[tuple[str, str, str], int]:
    times: Counter[tuple[str, str, str]] = Counter()
    for landing in chosen:
        for (place, kernel), time in landing.kernels.items():
            names = [recording.layers[number].name for number in place.layers]
            label = _label(place, names) if names else place.name
            times[label, place.phase if names else "", kernel] += time
    return dict(times)


def _kernel_times(landings: Sequence[Landing]) -> dict[str, tuple[int, ...]]:
    steps: list[Counter[str]] = []
    for landing in landings:
        steps.append(Counter())
        for (_, kernel), time in landing.kernels.items():
            steps[-1][kernel] += time
    return {
        kernel: tuple(step[kernel] for step in steps) for kernel in dict.fromkeys(k for step in steps for k in step)
    }


def _label(place: Place, names: Sequence[str]) -> str:
    """The name of a row or a segment."""
    return names[0] if len(names) == 1 else place.name or f"{names[0]}+{len(names) - 1}"


def _chosen(landings: Sequence[Landing], step: str | int) -> tuple[Sequence[Landing], str]:
    """The steps that are meant, and what they are called."""
    names = [landing.name for landing in landings]
    if step == "all" and len(landings) > 1:
        return landings, "all"
    if step in ("median", "all"):
        ordered = sorted(landings, key=lambda landing: landing.window_ns)
        middle = ordered[(len(ordered) - 1) // 2]
        return [middle], middle.name
    if isinstance(step, str) and step not in names and step.isdecimal():
        step = int(step)
    place = step if isinstance(step, int) else names.index(step) if step in names else -1
    if not 0 <= place < len(landings):
        known = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        near = did_you_mean(str(step), ["median", "all", *names]) or ";"
        raise InputError(f"the trace has no step {step!r}{near} it has median, all, {known}")
    return [landings[place]], names[place]


def _rows(
    recording: Recording,
    chosen: Sequence[Landing],
    times: Mapping[Place, int],
    launches: Mapping[Place, int],
    phases: Sequence[str],
) -> list[TimedRow]:
    """The layers in their order, once for each phase."""
    inside = {(place, p.phase) for p in times if len(p.layers) > 1 for place in p.layers}
    rows = []
    for number, layer in enumerate(recording.layers):
        for phase in phases:
            place = Place((number,), phase)
            runs = _runs(chosen, place) or 1
            status: Status = "matched" if place in times else "segment" if (number, phase) in inside else "absent"
            if place in recording.estimates and place in times:
                status = "estimate"
            rows.append(
                TimedRow(
                    layer.name,
                    layer.op,
                    phase,
                    None if status == "segment" else times.get(place, 0),
                    launches.get(place, 0),
                    _times(layer.flops if phase == FORWARD else layer.backward_flops, runs),
                    _times(layer.bytes, runs) if phase == FORWARD else None,
                    status,
                    _floor(layer.floor_ns if phase == FORWARD else layer.backward_floor_ns, runs),
                    module=layer.module,
                    times_ns=tuple(landing.times.get(place, 0) for landing in recording.landings),
                )
            )
    return rows


def _runs(chosen: Sequence[Landing], place: Place) -> int:
    """Runs of the layer of a place in the chosen steps."""
    return sum(landing.runs.get(place, 1) for landing in chosen if place in landing.times)


def _times(figure: int | None, runs: int) -> int | None:
    return None if figure is None else figure * runs


def _floor(figure: float | None, runs: int) -> int | None:
    return None if figure is None else int(figure * runs)


def _segments(times: Mapping[Place, int], phase: str | None) -> list[Place]:
    segments = [place for place in times if len(place.layers) > 1 and phase in (None, place.phase)]
    return sorted(segments, key=lambda place: (place.phase != FORWARD, place.layers))


def _segment(recording: Recording, place: Place, time: int, launches: int, runs: int) -> Segment:
    parts = [recording.layers[number] for number in place.layers]
    flops = [part.flops if place.phase == FORWARD else part.backward_flops for part in parts]
    names = tuple(part.name for part in parts)
    return Segment(
        _label(place, names),
        place.phase,
        time,
        launches,
        names,
        None if None in flops else runs * sum(f or 0 for f in flops),
        times_ns=tuple(landing.times.get(place, 0) for landing in recording.landings),
    )
