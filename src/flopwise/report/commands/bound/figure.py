"""A figure of a bound by matplotlib, the extra ``figures``: the roofline, and the waterfall to the measured time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from flopwise.errors import InputError
from flopwise.report.drawings import FORMATS, STYLE, as_bytes, require_matplotlib
from flopwise.report.html.bound import roofs, waterfall
from flopwise.report.sheet.sheet import Look, model_name
from flopwise.report.sheet.text import shorten
from flopwise.report.sheet.units import human, ratio

if TYPE_CHECKING:
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
    if name not in FORMATS:
        raise InputError(f"{path}: a figure ends in {', '.join('.' + f for f in FORMATS)}")
    require_matplotlib()
    return name


def figure(bound: Bound, format: str) -> bytes:
    """The figure as the bytes of a file: roofline on the left, waterfall on the right.

    Raises:
        InputError: matplotlib is missing.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(11, 4.4), layout="constrained")
        left, right = drawn.subplots(1, 2, width_ratios=(1.1, 1))
        _roofline(bound, left)
        _waterfall(bound, right)
        model, device = shorten(model_name(bound.profile, Look()), 60), shorten(bound.device.name, 40)
        drawn.suptitle(f"{model} · {device}", fontsize=9)
        return as_bytes(drawn, format)


def _roofline(bound: Bound, axes: Any) -> None:
    """Roofs, and a dot for each layer that computes; its area is its time."""
    times = [(row, row.engine_ns if row.engine_ns is not None else row.roofline_ns or 0.0) for row in bound.rows]
    dots = [(row, time) for row, time in times if row.work.flops and row.work.nbytes and time]
    ops: dict[str, float] = {}
    for row, time in dots:
        ops[row.op] = ops.get(row.op, 0.0) + time
    first = sorted(ops, key=lambda op: -ops[op])[: len(COLOURS) - 1]
    most = max((time for _, time in dots), default=1.0)
    for op in [*first, None]:
        part = [(r, t) for r, t in dots if r.op == op or (op is None and r.op not in first)]
        if part:
            axes.scatter(
                [(r.work.flops or 0) / (r.work.nbytes or 1) for r, _ in part],
                [1e9 * (r.work.flops or 0) / t for r, t in part],
                s=[4 + 120 * t / most for _, t in part],
                c=COLOURS[first.index(op) if op is not None else -1],
                alpha=0.75,
                linewidths=0.4,
                edgecolors="white",
                label=shorten(op or "others", 28),
            )
    lines = roofs(bound)
    peaks = [roof["value"] for roof in lines if roof["unit"] == "FLOP/s"]
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_xlim()
    for roof in lines:
        solid = "-" if roof["kind"] == "measured" else "--"
        text = f"{roof['label']} {human(round(roof['value']), roof['unit'])}"
        if roof["unit"] == "FLOP/s":
            axes.axhline(roof["value"], color="black", linewidth=0.9, linestyle=solid)
            axes.annotate(text, (high, roof["value"]), ha="right", va="bottom", fontsize=7)
        else:
            end = min(high, max(peaks, default=roof["value"] * high) / roof["value"])
            axes.plot([low, end], [low * roof["value"], end * roof["value"]], "k", linewidth=0.9, linestyle=solid)
            axes.annotate(text, (low, low * roof["value"]), ha="left", va="bottom", fontsize=7)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: human(round(value)))
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("FLOP/s")
    if dots:
        axes.legend(loc="lower right", fontsize=6.5, frameon=False)


def _waterfall(bound: Bound, axes: Any) -> None:
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
