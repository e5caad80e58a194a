"""The events of a Kineto file, one after the other, as records: every version of the format names them its own way."""

from __future__ import annotations

import bisect
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flopwise._results import Json
from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import (
    LABEL,
    MARK,
    Arguments,
    Calls,
    Kernel,
    Kind,
    Launch,
    Operator,
    Records,
)
from flopwise.analyses.traces.scan import Scan, nanoseconds
from flopwise.errors import ModelError

#: Category of an event -> what it is. Those of 2021 have capital letters.
_KINDS = {
    **dict.fromkeys(("cpu_op", "Operator"), "operator"),
    "user_annotation": "annotation",
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "mtia_runtime"), "launch"),
    **dict.fromkeys(("kernel", "Kernel"), "kernel"),
    **dict.fromkeys(("gpu_memcpy", "Memcpy", "gpu_memset", "Memset"), "copy"),
}

#: Beginnings of the names of events that are no operators but stand around some; old files call them operators.
_ANNOTATIONS = (LABEL, MARK, "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel.", "[", "##")


def records_of(scan: Scan) -> Records:
    """The events of a file.

    Raises:
        ModelError: the file is damaged, or an event has no time.
    """
    recorder = Recorder(scan.name)
    for number, event in enumerate(scan.events(), 1):
        try:
            recorder.add(event)
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ModelError(f"{scan.name}: damaged: event {number:,} ({event.get('name')!r}): {error}") from error
    return recorder.records_on(scan.head.get("deviceProperties"))


class Recorder:
    """Records that grow by one event at a time."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: of the file.
        """
        self._records = Records(name)
        #: Name and arguments of an operator as they are written -> its position among the kinds.
        self._kinds: dict[tuple[str, str], int] = {}
        #: The processors of kernels.
        self._processors: set[str] = set()

    def add(self, event: Json) -> None:
        """Record an event, if it says where time went.

        Raises:
            AttributeError, OverflowError, TypeError, ValueError: the event is damaged.
        """
        kind = _KINDS.get(event.get("cat", "")) if event.get("ph") == "X" else None
        if kind is None:
            return
        name, details = sys.intern(str(event.get("name", ""))), event.get("args") or {}
        start = nanoseconds(event.get("ts"))
        end = start + max(0, nanoseconds(event.get("dur", 0)))
        if kind in ("kernel", "copy"):
            self._add_kernel(event, details, name, start, end, kind == "copy")
        else:
            thread = sys.intern(f"{event.get('pid')}/{event.get('tid')}")
            if kind == "launch":
                self._add_launch(details, name, thread, start)
            elif kind == "annotation" or name.startswith(_ANNOTATIONS):
                self._add_annotation(details, name, thread, start, end)
            else:
                self._add_operator(details, name, thread, start, end)
        self._records.bound()

    def _add_operator(self, details: Json, name: str, thread: str, start: int, end: int) -> None:
        if self._records.steps.dropped(start, end) >= 0:
            return
        shapes = details.get("Input Dims") or details.get("Input dims") or ()
        values = details.get("Concrete Inputs") or ()
        types = details.get("Input type") or ()
        key = name, f"{shapes}{values}{types}"
        kind = self._kinds.get(key)
        if kind is None:
            arguments = Arguments(tuple(map(_shape, shapes)), tuple(map(str, values)), tuple(map(str, types)))
            kind = self._add_kind(key, Kind(name, arguments, annotation=False))
            self._records.shaped = self._records.shaped or bool(arguments.tensors)
        self._add_call(kind, details, thread, start, end)

    def _add_annotation(self, details: Json, name: str, thread: str, start: int, end: int) -> None:
        key = name, "annotation"
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._add_kind(key, Kind(name, Arguments(), annotation=True))
        self._add_call(kind, details, thread, start, end)
        if name.startswith(MARK):
            self._records.steps.add(name, start, end)

    def _add_kind(self, key: tuple[str, str], kind: Kind) -> int:
        position = self._kinds[key] = len(self._records.kinds)
        self._records.kinds.append(kind)
        return position

    def _add_call(self, kind: int, details: Json, thread: str, start: int, end: int) -> None:
        calls = self._records.calls.get(thread)
        if calls is None:
            calls = self._records.calls[thread] = Calls()
        sequence = details.get("Sequence number")
        calls.add(start, end, kind, sequence if isinstance(sequence, int) else -1)
        self._records.held += 1

    def _add_launch(self, details: Json, name: str, thread: str, start: int) -> None:
        correlation = _number(details.get("correlation"))
        if correlation is not None:
            kernel = sys.intern(str(details.get("kernel", "")))
            self._records.launches[correlation] = Launch(name, thread, start, kernel)
            self._records.held += 1

    def _add_kernel(self, event: Json, details: Json, name: str, start: int, end: int, copy: bool) -> None:
        device, stream = details.get("device", event.get("pid")), details.get("stream", event.get("tid"))
        self._processors.add(str(device))
        lane = sys.intern(f"device {device}, stream {stream}")
        self._records.add_kernel(Kernel(name, lane, start, end, _number(details.get("correlation")), copy))

    def records_on(self, properties: object) -> Records:
        """All that was recorded, with the processors that the file describes.

        Args:
            properties: of the devices, as the file has them.
        """
        records = self._records
        records.close()
        devices = _devices(properties, self._processors)
        records.devices, records.memory_bytes = tuple(devices), next(iter(devices.values()), 0)
        return records


