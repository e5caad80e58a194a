"""The page of a data set of models: what it draws, in a browser too, and that names run no script."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
from tests.analyses.zoo.made import made_zoo
from tests.report.html.browser import Page, data_of

from flopwise import zoo
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.records import model_row
from flopwise.analyses.zoo.views import front, overview
from flopwise.cli import main
from flopwise.report.html.zoo import render_zoo
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

NAME = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty models, one more of a hostile name, and one that failed with a hostile error."""
    folder = tmp_path_factory.mktemp("page") / "zoo"
    made_zoo(folder, random.Random(7))
    data = Dataset(folder)
    figures = dict.fromkeys(("macs", "flops", "params", "peak_activation_bytes"), 12345)
    data.put(model_row(Entry(NAME, NAME, family=NAME), "f" * 32, "0", status="ok", layers=0, **figures), [])
    data.put(model_row(Entry("broken", NAME), "e" * 32, "0", status="failed", error=NAME), [])
    data.gather()
    return folder


def test_the_front_is_what_no_other_beats() -> None:
    source = random.Random(11)
    for _ in range(200):
        points = [(source.randrange(0, 6), source.randrange(0, 6)) for _ in range(source.randrange(1, 12))]
        live = [p for p in points if min(p) > 0]
        for most in (False, True):
            way = -1 if most else 1

            def beats(one: tuple[int, int], other: tuple[int, int], way: int = way) -> bool:
                return one != other and way * one[0] <= way * other[0] and one[1] <= other[1]

            expected = {p for p in live if not any(beats(q, p) for q in live)}
            assert {points[i] for i in front(points, most)} == expected


def test_the_page_holds_the_data_set(folder: Path) -> None:
    data = data_of(as_text(zoo.report(folder), "html"))
    totals = dict(data["totals"])
    with zoo.open(folder) as opened:
        assert totals["layers"] == opened.rows("SELECT count(*) FROM layers")[1][0][0]
        assert totals["unique layers"] == len(opened.rows("FROM unique_layers")[1])
        counts = dict(opened.rows("SELECT family, count(*) FROM layers GROUP BY family")[1])
    assert (totals["models"], totals["failed"], len(data["models"]["rows"])) == (21, 1, 21)
    shares: dict[str, int] = {}
    for family, _, layers, *_ in data["by_family"]["rows"]:
        shares[family] = shares.get(family, 0) + layers
    assert shares == counts
    assert data["growth"]["rows"][-1] == [21, totals["layers"], totals["unique layers"]]
    assert [row[1] for row in data["growth"]["rows"]] == sorted(row[1] for row in data["growth"]["rows"])
    assert data["layers_covered"]["rows"][-1][1] == pytest.approx(100)
    assert data["macs_covered"]["rows"][-1][1] == pytest.approx(100)


def test_the_page_is_one_file_that_loads_nothing(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["zoo", "report", str(folder), "-o", str(tmp_path / "zoo.html")]) == 0
    text = (tmp_path / "zoo.html").read_text("ascii")
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"<(link|script|img|iframe)[^>]+(src|href)=", text.split('id="data"')[0])
    assert main(["zoo", "report", str(tmp_path), "-o", str(tmp_path / "none.html")]) == 2
    assert "is not a data set of models" in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()


def test_the_report_as_a_table(folder: Path, capsys: Any) -> None:
    assert main(["zoo", "report", str(folder)]) == 0
    assert "12,345" in capsys.readouterr().out


def test_in_a_browser(browser: Any, tmp_path: Path, folder: Path) -> None:
    page = Page(browser, render_zoo(overview(folder), Look()), tmp_path)
    dots = "return document.querySelectorAll('#scatter-plot circle.dot').length"
    assert page.run(dots) == 21
    assert page.run("return document.querySelectorAll('#scatter-plot circle.kept').length") >= 1
    page.run("const s = document.getElementById('scatter-x'); s.value = 'layers'; s.dispatchEvent(new Event('change'))")
    assert page.run(dots) == 20
    page.run("const s = document.getElementById('scatter-find'); s.value = 'm7'; s.dispatchEvent(new Event('input'))")
    assert page.run("return document.querySelectorAll('#scatter-plot circle.found').length") == 1
    assert page.run("return document.querySelectorAll('#shares-year rect.share').length") > 3
    assert page.run("return document.querySelectorAll('#growth-plot path.curve, #cover-plot path.curve').length") == 4
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_tables_sort_and_filter(browser: Any, tmp_path: Path, folder: Path) -> None:
    page = Page(browser, render_zoo(overview(folder), Look()), tmp_path)

    def column(table: str, place: int) -> list[str]:
        cells = f"document.querySelectorAll('#table-{table} tbody tr td:nth-child({place})')"
        return page.run(f"return [...{cells}].map(c => c.textContent)")  # type: ignore[no-any-return]

    page.click("#table-models thead th:nth-child(6) button")
    layers = [int(text) for text in column("models", 6)]
    assert layers == sorted(layers, reverse=True)
    page.click("#table-models thead th:nth-child(6) button")
    assert [int(text) for text in column("models", 6)] == sorted(layers)
    assert page.run("return document.querySelector('#table-models th:nth-child(6)').getAttribute('aria-sort')") == (
        "ascending"
    )
    page.run(
        "const s = document.querySelector('#table-models input');"
        "s.value = 'm1 2016'; s.dispatchEvent(new Event('input'))"
    )
    assert set(column("models", 3)) == {"2016"}


def test_names_from_a_data_set_run_no_script(browser: Any, tmp_path: Path, folder: Path) -> None:
    page = Page(browser, render_zoo(overview(folder), Look()), tmp_path)
    assert page.run("return document.title") != "taken"
    assert NAME in page.run("return document.querySelector('#table-models').textContent")
    assert NAME in page.run("return document.querySelector('#table-failures').textContent")
