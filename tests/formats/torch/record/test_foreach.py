"""Operators on lists of tensors are the operators of their tensors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402


class Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x * 1, x * 2)


def _in_place(a: Any, b: Any) -> Any:
    torch._foreach_add_([a, b], [b, a], alpha=2)
    torch._foreach_addcmul_([a, b], [a, a], [b, b], 0.5)
    torch._foreach_copy_([a], [b])
    return a + b


def _new(a: Any, b: Any) -> Any:
    return torch._foreach_lerp([a, b], tensors1=[b, a], weight=0.5)[0] + torch._foreach_norm([a, b], 2)[1]


def _of_scalars(a: Any, b: Any) -> Any:
    return sum(torch._foreach_mul(torch._foreach_maximum([a, b], 1.0), scalars=[2.0, 3.0]))


def _of_operators(a: Any, b: Any) -> Any:
    assert torch.ops.aten._foreach_neg_.default([a, b]) is None
    return torch.ops.aten._foreach_pow.ScalarAndTensor(2.0, [a, b])[0]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (_in_place, ["aten::add_scaled", "aten::add_scaled", "aten::addcmul", "aten::addcmul", "Identity", "Add"]),
        (_new, ["aten::lerp", "aten::lerp", "ReduceL2", "ReduceL2", "Add"]),
        (_of_scalars, ["Clip", "Clip", "Mul", "Mul", "Add", "Add"]),
        (_of_operators, ["Neg", "Neg", "Pow", "Pow"]),
    ],
    ids=["in place", "new", "scalars", "operators"],
)
def test_each_tensor_of_a_list_has_its_operator(function: Any, operators: list[str], train: bool) -> None:
    profile = flopwise.profile(Of(function), (4, 16), train=train)
    assert [row.node.op for row in profile.rows[2:]] == operators
    assert profile.exact


def test_the_results_are_those_of_the_list() -> None:
    a, b = torch.rand(3), torch.rand(3)
    program = Of(lambda a, b: torch.stack(torch._foreach_addcdiv([a, b], [a, a], [b, b], scalars=[1.0, 2.0])))
    assert flopwise.profile(program, (a,)).exact
    for function in (_in_place, _new, _of_scalars, _of_operators):
        assert flopwise.read(Of(function), (3,)).outputs[0].shape == function(a.clone(), b.clone()).shape


def test_an_operator_without_one_for_a_tensor_stays_unknown() -> None:
    profile = flopwise.profile(Of(lambda a, b: torch.ops.aten._foreach_powsum([a, b], 3)[0]), (4, 16))
    assert profile.unknown == {"aten::_foreach_powsum": 1}
