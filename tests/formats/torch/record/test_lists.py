"""Operators on lists of tensors."""

from __future__ import annotations

import torch

import flopwise


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = torch._foreach_mul([x, x + 1], 2.0)
        return one + other


def test_an_operator_on_lists_is_a_row_of_unknown_cost() -> None:
    profile = flopwise.profile(_Scaled(), torch.empty(2, 3, device="meta"))
    assert list(profile.unknown) == ["aten::_foreach_mul"]
    assert not profile.exact
