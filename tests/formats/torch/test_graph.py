"""Memory that is read, and that nothing which was seen has filled."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from torch import nn

import flopwise

torch = pytest.importorskip("torch")


class Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.layer(self.function(x))


def by_numpy(x: Any) -> Any:
    out = torch.empty_like(x)
    numpy.tanh(x.numpy(), out=out.numpy())
    return out


def by_extension(x: Any) -> Any:
    out = x.new_empty((2, 4, 16))
    with torch._C.DisableTorchFunction():  # as what is bound without PyTorch's dispatcher
        out.view(8, 16)
    return out[0].reshape(4, 16)


@pytest.mark.parametrize("way", [by_numpy, by_extension], ids=lambda way: way.__name__)
def test_what_fills_an_empty_tensor_unseen_is_unknown(way: Any) -> None:
    profile = flopwise.profile(Of(way), (4, 16))
    assert profile.unknown == {"torch::Unseen": 1}
    assert not profile.exact
    assert any("reads the memory that 'empty" in n or "reads the memory that 'new_empty" in n for n in profile.notes)


def written_over(x: Any) -> Any:
    out = torch.empty(8, 16)
    out[:4] = x
    return out[:4]


@pytest.mark.parametrize(
    "seen",
    [
        written_over,
        lambda x: torch.empty_like(x).copy_(x),
        lambda x: torch.empty(4, 16).normal_() + x,
        lambda x: torch.add(x, 1, out=torch.empty_like(x)),
        lambda x: torch.cat([torch.empty(0, 16), x]),
        lambda x: torch.zeros_like(torch.empty_like(x)) + x,
        lambda x: x + torch.baddbmm(torch.empty(1, 4, 16), x[None], torch.ones(1, 16, 16), beta=0)[0],
        lambda x: x.expand_as(torch.empty(4, 16)) + torch.empty(4, 16).shape[0],
        lambda x: torch.empty(1, 4, 16)[0].index_copy_(0, torch.arange(4), x),
    ],
)
def test_what_an_operation_fills_is_known(seen: Any) -> None:
    assert flopwise.profile(Of(seen), (4, 16)).exact
