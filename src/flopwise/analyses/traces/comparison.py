"""Two traces of one model side by side: which layers became slower, and whether the steps say so clearly."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from flopwise._results import Json, Printed
from flopwise.analyses.compare.comparison import SIGNS
from flopwise.analyses.quantities import quantity
from flopwise.analyses.traces.trace import FORWARD, Segment, TimedRow, Trace
from flopwise.errors import InputError, did_you_mean

# The lines of a trace: each layer with both of its passes, and each segment.


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


#: "same": the difference is within the spread of the steps. "added", "gone": one of the traces has no time for it.
Verdict: TypeAlias = Literal["slower", "faster", "same", "added", "gone"]

#: Times of a step that a condition may name -> how.
FIGURES: Mapping[str, str] = {
    "time": "window_ns",
    "busy": "busy_ns",
    "wall": "wall_ns",
}

_CONDITION = re.compile(r"\s*(?P<figure>\w+)\s*(?P<sign>>=|>|<=|<)\s*(?P<limit>[+-]?[^%+-]+?)\s*(?P<share>%?)\s*")


@dataclass(frozen=True, slots=True)
class Change:
    """The time of a layer, of several that one of the traces has together, or of a name of the remainder."""

    name: str
    #: "" of several layers and of the remainder.
    op: str
    #: "forward" or "backward"; "" of the remainder.
    phase: str
    #: Names of the layers; () of the remainder.
    layers: tuple[str, ...]
    #: Times in the steps that are shown.
    before_ns: int
    after_ns: int
    #: Half of the middle half of the times in the steps, of both traces together.
    spread_ns: int
    #: The median over the steps of the second trace less that of the first.
    medians_ns: int
    #: The times in all steps of the first trace, and of the second; () of the remainder.
    times_ns: tuple[Sequence[int], Sequence[int]] = ((), ())

    @classmethod
    def of(
        cls,
        name: str,
        op: str,
        phase: str,
        layers: tuple[str, ...],
        times: Sequence[int],
        steps: Sequence[Sequence[int]],
    ) -> Change:
        """A change between the times that two traces show, with their times in all steps."""
        medians = [round(statistics.median(own or (time,))) for own, time in zip(steps, times, strict=True)]
        doubt = sum(map(spread, steps))
        return cls(name, op, phase, layers, times[0], times[1], doubt, medians[1] - medians[0], (steps[0], steps[1]))

    @property
    def more_ns(self) -> int:
        """The excess of the second trace."""
        return self.after_ns - self.before_ns

    @property
    def verdict(self) -> Verdict:
        """The verdict: slower or faster where the steps that are shown and the medians of all say so."""
        if not self.before_ns or not self.after_ns:
            return "added" if self.after_ns else "gone" if self.before_ns else "same"
        if abs(self.medians_ns) <= self.spread_ns or self.medians_ns * self.more_ns <= 0:
            return "same"
        return "slower" if self.medians_ns > 0 else "faster"


@dataclass(frozen=True)
class TraceComparison(Printed):
    """Two traces of one model; the differences add up to that of the times that they cover, in whole nanoseconds."""

    before: Trace
    after: Trace
    #: The layers in their order, then the remainder.
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sums = sum(c.before_ns for c in self.changes), sum(c.after_ns for c in self.changes)
        if sums != (self.before.covered_ns, self.after.covered_ns):
            raise ValueError(f"the parts add up to {sums} ns, and not to what the traces cover")

    def to_dict(self) -> Json:
        """The JSON schema ``flopwise.trace-comparison/1``: times are integers in nanoseconds."""
        return {
            "schema": "flopwise.trace-comparison/1",
            **{
                side: {"model": t.model or None, "format": t.format, "step": t.step, "steps": len(t.steps)}
                | {name: getattr(t, name) for name in ("window_ns", "covered_ns", "busy_ns", "wall_ns")}
                for side, t in (("before", self.before), ("after", self.after))
            },
            "changes": [
                {name: getattr(change, name) for name in ("name", "op", "phase")}
                | {"layers": list(change.layers), "verdict": change.verdict}
                | {name: getattr(change, name) for name in ("before_ns", "after_ns", "more_ns", "spread_ns")}
                for change in self.changes
            ],
            "notes": list(self.notes),
        }


def compare_traces(before: Trace, after: Trace) -> TraceComparison:
    """Two traces of one model side by side, row by row.

    Layers that one of the traces has together are compared together: no time is divided.

    Args:
        before: the first trace.
        after: the second.

    Raises:
        InputError: they are of different models, sum up different numbers of steps, or have nothing in common.
    """
    if before.model != after.model:
        raise InputError(f"traces of different models: {before.model or 'none'} and {after.model or 'none'}")
    sides = (before, after)
    names = [{row.name for row in trace.rows} for trace in sides]
    if not names[0] & names[1]:
        raise InputError("the two traces have no layer in common")
    summed = [len(trace.steps) if trace.step == "all" else 1 for trace in sides]
    if summed[0] != summed[1]:
        raise InputError(f"sums of {summed[0]} and {summed[1]} steps: compare single steps, such as the median")
    changes = [
        _change(group, [[part for part in _parts(trace) if part.phase == group.phase] for trace in sides])
        for group in _groups(sides)
    ]
    for name in dict.fromkeys([*before.remainder, *after.remainder]):
        times = before.remainder.get(name, 0), after.remainder.get(name, 0)
        changes.append(Change(name, "", "", (), *times, 0, times[1] - times[0]))
    notes = [
        f"the {word} trace has fewer than four steps: its spread is a rough estimate"
        for word, trace in zip(("first", "second"), sides, strict=True)
        if len(trace.steps) < 4
    ]
    return TraceComparison(before, after, tuple(changes), tuple(notes))


class _Group(NamedTuple):
    """Layers that are compared together."""

    layers: tuple[str, ...]
    phase: str
    op: str


def _groups(sides: Sequence[Trace]) -> Iterator[_Group]:
    """The layers of both traces in order, those of overlapping segments together."""
    rows: dict[tuple[str, str], TimedRow] = {}
    for trace in sides:
        for row in trace.rows:
            rows.setdefault((row.name, row.phase), row)
    first = {key: key for key in rows}
    order = {key: number for number, key in enumerate(rows)}

    def of(key: tuple[str, str]) -> tuple[str, str]:
        while first[key] != key:
            key = first[key]
        return key

    for trace in sides:
        for segment in trace.segments:
            keys = [of((name, segment.phase)) for name in segment.layers]
            first.update(dict.fromkeys(keys, min(keys, key=order.__getitem__)))
    members: dict[tuple[str, str], list[str]] = {}
    for name, phase in rows:
        members.setdefault(of((name, phase)), []).append(name)
    for key, names in members.items():
        yield _Group(tuple(names), key[1], rows[key].op if len(names) == 1 else "")


def _parts(trace: Trace) -> tuple[TimedRow | Segment, ...]:
    return (*trace.rows, *trace.segments)


def _change(group: _Group, sides: Sequence[Sequence[TimedRow | Segment]]) -> Change:
    """The times of a group in both traces."""
    layers = frozenset(group.layers)
    times: list[int] = []
    steps: list[list[int]] = []
    for parts in sides:
        own = [p for p in parts if (p.layers[0] if isinstance(p, Segment) else p.name) in layers]
        steps.append(_together([part.times_ns for part in own if part.time_ns is not None]))
        times.append(sum(part.time_ns or 0 for part in own))
    name = group.layers[0] if len(group.layers) == 1 else f"{group.layers[0]}+{len(group.layers) - 1}"
    return Change.of(name, group.op, group.phase, group.layers, times, steps)


def _together(times: Sequence[Sequence[int]]) -> list[int]:
    """Times in steps, added up step by step."""
    return [sum(step) for step in zip(*times, strict=False)]


def grouped(comparison: TraceComparison, by: str, depth: int | None = None) -> list[Change]:
    """The changes of several layers together, both passes in one.

    Args:
        comparison: the traces.
        by: "layer": as they are; "op"; "module": those of a module and of the modules inside it; or "kernel".
        depth: how many levels of modules.
    """
    if by == "layer":
        return list(comparison.changes)
    if by == "kernel":
        return [*_of_kernels(comparison.before, comparison.after), *(c for c in comparison.changes if c.name == "gaps")]
    groups: dict[str, list[Change]] = {}
    for change, names in _named(comparison, by, depth):
        for name in names:
            groups.setdefault(name or comparison.before.model or "trace", []).append(change)
    sums = [_sum_of(name, changes) for name, changes in groups.items()]
    return [*sums, *(change for change in comparison.changes if not change.layers)]


def _named(comparison: TraceComparison, by: str, depth: int | None) -> Iterator[tuple[Change, Sequence[str]]]:
    """Each change of layers with the names of the groups that it is part of: its operators, or the modules around."""
    rows = {row.name: row for trace in (comparison.after, comparison.before) for row in trace.rows}
    for change in comparison.changes:
        own = [rows[name] for name in change.layers]
        if own and by == "module":
            yield change, [*modules_around(common_module(row.module for row in own), depth)]
        elif own:
            yield change, ["+".join(dict.fromkeys(row.op for row in own))]


def _sum_of(name: str, changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    return Change.of(
        name,
        "",
        "",
        tuple(layer for change in changes for layer in change.layers),
        [sum(change.before_ns for change in changes), sum(change.after_ns for change in changes)],
        [_together([c.times_ns[side] for c in changes if c.times_ns[side]]) for side in (0, 1)],
    )


def _of_kernels(before: Trace, after: Trace) -> Iterator[Change]:
    """The changes of kernels, or of what engines call their operators."""
    shown: list[Counter[str]] = []
    for trace in (before, after):
        shown.append(Counter())
        for (_, _, kernel), time in trace.kernels.items():
            shown[-1][kernel] += time
    for kernel in dict.fromkeys([*shown[0], *shown[1]]):
        if shown[0][kernel] or shown[1][kernel]:
            times = [trace.kernel_times.get(kernel, ()) for trace in (before, after)]
            yield Change.of(kernel, "", "", (), [own[kernel] for own in shown], times)


def spread(times: Sequence[int]) -> int:
    """Half of the middle half of times; of fewer than four, half of what lies between the least and the greatest.

    >>> spread([10, 11, 12, 13, 99]), spread([10, 14]), spread([5])
    (23, 2, 0)
    """
    if len(times) < 4:
        return (max(times, default=0) - min(times, default=0)) // 2
    low, _, high = statistics.quantiles(times, n=4)
    return round((high - low) / 2)


class Break(NamedTuple):
    """A condition that holds, with the medians of both traces and the spread of their steps, in nanoseconds."""

    condition: str
    before: int
    after: int
    spread: int


def breaks(comparison: TraceComparison, text: str) -> list[Break]:
    """The conditions of a text such as ``time>5%`` that hold beyond the spread of the steps.

    The medians over the steps are compared: of the whole step (``time``), of all threads or streams (``busy``), or of
    the time in which any is at work (``wall``). A limit is in nanoseconds or, with %, a share of the first trace.

    Raises:
        InputError: the text is not of that form.
    """
    return [found for part in text.split(",") if (found := _break(comparison, part)) is not None]


def _break(comparison: TraceComparison, text: str) -> Break | None:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise InputError(f"cannot understand {text.strip()!r}; write a figure, a sign and a limit: time>5%")
    figure = FIGURES.get(parts["figure"])
    if figure is None:
        near = did_you_mean(parts["figure"], FIGURES) or ";"
        raise InputError(f"unknown figure {parts['figure']!r}{near} known: {', '.join(FIGURES)}")
    before, after = (_values(trace, figure) for trace in (comparison.before, comparison.after))
    medians = round(statistics.median(before)), round(statistics.median(after))
    doubt = spread(before) + spread(after)
    more = medians[1] - medians[0]
    certain = max(0, abs(more) - doubt) * (1 if more > 0 else -1)
    limit = quantity(parts["limit"].lstrip("+-")) * (-1 if parts["limit"].startswith("-") else 1)
    value = 100 * certain / max(1, medians[0]) if parts["share"] else certain
    return Break(text.strip(), *medians, doubt) if certain and SIGNS[parts["sign"]](value, limit) else None


def _values(trace: Trace, figure: str) -> list[int]:
    values: Iterable[int] = (getattr(step, figure) for step in trace.times)
    return list(values) or [getattr(trace, figure)]
