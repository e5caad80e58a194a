"""The lines of a trace: each layer with both of its passes, and each segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from flopwise.analyses.traces.trace import FORWARD, Segment, TimedRow, Trace

Part: TypeAlias = "TimedRow | Segment"


class Item(NamedTuple):
    """A line: the times of one layer, or of several together."""

    name: str
    op: str
    parts: tuple[Part, ...]
    trace: Trace

    def of(self, phase: str) -> tuple[Part, ...]:
        """Its times in one phase."""
        return tuple(part for part in self.parts if part.phase == phase)

    @property
    def time_ns(self) -> int:
        """Its time in both phases."""
        return time_of(self.parts)


def time_of(parts: Iterable[Part]) -> int:
    """The time of several parts together, nanoseconds."""
    return sum(part.time_ns or 0 for part in parts)


def timed(parts: Iterable[Part]) -> list[Part]:
    """The parts that have work of their own: a row within a segment is counted there."""
    return [part for part in parts if part.time_ns is not None]


def layer_items(trace: Trace) -> list[Item]:
    """A line for each layer and for each segment, which stands before its first layer."""
    segments: dict[str, list[Segment]] = {}
    for segment in trace.segments:
        segments.setdefault(segment.layers[0], []).append(segment)
    layers: dict[tuple[int, str], list[Part]] = {}
    phases = len({row.phase for row in trace.rows}) or 1
    for number, row in enumerate(trace.rows):
        for segment in segments.pop(row.name, ()):
            layers.setdefault((number // phases, segment.name), []).append(segment)
        layers.setdefault((number // phases, row.name), []).append(row)
    ops = {row.name: row.op for row in trace.rows}
    ops |= {one.name: "+".join(dict.fromkeys(ops[name] for name in one.layers)) for one in trace.segments}
    return [Item(name, ops.get(name, ""), tuple(parts), trace) for (_, name), parts in layers.items()]


def common_module(paths: Iterable[str]) -> str:
    """The innermost module around several dotted paths.

    >>> common_module(["layer1.0.conv1", "layer1.1"])
    'layer1'
    """
    same: list[str] = []
    for names in zip(*(path.split(".") for path in paths), strict=False):
        if len(set(names)) > 1:
            break
        same.append(names[0])
    return ".".join(same)


def modules_around(path: str, depth: int | None) -> Iterator[str]:
    """A module and those around it, the whole model first."""
    yield ""
    parts = path.split(".") if path else []
    for length in range(1, len(parts) + 1):
        if depth is None or length <= depth:
            yield ".".join(parts[:length])


def module_times(trace: Trace) -> dict[str, int]:
    """Path of a module -> the time of the forward pass in it and in those within it, nanoseconds; "" is the model.

    The time of a segment is that of the innermost module around its layers.
    """
    modules = {row.name: row.module for row in trace.rows}
    times: Counter[str] = Counter()
    parts: tuple[Part, ...] = (*trace.rows, *trace.segments)
    for part in parts:
        if part.phase == FORWARD and part.time_ns is not None:
            layers = part.layers if isinstance(part, Segment) else (part.name,)
            for path in modules_around(common_module(modules[name] for name in layers), None):
                times[path] += part.time_ns
    return dict(times)
