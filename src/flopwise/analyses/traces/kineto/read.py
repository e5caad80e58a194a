"""A Kineto trace, read and put on the rows of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.events import Thread, Window, records_of, threads_of, windows_of
from flopwise.analyses.traces.kineto.kernels import Companions, Kernels, Replay, read_companions
from flopwise.analyses.traces.kineto.model import Listed, Model, Products, refuse_other_model, refuse_passed_rows
from flopwise.analyses.traces.kineto.records import LABEL, Calls, Operator, Records
from flopwise.analyses.traces.land import Landing, Landings, Place, Step, Work
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import BACKWARD, Matched, Recording
from flopwise.errors import ModelError, counted
from flopwise.profiles.profile import Profile

# Where the operators of one step belong: the forward pass on rows, the backward pass by sequence numbers, names.


def places_of(
    window: Window, threads: Mapping[str, Thread], model: Model | Listed, replays: Sequence[Replay] = ()
) -> dict[Operator, Place]:
    """The place of every operator of a step that time is given to, those behind CUDA graphs in their turn."""
    passes = _passes_of(window, threads)
    places, forward = passes.places, passes.forward
    graphs = [(replay, _passes_of_graph(replay)) for replay in replays]
    bare = [o for replay, own in graphs if not replay.captured for o in own.forward]
    told = model.has_products_of(bare, forward)
    for replay, own in graphs:
        if not (replay.captured or told):
            places.update(dict.fromkeys(own.forward, Place(name=names.GRAPHS)))
            own.forward.clear()
        turn = sum(o.start <= replay.start for o in forward)
        forward[turn:turn] = own.forward
        places.update((o, Place(name=o.context or _remainder_after(o))) for o in own.after)
    trains = any(passes.backward) or any(own.backward for _, own in graphs)
    written = any(names.is_written(o) for replay in replays for o in replay.units)
    places.update(model.places(forward, trains, views=not written))
    known = set(forward)
    eager = _owners(threads[window.thread].between(window.start, window.end), known)
    for units in passes.backward:
        _place_gradients(units, eager, places, model)
    for replay, own in graphs:
        _place_gradients(own.backward, _owners(replay.inside, known), places, model)
    return places


@dataclass(slots=True)
class _Passes:
    """The operators of a step by the pass that they are of."""

    forward: list[Operator] = field(default_factory=list)
    #: Those of each thread.
    backward: list[list[Operator]] = field(default_factory=list)
    #: The places of what is of no pass.
    places: dict[Operator, Place] = field(default_factory=dict)


def _passes_of(window: Window, threads: Mapping[str, Thread]) -> _Passes:
    """The operators that threads ran in a step, by their pass."""
    passes = _Passes()
    for thread in threads.values():
        units = [o for o in thread.between(window.start, window.end) if o.unit is o]
        backward = [o for o in units if thread.gradients or _is_backward(o)]
        passes.backward.append(backward)
        first = min((o.start for o in backward), default=window.end)
        for operator in () if thread.gradients else units:
            name = operator.context or ("" if _is_backward(operator) else _outside(operator, window, first))
            if name:
                passes.places[operator] = Place(name=name)
            elif not _is_backward(operator):
                passes.forward.append(operator)
    return passes


def _outside(operator: Operator, window: Window, gradients: int) -> str:
    """The name of an operator that is of neither pass; "" for one of the forward pass.

    Args:
        operator: is no part of the backward pass.
        window: the step.
        gradients: where the backward pass begins on this thread.
    """
    if operator.thread != window.thread:
        return unplaced(operator, window)
    return _remainder_after(operator) if operator.start > gradients else ""


def _is_backward(operator: Operator) -> bool:
    """True for an operator of the backward pass by its name, or by what is around it."""
    return operator.gradient or names.is_gradient(operator.name)


class _GraphPasses(NamedTuple):
    """The operators of a graph by their pass; ``after``: behind the backward pass."""

    forward: list[Operator]
    backward: list[Operator]
    after: list[Operator]


def _passes_of_graph(replay: Replay) -> _GraphPasses:
    """The operators of a graph, by their pass."""
    backward = [o for o in replay.units if _is_backward(o)]
    rest = [o for o in replay.units if not _is_backward(o)]
    first = backward[0].start if backward else None
    late = [o for o in rest if (first is not None and o.start > first) or o.context not in ("", names.GRAPHS)]
    return _GraphPasses([o for o in rest if o not in set(late)], backward, late)


def _place_gradients(
    units: Sequence[Operator], owners: Mapping[int, Operator], places: dict[Operator, Place], model: Model | Listed
) -> None:
    """Add the places of the operators of a backward pass."""
    last = Place(name=names.UNMATCHED)
    for operator in units:
        last = places[operator] = _backward(operator, owners, places, last)
    places.update(model.gradients([o for o in units if o.gradient]))


def _owners(operators: Iterable[Operator], forward: set[Operator]) -> dict[int, Operator]:
    """Number of a node of the backward pass -> the operator whose gradient it computes.

    What makes no node shows the number of the next one, so the last operator with a number owns it.
    """
    return {o.sequence: o.unit for o in operators if o.sequence is not None and o.unit in forward}


def _backward(
    operator: Operator, owners: Mapping[int, Operator], places: Mapping[Operator, Place], last: Place
) -> Place:
    """The place of an operator of the backward pass; what has no number belongs to the gradient before it."""
    if operator.gradient:
        return Place(name=names.remainder_of(operator.name))
    if "AccumulateGrad" in operator.name:
        return Place(name=names.ACCUMULATION)
    if not names.is_gradient(operator.name):
        return last if last.name != names.ACCUMULATION else Place(name=names.ACCUMULATION)
    owner = owners.get(operator.sequence) if operator.sequence is not None else None
    if owner is None:
        return Place(name=names.UNMATCHED)
    place = places[owner]
    return place._replace(phase=BACKWARD) if place.layers else place


def unplaced(operator: Operator, window: Window) -> str:
    """The name of an operator that is on no row of a step: it is of another thread, or began before the step."""
    name = names.remainder_of(operator.name)
    other = operator.thread != window.thread and name in (names.UNMATCHED, names.LAYOUT)
    return names.OTHER_THREADS if other else name


def _remainder_after(operator: Operator) -> str:
    """The name of what runs between the backward pass and the end of the step: gradients are clipped, averaged."""
    name = names.remainder_of(operator.name)
    return names.OPTIMISER if name in (names.UNMATCHED, names.LAYOUT) else name


def matches(scan: Scan) -> bool:
    """True for a file of Chrome's trace format that PyTorch's profiler wrote."""
    return scan.array == "traceEvents" or (not scan.array and "ph" in scan.first and "ts" in scan.first)


def read(scan: Scan, profile: Profile | None, beside: Sequence[Scan] = ()) -> Recording:
    """The times of a trace's steps, on the rows of a profile; without one, on its operators by their shapes.

    Args:
        scan: the trace.
        profile: the model.
        beside: traces of the capture of its CUDA graphs, and kernel_information.json of its compiled code.

    Raises:
        ModelError: the trace has no operators or no shapes, or it is of another model.
    """
    records = records_of(scan)
    companions = read_companions(beside)
    graphs = [launch for launch in records.launches.values() if names.is_graph(launch.name)]
    if all(kind.annotation for kind in records.kinds) and not (graphs and records.kernels):
        raise ModelError(f"{scan.name}: no operators were recorded: {_without_operators(scan, records)}")
    for launch in graphs:
        records.calls.setdefault(launch.thread, Calls())
    if (
        profile is not None
        and not (records.shaped or graphs)
        and not any(kind.annotation and kind.name.startswith(LABEL) for kind in records.kinds)
    ):
        raise ModelError(
            f"{scan.name}: no shapes were recorded: profile with record_shapes=True, or within flopwise.annotate"
        )
    threads = threads_of(records)
    recording = _placed(records, threads, companions, profile)
    trains = any(place.phase == BACKWARD for landing in recording.landings for place in landing.times)
    return replace(recording, trained=partial(_placed, records, threads, companions)) if trains else recording


def _without_operators(scan: Scan, records: Records) -> str:
    """The cure for a trace without operators."""
    if records.kernels:
        return "kernels alone; profile with ProfilerActivity.CPU as well"
    if scan.head.keys().isdisjoint(("schemaVersion", "deviceProperties")):
        return "it is no trace of PyTorch's profiler, but of another tool"
    return "export in the profiler's on_trace_ready, not after its end"


def _placed(
    records: Records, threads: Mapping[str, Thread], companions: Companions, profile: Profile | None
) -> Recording:
    """The times of a trace's steps on the rows of a profile, or on its operators."""
    windows, note = windows_of(records, threads, None if profile is None else len(profile.rows))
    model = Listed() if profile is None else Model(profile, companions.kernel_operators)
    kernels = Kernels(records, threads, windows, companions.captures)
    landings, products = Landings(), Products(model)
    hidden = names.COMPILED if _hides_kernels(records) else names.COMPILER
    for number, window in enumerate(windows):
        if not records.steps.keeps(window.name) or not landings.takes_next():
            continue
        places = places_of(window, threads, model, kernels.replays(number))
        if records.kernels:
            times, step = kernels.times(number), kernels.step(number, places)
        else:
            times, step = {o: o.end - o.start for o in places}, _step(window, threads, places, hidden)
        if profile is None:
            step.runs = Counter(place for place in places.values() if place.layers)
        products.add(times, places, _called(window, threads))
        landings.add(step)
        for thread in threads.values():
            thread.forget()
    reported = landings.reported
    rows = {number for landing in reported for place in landing.times for number in place.layers}
    if isinstance(model, Model) and profile is not None:
        _refuse(records.name, model, profile, products, reported, rows)
    of = len(model.layers)
    return Recording(
        _device(records),
        model.layers,
        reported,
        Matched(len(rows) if profile is not None else of, of, products.share),
        tuple(
            _notes(note, landings.stride * records.steps.stride, records, kernels, captured=bool(companions.captures))
        ),
        records.memory_bytes,
        products.dtype,
    )


