"""Forms in which a caller may hand over a model, its inputs and a batch size, and modes that are on meanwhile."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.errors import InputError  # noqa: E402

LAYER = nn.Linear(4, 5)


def by_layer(x: Any, times: int = 1) -> Any:
    """A function that finds its layer among the names around it."""
    for _ in range(times):
        y = LAYER(x)
    return y


@pytest.mark.parametrize(
    ("function", "macs", "params"),
    [
        (by_layer, 60, 25),
        (functools.partial(by_layer, times=2), 120, 25),
        (LAYER.forward, 60, 25),
        (lambda x: x @ x.mT, 36, 0),
        (torch.square, 0, 0),
    ],
    ids=["function", "partial", "method", "lambda", "builtin"],
)
def test_functions(function: Any, macs: int, params: int) -> None:
    LAYER.train()
    profile = flopwise.profile(function, (3, 4))
    assert (profile.total("macs"), profile.total("params"), profile.exact) == (macs, params, True)
    assert LAYER.training


@pytest.mark.parametrize(
    "size", [[3, 4], (numpy.int64(3), 4), [[3, 4]], {"input": [3, numpy.int32(4)]}, torch.Size([3, 4])]
)
def test_shapes(size: Any) -> None:
    assert flopwise.profile(LAYER, size).total("macs") == 60


def test_batch_sizes() -> None:
    for size in (6, numpy.int64(6), numpy.uint8(6), torch.tensor(6)):
        assert flopwise.profile(LAYER, (3, 4), batch_size=size).total("macs") == 120
    for wrong in (True, 2.5, "6", -1):
        with pytest.raises(InputError, match="give a whole number"):
            flopwise.profile(LAYER, (3, 4), batch_size=wrong)


def test_inside_fake_mode() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model, x = nn.Linear(4, 5), torch.zeros(3, 4)
        assert flopwise.profile(LAYER, (3, 4)).total("macs") == 60
        assert flopwise.profile(model, (x,)).total("macs") == 60
        assert type(torch.zeros(2)).__name__ == "FakeTensor"


def test_inside_a_function_that_is_compiled() -> None:
    totals = []

    @torch.compile(backend="eager")
    def compiled(x: Any) -> Any:
        totals.append(flopwise.profile(LAYER, (3, 4)).total("macs"))
        return x + 1

    assert compiled(torch.zeros(2)).sum() == 2
    assert totals == [60]
