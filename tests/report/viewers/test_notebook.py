"""What a notebook shows: small, without scripts, escaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.report.graphs import NASTY
from tests.report.html.test_page import HOSTILE, Elements, chain

import flopwise
from flopwise.report.viewers.notebook import comparison_html, profile_html


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_a_profile_shows_its_figures_and_convention() -> None:
    profile = flopwise.profile("examples/tiny_resnet.onnx", convention="macs")
    html = profile._repr_html_()
    assert html == profile_html(profile)
    text = text_of(html)
    assert "convention macs, unit MAC" in text
    assert "image float32 1×3×64×64" in text
    assert "1.86 M" in text
    assert len(html) < 20_000
    assert html.count("<tr>") < 20


def test_what_is_unknown_is_said() -> None:
    html = profile_html(flopwise.profile("examples/custom_op.onnx"))
    assert "≥ 1.28 k" in text_of(html)
    assert "no rule" in text_of(html)


def test_names_are_text() -> None:
    html = profile_html(flopwise.profile(chain([HOSTILE, *NASTY])))
    tags = {tag for tag, _ in Elements(html).found}
    assert tags <= {"div", "span", "b", "table", "tr", "th", "td"}
    assert not [attrs for _, attrs in Elements(html).found if any(key.startswith("on") for key in attrs)]


def test_a_comparison_shows_the_differences() -> None:
    one, two = flopwise.profile(chain(["a"])), flopwise.profile(chain(["a", "b"]))
    compared = flopwise.compare(one, two)
    html = comparison_html(compared)
    assert compared._repr_html_() == html
    assert "parameters 64 128 64 100.0 " in " ".join(text_of(html).split())
    assert "<script" not in html


def test_traces_show_where_the_time_went(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    layers = [
        {"name": f"{HOSTILE}{number}", "timeMs": 4, "averageMs": 2, "medianMs": 2, "percentage": 2}
        for number in range(50)
    ]
    path.write_text(json.dumps([{"count": 2}, *layers]))
    trace = flopwise.trace(None, path)
    html = trace._repr_html_()
    assert html is not None
    assert {tag for tag, _ in Elements(html).found} <= {"div", "span", "b", "table", "tr", "th", "td"}
    assert "total 100,000 µs" in " ".join(text_of(html).split())
    assert html.count("<tr>") == 1 + 12 + 1 + 1
    both = flopwise.compare_traces(trace, trace)._repr_html_()
    assert both is not None
    assert "same 50 layers" in " ".join(text_of(both).split())
