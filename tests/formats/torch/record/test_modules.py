"""Functions as modules: what they use of modules has its names."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.formats.torch.record.modules import module_of_function  # noqa: E402


def test_the_modules_that_a_function_uses_are_its_own() -> None:
    first, second = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    again = first

    def network(x):  # type: ignore[no-untyped-def]
        return second(first(x)) + again(x)[:, :2]

    module = module_of_function(network)
    assert {name for name, _ in module.named_children()} <= {"first", "second", "again"}
    assert {*module.children()} == {first, second}
    profile = flopwise.profile(network, (1, 4))
    assert profile.total("params") == 15 + 8
    assert {row.name for row in profile.rows if row.params} in ({"first", "second"}, {"again", "second"})


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.other = nn.Linear(8, 4), nn.Linear(8, 100)
        self.scale = nn.Parameter(torch.ones(1))


net, mm, head, linear = Net(), nn.Linear(50, 50), nn.Linear(9, 9), nn.Linear(70, 70)


@pytest.mark.parametrize(
    ("function", "params", "paths"),
    [
        (lambda x: net.head(x), 36, ["net", "net.head"]),
        (lambda x: net.head(x) * net.scale, 37, ["net", "net.head"]),
        (lambda x: torch.mm(torch.eye(2), x), 0, []),
        (lambda x: torch.nn.functional.linear(x, net.head.weight), 32, []),
        (lambda x: x if x.ndim == 2 else mm(x), 0, []),
        (lambda x: [net.head(part) for part in x.split(1)], 36, ["net", "net.head"]),
        (partial(lambda layer, x: layer(x), net.head), 36, ["arg0"]),
    ],
)
def test_a_function_has_the_modules_that_it_calls(function: Any, params: int, paths: list[str]) -> None:
    """And not those of the script that are called as an attribute or another function is."""
    profile = flopwise.profile(function, (2, 8))
    assert profile.total("params") == params
    assert [module.path for module in profile.graph.program.modules] == ["", *paths]
    assert not any(row.node.op == "torch::Unused" for row in profile.rows)


def test_a_function_has_no_mode_of_its_own() -> None:
    assert flopwise.profile(lambda x: x @ x.T, (3, 4)).notes == ()
    assert any("train mode" in note for note in flopwise.profile(lambda x: net.head(x), (2, 8)).notes)
