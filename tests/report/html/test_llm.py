"""The page of a request to a language model, and its figures: what they draw, in a browser too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.cli.conftest import Run, run
from tests.language_models import ENCODERS, LLAMA, WINDOW, written
from tests.report.html.browser import Page, data_of

import flopwise
from flopwise.analyses.llm.runs import lengths
from flopwise.report.commands.llm.report import llm_report
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import duration

__all__ = ["run"]  # a fixture


def test_the_page_holds_the_curve_and_every_figure(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=4, device="h100", curve=True)
    data = data_of(as_text(llm_report(result), "html"))
    assert [point["context"] for point in data["curve"]] == list(lengths(32, 36, 512))
    assert data["limit"] == 0.9 * 81_559 * 2**20 // 1
    assert data["lines"][0][1:] == [
        [short, f"{exact:,}"]
        for short, exact in zip(
            [cell[0] for cell in data["lines"][0][1:]],
            (result.prefill.macs, result.decode.macs, result.generated_macs, result.request_macs),
            strict=True,
        )
    ]


def test_the_page_of_several_devices_is_of_these(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=4, device="2xh100", tp=2, curve=True)
    data, serving = data_of(as_text(llm_report(result), "html")), result.serving
    point = next(point for point in data["curve"] if point["context"] == 32)
    assert point["weight_bytes"] == serving.memory.weight_bytes < result.weight_bytes
    assert point["held_cache_bytes"] == serving.memory.cache_bytes(1, 32) == point["cache_bytes"] / 2
    assert data["device"] == "each of 2 × NVIDIA H100 SXM5 80GB"
    cards = {name: (shown, below) for name, shown, below in data["cards"]}
    assert cards["each further token at least"] == (duration(serving.floors.decode_seconds), "tp 2")


def test_the_page_shows_what_fills_a_device_and_how_fast_it_can_be_with_more_sequences(tmp_path: Path) -> None:
    request = {"prompt": 32, "generate": 4, "device": "h100"}
    result = flopwise.llm(written(tmp_path, LLAMA), **request, curve=True)
    data = data_of(as_text(llm_report(result), "html"))
    assert sum(nbytes for _, nbytes in data["fill"]) == result.serving.device_bytes
    points = {point["sequences"]: point for point in data["batches"]}
    assert list(points)[:4] == [1, 2, 4, 8]
    alone = flopwise.llm(tmp_path, **request, batch=8).serving.floors
    # but for the rows of the embedding, of which one is read
    assert alone.decode_seconds * 0.99e9 < points[8]["ns"] <= alone.decode_seconds * 1e9
    assert points[8]["rate"] == pytest.approx(alone.tokens_per_second, rel=0.01)
    assert result.to_dict()["batches"][3]["sequences"] == 8


def test_points_of_the_curve_are_runs_of_their_own(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, WINDOW), prompt=16, generate=2, curve=True)
    for point in result.curve:
        alone = flopwise.llm(tmp_path, prompt=point.context, generate=1)
        assert (point.prefill.macs, point.decode.macs) == (alone.prefill.macs, alone.decode.macs)
        assert (point.cache_bytes, point.decode.bytes) == (alone.cache_bytes, alone.decode.bytes)
    assert result.to_dict()["curve"][0]["context"] == result.curve[0].context
    assert "curve" not in flopwise.llm(tmp_path, prompt=16, generate=2).to_dict()


def test_in_a_browser(browser: Any, tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=4, device="h100", curve=True)
    shown = Page(browser, as_text(llm_report(result), "html"), tmp_path)
    for plot in ("prompt", "step", "memory"):
        count = shown.run(f"return document.querySelectorAll('#{plot}-plot circle.point').length")
        assert count == len(result.curve) * {"prompt": 2, "step": 3, "memory": 3}[plot]
    assert "whole request" in shown.run("return document.querySelector('#costs').textContent")
    assert shown.run("return document.documentElement.scrollWidth <= innerWidth")
    assert not shown.errors()


def test_the_page_and_the_figures_of_an_encoder_alone(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder, page = tmp_path / "model", tmp_path / "page.html"
    folder.mkdir()
    command = ["llm", written(folder, ENCODERS["bert"]), "--prompt", "16", "--figures", tmp_path / "figures"]
    assert run(*command).code == 0
    assert run("llm", folder, "--prompt", "16", "-o", page).code == 0
    assert '"decode_flops":null' in page.read_text().replace(": ", ":")


def test_names_run_no_script(browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=\"document.title='taken'\">"
    folder.mkdir()
    result = flopwise.llm(written(folder, LLAMA), prompt=4, generate=1, curve=True)
    shown = Page(browser, as_text(llm_report(result), "html"), tmp_path)
    assert shown.run("return document.title") != "taken"


def test_figures(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    folder, figures = written(tmp_path, LLAMA), tmp_path / "figures"
    command = ["llm", folder, "--prompt", "16", "--generate", "2", "--figures", figures, "--figure-format", "svg"]
    assert run(*command).code == 0
    assert sorted(path.name for path in figures.iterdir()) == ["cost.svg", "memory.svg"]
    assert all(path.read_bytes().startswith(b"<?xml") for path in figures.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--figures", "DIR", "--train"], "leave --train out"),
        (["-f", "html", "--train"], "leave --train out"),
        (["--figures", "config.json"], "the directory cannot be made"),
    ],
)
def test_what_has_no_figure(tmp_path: Path, run: Run, arguments: list[str], words: str) -> None:
    folder = written(tmp_path, LLAMA)
    places = [str(tmp_path / a) if a in ("DIR", "config.json") else a for a in arguments]
    result = run("llm", folder, *places)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.err
