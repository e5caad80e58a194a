"""``flopwise advise``: its formats, its rules, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.docs.blocks import ROOT

from flopwise.analyses.advice.rules import RULES

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
    untimed = csv.DictReader(io.StringIO(run("advise", MODEL, "-f", "csv").out))
    assert {line["time_ns"] for line in untimed} == {""}


def test_what_the_exporter_met_is_said_and_not_its_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    def export(*arguments: object, **named: object) -> None:
        raise RuntimeError("\x1b[96mThis is step 1/3\x1b[0m of exporting") from ValueError("a cache is no tensor")

    monkeypatch.setattr(torch.onnx, "export", export)
    code, _, err = run(
        "advise", "torch.nn:Linear", "--arg", "in_features=8", "--arg", "out_features=8", "-i", "1x8", "--level", "all"
    )
    assert code == 2
    assert "cannot export the module to ONNX: a cache is no tensor" in err


def test_nothing_where_the_engine_does_it(run: Run) -> None:
    assert "batch-norm" not in run("advise", MODEL, "--level", "all").out
    assert "batch-norm" in run("advise", MODEL, "--level", "off").out


def test_threads_are_of_a_cpu(run: Run) -> None:
    assert "1 thread" in run("advise", MODEL, "--level", "basic").out
    assert "thread" not in run("advise", MODEL, "--level", "basic", "--device", "h100").out.splitlines()[0]


def test_rules_are_listed(run: Run) -> None:
    out = run("advise", "--rules").out
    assert all(rule.name in out and rule.source in out for rule in RULES)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give a MODEL"),
        ((MODEL, "--rules"), "leave MODEL out"),
        ((MODEL, "--threads", "2"), "needs a device"),
        ((MODEL, "--show", "500"), "places (--by place)"),
        ((MODEL, "--dtype", "fp16", "--level", "all"), "in its own element types"),
        ((MODEL, "--level", "most"), "unknown level 'most'"),
    ],
)
def test_refusals(run: Run, arguments: tuple[str, ...], text: str) -> None:
    code, _, err = run("advise", *arguments)
    assert code == 2
    assert text in err


OWN = """
from flopwise.analyses.advice.rule import Change, Rule

def find(subject):
    for position, node in subject.live("Relu"):
        {}

RULE = Rule(name="{}", about="", exactness="{}", source="", find=find)
"""


@pytest.mark.parametrize(
    ("line", "name", "exactness", "text"),
    [
        ("raise KeyError('boom')", "own", "same", "rule.py: the rule own failed with KeyError: 'boom' (rule.py:6)"),
        ("raise SystemExit(3)", "own", "same", "rule.py: ended itself with SystemExit(3)"),
        ("yield 3", "own", "same", "the rule own found 3, which is no Change"),
        ("yield Change((position + 1000,), '')", "own", "same", "the rule own found operator 10"),
        ("yield Change((position,), '')", "own", "sme", "neither 'same' nor 'other'"),
        ("yield Change((position,), '')", "layout", "same", "two rules layout: give yours a name of its own"),
    ],
)
def test_a_wrong_rule_of_the_user(run: Run, tmp_path: Path, line: str, name: str, exactness: str, text: str) -> None:
    path = tmp_path / "rule.py"
    path.write_text(OWN.format(line, name, exactness))
    code, _, err = run("advise", MODEL, "--rule", str(path))
    assert code == 2
    assert text in err
    assert err.count("\n") == 1
