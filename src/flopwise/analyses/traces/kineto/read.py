"""A Kineto trace, read and put on the rows of a model."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from flopwise.analyses.traces.kineto import fused, names
from flopwise.analyses.traces.kineto.counts import DTYPES
from flopwise.analyses.traces.kineto.places import Listed, Model, places_of, token_of, unplaced
from flopwise.analyses.traces.kineto.records import LABEL, Kernel, Launch, Operator, Records, records_of
from flopwise.analyses.traces.kineto.refusals import refuse_other_model
from flopwise.analyses.traces.kineto.steps import Window, windows_of
from flopwise.analyses.traces.kineto.threads import Thread, threads_of
from flopwise.analyses.traces.land import KEPT, Landing, Place, Step, Work, land
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Matched, Recording
from flopwise.errors import ModelError, counted
from flopwise.profiles.profile import Profile

#: Products by which the sizes of a trace of other inputs are told.
FIRST = 10_000


def matches(scan: Scan) -> bool:
    """True for a file of Chrome's trace format that PyTorch's profiler wrote."""
    return scan.array == "traceEvents" or (not scan.array and "ph" in scan.first and "ts" in scan.first)


def read(scan: Scan, profile: Profile | None) -> Recording:
    """The times of a trace's steps, on the rows of a profile; without one, on its operators by their shapes.

    Raises:
        ModelError: the trace has no operators or no shapes, or it is of another model.
    """
    records = records_of(scan)
    if all(kind.annotation for kind in records.kinds):
        raise ModelError(
            f"{scan.name}: no operators were recorded: export in the profiler's on_trace_ready, not after its end"
        )
    if (
        profile is not None
        and not records.shaped
        and not any(kind.annotation and kind.name.startswith(LABEL) for kind in records.kinds)
    ):
        raise ModelError(
            f"{scan.name}: no shapes were recorded: profile with record_shapes=True, or within flopwise.annotate"
        )
    threads = threads_of(records)
    recording = _placed(records, threads, profile)
    trains = any(place.phase == BACKWARD for landing in recording.landings for place in landing.times)
    return replace(recording, trained=partial(_placed, records, threads)) if trains else recording


def _placed(records: Records, threads: Mapping[str, Thread], profile: Profile | None) -> Recording:
    """The times of a trace's steps on the rows of a profile, or on its operators."""
    windows, note = windows_of(records, threads, None if profile is None else len(profile.rows))
    model = Listed() if profile is None else Model(profile)
    kernels = _Kernels(records, threads, windows)
    landings: list[Landing] = []
    products: Counter[bool] = Counter()
    forward: list[Operator] = []
    seen = placed = kept = 0
    stride = 1
    dtypes: Counter[str] = Counter()
    reported = [number for number, window in enumerate(windows) if records.steps.keeps(window.name)]
    for position, number in enumerate(reported):
        if position % stride:
            continue
        window = windows[number]
        places = places_of(window, threads, model)
        times = kernels.times(number) if records.kernels else {o: o.end - o.start for o in places}
        for operator, time in times.items():
            if operator in places and _is_product(operator, places[operator], model):
                products[bool(places[operator].layers)] += time
                placed += bool(places[operator].layers)
                dtypes[next((DTYPES[kind] for kind in operator.arguments.types if kind in DTYPES), "")] += time
                seen += 1
                if len(forward) < FIRST:
                    forward.append(operator)
        step = kernels.step(number, places) if records.kernels else _step(window, threads, places)
        step.runs = Counter(place for place in places.values() if place.layers) if profile is None else {}
        landings.append(land(step))
        for thread in threads.values():
            thread.forget()
        kept += len(step.works)
        if kept > KEPT and len(landings) > 2:
            landings, stride = landings[::2], 2 * stride
            kept = sum(len(landing.works) for landing in landings)
    share = products[True] / products.total() if products.total() else None
    if isinstance(model, Model) and (share is None or share < 0.5 or 2 * placed < seen):
        refuse_other_model(records.name, forward, model, profile, share)
    landings = [landing for landing in landings if landing.busy_ns] or landings
    rows = {number for landing in landings for place in landing.times for number in place.layers}
    of = len(model.layers)
    notes = [note] if note else []
    stride *= records.steps.stride
    if stride > 1:
        notes.append(f"one of every {stride} steps is reported: there are many")
    if not records.kernels and _hides_kernels(records):
        notes.append(
            "kernels of compiled code leave no event: torch._inductor.config.cpp.enable_kernel_profile = True, set"
            " before compiling, makes them leave one"
        )
    if kernels.lost:
        notes.append(f"{counted(kernels.lost, 'kernel')} with no call that started them: named by their own names")
    return Recording(
        ", ".join(records.devices) or ("" if records.kernels else "CPU"),
        model.layers,
        tuple(landings),
        Matched(len(rows), of, share) if profile is not None else Matched(of, of, share),
        tuple(notes),
        records.memory_bytes,
        dtypes.most_common(1)[0][0] if dtypes else "",
    )


