"""Weights that are frozen and thawed in a loop."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.meter.weights import Weights  # noqa: E402

LAYERS = 60


def model_of(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(layers)))


def test_no_weight_counts_as_trained_without_a_backward_pass() -> None:
    assert all(Weights(model_of(3), train=True).look())
    assert not any(Weights(model_of(3), train=False).look())


def counted(model: nn.Module, meter: Any, change: Any, batches: int) -> Any:
    """The sum of batches, before the second of which something changes."""
    with meter:
        for number in range(batches):
            if number == 1:
                change()
            model(torch.ones(3, 4, requires_grad=True)).sum().backward()
    return meter.cost


@pytest.mark.parametrize("layers", [slice(LAYERS // 2), slice(7, 8)], ids=["half", "one"])
def test_batches_of_a_loop_count_with_the_weights_that_are_frozen_when_they_come(layers: slice) -> None:
    model = model_of(LAYERS)
    meter = flopwise.Meter(model, keep=False)
    batch = torch.ones(3, 4, requires_grad=True)
    whole = meter.step(batch).flops
    cost = counted(model, meter, lambda: model[layers].requires_grad_(False), 3)
    less = meter.step(batch).flops
    profile = flopwise.profile(model, batch, train=True)
    assert less == profile.total("flops") + profile.total("backward_flops") < whole
    assert cost.flops == whole + 2 * less
