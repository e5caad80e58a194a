"""Weights that are frozen and thawed in a loop."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.meter.weights import FIRST, Weights  # noqa: E402
from flopwise.integrations.steps import Steps  # noqa: E402

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


def loop(model: nn.Module, batches: int) -> None:
    for _ in range(batches):
        model(torch.ones(3, 4))


def step_of(model: nn.Module) -> int:
    """FLOPs of a step with the weights that are trained now."""
    profile = flopwise.profile(model, torch.ones(3, 4), train=True)
    flops: int = profile.total("flops") + profile.total("backward_flops")
    return flops


def test_a_long_loop_sees_at_once_that_a_model_is_frozen() -> None:
    model = model_of(6)
    whole = step_of(model)
    model[:5].requires_grad_(False)
    part = step_of(model)
    model.requires_grad_(True)
    meter = flopwise.Meter(model, torch.ones(3, 4), keep=False)
    with meter:
        loop(model, FIRST + 20)
        model[:5].requires_grad_(False)
        loop(model, 1)
        model.requires_grad_(True)
        loop(model, 2)
    assert meter.cost is not None
    assert (meter.cost.flops, meter.cost.exact) == ((FIRST + 22) * whole + part, True)
    assert meter.notes == ()


def test_a_long_loop_that_sees_late_what_is_frozen_says_so_and_goes_on() -> None:
    model = model_of(6)
    meter = flopwise.Meter(model, torch.ones(3, 4), keep=False)
    steps = Steps(meter, skipped=0)
    steps.start()
    loop(model, FIRST + 1)
    assert steps.figures()["flops"] == step_of(model)
    model[5].requires_grad_(False)
    loop(model, 1)  # which looks at another weight
    assert steps.figures() == {}
    assert meter.notes[0].startswith("a few weights were frozen or thawed")
    loop(model, 3)
    assert steps.figures()["flops"] == step_of(model)
    with meter:
        loop(model, FIRST + 1)
        model[5].requires_grad_(True)
        loop(model, 1)
    assert meter.cost is not None
    assert not meter.cost.exact
    steps.stop()
