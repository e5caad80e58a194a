"""Points written as texts."""

from __future__ import annotations

import pytest

from flopwise.analyses.formula.extras.solve import grid
from flopwise.errors import InputError


@pytest.mark.parametrize(
    ("texts", "points"),
    [
        (["n=1"], [{"n": 1}]),
        (["n=1,4 s=2:6:2"], [{"n": n, "s": s} for n in (1, 4) for s in (2, 4, 6)]),
        (["n=1,4", "s=2:6:2"], [{"n": n, "s": s} for n in (1, 4) for s in (2, 4, 6)]),
        (["s=2:7:2"], [{"s": 2}, {"s": 4}, {"s": 6}]),
        (["s=2:4,9,3"], [{"s": 2}, {"s": 3}, {"s": 4}, {"s": 9}]),
        (["a=b=1"], [{"a=b": 1}]),
        ([], [{}]),
    ],
)
def test_grid(texts: list[str], points: list[dict[str, int]]) -> None:
    assert list(grid(texts)) == points


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n", "cannot understand 'n'; write NAME=VALUES"),
        ("=3", "cannot understand '=3'"),
        ("n=", "cannot understand 'n='"),
        ("n=-1", "cannot understand"),
        ("n=x", "cannot understand"),
        ("n=1:2:3:4", "cannot understand"),
        ("n=4:2", "the range '4:2' in 'n=4:2' is empty"),
        ("n=1:4:0", "is empty"),
        ("n=1 n=2", "n is given twice"),
        ("n=1:1000000000000", "more than 100,000 points"),
        ("a=1:1000 b=1:1000", "more than 100,000 points"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        grid([text])
