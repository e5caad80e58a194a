"""Domains from guards."""

from __future__ import annotations

import pytest

from flopwise.analyses.formula.conditions import Conditions, Guard, scales
from flopwise.analyses.formula.terms import Polynomial, Term, symbol

H, W, N = symbol("H"), symbol("W"), symbol("N")


def guard(expression: Term, relation: str) -> Guard:
    assert isinstance(expression, Polynomial)
    return Guard(expression, relation)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expressions", "hint", "steps", "tied"),
    [
        ([], {"H": 5, "W": 7}, {}, {}),
        ([H - 2 * (H // 2)], {"H": 8, "W": 7}, {"H": (2, 0)}, {}),
        ([H // 2 - 2 * (H // 4), H - 2 * (H // 2)], {"H": 8, "W": 7}, {"H": (4, 0)}, {}),
        ([H - 2 * (H // 2) - 1], {"H": 9, "W": 7}, {"H": (2, 1)}, {}),
        ([H - 3 * (H // 3), W - 2 * (W // 2)], {"H": 9, "W": 8}, {"H": (3, 0), "W": (2, 0)}, {}),
        ([H - W], {"H": 9, "W": 9}, {}, {"W": H}),
        ([3 * H - 3 * W - 6], {"H": 9, "W": 7}, {}, {"W": H - 2}),
        ([H * N - W * N], {"H": 9, "W": 9, "N": 2}, {}, {"W": H}),
        ([16 * N - 16], {"N": 1, "H": 3}, {}, {}),
    ],
)
def test_scales(
    expressions: list[Polynomial], hint: dict[str, int], steps: dict[str, tuple[int, int]], tied: dict[str, Term]
) -> None:
    found = scales(list(hint), [guard(e, "==") for e in expressions], hint)
    assert found.steps == steps
    assert found.tied == tied


@pytest.mark.parametrize(
    ("guards", "low", "high"),
    [
        ([], 0, None),
        ([guard(H - 3, ">=")], 3, None),
        ([guard(148 - H, ">=")], 0, 148),
        ([guard(H - 1, "!=")], 2, None),
        ([guard(H - 100, "==")], 100, 100),
        ([guard(1000 - H, ">="), guard(H // 2 - 4, ">=")], 8, 1000),
        ([guard(H - W, ">=")], 0, None),
    ],
)
def test_bounds(guards: list[Guard], low: int, high: int | None) -> None:
    conditions = Conditions.of(dict.fromkeys(guards, "Conv 'x'"))
    domain, why = conditions.domain("H", (1, 0), {"H": 100, "W": 60})
    assert (domain.low, domain.high) == (low, high)
    assert why == ("Conv 'x'" if low or high else "")
