"""Layers that words choose, and modules that repeat as one line."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence

import pytest
from tests.report.html.models import transformer

import flopwise
from flopwise.report.commands.profile import render
from flopwise.report.structure import folded, selected


@pytest.fixture(scope="module")
def profile() -> flopwise.Profile:
    return flopwise.profile(transformer(12))


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        (["softmax"], 12),
        (["Softmax", "SOFTMAX"], 12),
        (["attention"], 3 * 12),
        (["softmax", "relu"], 2 * 12),
        (["soft*"], 12),
        (["*"], None),
    ],
)
def test_words_choose_layers(profile: flopwise.Profile, words: Sequence[str], layers: int | None) -> None:
    assert len(selected(profile, words)) == (len(profile.rows) if layers is None else layers)


def test_a_module_is_chosen_by_path_class_and_pattern(profile: flopwise.Profile) -> None:
    third = profile.by("module", 2)
    block = next(group for group in third if group.kind == "Block")
    rows = selected(profile, [block.name])
    assert rows == block.rows
    assert selected(profile, [f"{block.name}*"])[: len(rows)] == rows
    assert len(selected(profile, ["block"])) == 12 * len(rows)


def test_what_fits_nothing_is_refused(profile: flopwise.Profile) -> None:
    with pytest.raises(
        flopwise.InputError, match=r"--only Softmx: fits no layer; did you mean 'softmax'\? known: .*mlp"
    ):
        selected(profile, ["relu", "Softmx"])
    with pytest.raises(flopwise.InputError, match=r"--only convolution: no layer .*; the kinds here: .*attention"):
        selected(profile, ["convolution"])


def test_every_format_says_both_sums(profile: flopwise.Profile) -> None:
    plain = json.loads(render(profile, "json", only=["softmax"]))
    assert plain["totals"]["flops"] == profile.sum.flops
    assert plain["selection"]["only"] == ["softmax"]
    assert plain["selection"]["flops"] == sum(layer["flops"] for layer in plain["layers"]) < profile.sum.flops
    assert flopwise.schema("profile")["properties"].keys() >= plain.keys()
    both = (f"{plain['selection']['flops']:,}", f"{profile.sum.flops:,}", f"12 of {len(profile.rows)} layers")
    for format in ("table", "markdown", "tree", "latex"):
        text = render(profile, format, only=["softmax"])
        assert all(part in text for part in both), format
    lines = list(csv.DictReader(render(profile, "csv", only=["softmax"]).splitlines()))
    assert [line["op"] for line in lines] == ["Softmax"] * 12
    grouped = json.loads(render(profile, "json", by="op", only=["softmax", "relu"]))
    assert {group["name"] for group in grouped["groups"]} == {"Softmax", "Relu"}


def test_repeats_are_one_line_with_the_figures_of_all(profile: flopwise.Profile) -> None:
    lines = folded(profile.graph, profile.rows)
    (repeat,) = [line for line in lines if line.times > 1]
    assert (repeat.sum.name, repeat.times) == ("12 × Block", 12)
    one = lines[lines.index(repeat) + 1].sum
    assert (12 * one.flops, 12 * one.params) == (repeat.sum.flops, repeat.sum.params)
    # what lies in the model itself, and nothing below that, makes the model
    outer = [line.sum for line in lines if line.sum.depth == 1]
    below = sum(group.flops for group in outer)
    own = sum(row.flops or 0 for row in profile.rows if not any(row in group.rows for group in outer))
    assert below + own == lines[0].sum.flops == profile.sum.flops
    text = render(profile, by="module", fold=True)
    assert text.count("Block") == 3  # the line of all, the line of one, the note
    groups = json.loads(render(profile, "json", by="module", fold=True))["groups"]
    assert [group["times"] for group in groups].count(12) == 1