def _called(window: Window, threads: Mapping[str, Thread]) -> Iterator[Operator]:
    """The operators that start in a step."""
    return (o for thread in threads.values() for o in thread.between(window.start, window.end))


def _device(records: Records) -> str:
    """The processor that the work ran on; "" where the trace does not say it."""
    return ", ".join(records.devices) or ("" if records.kernels else "CPU")


def _refuse(
    name: str,
    model: Model,
    profile: Profile,
    products: Products,
    landings: Sequence[Landing],
    rows: Collection[int],
) -> None:
    """Raise ModelError for a trace of another model, or of other sizes.

    Args:
        name: the file.
        model: the rows.
        profile: the model.
        products: of the trace.
        landings: its steps.
        rows: those that have time.
    """
    if not products.confirm and products.untold and not products.first:
        raise ModelError(
            f"{name}: the kernels of its CUDA graphs name other products than {profile.graph.name} has: "
            "give a trace of their capture with --beside, or the model that ran"
        )
    if not products.confirm:
        refuse_other_model(name, products.first, model, profile, products.share)
    if not _hides_rows(landings):
        refuse_passed_rows(name, model, rows, profile)


def _notes(note: str, stride: int, records: Records, kernels: Kernels, captured: bool) -> Iterator[str]:
    """Remarks on what a trace does not say.

    Args:
        note: on its steps; "" for none.
        stride: one of so many steps is reported.
        records: the events.
        kernels: those of a device.
        captured: whether the capture of CUDA graphs is known.
    """
    if note:
        yield note
    if stride > 1:
        yield f"too many steps to keep: one in {stride} is reported"
    if 100 * kernels.outside_ns > kernels.ns:
        yield f"{100 * kernels.outside_ns / kernels.ns:.1f} % of kernel time is outside the reported steps" + (
            f": {counted(kernels.early, 'kernel')} launched before the recording began" if kernels.early else ""
        )
    if not records.kernels and _hides_kernels(records):
        yield (
            "compiled kernels are not in the trace: set torch._inductor.config.cpp.enable_kernel_profile = True"
            " before compiling"
        )
    if kernels.untold:
        cure = "give a trace of the capture with --beside"
        if captured:
            cure = "no graph captured in --beside has exactly these"
        yield f"{counted(kernels.untold, 'kernel')} of CUDA graphs matched by name only: {cure}"
    if kernels.lost:
        yield f"{counted(kernels.lost, 'kernel')} without a launch call in the trace: listed by kernel name"


