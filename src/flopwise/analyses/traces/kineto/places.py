"""Where the operators of one step belong: the forward pass on rows, the backward pass by sequence numbers, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flopwise.analyses.traces.kineto import fused, names
from flopwise.analyses.traces.kineto.graphs import Replay
from flopwise.analyses.traces.kineto.listed import Listed
from flopwise.analyses.traces.kineto.model import Model
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.kineto.steps import Window
from flopwise.analyses.traces.kineto.threads import Thread
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD


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
    written = any(fused.is_written(o) for replay in replays for o in replay.units)
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
