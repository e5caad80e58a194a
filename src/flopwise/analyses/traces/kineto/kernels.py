"""The kernels of a trace: by the step that they belong to, and by the operator that started them."""

from __future__ import annotations

import bisect
import copy
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.events import Thread, Window, records_of, step_at, threads_of
from flopwise.analyses.traces.kineto.records import Arguments, Kernel, Launch, Operator, Records
from flopwise.analyses.traces.land import Place, Step, Work
from flopwise.analyses.traces.scan import Scan
from flopwise.errors import ModelError

# CUDA graphs: a replay starts many kernels at once; what started each of them is told by a trace of the capture.
#
# While a graph is captured, a profiler sees the operators and the calls that would start kernels, and no kernel. The
# replay has the kernels in the same order, so that the first kernel is the first call's, and so on. On ROCm the calls
# also name their kernels. Without such a trace each kernel has its own name alone.


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


class _Started(NamedTuple):
    """A kernel, the call of the driver that started it, and the innermost operator around that."""

    kernel: Kernel
    launch: Launch | None
    operator: Operator | None


class Kernels:
    """The kernels of a trace, by step and by the operator that started them."""

    def __init__(
        self,
        records: Records,
        threads: Mapping[str, Thread],
        windows: Sequence[Window],
        captures: Sequence[Capture] = (),
    ) -> None:
        self._windows, self._threads, self._captures = windows, threads, captures
        self._steps: defaultdict[int, list[tuple[Kernel, Launch | None]]] = defaultdict(list)
        #: Kernels that no call of the driver is known for, and those started before the recording began.
        self.lost = self.early = 0
        #: Kernels of CUDA graphs that no capture tells the operators of.
        self.untold = 0
        #: Time of kernels, and of those that are outside of all steps.
        self.ns = self.outside_ns = 0
        #: The end of these: the first step begins behind it.
        self._early_end = 0
        first = min(records.launches, default=0)  # the driver numbers its calls
        for kernel in records.kernels:
            launch = records.launches.get(kernel.correlation) if kernel.correlation is not None else None
            early = launch is None and kernel.correlation is not None and kernel.correlation < first
            self.lost += launch is None and not early
            self.early += early
            step = None if early else step_at(windows, kernel.start if launch is None else launch.start)
            self._early_end = max(self._early_end, kernel.end if early else 0)
            self.ns += kernel.end - kernel.start
            if step is None:
                self.outside_ns += kernel.end - kernel.start
            else:
                self._steps[step].append((kernel, launch))
        self._number: int | None = None
        self._started: list[_Started] = []
        self._replays: list[Replay] = []

    def replays(self, number: int) -> Sequence[Replay]:
        """The CUDA graphs that ran in a step, in the order in which they were started."""
        self._resolve(number)
        return self._replays

    def _resolve(self, number: int) -> None:
        """Find the operators of a step's kernels; they hold until another step is asked for."""
        if self._number == number:
            return
        graphs: defaultdict[Launch, list[Kernel]] = defaultdict(list)
        self._number, self._started, self._replays = number, [], []
        for kernel, launch in self._steps[number]:
            if launch is not None and names.is_graph(launch.name):
                graphs[launch].append(kernel)
            else:
                self._started.append(_Started(kernel, launch, self._operator(launch)))
        used: Counter[int] = Counter()
        for launch in sorted(graphs, key=lambda each: each.start):
            kernels = sorted(graphs[launch], key=lambda kernel: kernel.start)
            replay = replay_of(launch, kernels, self._captures, used)
            self.untold += 0 if replay.captured else len(kernels)
            self._replays.append(replay)
            self._started += map(_Started, kernels, [launch] * len(kernels), replay.operators)

    def _operator(self, launch: Launch | None) -> Operator | None:
        """The innermost operator around a call of the driver."""
        thread = None if launch is None else self._threads.get(launch.thread)
        return None if thread is None or launch is None else thread.innermost(launch.start)

    def times(self, number: int) -> dict[Operator, int]:
        """Time of the kernels that each operator started in a step."""
        self._resolve(number)
        times: Counter[Operator] = Counter()
        for kernel, _, operator in self._started:
            if operator is not None and operator.unit is not None:
                times[operator.unit] += kernel.end - kernel.start
        return dict(times)

    def step(self, number: int, places: Mapping[Operator, Place]) -> Step:
        """A step of a device: from its mark, or the first of its kernels, to the end of the last one.

        Kernels run behind the calls that start them, often into the next step's mark: that step begins where they end.
        """
        self._resolve(number)
        window, own = self._windows[number], self._steps[number]
        before = self._early_end
        if number:
            before = max((kernel.end for kernel, *_ in self._steps[number - 1]), default=window.start)
        first = min((kernel.start for kernel, *_ in own), default=window.end)
        start = min(max(window.start, before), first)
        end = max([window.end, *(kernel.end for kernel, *_ in own)])
        works = [
            Work(_place_of(each, places), each.kernel.lane, each.kernel.start, each.kernel.end, 1, each.kernel.name)
            for each in self._started
        ]
        matched = dict.fromkeys(place for place in places.values() if place.layers)
        works += [Work(place, "", start, start, 0) for place in matched]
        return Step(window.name, start, end, works)


