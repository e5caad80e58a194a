"""The page of two traces: what it draws, in a browser too, and that names run no script."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page, data_of
from tests.report.html.test_trace import NAME, made

import flopwise
from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.comparison import TraceComparison, grouped
from flopwise.analyses.traces.land import Place, Step, Work, land
from flopwise.analyses.traces.trace import Layer, Matched, Recording
from flopwise.report.commands.trace import trace_comparison_report
from flopwise.report.html.trace import waterfall
from flopwise.report.report import as_text


@pytest.fixture(scope="module")
def compared() -> TraceComparison:
    return flopwise.compare_traces(made(600, steps=5), made(700, steps=5))


def page(comparison: TraceComparison) -> str:
    return as_text(trace_comparison_report(comparison), "html")


def test_the_waterfall_leads_from_one_trace_to_the_other(compared: TraceComparison) -> None:
    steps = waterfall(compared)
    for before, after in pairwise(steps[:-1]):
        assert after["from"] == before["to"]
    assert steps[-2]["to"] == steps[-1]["to"] == compared.after.covered_ns
    assert steps[0]["to"] == compared.before.covered_ns


def test_the_page_holds_every_grouping(compared: TraceComparison) -> None:
    layers = data_of(page(compared))["layers"]
    for place, by in enumerate(("layer", "op", "module", "kernel")):
        lines = [at for at, own in enumerate(layers["by"]) if own == place]
        changes = grouped(compared, by)
        assert [(layers["name"][at], layers["before"][at], layers["after"][at]) for at in lines] == [
            (change.name, change.before_ns, change.after_ns) for change in changes
        ]


def test_in_a_browser(browser: Any, tmp_path: Path, compared: TraceComparison) -> None:
    shown = Page(browser, page(compared), tmp_path)
    assert shown.count("#largest-plot circle.second") == 20
    assert shown.count("#waterfall-plot rect") == len(waterfall(compared))
    changes = sorted(compared.changes, key=lambda change: -abs(change.more_ns))
    assert shown.column("name")[:5] == [change.name for change in changes[:5]]
    shown.pick("#grouping", "1")
    operators = grouped(compared, "op")
    assert sorted(shown.column("name")) == sorted(change.name for change in operators)
    assert shown.run("return document.querySelector('tfoot [data-key=more]').textContent") != ""
    shown.pick("#verdict", "slower")
    assert set(shown.column("verdict")) == {"slower"}
    assert len(shown.column("name")) == sum(change.verdict == "slower" and any(change.times_ns) for change in operators)
    shown.pick("#grouping", "2")
    assert shown.run("return document.querySelector('tfoot [data-key=more]').textContent") == ""
    assert shown.run("return document.documentElement.scrollWidth <= innerWidth")
    assert not shown.errors()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(browser: Any, tmp_path: Path, compared: TraceComparison, theme: str) -> None:
    shown = Page(browser, page(compared), tmp_path)
    shown.theme(theme)
    try:
        assert shown.faults() == []
    finally:
        shown.theme("")


def test_names_from_a_trace_run_no_script(browser: Any, tmp_path: Path) -> None:
    step = land(Step(NAME, 0, 90, [Work(Place((0,)), NAME, 0, 60, 1, NAME), Work(Place(name=NAME), NAME, 60, 90)]))
    trace = trace_of(Recording("", (Layer(NAME, NAME),), (step,), Matched(1, 1)), NAME, "kineto")
    shown = Page(browser, page(flopwise.compare_traces(trace, trace)), tmp_path)
    assert shown.run("return document.title") != "taken"
    assert shown.column("name") == [NAME, NAME]
