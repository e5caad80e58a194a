"""A small model with one linear layer of each kind of batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import flopwise


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def flops(batch: int) -> int:
    """The FLOPs of a step of ``Net``: no gradient of the input, so 2 products more than forward for one layer."""
    profile = flopwise.profile(Net(), torch.rand(batch, 12), train=True)
    total: int = profile.total("flops") + profile.total("backward_flops")
    return total


RATES = {"flops", "tflops_per_s", "mfu", "hfu", "samples_per_s", "step_s"}
