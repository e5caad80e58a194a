"""Bytes of weights that a step touches: of tables the rows, of experts those with tokens, of all else everything."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.graphs import Sketch, sketch

from flopwise.analyses.llm.step import CountedCall, WeightTraffic
from flopwise.conventions import CONVENTIONS
from flopwise.profiles.count import profile_graph


def traffic(made: Sketch, tokens: int, widths: dict[str, Fraction] | None = None) -> WeightTraffic:
    return CountedCall(profile_graph(made.graph(), CONVENTIONS["flops"]), 1, 0, tokens, widths or {}).step().weights


def looked_up(tokens: int) -> Sketch:
    """Rows of a table of 10 × 4 numbers."""
    made = sketch({"x": (tokens,), "table": (10, 4), "y": (tokens, 4)}, x="input", table="weight")
    made.node("Gather", "table x", "y")
    return made


@pytest.mark.parametrize(("tokens", "rows"), [(1, 1), (3, 3), (10, 10), (11, 10), (50, 10)])
def test_of_a_table_no_more_rows_are_touched_than_tokens_look_up(tokens: int, rows: int) -> None:
    found = traffic(looked_up(tokens), tokens)
    assert found.most == found.expected == found.least == rows * 4 * 4
    assert found.active == 10 * 4


def test_a_table_that_is_multiplied_too_is_touched_whole() -> None:
    made = looked_up(3)
    made.tensor("h", (3, 4))
    made.tensor("z", (10, 3))
    made.node("MatMul", "table y", "z")
    assert traffic(made, 3).most == 10 * 4 * 4


def test_weights_are_as_wide_as_they_are_stored() -> None:
    found = traffic(looked_up(3), 3, {"table": Fraction(1, 2), "other": Fraction(9)})
    assert found.most == 3 * 4 // 2


def test_statistics_are_touched_and_not_active() -> None:
    made = sketch({"x": (3, 4), "w": (4, 4), "mean": (4,), "a": (3, 4), "y": (3, 4)}, x="input", w="weight")
    made.tensor("mean", (4,), "buffer")
    made.node("MatMul", "x w", "a")
    made.node("Sub", "a mean", "y")
    found = traffic(made, 3)
    assert (found.most, found.active) == (4 * 4 * 4 + 4 * 4, 4 * 4)


def experts(rows: int) -> Sketch:
    """Rows of tokens that are routed to 8 experts of 4 × 6 numbers."""
    made = sketch({"x": (rows, 4), "w": (8, 4, 6), "y": (rows, 6)}, x="input", w="weight")
    made.node("aten::_grouped_mm", "x w", "y", "experts")
    return made


@pytest.mark.parametrize(
    ("rows", "tokens", "most", "expected", "least"),
    [
        (2, 1, 2, Fraction(2), Fraction(2)),
        (6, 3, 6, 8 * (1 - Fraction(3, 4) ** 3), Fraction(2)),
        (20, 10, 8, 8 * (1 - Fraction(3, 4) ** 10), Fraction(2)),
        (8, 1, 8, Fraction(8), Fraction(8)),
    ],
)
def test_of_experts_those_with_tokens_are_touched(
    rows: int, tokens: int, most: int, expected: Fraction, least: Fraction
) -> None:
    found, each = traffic(experts(rows), tokens), 4 * 6 * 4
    assert (found.most, found.expected, found.least) == (most * each, round(expected * each), least * each)
    assert found.active == least * 4 * 6
    assert [(one.matrices, one.rows) for one in found.experts] == [(8, rows)]
