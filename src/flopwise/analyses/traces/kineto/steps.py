"""The steps of a trace: between the profiler's marks, or where the sequence of operators begins anew."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.records import Calls, Kind, Records
from flopwise.analyses.traces.kineto.selection import MARK
from flopwise.analyses.traces.kineto.threads import Thread


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
