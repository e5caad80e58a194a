"""CUDA graphs: a replay starts many kernels at once; what started each of them is told by a trace of the capture.

While a graph is captured, a profiler sees the operators and the calls that would start kernels, and no kernel. The
replay has the kernels in the same order, so that the first kernel is the first call's, and so on. On ROCm the calls
also name their kernels. Without such a trace each kernel has its own name alone.
"""

from __future__ import annotations

import bisect
import copy
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import Arguments, Kernel, Launch, Operator, Records
from flopwise.analyses.traces.kineto.threads import Thread

#: Calls of the driver that start a kernel or a copy.
_STARTS = re.compile(r"Launch(?!HostFunc)|Memcpy|Memset")


class Capture(NamedTuple):
    """A graph as it was captured."""

    #: Names of its kernels; "" where the calls do not say them.
    kernels: tuple[str, ...]
    #: The innermost operator around the call for each of them.
    operators: tuple[Operator | None, ...]
    #: All operators from the beginning of the capture to its end.
    inside: tuple[Operator, ...]


class Replay(NamedTuple):
    """One run of a graph."""

    start: int
    #: The operator of each kernel; None where its capture tells none.
    operators: tuple[Operator | None, ...]
    #: Those that time is given to, in the order of execution.
    units: tuple[Operator, ...]
    #: All operators of the graph.
    inside: tuple[Operator, ...]
    #: Whether a capture told the operators.
    captured: bool


def captures_of(records: Records, threads: Mapping[str, Thread]) -> list[Capture]:
    """The graphs that were captured in a trace, in their order."""
    executed = {kernel.correlation for kernel in records.kernels}
    calls = sorted(records.launches.items(), key=lambda item: item[1].start)
    marked = any("StreamBeginCapture" in launch.name for _, launch in calls)
    graphs: list[list[Launch]] = [] if marked else [[]]
    begun = not marked
    for correlation, launch in calls:
        if "StreamBeginCapture" in launch.name:
            graphs.append([])
            begun = True
        elif "StreamEndCapture" in launch.name:
            begun = False
        elif begun and correlation not in executed and _STARTS.search(launch.name):
            graphs[-1].append(launch)
    return [_capture(launches, threads) for launches in graphs if launches]


def _capture(launches: Sequence[Launch], threads: Mapping[str, Thread]) -> Capture:
    operators = tuple(
        threads[launch.thread].innermost(launch.start) if launch.thread in threads else None for launch in launches
    )
    begins = [o.unit.start for o in operators if o is not None and o.unit is not None]
    first = min(begins, default=launches[0].start)
    inside = [o for thread in threads.values() for o in thread.between(first, launches[-1].start + 1)]
    return Capture(tuple(launch.kernel for launch in launches), operators, tuple(sorted(inside, key=lambda o: o.start)))


def replay_of(launch: Launch, kernels: Sequence[Kernel], captures: Sequence[Capture], used: Counter[int]) -> Replay:
    """The operators behind the kernels of a graph.

    Args:
        launch: the call that started it.
        kernels: in the order of their start.
        captures: the graphs that are known.
        used: how often each of them was found in this step: of several that are alike the next one in turn is meant.
    """
    fitting = [number for number, capture in enumerate(captures) if _order(capture.kernels, kernels) is not None]
    if not fitting:
        operators = _bare(kernels, launch)
        units = tuple(dict.fromkeys(operators))
        return Replay(launch.start, operators, units, units, captured=False)
    number = min(fitting, key=lambda each: used[each])
    used[number] += 1
    capture = captures[number]
    order = _order(capture.kernels, kernels) or []
    copies = {operator: copy.copy(operator) for operator in capture.inside}
    for operator in copies.values():
        operator.unit = None if operator.unit is None else copies.get(operator.unit)
    return Replay(
        launch.start,
        tuple(None if (o := capture.operators[place]) is None else copies.get(o) for place in order),
        tuple(o for o in copies.values() if o.unit is o),
        tuple(copies.values()),
        captured=True,
    )


def _order(calls: Sequence[str], kernels: Sequence[Kernel]) -> list[int] | None:
    """For each kernel the position of its call; None where they are not the same kernels.

    Kernels of several streams may run in another order than they were captured in: of each name and stream, in order.
    """
    if len(calls) != len(kernels):
        return None
    if not all(calls):
        return list(range(len(calls))) if len({kernel.lane for kernel in kernels}) == 1 else None
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(calls):
        places[name].append(place)
    order: list[int] = []
    last: dict[str, int] = {}
    for kernel in kernels:
        left = places[kernel.name]
        if not left:
            return None
        behind = bisect.bisect(left, last.get(kernel.lane, -1))
        last[kernel.lane] = left.pop(behind if behind < len(left) else 0)
        order.append(last[kernel.lane])
    return order


def _bare(kernels: Sequence[Kernel], launch: Launch) -> tuple[Operator, ...]:
    """Kernels of which only the names are known, as operators; the parts of a product are one."""
    operators: list[Operator] = []
    for kernel in kernels:
        if operators and names.adds_parts(kernel.name):
            operators.append(operators[-1])
            continue
        operator = Operator(kernel.name, launch.thread, launch.start, launch.start, Arguments(), None, False)
        operator.unit, operator.context = operator, names.GRAPHS
        operators.append(operator)
    return tuple(operators)
