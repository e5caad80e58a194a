"""What the elements of masks and positions say, beside their definition in plain Python."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import flopwise  # noqa: E402 - after the check that torch is there
from flopwise.analyses.meter.batch import said_by  # noqa: E402 - needs torch
from flopwise.analyses.meter.cost import FIGURES, cost_of  # noqa: E402
from flopwise.analyses.meter.costs import Costs  # noqa: E402
from flopwise.analyses.meter.program import Program  # noqa: E402


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


class Anything(torch.nn.Module):
    def forward(self, x: Any = None, y: Any = None, z: Any = None, **others: Any) -> Any:
        return x


def test_a_batch_is_counted_again_where_its_cost_may_be_another() -> None:
    costs = Costs(Program(Anything(), train=True, keeps=False, ignored=("step",), progress=print))
    empty = cost_of(dict.fromkeys(FIGURES, 0), None, 1, "profile", exact=True)
    numbers = itertools.count()
    costs._counter.cost = lambda batch: replace(empty, samples=next(numbers))  # type: ignore[method-assign]

    def cost(*args: Any, **kwargs: Any) -> int:
        """The number of the first batch that counts as this one."""
        assert costs.of(args, kwargs) is costs.of(args, kwargs)
        return costs.of(args, kwargs).samples

    x, w = torch.ones(2, 3), torch.ones(2, 3)
    assert cost(x, step=1) == cost(torch.zeros(2, 3), step=2)
    assert cost(x, step=1, z=1) != cost(x, step=1, z=2)
    others = [cost(x.t()), cost(x.double()), cost(x.clone().requires_grad_()), cost(y=x), cost(x, x), cost(x, scale=1)]
    assert len({cost(x), *others}) == 1 + len(others)
    assert len({cost(x, w), cost(x, x)}) == 2
    assert len({cost(x, x, w), cost(x, w, w), cost(x, w, x)}) == 3
    mask, padded = torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool).tril()
    assert cost(x, mask=mask) == cost(x, mask=mask.clone()) != cost(x, mask=padded)
    assert cost(x, mask=mask.logical_and_(padded)) == cost(x, mask=padded)
    assert cost([x, {"a": x}]) == cost([x, {"a": x + 1}]) != cost([x, {"a": x[0]}])


class Pair(NamedTuple):
    """A batch of a program's own."""

    x: Any
    y: Any


@dataclass(slots=True)
class Slotted:
    x: Any
    y: Any


class Takes(torch.nn.Module):
    """One object, or a tensor and Python values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, bias=False)

    def forward(self, pair: Any, times: Any = (), mode: Any = None) -> Any:
        assert mode in (None, "loss")
        for x in (pair.x, pair.y) if hasattr(pair, "x") else [pair] * len(times):
            x = self.layer(x)
        return x


def test_python_values_and_objects_of_a_batch_are_what_they_are() -> None:
    meter = flopwise.Meter(Takes(), train=False, keep=False)
    for rows in (2, 3):
        x = torch.zeros(rows, 4)
        for batch in (Pair(x, x), (Pair(x, x),), Slotted(x, x), {"pair": Slotted(x, x)}):
            assert meter.step(batch).macs == 2 * rows * 16
        for times in ([5, 3, 1], (7, 2)):
            for call in ((x, times, "loss"), {"pair": x, "times": times}, ([x], {"times": times, "mode": "loss"})):
                assert meter.step(call).macs == len(times) * rows * 16