def _shape(value: Any) -> object:
    """A shape, or those of a list of tensors."""
    return tuple(map(_extents, value)) if value and isinstance(value[0], list) else _extents(value or ())


def _extents(value: Any) -> tuple[int, ...]:
    """The extents of a tensor.

    Raises:
        ValueError: one of them is no whole number.
    """
    if not all(isinstance(extent, int) for extent in value):
        raise ValueError(f"no shape: {value!r}")
    return tuple(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _devices(properties: object, used: set[str]) -> dict[str, int]:
    """Names of the processors that the kernels ran on, each once, and their memory; of any, where those have none."""
    listed = [p for p in properties if isinstance(p, dict) and p.get("name")] if isinstance(properties, list) else []
    own = [p for p in listed if str(p.get("id")) in used] or (listed[:1] if used else [])
    return {str(p["name"]): _number(p.get("totalGlobalMem")) or 0 for p in own}


# The operators of each thread, one inside the other, and which of them time is given to.


class Thread:
    """The operators of one thread, by their start; each is made when it is asked for."""

    def __init__(self, name: str, calls: Calls, kinds: Sequence[Kind]) -> None:
        calls.sort()
        self.name, self.calls, self._kinds = name, calls, kinds
        outers, leaves = _nested(calls, kinds)
        self._outers = outers
        #: For each operator the position of that around it, or its own, that time is given to; -1 for none.
        self._units = array("i")
        units = [not kind.annotation and names.is_unit(kind.name) for kind in kinds]
        custom = [not kind.annotation and names.is_custom(kind.name) for kind in kinds]
        holds = _holding(calls, outers, [names.computes(kind.name) for kind in kinds]) if any(custom) else leaves
        for place, (kind, outer, leaf) in enumerate(zip(calls.kinds, outers, leaves, strict=True)):
            around = self._units[outer] if outer >= 0 else -1
            own = leaf and not kinds[kind].annotation
            if around < 0 and (units[kind] or own or (custom[kind] and not holds[place])):
                around = place
            self._units.append(around)
        #: Whether it runs backward passes only.
        outermost = {kind for kind, outer in zip(calls.kinds, outers, strict=True) if outer < 0}
        self.gradients = any(names.is_gradient(kinds[kind].name) for kind in outermost) and not any(
            kinds[kind].annotation for kind in set(calls.kinds)
        )
        self._made: dict[int, Operator] = {}

    @property
    def units(self) -> list[int]:
        """The positions of the operators that time is given to."""
        return [place for place, unit in enumerate(self._units) if unit == place]

    @property
    def unit_time(self) -> int:
        """The time of these, in nanoseconds."""
        return sum(self.calls.ends[place] - self.calls.starts[place] for place in self.units)

    def forget(self) -> None:
        """Let go of the operators that were asked for."""
        self._made.clear()

    def between(self, start: int, end: int) -> list[Operator]:
        """The operators that start in a span of time."""
        first, last = (bisect.bisect_left(self.calls.starts, instant) for instant in (start, end))
        return [self._made.get(place) or self._operator(place) for place in range(first, last)]

    def innermost(self, instant: int) -> Operator | None:
        """The innermost operator that is open at an instant."""
        place = bisect.bisect_right(self.calls.starts, instant) - 1
        while place >= 0 and self.calls.ends[place] < instant:
            place = self._outers[place]
        return self._operator(place) if place >= 0 else None

    def _operator(self, place: int) -> Operator:
        """An operator, and those around it; the same one until it is forgotten."""
        chain: list[int] = []
        while place >= 0 and place not in self._made:
            chain.append(place)
            place = self._outers[place]
        operator = self._made.get(place)
        for each in reversed(chain):
            operator = self._made[each] = self._inside(each, operator)
        assert operator is not None
        return operator

    def _inside(self, place: int, outer: Operator | None) -> Operator:
        calls = self.calls
        kind, sequence = self._kinds[calls.kinds[place]], calls.sequences[place]
        operator = Operator(
            kind.name,
            self.name,
            calls.starts[place],
            calls.ends[place],
            kind.arguments,
            sequence if sequence >= 0 else None,
            kind.annotation,
            outer,
        )
        if outer is not None:
            operator.unit, operator.context, operator.label = outer.unit, outer.context, outer.label
            operator.gradient = outer.gradient or names.is_compiled_gradient(outer.name)
        if kind.annotation:
            operator.context = names.context_of(kind.name) or operator.context
            if kind.name.startswith(LABEL):
                operator.label = kind.name
        if self._units[place] == place:
            operator.unit = operator
        return operator


def threads_of(records: Records) -> dict[str, Thread]:
    """The threads by their names."""
    return {name: Thread(name, calls, records.kinds) for name, calls in records.calls.items()}


def _holding(calls: Calls, outers: Sequence[int], kinds: Sequence[bool]) -> bytearray:
    """For each call whether one of these kinds is inside it."""
    holds = bytearray(len(calls.kinds))
    for place in reversed(range(len(calls.kinds))):
        if outers[place] >= 0 and (holds[place] or kinds[calls.kinds[place]]):
            holds[outers[place]] = 1
    return holds


def _nested(calls: Calls, kinds: Sequence[Kind]) -> tuple[array[int], bytearray]:
    """For each call the position of the one around it, -1 for none, and whether no operator is inside."""
    outers, leaves = array("i"), bytearray(b"\1" * len(calls.kinds))
    stack: list[int] = []
    for place, (start, kind) in enumerate(zip(calls.starts, calls.kinds, strict=True)):
        while stack and calls.ends[stack[-1]] <= start:
            stack.pop()
        outers.append(stack[-1] if stack else -1)
        for around in reversed(stack if not kinds[kind].annotation else ()):
            leaves[around] = 0
            if not kinds[calls.kinds[around]].annotation:
                break
        stack.append(place)
    return outers, leaves


# The steps of a trace: between the profiler's marks, or where the sequence of operators begins anew.


class Window(NamedTuple):
    """One step on the thread that runs the model."""

    name: str
    thread: str
    start: int
    end: int


def step_at(windows: Sequence[Window], instant: int) -> int | None:
    """The position of the step that an instant is in; None between steps."""
    step = bisect.bisect_right(windows, instant, key=lambda window: window.start) - 1
    return step if step >= 0 and instant < windows[step].end else None


def windows_of(records: Records, threads: Mapping[str, Thread], rows: int | None) -> tuple[list[Window], str]:
    """The steps, and a note where the trace does not mark them.

    Args:
        records: the events.
        threads: the operators by thread.
        rows: how many rows the model has; None without one.
    """
    marks = {name: windows for name, calls in records.calls.items() if (windows := _marks(name, calls, records.kinds))}
    among = [threads[name] for name in marks] or list(threads.values())
    main = max(among, key=lambda thread: (not thread.gradients, thread.unit_time))
    if not marks:
        return _recurring(records, main, rows) or _undivided(records, main)
    note = f"{len(marks)} threads mark steps: those of {main.name}, the busiest one, are reported"
    return sorted(marks[main.name], key=lambda w: w.start), note if len(marks) > 1 else ""


def _recurring(records: Records, main: Thread, rows: int | None) -> tuple[list[Window], str] | None:
    """The turns of operators, or of CUDA graphs, that recur, with a note on them; None where none do."""
    alike: dict[object, int] = {}
    numbers = [alike.setdefault((kind.name, kind.arguments.tensors), len(alike)) for kind in records.kinds]
    calls = [(main.calls.starts[place], numbers[main.calls.kinds[place]]) for place in main.units]
    graphs = [(each.start, -1) for each in records.launches.values() if names.is_graph(each.name)]
    calls = sorted([*calls, *graphs])
    first, length, turns = _turns([number for _, number in calls], None if graphs else rows)
    if turns < 2:
        return None
    starts = [calls[first + turn * length][0] for turn in range(turns)]
    behind = first + turns * length
    last_end = max(max(own.ends, default=0) for own in records.calls.values())
    end = calls[behind][0] if behind < len(calls) else max(last_end, calls[-1][0] + 1)
    windows = [
        Window(f"step {number}", main.name, *span)
        for number, span in enumerate(zip(starts, [*starts[1:], end], strict=True))
    ]
    what = "calls" if graphs else "operators"
    return windows, f"no step marks: the same {length:,} {what} repeat {turns} times"


def _undivided(records: Records, main: Thread) -> tuple[list[Window], str]:
    """The whole trace as one step, with a note on that."""
    calls = [own for own in records.calls.values() if own.starts]
    starts = [own.starts[0] for own in calls] + [launch.start for launch in records.launches.values()]
    starts += [kernel.start for kernel in records.kernels]
    ends = [max(own.ends) for own in calls] + [kernel.end for kernel in records.kernels]
    window = Window("trace", main.name, min(starts), max(ends, default=0))
    return [window], "no step marks: the whole trace is one step"


def _marks(thread: str, calls: Calls, kinds: Sequence[Kind]) -> list[Window]:
    """The steps that a thread marks."""
    marks = {number for number, kind in enumerate(kinds) if kind.annotation and kind.name.startswith(MARK)}
    return [
        Window(kinds[kind].name, thread, start, end)
        for kind, start, end in zip(calls.kinds, calls.starts, calls.ends, strict=True)
        if kind in marks
    ]


def _turns(sequence: Sequence[object], rows: int | None) -> tuple[int, int, int]:
    """Where a sequence begins to repeat itself, the length that repeats, and how often it does so.

    It repeats up to its end; what is at its beginning may differ, as the first step of a training does. Several turns
    of a shorter period make one step where a model has so many rows: its layers may be all alike.
    """
    backwards = sequence[::-1]
    border = [0] * len(sequence)
    length = 0
    for place in range(1, len(sequence)):
        while length and backwards[place] != backwards[length]:
            length = border[length - 1]
        length += backwards[place] == backwards[length]
        border[place] = length
    periodic = [size for size in range(1, len(sequence) + 1) if 2 * (size - border[size - 1]) <= size]
    if not periodic:
        return 0, len(sequence), 1
    size = periodic[-1]
    period = size - border[size - 1]
    period *= max(1, round(rows / period)) if rows else 1
    whole = size // period
    return (0 if size == len(sequence) else len(sequence) - whole * period), period, whole
