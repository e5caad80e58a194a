"""Figures of traces by matplotlib, the extra ``figures``: slowest layers, timeline and roofline; two side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.traces.comparison import Change, TraceComparison
from flopwise.analyses.traces.critical import critical_path
from flopwise.analyses.traces.lines import layer_items, time_of
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Moment, Trace
from flopwise.errors import counted
from flopwise.report.commands.bound.figure import COLOURS, Dot, draw_roofline
from flopwise.report.drawings import write_all
from flopwise.report.formats.terminal import shorten
from flopwise.report.html.bound import roof_lines
from flopwise.report.sheet.values import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: So many layers have a bar of their own, and so many lanes are drawn.
MOST, LANES = 20, 24

#: Events of one colour that are closer than this share of a timeline are drawn as one.
FINEST = 1 / 2000

#: Colours that stay apart in grey and for colour-blind readers: forward, backward, no layer; slower, faster, the same.
FIRST, SECOND, REST = "#4477AA", "#EE8866", "#999999"
SLOWER, FASTER = "#CC3311", "#228833"

_LOOK = Look()


def draw(trace: Trace, directory: str, format: str = "png") -> list[str]:
    """Draw the slowest layers, the timeline and the roofline, and write them into a directory; the paths of the files.

    A timeline needs times of day, a roofline layers of which FLOPs and bytes are known.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    return write_all(_figures(trace), directory, format)


