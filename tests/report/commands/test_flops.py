"""The class table: labels and totals of a convention, and how the total comes about."""

from __future__ import annotations

import json

import pytest
from tests.report.graphs import THREE, conv_net, mystery, profiled

from flopwise.conventions import CONVENTIONS
from flopwise.operators.counts import CLASSES
from flopwise.report.commands.flops import classes_of, classes_report, formula
from flopwise.report.report import as_text

BENANZA = ["multiply_adds", "additions", "divisions", "exponentiations", "comparisons", "general", "total"]


def test_benanza_has_its_own_keys() -> None:
    profile = profiled(conv_net("MaxPool"), "benanza")
    content = json.loads(as_text(classes_report(profile, full=True), "json"))
    assert list(content) == ["schema", "model", "inputs", "convention", *BENANZA, "coverage", "notes", "layers"]
    assert list(content["layers"][0]) == ["name", "type", *BENANZA]
    assert content["total"] == profile.sum.count


@pytest.mark.parametrize("name", CONVENTIONS)
def test_rows_add_up_to_the_totals(name: str) -> None:
    profile = profiled(conv_net(), name)
    content = json.loads(as_text(classes_report(profile, full=True), "json"))
    for label in (*classes_of(profile), "total"):
        assert sum(layer[label] or 0 for layer in content["layers"]) == content[label]
    assert content["total"] == profile.sum.count
    assert content["coverage"]["unknown"] == {"acme::Mystery": 1}


def test_a_model_of_unknown_operators_only_has_no_figures() -> None:
    from dataclasses import replace

    whole = mystery()
    lost = replace(whole, rows=whole.rows[3:4])
    content = json.loads(as_text(classes_report(lost), "json"))
    assert {content[label] for label in (*CLASSES, "total")} == {None}
    assert as_text(classes_report(lost)).count("?") == len(CLASSES) + 1


@pytest.mark.parametrize(
    ("convention", "told"),
    [
        ("macs", "total = mac"),
        ("flops", "total = 2 mac + add + mul + div + cmp + exp + log + pow + sqrt + trig + tanh + erf"),
        (
            "benanza",
            "total = 2 multiply_adds + additions + divisions + exponentiations + comparisons + general",
        ),
        (THREE, "total = 2 products + sums + rest"),
    ],
)
def test_formula(convention: object, told: str) -> None:
    assert formula(profiled(conv_net(), convention)) == told  # type: ignore[arg-type]


def test_no_formula_where_the_classes_do_not_add_up() -> None:
    from dataclasses import replace

    from flopwise.conventions.convention import Display
    from flopwise.operators.counts import Counts

    mixed = replace(THREE, display=Display(classes={"all": Counts(**dict.fromkeys(CLASSES, 1))}))
    partial = replace(THREE, display=Display(classes={"products": Counts(mac=1)}))
    assert formula(profiled(conv_net(), mixed)) == formula(profiled(conv_net(), partial)) == ""
