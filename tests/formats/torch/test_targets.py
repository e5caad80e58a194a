"""Arithmetic on sizes in an exported program: its limits hold at their ends, and it takes numbers alone."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.errors import ModelError
from flopwise.formats.torch.exported import MOST_POWER, function

#: The least number that no size has.
BEYOND = 1 << 63


@pytest.mark.parametrize("exponent", [MOST_POWER, -MOST_POWER])
def test_an_exponent_is_at_most_64_either_way(exponent: int) -> None:
    power = function("_operator.pow")
    assert power(1, exponent) == 1
    further = exponent + (1 if exponent > 0 else -1)
    with pytest.raises(ModelError, match=f"raises a size to the power {further}"):
        power(1, further)


def test_a_large_exponent_is_refused_before_it_is_computed() -> None:
    with pytest.raises(ModelError, match="to the power 10000000000000"):
        function("operator.pow")(3, 10**13)


@pytest.mark.parametrize(
    ("target", "operands"),
    [
        ("_operator.add", (BEYOND - 1, 1)),
        ("_operator.mul", (1 << 31, 1 << 32)),
        ("_operator.mul", (-(1 << 31), 1 << 32)),
        ("_operator.pow", (2, 63)),
        ("operator.neg", (BEYOND,)),
    ],
)
def test_a_size_of_2_to_the_63_is_refused(target: str, operands: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"computes a size beyond 2\^63"):
        function(target)(*operands)


@pytest.mark.parametrize(
    ("target", "operands", "size"),
    [
        ("_operator.add", (BEYOND - 2, 1), BEYOND - 1),
        ("_operator.sub", (2 - BEYOND, 1), 1 - BEYOND),
        ("_operator.pow", (2, 62), 1 << 62),
    ],
)
def test_the_largest_sizes_are_computed(target: str, operands: tuple[int, ...], size: int) -> None:
    assert function(target)(*operands) == size


@pytest.mark.parametrize("operands", [([0], 1 << 40), ("a", 1 << 40), (1 << 40, None)])
def test_what_is_no_number_is_not_computed_with(operands: tuple[Any, Any]) -> None:
    with pytest.raises(ModelError, match="arithmetic on what is neither a number nor a tensor"):
        function("_operator.mul")(*operands)
