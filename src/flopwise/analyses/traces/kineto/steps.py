"""The steps of a trace: between the profiler's marks, or where the sequence of operators begins anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto.records import Records
from flopwise.analyses.traces.kineto.threads import Thread

MARK = "ProfilerStep"


class Window(NamedTuple):
    """One step on the thread that runs the model."""

    name: str
    thread: str
    start: int
    end: int


def windows_of(records: Records, threads: Mapping[str, Thread], rows: int | None) -> tuple[list[Window], str]:
    """The steps, and a note where the trace does not mark them.

    Args:
        records: the events.
        threads: the operators by thread.
        rows: how many rows the model has; None without one.
    """
    marks: dict[str, list[Window]] = {}
    for o in records.operators:
        if o.annotation and o.name.startswith(MARK):
            marks.setdefault(o.thread, []).append(Window(o.name, o.thread, o.start, o.end))
    among = [threads[name] for name in marks] or list(threads.values())
    main = max(among, key=lambda thread: (not thread.gradients, sum(o.end - o.start for o in thread.units)))
    if marks:
        note = f"{len(marks)} threads mark steps: those of {main.name}, the busiest one, are reported"
        return sorted(marks[main.name], key=lambda w: w.start), note if len(marks) > 1 else ""
    units = main.units
    first, length, whole = _turns([(o.name, o.arguments.tensors) for o in units], rows)
    if whole < 2:
        start = min(each.start for each in (*records.operators, *records.launches.values(), *records.kernels))
        end = max(each.end for each in (*records.operators, *records.kernels))
        return [Window("trace", main.name, start, end)], "no steps are marked: the whole trace is one"
    starts = [units[first + turn * length].start for turn in range(whole)]
    behind = first + whole * length
    last = units[behind].start if behind < len(units) else max(o.end for o in records.operators)
    windows = [
        Window(f"step {number}", main.name, start, end)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], last], strict=True))
    ]
    return windows, f"no steps are marked: the same {length:,} operators recur {whole} times"


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