def draw_both(comparison: TraceComparison, directory: str, format: str = "png") -> list[str]:
    """Draw the largest differences, and write them into a directory; the paths of the files.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    return write_all((("differences", drawn(comparison)) for drawn in (_differences,)), directory, format)


def _figures(trace: Trace) -> Iterator[tuple[str, Figure]]:
    yield "layers", _layers(trace)
    if trace.timeline:
        yield "timeline", _timeline(trace)
    if dots := _dots(trace):
        figure, axes = _new(_about(trace), 6.4, 4.2)
        draw_roofline(axes, dots, roof_lines(trace.peaks, {peak.dtype for peak in trace.peaks if peak.dtype}))
        axes.set_title("what the forward pass of each layer reached; the area of a dot is its time", fontsize=7)
        yield "roofline", figure


def _new(title: str, width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure as New

    figure = New(figsize=(width, height), layout="constrained")
    figure.suptitle(shorten(_LOOK.text(title), 100), fontsize=9)
    return figure, figure.subplots()


def _about(trace: Trace) -> str:
    device = trace.device or trace.format
    steps = f"{trace.step} of {counted(len(trace.steps), 'step')}" if len(trace.steps) > 1 else trace.step
    return " · ".join(filter(None, [trace.model, device, steps]))


def _unit(largest: int) -> tuple[float, str]:
    """The nanoseconds of the unit that suits, and its name.

    >>> _unit(2_500_000)
    (1000000.0, 'ms')
    """
    return (1e9, "s") if largest >= 1e9 else (1e6, "ms") if largest >= 1e6 else (1e3, "µs")


def _layers(trace: Trace) -> Figure:
    """Where the time of the trace went above, and the slowest layers, forward and backward, below."""
    from matplotlib.figure import Figure as New

    items = sorted(layer_items(trace), key=lambda item: -item.time_ns)
    shown = items[:MOST]
    rest = sum(item.time_ns for item in items[MOST:])
    parts = {"layers": trace.rows_ns, "segments of several": trace.segments_ns, **trace.remainder}
    parts = {name: time for name, time in parts.items() if time}
    sizes = len(parts), max(len(shown), 1)
    figure = New(figsize=(6.4, 1.4 + 0.19 * sum(sizes)), layout="constrained")
    figure.suptitle(shorten(_LOOK.text(_about(trace)), 100), fontsize=9)
    above, below = figure.subplots(2, 1, height_ratios=sizes)
    size, unit = _unit(trace.covered_ns)
    shades = [FIRST if name in ("layers", "segments of several") else REST for name in parts]
    _bars(above, list(parts), [[time / size for time in parts.values()]], [shades], unit)
    size, unit = _unit(max((item.time_ns for item in shown), default=0))
    phases = [phase for phase in (FORWARD, BACKWARD) if any(item.of(phase) for item in shown)]
    times = [[time_of(item.of(phase)) / size for item in shown] for phase in phases]
    _bars(below, [item.name for item in shown], times, [[shade] for shade in (FIRST, SECOND)], unit, phases)
    more = f"; {counted(len(items) - MOST, 'more line')} took {rest / size:,.3g} {unit} together" if rest else ""
    below.set_title(f"the slowest layers{more}", fontsize=7)
    above.set_title("what the trace covers", fontsize=7)
    return figure


def _bars(
    axes: Axes,
    names: Sequence[str],
    times: Sequence[Sequence[float]],
    shades: Sequence[Sequence[str]],
    unit: str,
    labels: Sequence[str] = (),
) -> None:
    """Draw a bar for each name, of several parts one behind the other."""
    left = [0.0] * len(names)
    for place, part in enumerate(times):
        axes.barh(range(len(names)), part, left=left, color=shades[place], label=labels[place] if labels else None)
        left = [before + time for before, time in zip(left, part, strict=True)]
    axes.set_yticks(range(len(names)), [_label(name) for name in names], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    if len(labels) > 1:
        axes.legend(loc="lower right", fontsize=7, frameon=False)


def _label(name: str) -> str:
    return shorten(_LOOK.text(name), 40)


def _timeline(trace: Trace) -> Figure:
    """The events of each lane, and those on the critical path, coloured by their operators."""
    ops = {item.name: item.op for item in layer_items(trace)}
    times: Counter[str] = Counter()
    lanes: dict[str, list[Moment]] = {"critical path": [trace.timeline[at] for at in critical_path(trace.timeline)]}
    busy: Counter[str] = Counter()
    for moment in trace.timeline:
        lanes.setdefault(moment.lane, []).append(moment)
        busy[moment.lane] += moment.end_ns - moment.start_ns
        if moment.phase:
            times[ops.get(moment.where, "")] += moment.end_ns - moment.start_ns
    shades = {op: COLOURS[place] for place, (op, _) in enumerate(times.most_common(len(COLOURS) - 1))}
    start, end = trace.timeline[0].start_ns, max(moment.end_ns for moment in trace.timeline)
    size, unit = _unit(end - start)
    shown = ["critical path", *(lane for lane, _ in busy.most_common(LANES))]
    figure, axes = _new(_about(trace), 9, 1.3 + 0.26 * len(shown))

    def colour(moment: Moment) -> str:
        return shades.get(ops.get(moment.where, ""), COLOURS[-1]) if moment.phase else "#444444"

    for place, lane in enumerate(shown):
        spans = list(_merged(lanes[lane], colour, FINEST * (end - start)))
        bars = [((one - start) / size, (other - one) / size) for one, other, _ in spans]
        axes.broken_barh(bars, (place - 0.38, 0.76), facecolors=[shade for *_, shade in spans], linewidth=0)
    axes.set_yticks(range(len(shown)), [_label(lane) for lane in shown], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlim(0, (end - start) / size)
    axes.set_xlabel(unit)
    left = len(busy) - LANES
    fine = f"events of one colour that are closer than {(end - start) * FINEST / size:.2g} {unit} are drawn as one"
    axes.set_title(fine + (f"; {counted(left, 'more lane')} left out" if left > 0 else ""), fontsize=7)
    keys = [*shades.items(), *([("other operators", COLOURS[-1])] if len(times) > len(shades) else [])]
    keys += [("no layer", "#444444")] if any(not moment.phase for moment in trace.timeline) else []
    marks = [axes.scatter([], [], marker="s", s=22, color=shade, label=_label(op)) for op, shade in keys]
    figure.legend(handles=marks, fontsize=6.5, frameon=False, ncols=8, loc="outside lower center")
    return figure


def _merged(
    moments: Sequence[Moment], colour: Callable[[Moment], str], finest: float
) -> Iterator[tuple[int, int, str]]:
    """Start, end and colour of events, those of one colour that nearly touch together."""
    open_: tuple[int, int, str] | None = None
    for moment in moments:
        own = (moment.start_ns, moment.end_ns, colour(moment))
        if open_ is not None and own[2] == open_[2] and own[0] - open_[1] <= finest:
            open_ = (open_[0], max(open_[1], own[1]), own[2])
            continue
        if open_ is not None:
            yield open_
        open_ = own
    if open_ is not None:
        yield open_


def _dots(trace: Trace) -> list[Dot]:
    """The forward pass of each layer of which FLOPs and bytes are known."""
    return [
        Dot(row.op, row.flops / row.bytes, 1e9 * row.flops / row.time_ns, row.time_ns)
        for row in trace.rows
        if row.phase == FORWARD and row.time_ns and row.flops and row.bytes
    ]


def _differences(comparison: TraceComparison) -> Figure:
    """The largest differences: a ring for the first trace, a dot for the second, and the spread of the steps."""
    changes = sorted((c for c in comparison.changes if c.more_ns), key=lambda c: -abs(c.more_ns))
    shown = changes[:MOST]
    size, unit = _unit(max((max(c.before_ns, c.after_ns) for c in shown), default=0))
    title = " · ".join(filter(None, [comparison.before.model, "ring: first trace, dot: second"]))
    figure, axes = _new(title, 6.4, 0.9 + 0.19 * max(len(shown), 1))
    for place, change in enumerate(shown):
        first, second, doubt = change.before_ns / size, change.after_ns / size, change.spread_ns / size
        shade = _verdict_colour(change)
        axes.plot([first, second], [place, place], color=shade, linewidth=1)
        axes.plot([second - doubt, second + doubt], [place, place], color=shade, linewidth=4, alpha=0.3)
        axes.plot(first, place, "o", ms=4, mfc="white", mec=shade)
        axes.plot(second, place, "o", ms=4, color=shade)
    axes.set_yticks(range(len(shown)), [_label(_named(change)) for change in shown], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    rest = len(changes) - len(shown)
    left = f"; {counted(rest, 'smaller difference')} left out" if rest else ""
    axes.set_title(f"grey: within the spread of the steps, which is the wide line{left}", fontsize=7)
    return figure


def _named(change: Change) -> str:
    return f"{change.name} (backward)" if change.phase == BACKWARD else change.name


def _verdict_colour(change: Change) -> str:
    if change.verdict == "same":
        return REST
    return SLOWER if change.more_ns > 0 else FASTER
