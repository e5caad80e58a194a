"""``flopwise advise``: its formats, its rules, and what it refuses."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Run
from tests.docs.blocks import ROOT

from flopwise.analyses.advice.rules import rules

MODEL = str(ROOT / "examples" / "tiny_resnet.onnx")


def test_formats(run: Run) -> None:
    content = json.loads(run("advise", MODEL, "--device", "h100", "-f", "json").out)
    assert content["schema"] == "flopwise.advice/1"
    first = next(each for each in content["advice"] if each["rule"] == "batch-norm")
    assert first["kind"] == "same"
    assert 0 < first["time_share"] < 1
    assert first["layers"] == ["/stem/conv/Conv", "/stem/norm/BatchNormalization"]
    lines = run("advise", MODEL, "--device", "h100", "-f", "csv").out.splitlines()
    assert len(lines) == 1 + len({each["rule"] for each in content["advice"]})
    places = run("advise", MODEL, "--device", "h100", "--by", "place", "-f", "csv").out.splitlines()
    assert len(places) == 1 + len(content["advice"])


def test_nothing_where_the_engine_does_it(run: Run) -> None:
    assert "batch-norm" not in run("advise", MODEL, "--level", "all").out
    assert "batch-norm" in run("advise", MODEL, "--level", "off").out


def test_rules_are_listed(run: Run) -> None:
    out = run("advise", "--rules").out
    assert all(rule.name in out and rule.source in out for rule in rules())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give a MODEL"),
        ((MODEL, "--rules"), "leave MODEL out"),
        ((MODEL, "--threads", "2"), "needs a device"),
        ((MODEL, "--show", "500"), "places (--by place)"),
        ((MODEL, "--level", "most"), "unknown level 'most'"),
    ],
)
def test_refusals(run: Run, arguments: tuple[str, ...], text: str) -> None:
    code, _, err = run("advise", *arguments)
    assert code == 2
    assert text in err
