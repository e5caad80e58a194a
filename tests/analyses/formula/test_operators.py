"""Formulas of PyTorch's modules and functions, one at a time, beside profiles at small sizes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import flopwise

pytest.importorskip("torch")

from tests.analyses.formula.operators import operators

OPERATORS = operators()

#: Those that PyTorch runs step by step even without elements, of which one is enough here.
SLOW = {n for n in OPERATORS if n.startswith(("RNN", "LSTM", "GRU")) and "Cell" not in n} - {"GRU unbatched"}

#: Some of those of which each figure has a formula.
WHOLE = ("einsum self", "interpolate recomputed", "interpolate recomputed third", "diff", "GRU unbatched")


def profile_at(name: str, point: Mapping[str, int]) -> Any:
    """The profile at a point; None where the model does not take it."""
    build, shapes = OPERATORS[name]
    inputs: Any = {key: tuple(point.get(str(d), d) for d in shape) for key, shape in shapes.items()}
    try:
        return flopwise.profile(build().eval(), inputs)
    except flopwise.FlopwiseError:
        return None


@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - SLOW))
def test_values_are_those_of_profiles(name: str) -> None:
    build, shapes = OPERATORS[name]
    formula = flopwise.formula(build().eval(), dict(shapes))
    chance = random.Random(name)
    for _ in range(5):
        point = {d.name: d.size(d.place(d.low) + chance.choice((0, 1, 2, 4, 7, 15))) for d in formula.domains}
        profile = profile_at(name, point)
        if profile is None:
            continue
        try:
            totals = formula.at(**point)
            values = {**totals, "peak_activation_bytes": formula.value("peak_activation_bytes", **point)}
        except flopwise.FlopwiseError:
            continue
        for figure, value in values.items():
            expected = profile.peak_activation_bytes if figure.startswith("peak") else getattr(profile.sum, figure)
            assert value == expected or figure in totals.lower_bounds, (point, figure)


@pytest.mark.parametrize("name", WHOLE)
def test_every_figure_has_a_formula(name: str) -> None:
    build, shapes = OPERATORS[name]
    formula = flopwise.formula(build().eval(), dict(shapes))
    assert formula.exact
    assert formula.everywhere


def test_a_product_that_changes_its_order_with_the_length_says_from_where_its_formula_holds() -> None:
    build, shapes = OPERATORS["chain_matmul"]
    formula = flopwise.formula(build().eval(), dict(shapes))
    assert [d.low for d in formula.domains] == [8]
    assert formula.at(T=4)["macs"] == profile_at("chain_matmul", {"T": 4}).total("macs")


def test_a_peak_of_sizes_that_were_fitted_is_that_of_the_profile() -> None:
    build, shapes = OPERATORS["unique"]
    formula = flopwise.formula(build().eval(), dict(shapes))
    point = {"N": 2, "T": 5}
    assert formula.value("peak_activation_bytes", **point) == profile_at("unique", point).peak_activation_bytes


def test_a_transform_without_a_formula_says_why() -> None:
    build, shapes = OPERATORS["fft"]
    formula = flopwise.formula(build().eval(), dict(shapes))
    assert not formula.exact
    assert any("follows from the prime factors" in note for note in formula.notes)
