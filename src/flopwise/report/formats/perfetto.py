"""A recorded step as a trace of Chrome's format, which Perfetto opens: its events are named after layers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.errors import InputError
from flopwise.report.sheet.sheet import Look

if TYPE_CHECKING:
    from flopwise.analyses.traces.trace import Moment, Trace

#: Nanoseconds of the unit of the format's times.
_MICRO = 1000


def render_timeline(trace: Trace, look: Look) -> str:
    """The events of the step, a track for each thread or stream, an event on a line.

    Raises:
        InputError: the trace has no times of day.
    """
    if not trace.timeline:
        raise InputError(f"{trace.format} traces have no times of day, which -f perfetto draws")
    lanes = {lane: number for number, lane in enumerate(sorted({moment.lane for moment in trace.timeline}), 1)}
    process = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": trace.model or trace.format}}
    tracks = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": lane}}
        for lane, number in lanes.items()
    ]
    first = trace.timeline[0].start_ns
    events = [process, *tracks, *(_event(moment, lanes[moment.lane], first) for moment in trace.timeline)]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'


def _event(moment: Moment, track: int, first: int) -> Json:
    facts = {"phase": moment.phase, "kernel": moment.kernel, "FLOPs of the layer": moment.flops}
    return {
        "name": moment.where,
        "cat": moment.phase or "remainder",
        "ph": "X",
        "pid": 1,
        "tid": track,
        "ts": (moment.start_ns - first) / _MICRO,
        "dur": (moment.end_ns - moment.start_ns) / _MICRO,
        "args": {name: value for name, value in facts.items() if value not in ("", None)},
    }
