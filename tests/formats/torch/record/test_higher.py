"""Branches, loops, and functions that the program itself transforms or differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import flopwise  # noqa: E402


class Model(nn.Module):
    """Two layers of 4 features, 16 parameters each, and what is done with them."""

    def __init__(self, does: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.does = does
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.does(self, x)


def branches(model: Any, x: Tensor, condition: Any) -> Any:
    """The first layer, or both."""
    return torch.cond(condition, model.first, lambda y: model.second(model.first(y)), (x,))


def looped(model: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, model.first(y)), (torch.tensor(0), x))[1]


def mapped(model: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.map import map as over_rows

    return over_rows(model.first, x)


def scanned(model: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda state, row: (model.first(state) + row, state * 2), x[0], x)[1]


def forces(model: Any, x: Tensor) -> Any:
    """The gradient of an energy: one product forward and one backward."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(model.first(x).sum(), x)[0]


def forwards(model: Any, x: Tensor) -> Any:
    """The derivative in a direction: the product, and one with each of two tangents; those of the weights are zeros."""
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(model.first(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


#: What is done with 3 rows of 4 features -> multiply-adds, and the shape of the result.
CASES: list[tuple[str, Callable[[Any, Tensor], Any], int, tuple[int, ...]]] = [
    ("a branch that is known", lambda m, x: branches(m, x, torch.tensor(4) > 5), 96, (3, 4)),
    ("a branch that is known to hold", lambda m, x: branches(m, x, torch.tensor(4) > 3), 48, (3, 4)),
    ("the more expensive branch", lambda m, x: branches(m, x, x.sum() > 0), 96, (3, 4)),
    ("loop", looped, 144, (3, 4)),
    ("map", mapped, 48, (3, 4)),
    ("scan", scanned, 48, (3, 4)),
    ("vmap", lambda m, x: torch.vmap(m.first)(x), 48, (3, 4)),
    ("func.grad", lambda m, x: torch.func.grad(lambda y: m.first(y).sum())(x), 96, (3, 4)),
    ("autograd.grad", forces, 96, (3, 4)),
    ("func.jvp", lambda m, x: torch.func.jvp(m.first, (x,), (torch.ones_like(x),))[1], 144, (3, 4)),
    ("forward mode", forwards, 144, (3, 4)),
]


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(("name", "does", "macs", "shape"), CASES, ids=[name for name, *_ in CASES])
def test_multiply_adds(name: str, does: Any, macs: int, shape: tuple[int, ...], device: str) -> None:
    profile = flopwise.profile(Model(does).to(device), (3, 4))
    assert profile.total("macs") == macs
    assert [t.dims for t in profile.graph.outputs] == [shape]
    assert not profile.unknown
    assert profile.total("params") == 32
    assert not any("real" in note for note in profile.notes)
    assert torch._C._functorch.maybe_current_level() is None


@pytest.mark.parametrize("does", [forces, CASES[6][1], CASES[7][1]])
def test_on_real_tensors_as_well(does: Any) -> None:
    profile = flopwise.profile(Model(lambda m, x: does(m, x) if x.sum() > -1 else x), (3, 4))
    assert profile.total("macs") == (48 if does is CASES[6][1] else 96)
    assert any("real tensors" in note for note in profile.notes)


def test_both_branches_are_said() -> None:
    profile = flopwise.profile(Model(lambda m, x: branches(m, x, x.sum() > 0)), (3, 4))
    (note,) = [n for n in profile.notes if "branch" in n]
    assert note == "'cond' takes one of its branches, and the most expensive counts: then_branch 96, else_branch 192"
    assert [row.macs for row in profile.rows if row.node.op == "Gemm"] == [0, 48, 48]


@pytest.mark.parametrize("does", [looped, mapped, scanned, CASES[6][1]])
def test_exported(does: Any) -> None:
    module = Model(does)
    program = torch.export.export(module, (torch.rand(3, 4),))
    assert flopwise.profile(program).total("macs") == flopwise.profile(module, (3, 4)).total("macs")
    assert torch._C._functorch.maybe_current_level() is None


def test_settings_around_a_part_of_an_exported_program() -> None:
    def does(m: Any, x: Tensor) -> Any:
        with torch.no_grad():
            y = m.first(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m.second(y)

    program = torch.export.export(Model(does), (torch.rand(3, 4),))
    assert flopwise.profile(program).total("macs") == 96


def test_an_operator_with_functions_of_which_nothing_is_known() -> None:
    def does(m: Any, x: Tensor) -> Any:
        return torch.ops.higher_order.run_const_graph(m.first, (x,))

    with pytest.raises(flopwise.FlopwiseError, match=r"run_const_graph is an operator with functions inside"):
        flopwise.profile(Model(does), (3, 4))