def _hides_kernels(records: Records) -> bool:
    """True where compiled code was called and none of its kernels has an event."""
    called = [kind.name for kind in records.kinds]
    return any(name.startswith(names.CALL) for name in called) and not any(map(fused.listed, called))


def _is_product(operator: Operator, place: Place, model: Model | Listed) -> bool:
    """True for an operator that computes products: by its own shapes, or by those of its row."""
    if operator.arguments.tensors or place.phase != FORWARD:
        return place.phase == FORWARD and token_of(operator).product
    return any(model.layers[number].macs for number in place.layers)


def _step(window: Window, threads: Mapping[str, Thread], places: Mapping[Operator, Place]) -> Step:
    """A step of a processor whose threads do the work themselves."""
    works = [Work(place, o.thread, o.start, o.end, 1, o.name) for o, place in places.items()]
    for thread in threads.values():
        for o in (*_around(thread.innermost(window.start)), *thread.between(window.start, window.end)):
            if o.unit in places:
                continue
            name = _named(o) if o.annotation else o.context or unplaced(o, window)
            if name:
                works.append(Work(Place(name=name), o.thread, o.start, o.end, 0, o.name))
    return Step(window.name, window.start, window.end, works)


def _named(annotation: Operator) -> str:
    """The name of the time under an annotation that no operator in it has: kernels of compiled code leave no event."""
    return names.COMPILED if annotation.name.startswith(names.CALL) else names.context_of(annotation.name)


def _around(operator: Operator | None) -> Iterator[Operator]:
    """An operator and those around it that began before a step."""
    while operator is not None:
        yield operator
        operator = operator.outer


class _Kernels:
    """The kernels of a trace, by step and by the operator that started them."""

    def __init__(self, records: Records, threads: Mapping[str, Thread], windows: Sequence[Window]) -> None:
        self._windows, self._threads = windows, threads
        self._steps: defaultdict[int, list[tuple[Kernel, Launch | None]]] = defaultdict(list)
        #: Kernels that no call of the driver is known for.
        self.lost = 0
        for kernel in records.kernels:
            launch = records.launches.get(kernel.correlation) if kernel.correlation is not None else None
            self.lost += launch is None
            step = self._step_at(kernel.start if launch is None else launch.start)
            if step is not None:
                self._steps[step].append((kernel, launch))

    def _step_at(self, instant: int) -> int | None:
        step = bisect.bisect_right(self._windows, instant, key=lambda window: window.start) - 1
        return step if step >= 0 and instant < self._windows[step].end else None

    def _operator(self, launch: Launch | None) -> Operator | None:
        """The innermost operator around a call of the driver."""
        thread = None if launch is None else self._threads.get(launch.thread)
        return None if thread is None or launch is None else thread.innermost(launch.start)

    def times(self, number: int) -> dict[Operator, int]:
        """Time of the kernels that each operator started in a step."""
        times: Counter[Operator] = Counter()
        for kernel, launch in self._steps[number]:
            operator = self._operator(launch)
            if operator is not None and operator.unit is not None:
                times[operator.unit] += kernel.end - kernel.start
        return dict(times)

    def step(self, number: int, places: Mapping[Operator, Place]) -> Step:
        """A step of a device: from its mark, or the first of its kernels, to the end of the last one.

        Kernels run behind the calls that start them, often into the next step's mark: that step begins where they end.
        """
        window, own = self._windows[number], self._steps[number]
        before = (
            max((kernel.end for kernel, *_ in self._steps[number - 1]), default=window.start)
            if number
            else window.start
        )
        first = min((kernel.start for kernel, *_ in own), default=window.end)
        start = min(max(window.start, before), first)
        end = max([window.end, *(kernel.end for kernel, *_ in own)])
        works = [
            Work(
                _place_of(kernel, self._operator(launch), "" if launch is None else launch.name, places),
                kernel.lane,
                kernel.start,
                kernel.end,
                1,
                kernel.name,
            )
            for kernel, launch in own
        ]
        matched = dict.fromkeys(place for place in places.values() if place.layers)
        works += [Work(place, "", start, start, 0) for place in matched]
        return Step(window.name, start, end, works)


def _place_of(kernel: Kernel, operator: Operator | None, launch: str, places: Mapping[Operator, Place]) -> Place:
    """The place of a kernel: its operator's, unless the kernel's own name says more."""
    own = names.remainder_of_kernel(kernel.name, launch, kernel.copy)
    if operator is None:
        return Place(name=own)
    if operator.unit is not None and operator.unit in places:
        place = places[operator.unit]
        return place if place.layers or own == names.UNMATCHED or place.name == names.OPTIMISER else Place(name=own)
    name = operator.context or names.remainder_of(operator.name)
    return Place(name=own if own != names.UNMATCHED else name)
