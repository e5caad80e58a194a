"""What a program leaves behind: its results in whatever they come, and tensors that it keeps for the backward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402

_KEPT: dict[str, Any] = {}


@dataclasses.dataclass
class Output:
    y: Any
    more: Any = None


class Slots:
    __slots__ = ("y",)

    def __init__(self, y: Any) -> None:
        self.y = y


class Two(nn.Module):
    """Two layers, and something done with their result."""

    last: Any = None

    def __init__(self, leave: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.leave = leave

    def forward(self, x: Any) -> Any:
        return self.leave(self, self.b(self.a(x)))


def attribute(module: Any, y: Any) -> None:
    module.loss = y.sum()


def class_attribute(module: Any, y: Any) -> str:
    type(module).last = y
    return "done"


def in_dictionary(module: Any, y: Any) -> Any:
    _KEPT["y"] = y
    return y.detach()


def beside_result(module: Any, y: Any) -> Any:
    module.loss = y
    return module.a.weight.sum()


def in_closure(module: Any, y: Any) -> Callable[[], Any]:
    return lambda: y


WAYS: list[Callable[[Any, Any], Any]] = [
    lambda module, y: y,
    lambda module, y: Output(y),
    lambda module, y: Output(None, [Output({"y": y})]),
    lambda module, y: SimpleNamespace(y=y),
    lambda module, y: Slots(y),
    lambda module, y: {y},
    attribute,
    class_attribute,
    in_dictionary,
    in_closure,
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize("given", [(4, 16), torch.ones(4, 16)], ids=["shape", "tensor"])
def test_the_backward_pass_starts_wherever_a_result_is(way: Any, given: Any) -> None:
    inputs = (given,) if isinstance(given, torch.Tensor) else given
    profile = flopwise.profile(Two(way), inputs, train=True)
    figures = profile.to_dict()["training"]
    assert figures["backward_macs"] == 3 * 4 * 16 * 16
    assert figures["trained_params"] == 2 * 272
    assert figures["exact"]
    assert not any("nothing runs backward" in note for note in profile.notes)


def test_a_kept_loss_counts_beside_a_result() -> None:
    figures = flopwise.profile(Two(beside_result), (4, 16), train=True).to_dict()["training"]
    assert figures["backward_macs"] == 3 * 4 * 16 * 16


def test_what_is_dropped_gets_no_gradient() -> None:
    class Drops(Two):
        def forward(self, x: Any) -> Any:
            knot: list[Any] = [self.b(x)]
            knot.append(knot)
            return self.a(x)

    profile = flopwise.profile(Drops(lambda module, y: y), (4, 16), train=True)
    assert profile.to_dict()["training"]["backward_macs"] == 4 * 16 * 16
    assert len(flopwise.read(Drops(lambda module, y: y), (4, 16)).outputs) == 1


def test_a_branch_that_is_cut_off_gets_no_gradient() -> None:
    class Cuts(Two):
        def forward(self, x: Any) -> Any:
            return self.b(self.a(x).detach())

    profile = flopwise.profile(Cuts(lambda module, y: y), (4, 16), train=True)
    assert profile.to_dict()["training"]["backward_macs"] == 4 * 16 * 16
