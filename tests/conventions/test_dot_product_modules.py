"""2 n − 1 per dot product on PyTorch modules, written out for each layer that the texts name."""

from __future__ import annotations

from typing import Any

import pytest

import flopwise

torch = pytest.importorskip("torch")

nn = torch.nn
F = torch.nn.functional

IMAGE = (2, 6, 8, 8)
ELEMENTS = 2 * 6 * 8 * 8


@pytest.mark.parametrize(
    ("module", "shape", "flops"),
    [
        (nn.Linear(64, 32), (8, 64), (64 + 63) * 8 * 32),
        (nn.Linear(64, 32, bias=False), (2, 5, 64), (64 + 63) * 2 * 5 * 32),
        (nn.ReLU(), IMAGE, ELEMENTS),
        (nn.Tanh(), IMAGE, 5 * ELEMENTS),
        (nn.Sigmoid(), IMAGE, 4 * ELEMENTS),
        (nn.MaxPool2d(2), IMAGE, ELEMENTS // 4),
        (nn.MaxPool1d(3, 1), (2, 6, 8), 2 * 6 * 6),
        (nn.AvgPool2d(2), IMAGE, (4 + 1) * ELEMENTS // 4),
        (nn.AvgPool3d(2), (1, 3, 4, 4, 4), (8 + 1) * 3 * 8),
        (nn.Dropout(), IMAGE, 0),
        (nn.BatchNorm2d(6), IMAGE, 4 * ELEMENTS),
        (nn.Softmax(-1), (7, 10), 7 * (3 * 10 - 1)),
        (nn.Softmax(1), IMAGE, 2 * 64 * (3 * 6 - 1)),
        (nn.Conv2d(6, 4, 3, bias=False), IMAGE, 2 * 4 * 36 * (2 * 54 - 1)),
        (nn.Conv2d(6, 4, 3), IMAGE, 2 * 4 * 36 * (2 * 54 - 1 + 1)),
        (nn.Conv1d(6, 4, 3, bias=False), (6, 8), 4 * 6 * (2 * 18 - 1)),
        (nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), IMAGE, ELEMENTS * (2 * 9 - 1)),
        (nn.Conv2d(6, 4, 1, bias=False), IMAGE, 2 * 4 * 64 * (2 * 6 - 1)),
    ],
    ids=str,
)
def test_layers_of_the_text(module: Any, shape: Any, flops: int) -> None:
    found = flopwise.profile(module.eval(), shape, convention="dot-product")
    assert (found.total("count"), found.exact) == (flops, True)
    assert any(layer.count == flops for layer in found.rows) or not flops


def test_functions_count_as_the_layers_do() -> None:
    class Functions(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.softmax(torch.tanh(F.relu(x)).sigmoid(), -1)

    found = flopwise.profile(Functions(), (7, 10), convention="dot-product")
    assert found.total("count") == 70 * (1 + 5 + 4) + 7 * 29
