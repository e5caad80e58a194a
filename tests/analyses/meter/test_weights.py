"""Weights that are frozen and thawed in a loop."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.meter.program import Program  # noqa: E402
from flopwise.integrations.steps import Steps  # noqa: E402

LAYERS = 60


def model_of(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(layers)))


def test_no_weight_counts_as_trained_without_a_backward_pass() -> None:
    for train in (True, False):
        program = Program(model_of(3), train=train, keeps=False, ignored=(), progress=print)
        assert [bool(one) for one in program.trained()] == [True] * 3 * train


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


@pytest.mark.parametrize("frozen", [slice(5), slice(5, 6)], ids=["most", "one"])
def test_a_long_loop_sees_at_once_what_is_frozen(frozen: slice) -> None:
    model, batches = model_of(6), 90
    whole = step_of(model)
    model[frozen].requires_grad_(False)
    part = step_of(model)
    model.requires_grad_(True)
    meter = flopwise.Meter(model, torch.ones(3, 4), keep=False)
    steps = Steps(meter, skipped=0)
    steps.start()
    with meter:
        loop(model, batches)
        assert steps.figures()["flops"] == whole
        model[frozen].requires_grad_(False)
        loop(model, 1)
        assert steps.figures()["flops"] == part
        model.requires_grad_(True)
        loop(model, 2)
    assert meter.cost is not None
    assert (meter.cost.flops, meter.cost.exact) == ((batches + 2) * whole + part, True)
    assert meter.notes == ()
    steps.stop()
