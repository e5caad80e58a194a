"""What the elements of masks and positions say, beside their definition in plain Python."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flopwise.analyses.meter.batch import Keys, said_by  # noqa: E402 - needs torch


def rows_of(tensor: Any) -> list[list[int]]:
    return tensor.reshape(-1, tensor.shape[-1]).tolist()  # type: ignore[no-any-return]


def test_holes_of_masks_and_steps_of_positions() -> None:
    chance = random.Random(0)
    facts = set()
    for _ in range(300):
        shape = [chance.randint(1, 4) for _ in range(chance.randint(0, 2))] + [chance.randint(1, 9)]
        dtype = chance.choice([torch.bool, torch.uint8, torch.int32, torch.int64])
        mask = torch.randint(chance.choice([0, 1]), 3, shape).to(dtype)
        if dtype is torch.int64 and chance.randrange(2):
            mask = -mask
        holes = any(value == 0 for row in rows_of(mask) for value in row)
        assert said_by("attention_mask", mask) == holes
        places = torch.arange(shape[-1]).expand(shape) % chance.choice([3, 99]) + chance.choice([0, 5])
        several = any(b - a != 1 for row in rows_of(places) for a, b in itertools.pairwise(row))
        assert said_by("position_ids", places) == several
        facts |= {("holes", holes), ("several", several)}
    assert len(facts) == 4
    assert said_by("cu_seqlens", torch.tensor([0, 3, 7])) == (3, 4)


def test_what_says_nothing_is_no_fact() -> None:
    assert said_by("attention_mask", torch.ones(2, 3)) is None  # added to scores: no mask of places
    assert said_by("attention_mask", torch.ones(2, 3, dtype=torch.int64, device="meta")) is None
    assert said_by("position_ids", torch.tensor(True)) is False


def test_keys_differ_where_costs_may() -> None:
    keys = Keys(("x", "y"), frozenset(["step"]))

    def key(*args: Any, **kwargs: Any) -> Any:
        return keys(args, kwargs)

    x = torch.ones(2, 3)
    assert key(x, step=1) == key(torch.zeros(2, 3), step=2)
    others = [key(x.t()), key(x.double()), key(x.clone().requires_grad_()), key(y=x), key(x, x), key(x, scale=1)]
    assert len({key(x), *others}) == 1 + len(others)
    mask = torch.ones(2, 3, dtype=torch.bool)
    assert key(x, mask=mask) != key(x, mask=mask.tril())
    assert key([x, {"a": x}]) == key([x, {"a": x + 1}]) != key([x, {"a": x[0]}])
