"""Peaks of programs, against what PyTorch's allocator says while they run."""

from __future__ import annotations

from typing import Any

import pytest

import flopwise
from flopwise.storage.liveness import liveness

torch = pytest.importorskip("torch")
nn = torch.nn


class Block(nn.Module):  # type: ignore[name-defined,misc]
    """A residual block with views and something in place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu_(self.up(self.norm(x)))).transpose(0, 1).transpose(0, 1)


class Splitting(nn.Module):  # type: ignore[name-defined,misc]
    """Parts of one tensor, of which one outlives the others."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(64, 192)

    def forward(self, x: Any) -> Any:
        a, b, c = self.wide(x).chunk(3, -1)
        d = (a * b).view(-1, 8, 8).reshape(-1, 64)
        del a, b  # what a variable refers to lives on, and no graph tells of it
        d = d.exp()
        d = d + c
        del c
        return torch.cat([d, x], -1)


def allocated(module: Any, given: Any) -> int:
    """The largest sum of bytes that PyTorch has allocated at once, with the input."""
    with torch.no_grad():
        module(given)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
            module(given)
    events = recorded.profiler.kineto_results.events()
    now = most = 0
    for _, change in sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"):
        now += change
        most = max(most, now)
    return most + int(given.nbytes)


@pytest.mark.parametrize(
    ("module", "width"),
    [
        (nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)), 64),
        (nn.Sequential(nn.Linear(64, 256), nn.ReLU(inplace=True), nn.Linear(256, 64)), 64),
        (nn.Sequential(Block(64), Block(64), nn.Flatten()), 64),
        (Splitting(), 64),
    ],
    ids=["mlp", "mlp in place", "residual", "splitting"],
)
def test_peak_is_what_pytorch_allocates(module: Any, width: int) -> None:
    module = module.eval()
    peak = flopwise.profile(module, (512, width)).peak_activation_bytes
    measured = allocated(module, torch.zeros(512, width))
    assert peak == pytest.approx(measured, rel=0.01)


def test_arguments_live_until_the_call_returns() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(1, 1)), nn.Linear(1, 1)).eval()
    found = liveness(flopwise.read(module, (10, 8)))
    given = next(b for b in found.buffers if b.maker is None)
    assert given.last == len(found.steps) - 1
