"""The kernels of a trace: by the step that they belong to, and by the operator that started them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.graphs import Capture, Replay, replay_of
from flopwise.analyses.traces.kineto.records import Kernel, Launch, Operator, Records
from flopwise.analyses.traces.kineto.steps import Window, step_at
from flopwise.analyses.traces.kineto.threads import Thread
from flopwise.analyses.traces.land import Place, Step, Work


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
