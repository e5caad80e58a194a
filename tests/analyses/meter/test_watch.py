"""Calls that are no batches of a loop, batches that cannot be counted, and copies of a model that is watched."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - needs torch
from torch.utils.checkpoint import checkpoint  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.meter.watch import Watch  # noqa: E402


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def cost(batch: int) -> int:
    """FLOPs of a step of the network: products with their biases, a comparison and its gradient for each hidden one."""
    profile = flopwise.profile(network(), torch.rand(batch, 8), train=True)
    total: int = profile.total("flops") + profile.total("backward_flops")
    return total


def test_meters_of_one_model_and_of_a_part_of_it_do_not_count_each_other() -> None:
    model = network()
    first, second, part = (flopwise.Meter(one, keep=False) for one in (model, model, model[2]))
    with first, second, part:
        for size in (3, 7):
            model(torch.rand(size, 8)).sum().backward()
    assert first.cost is not None
    assert part.cost is not None
    assert first.cost == second.cost
    assert (first.cost.flops, first.cost.batches, part.cost.batches) == (cost(3) + cost(7), 2, 2)


def test_many_calls_add_up_and_can_be_read_in_between() -> None:
    model = network()
    meter = flopwise.Meter(model, torch.rand(3, 8), keep=False)
    with meter:
        for number in range(2500):
            model(torch.rand(3 + number % 2, 8))
            if number == 9:
                assert meter.cost is not None
                assert (meter.cost.flops, meter.cost.batches) == (5 * (cost(3) + cost(4)), 10)
    assert meter.cost is not None
    assert (meter.cost.flops, meter.cost.batches) == (1250 * (cost(3) + cost(4)), 2500)


def test_the_model_s_own_error_comes_and_other_batches_count() -> None:
    model = network()
    meter = flopwise.Meter(model, torch.rand(3, 8), keep=False)
    with meter:
        model(torch.rand(3, 8)).sum().backward()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="mat1 and mat2"):
                model(torch.rand(3, 9))
    assert meter.cost is not None
    assert (meter.cost.flops, meter.cost.batches, meter.cost.exact) == (cost(3), 1, False)
    assert meter.notes[-1].startswith("not counted: Sequential: in 0 (Linear), given 3×9: RuntimeError")
    with meter:
        model(torch.rand(3, 8))
    assert meter.cost.exact
    with pytest.raises(flopwise.ModelError, match="given 3×9"):
        meter.step(torch.rand(3, 9))


def test_a_checkpoint_around_the_model_makes_no_second_batch() -> None:
    model, before = network(), nn.Linear(8, 8)
    meter = flopwise.Meter(model, keep=False)
    with meter:
        for reentrant in (False, True):
            result: Any = checkpoint(model, before(torch.rand(3, 8)), use_reentrant=reentrant)
            result.sum().backward()
    assert meter.cost is not None
    assert meter.cost.batches == 2


def test_a_model_that_is_watched_is_copied_and_saved_without_the_meter() -> None:
    model, file = network(), io.BytesIO()
    meter = flopwise.Meter(model, torch.rand(3, 8), keep=False)
    with meter:
        torch.save(model, file)
        file.seek(0)
        for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
            assert other(torch.rand(3, 8)).shape == (3, 4)
    assert meter.cost is None
    assert meter.notes == ("no call of the model was seen: give the meter what torch.compile returned, if it did",)


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any, depth: int = 2) -> Any:
        x = self.layer(x)
        return self(x, depth - 1) if depth else x


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("example", [None, torch.rand(5, 4)], ids=["without an example", "with one"])
def test_calls_that_a_model_makes_of_itself_are_part_of_its_call(example: Any, compiled: bool) -> None:
    model = Recursive()
    if compiled:
        model.compile(backend="eager")
    meter = flopwise.Meter(model, example, keep=False)
    with meter:
        for batch in (3, 2, 3):
            model(torch.rand(batch, 4)).sum().backward()
        with pytest.raises(RuntimeError, match=r"mat1 and mat2|size"):
            model(torch.rand(3, 5))
        model(torch.rand(2, 4))
    assert meter.cost is not None
    assert meter.cost.batches == 4
    assert meter.cost.forward_flops == (3 + 2 + 3 + 2) * 3 * 4 * (2 * 4 + 1)
    assert not model._forward_pre_hooks
    assert not model._forward_hooks


def test_a_compiled_model_that_calls_a_watched_one_compiles_no_code_of_the_meter() -> None:
    inner, compiled = network(), nn.Sequential(nn.Linear(8, 8))
    compiled.append(inner)
    compiled.compile(backend="eager")
    with flopwise.Meter(inner, torch.rand(3, 8), keep=False) as meter:
        for batch in (3, 2):
            compiled(torch.rand(batch, 8)).sum().backward()
        assert torch._dynamo.trace_rules.check(Watch.count)
    assert meter.cost is not None
    assert meter.cost.batches == 2
