"""One step of each optimizer: its operations against its equations executed, its state against PyTorch's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.operators.oracle import numbers, values
from tests.operators.oracle.number import Number, minus_weighed, pointwise, sqrt, weighed

import flopwise
from flopwise.errors import InputError
from flopwise.graph import Tensor
from flopwise.operators.counts import Counts
from flopwise.profiles.training import OPTIMIZERS

_LR, _MU, _B1, _B2, _EPS, _DECAY = 1e-3, 0.9, 0.9, 0.999, 1e-8, 1e-2


def sgd(w: Any, g: Any, *state: Any) -> tuple[Any, ...]:
    return (pointwise(lambda w, g: minus_weighed(w, g, _LR), w, g),)


def momentum(w: Any, g: Any, m: Any, *rest: Any) -> tuple[Any, ...]:
    m = m * _MU + g
    return pointwise(lambda w, m: minus_weighed(w, m, _LR), w, m), m


def adam(w: Any, g: Any, m: Any, v: Any, step: Any) -> tuple[Any, ...]:
    step = step + 1.0
    rest1 = 1.0 - step.does("pow", _B1**step.value)
    rest2 = 1.0 - step.does("pow", _B2**step.value)
    m = pointwise(lambda m, g: weighed(m, g - m, 1.0 - _B1), m, g)
    v = pointwise(lambda v, g: weighed(v * _B2, g * (1.0 - _B2), g), v, g)
    size, root = -(Number(_LR, step.tally) / rest1), sqrt(rest2)
    denominator = pointwise(lambda v: sqrt(v) / root + _EPS, v)
    return pointwise(lambda w, m, d: weighed(w, m / d, size), w, m, denominator), m, v, step


def adamw(w: Any, g: Any, *state: Any) -> tuple[Any, ...]:
    return adam(w * (1.0 - _LR * _DECAY), g, *state)


STEPS: dict[str, Callable[..., tuple[Any, ...]]] = {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_counts_what_its_equations_execute(name: str) -> None:
    random = np.random.default_rng(0)
    tally: Counter[str] = Counter()
    w, g, m, v = (numbers(random.uniform(0.1, 1.0, (3, 4)), tally) for _ in range(4))
    STEPS[name](w, g, m, v, Number(4.0, tally))
    assert OPTIMIZERS[name].step(Tensor("w", (3, 4), "float32", "weight")) == Counts(**tally)


@pytest.mark.parametrize("name", STEPS)
def test_equations_and_state_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    made = {
        "sgd": lambda w: torch.optim.SGD(w, _LR),
        "momentum": lambda w: torch.optim.SGD(w, _LR, momentum=_MU),
        "adam": lambda w: torch.optim.Adam(w, _LR, (_B1, _B2), _EPS),
        "adamw": lambda w: torch.optim.AdamW(w, _LR, (_B1, _B2), _EPS, _DECAY),
    }
    random = np.random.default_rng(1)
    start = random.uniform(0.1, 1.0, (3, 4))
    weight = torch.nn.Parameter(torch.tensor(start))
    optimizer = made[name]([weight])
    tally: Counter[str] = Counter()
    ours: tuple[Any, ...] = (
        numbers(start, tally),
        *(numbers(np.zeros((3, 4)), tally) for _ in range(2)),
        Number(0.0, tally),
    )
    for _ in range(3):
        gradient = random.normal(size=(3, 4))
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        found = STEPS[name](ours[0], numbers(gradient, tally), *ours[1:])
        ours = (*found, *ours[len(found) :])
    np.testing.assert_allclose(values(ours[0]).astype(float), weight.detach().numpy(), rtol=1e-12)
    held = sum(t.nbytes for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor))
    assert OPTIMIZERS[name].state(Tensor("w", (3, 4), "float64", "weight")) == held


def test_the_whole_model_steps_once_for_each_weight() -> None:
    profile = flopwise.profile("examples/tiny_resnet.onnx", train=True, optimizer="adamw")
    training = profile.training
    assert training is not None
    assert training.update is not None
    assert training.update.mul == 6 * profile.total("params")
    assert training.state_bytes == 2 * training.gradient_bytes + 4 * len(training.weights)
    assert training.memory_bytes == (
        training.weight_bytes + training.gradient_bytes + training.state_bytes + training.saved_bytes
    )


def test_an_unknown_optimizer_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="unknown optimizer 'adagrad'; known: sgd, momentum, adam, adamw"):
        flopwise.profile("examples/tiny_resnet.onnx", train=True, optimizer="adagrad")
    with pytest.raises(InputError, match="train=True"):
        flopwise.profile("examples/tiny_resnet.onnx", optimizer="adam")