def _hides_rows(landings: Sequence[Landing]) -> bool:
    """True where much of the time is of work that may be anything, so that rows without time may be in it."""
    names_of_any = (names.UNMATCHED, names.COMPILED, names.GRAPHS)
    hidden = sum(time for each in landings for place, time in each.times.items() if place.name in names_of_any)
    return 20 * hidden > sum(landing.busy_ns for landing in landings)


def _hides_kernels(records: Records) -> bool:
    """True where compiled code was called and none of its kernels has an event."""
    called = [kind.name for kind in records.kinds]
    return any(name.startswith(names.CALL) for name in called) and not any(map(names.listed, called))


def _step(window: Window, threads: Mapping[str, Thread], places: Mapping[Operator, Place], hidden: str) -> Step:
    """A step of a processor whose threads do the work themselves; ``hidden``: name of what compiled code shows not."""
    works = [Work(place, o.thread, o.start, o.end, 1, o.name) for o, place in places.items()]
    for thread in threads.values():
        for o in (*_around(thread.innermost(window.start)), *thread.between(window.start, window.end)):
            if o.unit in places:
                continue
            if o.annotation:
                name = hidden if o.name.startswith(names.CALL) else names.context_of(o.name)
            else:
                name = o.context or unplaced(o, window)
            if name:
                works.append(Work(Place(name=name), o.thread, o.start, o.end, 0, o.name))
    return Step(window.name, window.start, window.end, works)


def _around(operator: Operator | None) -> Iterator[Operator]:
    """An operator and those around it that began before a step."""
    while operator is not None:
        yield operator
        operator = operator.outer
