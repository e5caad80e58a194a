"""Where a model can be read: steps, bounds, ties, and the search for a first point."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import pytest

from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.points import MOST_READS, Explorer
from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Node, Tensor

Rule = Callable[..., bool]


def explorer(rule: Rule, names: str, hints: Mapping[str, int] | None = None) -> Explorer:
    """Of a model of one operator that takes the sizes that the rule allows."""

    def read(point: Mapping[str, int]) -> Graph:
        if not rule(**point):
            raise InputError("the sizes do not fit")
        tensor = Tensor("y", tuple(point.values()), "float32")
        return Graph("g", "test", "", (), (), (Node("Relu", "r", (tensor,), (tensor,)),))

    return Explorer(names.split(), read, hints or {})


@pytest.mark.parametrize(
    ("rule", "names", "conditions"),
    [
        (lambda n, h: True, "n h", []),
        (lambda n, h: h % 32 == 0, "n h", ["h divisible by 32"]),
        (lambda h: h % 24 == 0, "h", ["h divisible by 24"]),
        (lambda h: h % 8 == 1 and h > 8, "h", ["h = 1 + a multiple of 8", "h >= 9"]),
        (lambda n, h: h <= 77, "n h", ["h <= 77"]),
        (lambda h: h >= 75, "h", ["h >= 75"]),
        (lambda n, h: h % 16 == 0 and 64 <= h <= 1024, "n h", ["h divisible by 16", "h >= 64", "h <= 1024"]),
        (lambda n, h: n == 1, "n h", ["n = 1"]),
        (lambda n, h: n == 1 and h % 32 == 0, "n h", ["n = 1", "h divisible by 32"]),
        (lambda b, s, p, t: t == s + p, "b s p t", ["t = p + s"]),
        (lambda h, w: h == w, "h w", ["h = w"]),
        (lambda n, h: 224 <= h < 240, "n h", ["h >= 224", "h <= 239"]),
    ],
)
def test_conditions(rule: Rule, names: str, conditions: list[str]) -> None:
    found = explorer(rule, names)
    found.explore()
    assert [c.partition(" (")[0] for c in found.conditions()] == conditions
    assert len(found.seen) < MOST_READS


def test_a_hint_is_tried_first() -> None:
    found = explorer(lambda n, h: h == 300 or (h > 300 and h % 100 == 0), "n h", {"h": 300})
    with pytest.raises(InputError, match="no other size"):
        explorer(lambda h: h == 300, "h", {"h": 300}).explore()
    found.explore()
    assert found.samples[0].point["h"] == 300


def test_the_reason_is_told() -> None:
    found = explorer(lambda n, h: n == 1, "n h")
    found.explore()
    assert list(found.conditions()) == ["n = 1 (the sizes do not fit)"]


def test_no_size_at_all() -> None:
    with pytest.raises(InputError, match=r"no sizes were found that the model takes; .*--dim \(the sizes do not fit\)"):
        explorer(lambda n, h: False, "n h").explore()


def test_a_damaged_model_is_not_searched() -> None:
    calls = []

    def read(point: Mapping[str, int]) -> Graph:
        calls.append(point)
        raise ModelError("damaged")

    with pytest.raises(ModelError, match="damaged"):
        Explorer(["n"], read).explore()
    assert len(calls) == 2


def test_the_search_ends() -> None:
    turns = iter(range(10**6))
    found = explorer(lambda **sizes: next(turns) % 7 == 3, "a b c d e")
    with contextlib.suppress(InputError):
        found.explore()
    assert len(found.seen) <= MOST_READS


def test_fresh_points_are_taken_and_new() -> None:
    found = explorer(lambda n, h: h % 8 == 0, "n h")
    found.explore()
    before = len(found.samples)
    for wishes in (None, {"h": (3, 4)}, None):
        sample = found.fresh(wishes)
        assert sample is not None
        assert sample.point["h"] % 8 == 0
        assert not wishes or sample.point["h"] // 8 % 4 == 3
    assert len(found.samples) == before + 3
    assert len({tuple(s.point.values()) for s in found.samples}) == before + 3


def test_combinations_that_are_refused_are_named() -> None:
    found = explorer(lambda a, b: a + b != 0 and not (a > 300 and b > 300 and a * b % 2), "a b")
    found.explore()
    for _ in range(12):
        found.fresh()
    assert all(gap["a"] * gap["b"] % 2 for gap in found.gaps)


def test_past_may_be_nothing() -> None:
    found = explorer(lambda seq, past_len: True, "seq past_len")
    found.explore()
    assert {n: d.low for n, d in found.domains.items()} == {"seq": 1, "past_len": 0}


def test_domains() -> None:
    domain = Domain("h", 8, 1, low=9, high=65)
    assert [domain.size(p) for p in (1, 2)] == [9, 17]
    assert domain.place(17) == 2
    assert [s for s in range(80) if domain.holds(s)] == list(range(9, 66, 8))
