"""Figures of a language model by matplotlib, the extra ``figures``: cost and memory against the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.report.drawings import write_all
from flopwise.report.formats.table import shorten
from flopwise.report.sheet.sheet import Look, human

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flopwise.analyses.llm.inference import Inference

#: Colours that stay apart in grey and for colour-blind readers (Paul Tol's bright scheme).
BLUE, RED, GREY = "#4477AA", "#EE6677", "#666666"


def draw(result: Inference, directory: str, format: str = "png") -> list[str]:
    """Draw cost and memory against the context, and write them into a directory; the paths of the files.

    Args:
        result: a request with a curve.
        directory: where to; made where it is not there.
        format: "png", "svg" or "pdf".

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    figures = {"cost": _cost, "memory": _memory}
    return write_all(((name, drawn(result)) for name, drawn in figures.items()), directory, format)


def _new(result: Inference, base: int = 0) -> tuple[Figure, list[Axes]]:
    """An empty figure with two axes, over the lengths of the context; on logarithmic ones with a base."""
    from matplotlib.figure import Figure as New

    figure = New(figsize=(9, 3.6), layout="constrained")
    axes = list(figure.subplots(1, 2))
    sequences = f"{result.batch} sequence{'s' if result.batch > 1 else ''}"
    kv = f", cache {result.kv_dtype}" if result.kv_dtype else ""
    title = Look().text(f"{result.source} · {result.name} · {result.dtype}{kv} · {sequences}")
    figure.suptitle(shorten(title, 100), fontsize=9)
    for one in axes:
        if base:
            one.set_xscale("log", base=base)  # which sets a formatter of its own
        one.set_xlabel("tokens of context")
        one.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        one.tick_params(axis="x", labelrotation=30)
    return figure, axes


def _cost(result: Inference) -> Figure:
    """FLOPs of a prompt by its length on the left, FLOPs and bytes of the step after it on the right."""
    figure, (left, right) = _new(result, base=2)
    points = result.curve
    contexts = [point.context for point in points]
    left.plot(contexts, [p.prefill.flops for p in points], "o-", ms=3, color=BLUE, label="executed")
    rule = [2 * result.active_params * p.prefill.tokens for p in points]
    left.plot(contexts, rule, ":", color=GREY, label="2N per token")
    left.set_yscale("log")
    left.set_title("FLOPs of a prompt", fontsize=8)
    steps = [p.decode for p in points if p.decode is not None]  # none of an encoder alone
    if steps:
        right.plot(contexts, [step.flops for step in steps], "o-", ms=3, color=BLUE, label="FLOPs")
        right.plot(contexts, [step.bytes for step in steps], "s-", ms=3, color=RED, label="bytes read")
        right.plot(contexts, [step.state_bytes for step in steps], "s:", ms=3, color=RED, label="  of the cache")
    right.set_yscale("log")
    right.set_title("decode step" if steps else "no decode step: no state between calls", fontsize=8)
    _finished(left, *([right] if steps else []))
    return figure


def _memory(result: Inference) -> Figure:
    """Bytes that must be in memory of the fullest device on the left, those of the whole cache on the right."""
    figure, (left, right) = _new(result)
    points, serving = result.curve, result.serving
    contexts = [point.context for point in points]
    held = [result.held_bytes(point) for point in points]
    names = ("weights", GREY), ("cache", RED), ("workspace", BLUE)
    parts = [(name, colour, values) for (name, colour), values in zip(names, zip(*held, strict=True), strict=True)]
    left.stackplot(
        contexts,
        *(values for _, _, values in parts),
        labels=[name for name, _, _ in parts],
        colors=[colour for _, colour, _ in parts],
        alpha=0.8,
    )
    have = None if serving is None else serving.memory_bytes
    if have is not None and serving is not None:
        share = f"{serving.engine.memory_fraction:g} of {serving.where}"
        left.axhline(have, color="black", linewidth=0.9, linestyle="--", label=share)
    left.set_ylim(bottom=0)
    left.set_title("memory, bytes", fontsize=8)
    lengths = [point.context for point in result.curve]
    right.plot(lengths, [p.cache_bytes for p in result.curve], "s-", ms=3, color=RED, label="cache")
    right.set_ylim(bottom=0)
    right.set_title("cache by context, bytes", fontsize=8)
    _finished(left, right)
    return figure


def _finished(*axes: Axes) -> None:
    """Legends, and numbers with prefixes on the upright axes."""
    for one in axes:
        one.yaxis.set_major_formatter(lambda value, _: human(round(value)))
        one.legend(loc="best", fontsize=7, frameon=False)
