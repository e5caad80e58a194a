"""Gradients flow through scripted parts of a module, which are watched below autograd."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn

import flopwise


class Net(nn.Module):
    """A layer, one like it that may be a script, and an activation."""

    def __init__(self, scripted: bool, frozen: bool = False) -> None:
        super().__init__()
        self.first, second = nn.Linear(8, 8), nn.Linear(8, 8)
        second.requires_grad_(not frozen)
        self.second: Any = torch.jit.script(second) if scripted else second

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)).relu()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_script_costs_what_the_module_costs(frozen: bool) -> None:
    plain, scripted = (flopwise.profile(Net(s, frozen), (4, 8), train=True) for s in (False, True))
    assert plain.training is not None
    assert scripted.training is not None
    keys = ("backward", "backward_macs", "saved_bytes", "trained_params", "exact")
    figures = [p.to_dict()["training"] for p in (plain, scripted)]
    assert [figures[1][key] for key in keys] == [figures[0][key] for key in keys]


def test_what_is_detached_in_a_script_has_no_gradient() -> None:
    class Cut(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.detach() * 2).sum()

    profile = flopwise.profile(nn.Sequential(nn.Linear(4, 4), torch.jit.script(Cut())), (2, 4), train=True)
    assert [row.backward or 0 for row in profile.rows] == [0] * len(profile.rows)
    assert any("nothing runs backward" in note for note in profile.notes)
