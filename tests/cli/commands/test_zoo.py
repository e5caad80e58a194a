"""``flopwise zoo published``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.cli.conftest import Run

from flopwise.analyses.zoo.published import figures
from flopwise.analyses.zoo.published import figures as data


def test_a_line_for_each_source(run: Run) -> None:
    code, out, err = run("zoo", "published")
    assert (code, err) == (0, "")
    assert [name for name in data.sources() if name not in out] == []
    assert f"{len(data.figures()):,} published figures" in out


def test_the_figures_of_one_model(run: Run) -> None:
    out = run("zoo", "published", "--source", "ptflops", "--model", "resnet50").out
    line = next(line for line in out.splitlines() if "operations" in line)
    assert "4.12 G" in line
    assert "mmcv" in line


def test_missing_ones_have_reasons(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("zoo", "published", "--missing", "-f", "csv").out)))
    assert rows
    assert all(row["note"] and row["page"].startswith("https://") and not row["way"] for row in rows)


def test_programs_get_every_figure(run: Run) -> None:
    report = json.loads(run("zoo", "published", "-f", "json").out)
    assert report["schema"] == "flopwise.published/1"
    assert len(report["figures"]) == len(data.figures())
    assert report["reproduced"] == sum(figure.reproduced for figure in data.figures())


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--source", "none"), "unknown source 'none'; known: timm"),
        (("--model", "none"), "no figures are published for"),
    ],
)
def test_what_is_not_there(run: Run, args: tuple[str, ...], text: str) -> None:
    code, out, err = run("zoo", "published", *args)
    assert (code, out) == (2, "")
    assert text in err


class TestCheck:
    def test_the_same_today(self, run: Run) -> None:
        pytest.importorskip("torch")
        code, out, err = run("zoo", "published", "--source", "thop", "--model", "squeezenet1_1", "--check")
        if "not installed" in err:
            pytest.skip(err)
        assert (code, err) == (0, "")
        assert "1 reproduced" in out  # its parameters; its operations are explained

    def test_another_count_is_said(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = pytest.importorskip("torch")

        def build(*args: Any) -> Any:
            return torch.nn.Linear(224, 1, device="meta"), (1, 3, 224, 224)

        monkeypatch.setitem(figures.BUILDERS, "torchvision", build)
        code, _, err = run("zoo", "published", "--source", "thop", "--model", "squeezenet1_1", "--check")
        assert code == 1
        assert "thop: squeezenet1_1: recorded 1235496 (params binary), now 225 (not reproduced)" in err

    def test_a_package_that_is_missing(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        figure = replace(data.figures("pycls")[0], build="nothing:at_all")

        def build(*args: Any) -> Any:
            raise ImportError("No module named 'nothing'")

        monkeypatch.setitem(figures.BUILDERS, "nothing", build)
        monkeypatch.setattr(data, "figures", lambda *args: [figure])
        code, _, err = run("zoo", "published", "--model", figure.model, "--check")
        assert code == 2
        assert "not counted: nothing:at_all: nothing is not installed" in err
        assert "nothing could be counted" in err
