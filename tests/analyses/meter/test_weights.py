"""Weights that are frozen and thawed in a loop, which looks at a part of them for each batch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.meter.weights import PARTS, WHOLE, Weights  # noqa: E402


def model_of(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(layers)))


def test_a_change_of_many_weights_is_seen_at_once_and_one_of_a_single_weight_soon() -> None:
    model = model_of(WHOLE)
    weights = Weights(model, train=True)
    assert all(weights.are_as_before() for _ in range(2 * PARTS))
    for turn in range(PARTS):  # whichever part is next
        model[:PARTS].requires_grad_(False)
        assert not weights.are_as_before(), turn
        model[:PARTS].requires_grad_(True)
    before = weights.look()
    model[5].requires_grad_(False)
    assert sum(weights.are_as_before() for _ in range(PARTS)) == PARTS - 1
    assert not weights.sees_at_once(before, weights.look())
    model[:PARTS].requires_grad_(False)
    assert not any(Weights(model, train=False).look())


def counted(model: nn.Module, meter: Any, change: Any, batches: int) -> Any:
    """The sum of batches, before the second of which something changes."""
    with meter:
        for number in range(batches):
            if number == 1:
                change()
            model(torch.ones(3, 4, requires_grad=True)).sum().backward()
    return meter.cost


def test_batches_of_a_loop_count_with_the_weights_that_are_frozen_when_they_come() -> None:
    model = model_of(WHOLE)
    meter = flopwise.Meter(model, keep=False)
    batch = torch.ones(3, 4, requires_grad=True)
    whole = meter.step(batch).flops
    cost = counted(model, meter, lambda: model[: WHOLE // 2].requires_grad_(False), 3)
    half = meter.step(batch).flops
    profile = flopwise.profile(model, batch, train=True)
    assert half == profile.total("flops") + profile.total("backward_flops") < whole
    assert cost.flops == whole + 2 * half
    assert not any("frozen" in note for note in meter.notes)


def test_a_change_that_is_seen_late_is_said() -> None:
    model = model_of(WHOLE)
    meter = flopwise.Meter(model, torch.ones(3, 4, requires_grad=True), keep=False)
    counted(model, meter, lambda: model[7].requires_grad_(False), 3)
    (note,) = [note for note in meter.notes if "frozen" in note]
    assert note == f"a few weights were frozen or thawed: up to {PARTS - 1} batches after that count as before it"