def _place_of(started: _Started, places: Mapping[Operator, Place]) -> Place:
    """The place of a kernel: its operator's, unless the kernel's own name says more."""
    kernel, launch, operator = started
    own = names.remainder_of_kernel(kernel.name, "" if launch is None else launch.name, kernel.copy)
    if operator is None:
        return Place(name=own)
    if operator.unit is not None and operator.unit in places:
        place = places[operator.unit]
        if place.layers or own == names.UNMATCHED or place.name == names.OPTIMISER:
            return place
        return place if own == names.GRAPHS and place.name != names.UNMATCHED else Place(name=own)
    name = operator.context or names.remainder_of(operator.name)
    return Place(name=own if own != names.UNMATCHED else name)


# Companion files of a trace: the capture of its CUDA graphs, and the operators in its compiled kernels.


class Companions(NamedTuple):
    """CUDA graph captures and operators of compiled kernels, from all companion files of a trace."""

    captures: Sequence[Capture]
    #: Name of a compiled kernel -> the operators in it, with "_" between them.
    kernel_operators: Mapping[str, str]


def read_companions(files: Sequence[Scan]) -> Companions:
    """Contents of companion files: traces that recorded a CUDA graph capture, or Inductor's kernel_information.json.

    Raises:
        ModelError: a file is neither, or its trace captured no CUDA graph.
    """
    captures: list[Capture] = []
    kernel_operators: dict[str, list[str]] = {}
    for scan in files:
        if scan.array:
            records = records_of(scan)
            own = captures_of(records, threads_of(records))
            if not own:
                raise ModelError(f"{scan.name}: no CUDA graph was captured in it")
            captures += own
        else:
            _add_kernel_operators(scan, kernel_operators)
    return Companions(
        captures, {name: "_".join(dict.fromkeys(operators)) for name, operators in kernel_operators.items()}
    )


def _add_kernel_operators(scan: Scan, kernel_operators: dict[str, list[str]]) -> None:
    """Add the operators of each compiled kernel in a kernel_information.json.

    ``torch._inductor.debug.create_kernel_information_json`` writes it.

    Raises:
        ModelError: the file is no such table.
    """
    for key, value in scan.head.items():
        try:
            program, lowered = list(value["pre_grad_nodes"]), list(value["post_grad_nodes"])
        except (KeyError, TypeError) as error:
            what = "a trace of a CUDA graph capture nor kernel_information.json of compiled code"
            raise ModelError(f"{scan.name}: neither {what}") from error
        name = key.partition(":")[0]
        # What the compiler lowers to says less of a program than the operators in the kernel's own name.
        listed = program or ([] if names.listed(name) else lowered)
        kernel_operators.setdefault(name, []).extend(re.sub(r"_\d+$", "", str(node)) for node in listed)
