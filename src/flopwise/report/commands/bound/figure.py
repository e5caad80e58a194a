"""A figure of a bound by matplotlib, the extra ``figures``: the roofline, and the waterfall to the measured time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flopwise._results import Json
from flopwise.errors import InputError
from flopwise.report.drawings import as_bytes, require_matplotlib, styled
from flopwise.report.formats.format import FIGURES
from flopwise.report.formats.terminal import shorten
from flopwise.report.html.bound import roofs, waterfall
from flopwise.report.sheet.listing import model_name
from flopwise.report.sheet.values import Look, human, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from flopwise.analyses.timing.bound import Bound

#: Colours that stay apart in grey and for colour-blind readers (Paul Tol's bright and muted schemes).
COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
SUM, LOSS, GAIN = "#4477AA", "#EE8866", "#228833"


def format_of(path: str) -> str:
    """The format of a figure's file name.

    Raises:
        InputError: matplotlib is missing, or draws no such files.
    """
    name = os.path.splitext(path)[1][1:].lower()
    if name not in FIGURES:
        raise InputError(f"{path}: a figure ends in {', '.join('.' + f for f in FIGURES)}")
    require_matplotlib()
    return name


def figure(bound: Bound, format: str) -> bytes:
    """The figure as the bytes of a file: roofline on the left, waterfall on the right.

    Raises:
        InputError: matplotlib is missing.
    """
    with styled():
        from matplotlib.figure import Figure

        drawn = Figure(figsize=(11, 4.4), layout="constrained")
        left, right = drawn.subplots(1, 2, width_ratios=(1.1, 1))
        draw_roofline(left, _dots(bound), roofs(bound))
        _waterfall(bound, right)
        model, device = shorten(model_name(bound.profile, Look()), 60), shorten(bound.device.name, 40)
        drawn.suptitle(f"{model} · {device}", fontsize=9)
        return as_bytes(drawn, format)


class Dot(NamedTuple):
    """A layer that computes, in a roofline."""

    op: str
    flops_per_byte: float
    flops_per_second: float
    #: Its area.
    ns: float


def draw_roofline(axes: Axes, dots: Sequence[Dot], lines: Sequence[Json]) -> None:
    """Roofs (``report.html.bound.roof_lines``), and a dot for each layer that computes; its area is its time."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    _scatter(dots, axes)
    low, high = axes.get_xlim()
    fastest = max((roof["value"] for roof in lines if roof["unit"] == "FLOP/s"), default=None)
    for roof in lines:
        style: Json = {"linewidth": 0.9, "linestyle": "-" if roof["kind"] == "measured" else "--"}
        value, text = roof["value"], f"{roof['label']} {human(round(roof['value']), roof['unit'])}"
        if roof["unit"] == "FLOP/s":
            axes.axhline(value, color="black", **style)
            axes.annotate(text, (high, value), ha="right", va="bottom", fontsize=7)
        else:
            end = high if fastest is None else min(high, fastest / value)
            axes.plot([low, end], [low * value, end * value], "k", **style)
            axes.annotate(text, (low, low * value), ha="left", va="bottom", fontsize=7)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: human(round(value)))
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("FLOP/s")
    if dots:
        axes.legend(loc="lower right", fontsize=6.5, frameon=False)


def _dots(bound: Bound) -> list[Dot]:
    """A dot for each layer that computes."""
    dots = []
    for row in bound.rows:
        flops, nbytes, time = row.work.flops, row.work.nbytes, row.engine_ns
        time = row.roofline_ns if time is None else time
        if flops and nbytes and time:
            dots.append(Dot(row.op, flops / nbytes, 1e9 * flops / time, time))
    return dots


def _scatter(dots: Sequence[Dot], axes: Axes) -> None:
    """Draw dots, coloured by their operators."""
    totals: dict[str, float] = {}
    for op, *_, time in dots:
        totals[op] = totals.get(op, 0.0) + time
    first = sorted(totals, key=lambda op: -totals[op])[: len(COLOURS) - 1]
    parts = [(op or "others", [dot for dot in dots if dot[0] == op], COLOURS[i]) for i, op in enumerate(first)]
    parts.append(("others", [dot for dot in dots if dot[0] not in first], COLOURS[-1]))
    largest = max((time for *_, time in dots), default=1.0)
    style: Json = {"alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
    for label, part, colour in parts:
        if part:
            _, x, y, times = zip(*part, strict=True)
            axes.scatter(x, y, s=[4 + 120 * t / largest for t in times], c=colour, label=shorten(label, 28), **style)


def _waterfall(bound: Bound, axes: Axes) -> None:
    """The steps from the physical floor to the measured time, in ms."""
    steps = waterfall(bound)
    for place, step in enumerate(steps):
        size = step["to"] - step["from"]
        colour = SUM if step["kind"] == "sum" else LOSS if size >= 0 else GAIN
        axes.barh(place, size / 1e6, left=step["from"] / 1e6, color=colour, height=0.66)
        sign = "" if step["kind"] == "sum" else "+" if size >= 0 else "−"
        end = max(step["from"], step["to"]) / 1e6
        axes.annotate(f" {sign}{ratio(abs(size) / 1e6)}", (end, place), va="center", fontsize=7)
    axes.set_yticks(range(len(steps)), [shorten(step["label"], 34) for step in steps])
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.set_xlabel("ms")
