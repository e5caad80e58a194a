"""Functions as modules: what they use of modules has its names."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import flopwise  # noqa: E402
from flopwise.readers.torch.runs.modules import module_of_function  # noqa: E402


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
