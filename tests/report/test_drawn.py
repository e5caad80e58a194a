"""All that figures and pages draw, in the units of the axes: ``golden_drawn/``, written anew with UPDATE_GOLDEN=1."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analyses.timing.models import chain
from tests.analyses.timing.test_engine import ALL, bound
from tests.language_models import LLAMA, written
from tests.report.graphs import mystery
from tests.report.html.browser import data_of
from tests.report.html.test_trace import made

import flopwise
from flopwise.analyses.traces.trace import Trace
from flopwise.analyses.weights.result import Weights
from flopwise.analyses.weights.weights import weights_of_arrays
from flopwise.report import drawings
from flopwise.report.commands import bound as bound_figure
from flopwise.report.commands import trace as trace_figures
from flopwise.report.commands.bound import bound_report
from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.llm import figures as llm_figures
from flopwise.report.commands.llm.report import llm_report
from flopwise.report.commands.profile import render
from flopwise.report.commands.trace import trace_comparison_report, trace_report
from flopwise.report.commands.weights import draw
from flopwise.report.report import Report, as_text

NET = "examples/tiny_resnet.onnx"

#: What pages say of every convention and device, which are tables of their own.
TABLES = ("conventions", "refused", "ridges")

GOLDEN = Path(__file__).parent / "golden_drawn"


def parts(axes: Any) -> Iterator[tuple[object, ...]]:
    """Everything that axes show, in the units of the axes."""
    from matplotlib.colors import to_hex

    yield "axes", axes.get_title("left") or axes.get_title(), axes.get_xlabel(), axes.get_ylabel()
    yield "limits", *axes.get_xlim(), *axes.get_ylim(), axes.get_xscale(), axes.get_yscale()
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        yield name, *axis.get_majorticklocs(), *(label.get_text() for label in axis.get_ticklabels())
    for line in axes.lines:
        points = [*map(float, line.get_xdata()), *map(float, line.get_ydata())]
        shade = to_hex(line.get_color()), line.get_linestyle(), line.get_linewidth(), line.get_alpha()
        yield "line", *points, *shade, line.get_marker(), line.get_markersize()
    for patch in axes.patches:
        points = [*patch.get_path().vertices.round(9).ravel()] if hasattr(patch, "get_data") else []
        ends = patch.get_path().transformed(patch.get_patch_transform()).get_extents().extents
        yield type(patch).__name__, *ends, *points, to_hex(patch.get_facecolor()), patch.get_alpha()
    for dots in axes.collections:
        shades = [to_hex(shade) for shade in dots.get_facecolors()]
        yield type(dots).__name__, dots.get_label(), *dots.get_offsets().ravel(), *dots.get_sizes(), *shades
        yield from (("bar", *path.get_extents().extents) for path in dots.get_paths() if not len(dots.get_sizes()))
    for text in axes.texts:
        yield "text", *(text.xy if hasattr(text, "xy") else text.get_position()), text.get_text()


def figure_of(figure: Any) -> list[tuple[object, ...]]:
    """Everything that a figure shows."""
    found: list[tuple[object, ...]] = [("figure", *figure.get_size_inches())]
    found += [("title", figure.get_suptitle())] if figure.get_suptitle() else []
    found += [("text", *text.get_position(), text.get_text()) for text in figure.texts]
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    found += [("key", *(text.get_text() for text in legend.get_texts())) for legend in legends]
    return found + [part for axes in figure.axes for part in parts(axes)]


def lines_of(figure: Any) -> list[str]:
    shown = [[f"{one:.6g}" if isinstance(one, float) else str(one) for one in part] for part in figure_of(figure)]
    return [" ".join(part).replace("\n", "↵") for part in shown]


def weights() -> Weights:
    rng = np.random.default_rng(3)
    return weights_of_arrays(
        {
            "net.layers.0.weight": rng.normal(0.25, 0.5, 400).round(3),
            "net.layers.1.weight_with_a_name_that_is_longer_than_titles_are": np.repeat([-1.0, 0, 0, 3], 25),
            "net.huge": np.array([1e308, -1e308, 3e307, 0.0]),
            "net.positive": np.array([np.nan, 1, np.inf, 2, 2.5], np.float32),
            "net.none": np.array([np.nan], np.float32),
        },
        bins=5,
    )


def trace(events: int = 90) -> Trace:
    return replace(made(events, lanes=26 if events == 90 else 2, steps=2), device="gpu")


def request(folder: Path) -> Any:
    pytest.importorskip("transformers")
    result = flopwise.llm(written(folder, LLAMA), prompt=32, generate=4, device="h100", curve=True)
    return replace(result, source="llama")


def html(report: Report) -> str:
    return as_text(report, "html")


FIGURES: dict[str, Callable[[Path], object]] = {
    "weights.txt": lambda folder: draw(weights(), str(folder), "svg"),
    "trace.txt": lambda folder: trace_figures.draw(trace(), str(folder), "svg"),
    "traces.txt": lambda folder: trace_figures.draw_both(
        flopwise.compare_traces(trace(), trace(80)), str(folder), "svg"
    ),
    "bound.txt": lambda _: bound_figure.figure(flopwise.bound(chain(), device="h100"), "svg"),
    "llm.txt": lambda folder: llm_figures.draw(request(folder), str(folder), "svg"),
    "bound_measured.txt": lambda _: bound_figure.figure(bound(ALL), "svg"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_draws(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    lines: list[str] = []

    def seen(figure: Any, format: str) -> bytes:
        lines.extend(lines_of(figure))
        return b""

    for module in (drawings, bound_figure):
        monkeypatch.setattr(module, "as_bytes", seen)
    FIGURES[name](tmp_path)
    held(name, "\n".join([*lines, ""]))


PAGES: dict[str, Callable[[Path], str]] = {
    "bound.json": lambda _: html(bound_report(flopwise.bound(chain(), device="h100"))),
    "bound_measured.json": lambda _: html(bound_report(bound(ALL))),
    "compare.json": lambda _: html(comparison_report(flopwise.compare(NET, "examples/custom_op.onnx"))),
    "llm.json": lambda folder: html(llm_report(request(folder))),
    "profile.json": lambda _: render(flopwise.profile(NET, train=True), "html"),
    "profile_unknown.json": lambda _: render(mystery(), "html"),
    "trace.json": lambda _: html(trace_report(trace())),
    "traces.json": lambda _: html(trace_comparison_report(flopwise.compare_traces(trace(), trace(80)))),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds(name: str, tmp_path: Path) -> None:
    data = data_of(PAGES[name](tmp_path))
    lines = (f"{key}: {json.dumps(data[key], ensure_ascii=False)}\n" for key in data if key not in TABLES)
    held(name, "".join(lines))


def held(name: str, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8", newline="")
    assert text == (GOLDEN / name).read_bytes().decode()


def test_no_golden_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*FIGURES, *PAGES}
