"""Formulas of PyTorch modules beside profiles at other sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import flopwise

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


class Convolutions(nn.Module):  # type: ignore[misc, name-defined] # torch is imported where it is
    """Strides, a pooling that rounds up, and an average of 7 by 7 windows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.average = nn.AdaptiveAvgPool2d(7)
        self.last = nn.Linear(8 * 49, 10)

    def forward(self, image: Any) -> Any:
        x = self.average(self.pool(self.first(image).relu()))
        return self.last(x.flatten(1))


class Windows(nn.Module):  # type: ignore[misc, name-defined]
    """Padding to whole windows, attention within each, and the padding cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.qkv = nn.Linear(8, 24)

    def forward(self, image: Any) -> Any:
        x = self.embed(image).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        x = functional.pad(x, (0, 0, 0, (7 - w % 7) % 7, 0, (7 - h % 7) % 7))
        _, high, wide, _ = x.shape
        x = x.view(n, high // 7, 7, wide // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = self.qkv(x).reshape(x.size(0), 49, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        x = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 7, 7, c)
        x = x.view(n, high // 7, wide // 7, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(n, high, wide, c)
        return x[:, :h, :w].mean((1, 2))


class Branch(nn.Module):  # type: ignore[misc, name-defined]
    """Another way for long inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Linear(8, 16), nn.Linear(8, 32)

    def forward(self, x: Any) -> Any:
        return self.long(x) if x.shape[1] > 40 else self.short(x)


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    """Attention over earlier keys and new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Any, past: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = torch.cat([past, k], 1), torch.cat([past, v], 1)
        mask = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - x.shape[1])
        scores = (q @ keys.transpose(1, 2)) / q.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ values


CASES: list[tuple[Callable[[], Any], Any, dict[str, int]]] = [
    (Convolutions, ("N", 3, "H", "W"), {"N": 0, "H": 3, "W": 3}),
    (Windows, ("N", 3, "H", "W"), {"N": 1, "H": 4, "W": 4}),
    (Branch, ("N", "S", 8), {"N": 0, "S": 1}),
    (Decoder, {"x": ("N", "S", 16), "past": ("N", "P", 16)}, {"N": 1, "S": 1, "P": 1}),
]


@pytest.mark.parametrize(("make", "inputs", "least"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_values_are_those_of_profiles(make: Callable[[], Any], inputs: Any, least: dict[str, int]) -> None:
    model = make()
    formula = flopwise.formula(model, inputs)
    assert formula.exact
    chance = random.Random(4)
    points = [
        {n: chance.choice((low, low + 1, chance.randint(low, 90))) for n, low in least.items()} for _ in range(12)
    ]
    for point in points:
        profile = flopwise.profile(model, _placed(inputs, point))
        at = formula.at(**point)
        assert at == {figure: getattr(profile.sum, figure) for figure in at}, point


def _placed(inputs: Any, point: dict[str, int]) -> Any:
    if isinstance(inputs, dict):
        return {name: _placed(shape, point) for name, shape in inputs.items()}
    return tuple(point.get(extent, extent) for extent in inputs)


def test_branches_of_a_program_are_conditions() -> None:
    formula = flopwise.formula(Branch(), ("N", "S", 8))
    (condition,) = formula.conditions
    assert condition.startswith("S >= 41 (test_modules.py:")
    assert formula.text(formula.whole.terms["macs"]) == "256*N*S"
    assert formula.at(N=1, S=40)["macs"] == 128 * 40


def test_windows_are_counted_with_their_padding() -> None:
    formula = flopwise.formula(Windows(), ("N", 3, "H", "W"))
    assert "floor(H/4) != 7*floor((H + 24)/28) (getitem)" in formula.conditions
    assert not any("min" in str(term) for term in formula.whole.terms.values())
