"""The page of a trace: what it holds and draws, in a browser too, with 100,000 events, and that names run no script."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page, data_of

import flopwise
from flopwise.analyses.traces.assembly import critical_path, trace_of
from flopwise.analyses.traces.land import Place, Step, Work, land
from flopwise.analyses.traces.trace import Layer, Matched, Moment, Recording, Trace
from flopwise.report.commands.trace import trace_report
from flopwise.report.html import trace as pages
from flopwise.report.report import as_text

EXAMPLES = Path(__file__).parents[3] / "examples"

NAME = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"

CHOSEN = "return flopwise.state.chosen"


def made(events: int, name: str = "net", lanes: int = 4, steps: int = 3) -> Trace:
    """A training of a network of 20 blocks on several streams: forward, backward, segments, copies and gaps."""
    rng = random.Random(events)
    layers = tuple(
        Layer(
            f"blocks.{block}.{part}",
            part.title(),
            10**9,
            10**6 + block,
            2 * 10**9,
            5 * 10**8,
            module=f"blocks.{block}",
        )
        for block in range(20)
        for part in ("attn", "mlp", "norm")
    )
    landings = []
    for number in range(steps):
        works, now = [], [number * 10**10] * lanes
        for event in range(events):
            lane, time, layer = rng.randrange(lanes), rng.randint(500, 4000), event * len(layers) // events
            place = Place((layer,), "forward" if event % 3 else "backward")
            if event % 17 == 0:
                place = Place(name="copies")
            elif event % 13 == 0 and layer + 1 < len(layers):
                place = Place((layer, layer + 1))
            works.append(Work(place, f"stream {lane}", now[lane], now[lane] + time, 1, f"kernel_{layer % 7}"))
            now[lane] += time + rng.randint(0, 300)
        landings.append(land(Step(f"step {number}", number * 10**10, max(now), works)))
    return trace_of(Recording("", layers, tuple(landings), Matched(60, 60, 1.0)), name, "kineto")


def page(trace: Trace) -> str:
    return as_text(trace_report(trace), "html")


@pytest.fixture(scope="module")
def small() -> Trace:
    return made(600)


def test_the_page_adds_up_to_what_the_trace_covers(small: Trace) -> None:
    text = page(small)
    data = data_of(text)
    assert "default-src &#x27;none&#x27;" in text
    assert sum(time for time in data["layers"]["time"] if time != "") == data["covered"] == small.covered_ns
    assert [
        name for name, inside in zip(data["layers"]["name"], data["layers"]["remainder"], strict=True) if inside
    ] == [*small.remainder]
    assert data["steps"]["window"] == [step.window_ns for step in small.times]


def test_events_keep_their_times_lanes_and_layers(small: Trace) -> None:
    data = data_of(page(small))
    events, layers = data["timeline"], data["layers"]
    starts = list(accumulate(events["start"]))
    first = min(moment.start_ns for moment in small.timeline)
    assert [
        (start, time, events["lanes"][lane], layers["name"][place // 2], data["kernels"][kernel])
        for start, time, lane, place, kernel in zip(
            starts, *(events[key] for key in ("time", "lane", "place", "kernel")), strict=True
        )
    ] == [(m.start_ns - first, m.end_ns - m.start_ns, m.lane, m.where, m.kernel) for m in small.timeline]
    assert {m.flops is None for m in small.timeline if m.phase == ""} == {True}
    assert all(isinstance(m.flops, int) for m in small.timeline if m.phase)
    assert [place % 2 == 1 for place in events["place"]] == [m.phase == "backward" for m in small.timeline]
    times: dict[int, int] = {}
    for time, place in zip(events["time"], events["place"], strict=True):
        times[place // 2] = times.get(place // 2, 0) + time
    assert times == {at: time for at, time in enumerate(layers["time"]) if at in times}


def test_what_is_left_out_is_said(small: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 100)
    events = data_of(page(small))["timeline"]
    assert (len(events["start"]), events["events"]) == (100, len(small.timeline))
    assert sum(events["time"]) + events["left_ns"] == small.busy_ns


def test_a_critical_path_leads_back_from_the_last_event() -> None:
    source = random.Random(5)
    for _ in range(300):
        spans = [(start, start + source.randrange(1, 6)) for start in (source.randrange(30) for _ in range(12))]
        timeline = [Moment("", "", "", "", *span, None) for span in sorted(spans)]
        path = [timeline[at] for at in critical_path(timeline)]
        assert path[-1].end_ns == max(end for _, end in spans)
        for before, after in pairwise(path):
            ends = [moment.end_ns for moment in timeline if moment.end_ns <= after.start_ns and moment is not after]
            assert before.end_ns == max(ends)
        others = [moment for moment in timeline if moment not in path]
        assert not [
            moment for moment in others if moment.end_ns <= path[0].start_ns and moment.start_ns < moment.end_ns
        ]
    assert critical_path([]) == []


def test_in_a_browser(browser: Any, tmp_path: Path, small: Trace) -> None:
    shown = Page(browser, page(small), tmp_path)
    assert shown.run("return document.querySelector('#timeline-sub').textContent").startswith("600 events on 4 lanes")
    assert shown.count("#flame-time .flame-cell") > 20
    assert shown.count("#flame-flops .flame-cell") > 20
    assert shown.count("#roofline-plot circle.dot") == 60
    assert shown.count("#steps-plot path") == 2
    assert shown.column("name")[0] == "blocks.0.attn"
    assert {"gaps", "copies"} <= set(shown.column("name"))
    total = sum(float(text.rstrip(" %")) for text in shown.column("share") if text and "<" not in text)
    assert total == pytest.approx(100, abs=3)
    assert not shown.errors()


def test_modules_open_on_both_sides(browser: Any, tmp_path: Path, small: Trace) -> None:
    shown = Page(browser, page(small), tmp_path)
    shown.run(
        "[...document.querySelectorAll('#flame-time .flame-cell')].find(c => c.textContent.startsWith('3, '))"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert shown.run("return document.querySelector('#crumbs').textContent").endswith("3")
    for side in ("time", "flops"):
        assert 4 <= shown.count(f"#flame-{side} .flame-cell") <= 8


def test_the_timeline_is_found_in_by_words_and_keys(browser: Any, tmp_path: Path, small: Trace) -> None:
    shown = Page(browser, page(small), tmp_path)
    hits = [m for m in small.timeline if "blocks.7.mlp" in m.where and m.kernel == "kernel_1"]
    shown.pick("#find", "mlp blocks.7. kernel_1")
    assert shown.run("return document.querySelector('#find-says').textContent").startswith(f"{len(hits)} events of")
    whole = shown.run("return document.querySelector('#timeline-says').textContent")
    shown.click("#find-next")
    assert hits[0].where in shown.run("return document.querySelector('#event-says').textContent")
    assert shown.run("return document.querySelector('#timeline-says').textContent") != whole
    shown.pick("#find", "no such layer")
    assert shown.run("return document.querySelector('#find-says').textContent") == "Nothing found."
    assert shown.run("return document.querySelector('#find-next').disabled")
    shown.pick("#find", "")
    shown.keys("#lanes canvas", "0")
    assert shown.run("return document.querySelector('#timeline-says').textContent") == whole
    shown.keys("#lanes canvas", "ArrowRight", "ArrowRight", "Enter")
    chosen = shown.run(CHOSEN)
    assert chosen >= 0
    name = shown.run("return flopwise.data.layers.name[arguments[0]]", chosen)
    assert name in shown.run("return document.querySelector('#event-says').textContent")
    assert name in shown.run("return document.querySelector('#chosen').textContent")


def test_a_click_chooses_the_layer_under_it(browser: Any, tmp_path: Path, small: Trace) -> None:
    from selenium.webdriver import ActionChains

    shown = Page(browser, page(small), tmp_path)
    canvas = shown.find("#lanes canvas")
    shown.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
    top = -shown.run("return arguments[0].clientHeight", canvas) // 2
    hidden = "return document.querySelector('#tip').hidden"
    for down in range(60, -2 * top, 8):
        ActionChains(browser).move_to_element_with_offset(canvas, 0, top + down).perform()
        if not shown.run(hidden) and "stream" in shown.run("return document.querySelector('#tip').textContent"):
            break
    ActionChains(browser).click().perform()
    chosen = shown.run(CHOSEN)
    assert chosen >= 0
    shown.click("#to-table")
    assert shown.run("return document.activeElement.dataset.layer") == str(chosen)
    shown.click("#to-timeline")
    assert shown.run("return document.activeElement.tagName") == "CANVAS"


def test_a_layer_without_time_of_its_own_leads_to_its_segment(browser: Any, tmp_path: Path) -> None:
    layers = (Layer("conv", "Conv", 10, 10), Layer("norm", "Norm", 5, 5), Layer("relu", "Relu", 1, 1))
    works = [Work(Place((0, 1)), "s", 0, 60, 1, "fused"), Work(Place((2,)), "s", 60, 90, 1, "relu")]
    trace = trace_of(Recording("", layers, (land(Step("run", 0, 100, works)),), Matched(3, 3)), "net", "kineto")
    shown = Page(browser, page(trace), tmp_path)
    assert shown.column("name") == ["conv+1", "conv", "norm", "relu", "gaps"]
    assert shown.column("flops") == ["15", "", "", "1", ""]
    shown.run("flopwise.choose(2)")
    assert "its time is inconv+1" in shown.run("return document.querySelector('#chosen').textContent")
    shown.click("#to-timeline")
    assert "conv+1" in shown.run("return document.querySelector('#event-says').textContent")


def test_a_hundred_thousand_events_take_no_more_bars_than_pixels(browser: Any, tmp_path: Path) -> None:
    trace = made(100_000, steps=1)
    text = page(trace)
    assert len(text) < 4_000_000
    shown = Page(browser, text, tmp_path)

    def drawn() -> tuple[int, int]:
        return tuple(
            map(int, shown.run("const d = document.querySelector('#lanes').dataset; return [d.drawn, d.hidden]"))
        )

    width = shown.run("return document.querySelector('#lanes canvas').clientWidth")
    first, hidden = drawn()
    assert first <= 4 * (width + 1)
    assert first + hidden == 100_000
    for _ in range(6):
        shown.click("#zoom-in")
    closer, hidden = drawn()
    assert closer <= 4 * (width + 1)
    assert closer + hidden < 5_000
    for _ in range(4):
        shown.click("#zoom-in")
    assert drawn()[1] == 0
    assert not shown.errors()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(browser: Any, tmp_path: Path, small: Trace, theme: str) -> None:
    shown = Page(browser, page(small), tmp_path)
    shown.theme(theme)
    try:
        shown.run("flopwise.choose(4)")
        assert shown.faults() == []
    finally:
        shown.theme("")


def test_nothing_is_wider_than_a_phone_or_a_sheet_of_paper(browser: Any, tmp_path: Path, small: Trace) -> None:
    shown = Page(browser, page(small), tmp_path)
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        assert shown.run("return document.documentElement.scrollWidth") <= 390
        shown.run("dispatchEvent(new Event('beforeprint'))")
        assert shown.run("return document.querySelector('#lanes canvas').clientWidth") == 680
        shown.run("dispatchEvent(new Event('afterprint'))")
        assert shown.run("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_from_a_trace_run_no_script(browser: Any, tmp_path: Path) -> None:
    layers = (Layer(NAME, NAME),)
    step = land(
        Step(NAME, 0, 100, [Work(Place((0,)), NAME, 0, 60, 1, NAME), Work(Place(name=NAME), NAME, 60, 90, 1, NAME)])
    )
    shown = Page(browser, page(trace_of(Recording("", layers, (step,), Matched(1, 1)), NAME, "kineto")), tmp_path)
    shown.run("flopwise.choose(0)")
    assert shown.run("return document.title") != "taken"
    assert NAME in shown.run("return document.querySelector('#chosen').textContent")


def test_a_trace_without_times_of_day(browser: Any, tmp_path: Path) -> None:
    recorded = '[{"count": 2}, {"name": "Conv_0", "timeMs": 4, "averageMs": 2, "medianMs": 2, "percentage": 100}]'
    path = tmp_path / "profile.json"
    path.write_text(recorded)
    shown = Page(browser, page(flopwise.trace(None, path)), tmp_path)
    assert "no times of day" in shown.run("return document.querySelector('#timeline').textContent")
    assert shown.column("name") == ["Conv_0"]
    assert not shown.errors()


def test_the_roofs_are_those_of_the_device() -> None:
    pytest.importorskip("torch")
    trace = flopwise.trace(
        f"{EXAMPLES}/classifier.py:Classifier", EXAMPLES / "classifier_trace.json.gz", (16, 3, 32, 32), device="a100"
    )
    roofs = {roof["label"]: roof["value"] for roof in data_of(page(trace))["roofs"]}
    assert roofs["tfloat32"] == 156e12
    assert roofs["memory"] == 2039e9
    assert not data_of(page(made(60)))["roofs"]
