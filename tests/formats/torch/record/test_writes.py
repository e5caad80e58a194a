"""Every operator that reaches PyTorch is a row, whatever it gives back: nothing, a number, its own argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.formats.torch.record.names import (  # noqa: E402
    Target,
    targets_of_function,
    targets_of_operator,
    written,
)

_LIBRARY = torch.library.Library("flopwise_writes", "FRAGMENT")


def _operator(schema: str, cpu: Callable[..., Any], meta: Callable[..., Any]) -> None:
    _LIBRARY.define(schema)
    name = schema.partition("(")[0]
    _LIBRARY.impl(name, cpu, "CPU")
    _LIBRARY.impl(name, meta, "Meta")


_operator("same(Tensor x) -> Tensor", lambda x: x.clone(), lambda x: x)
_operator("double(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(2), lambda x: x)
_operator("fill(Tensor x) -> Tensor", lambda x: x.clone(), torch.empty_like)
_operator("fill.into(Tensor x, Tensor(a!) y) -> ()", lambda x, y: y.copy_(x) and None, lambda x, y: None)
_operator("equal(Tensor x, Tensor y) -> bool", torch.equal, lambda x, y: True)
_operator("barrier() -> ()", lambda: None, lambda: None)
_LIBRARY.impl("barrier", lambda: None, "CompositeExplicitAutograd")


@torch.library.custom_op("flopwise_writes::gemm", mutates_args=("out",))
def gemm(a: Tensor, b: Tensor, out: Tensor) -> None:
    out.copy_(a @ b)


@torch.library.custom_op("flopwise_writes::both", mutates_args=("out",))
def both(a: Tensor, out: Tensor) -> Tensor:
    out.copy_(a)
    return a * 2


@both.register_fake
def _(a: Tensor, out: Tensor) -> Tensor:
    return torch.empty_like(a)


@torch.library.custom_op("flopwise_writes::lists", mutates_args=("outs",))
def lists(a: list[Tensor], outs: list[Tensor]) -> None:
    for one, out in zip(a, outs, strict=True):
        out.copy_(one)


@torch.library.custom_op("flopwise_writes::number", mutates_args=())
def number(a: Tensor) -> float:
    return float(a.sum())


@number.register_fake
def _(a: Tensor) -> float:
    return 1.0


@torch.library.custom_op("flopwise_writes::report", mutates_args=())
def report(a: Tensor) -> None:
    print(end="")


@report.register_fake
def _(a: Tensor) -> None:
    return None


@torch.library.custom_op("flopwise_writes::anything", mutates_args="unknown")
def anything(a: Tensor, b: Tensor) -> None:
    pass


class Around(nn.Module):
    """A product of the input, an operator, and a product of what the operator gave."""

    def __init__(self, operator: Callable[..., Any]) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16, bias=False)
        self.last = nn.Linear(16, 16, bias=False)
        self.register_buffer("held", torch.zeros(4, 16))
        self.operator = operator

    def forward(self, x: Any) -> Any:
        return self.last(self.operator(self, self.first(x)))


def into_new(module: Any, x: Any) -> Any:
    out = torch.empty_like(x)
    gemm(x, module.first.weight, out)
    return out


def by_name(module: Any, x: Any) -> Any:
    out = torch.empty_like(x)
    torch.ops.flopwise_writes.gemm.default(x, module.first.weight, out=out)
    return out


def into_view(module: Any, x: Any) -> Any:
    out = torch.empty(8, 16)
    torch.ops.flopwise_writes.gemm(x, module.first.weight, out[:4])
    return out[:4]


def into_buffer(module: Any, x: Any) -> Any:
    gemm(x, module.first.weight, module.held)
    return module.held


def into_detached(module: Any, x: Any) -> Any:
    view = module.held[:4]
    gemm(x, module.first.weight, module.held.detach())
    return view


def through_function(module: Any, x: Any) -> Any:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            out = torch.empty_like(a)
            gemm(a, b, out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    return Product.apply(x, module.first.weight)


def result_and_argument(module: Any, x: Any) -> Any:
    out = torch.empty_like(x)
    return both(x, out) + out


def stored_into_stored(module: Any, x: Any) -> Any:
    torch.ops.flopwise_writes.fill(module.last.weight[:4], module.held)
    return x + module.held


def of_lists(module: Any, x: Any) -> Any:
    outs = [torch.empty_like(x), torch.empty_like(x)]
    lists([x, x], outs)
    return outs[1]


def scaled(module: Any, x: Any) -> Any:
    return x * number(x)


def reported(module: Any, x: Any) -> Any:
    report(x)
    return x


def with_anything(module: Any, x: Any) -> Any:
    anything(x, module.last.weight)
    return x


def overloaded(module: Any, x: Any) -> Any:
    out = torch.empty_like(x)
    torch.ops.flopwise_writes.fill(x, out)
    return out


def compared(module: Any, x: Any) -> Any:
    return x if torch.ops.flopwise_writes.equal(x, x) else x * 2


def waited(module: Any, x: Any) -> Any:
    torch.ops.flopwise_writes.barrier()
    return x


CASES = [
    (into_new, "gemm"),
    (by_name, "gemm"),
    (into_view, "gemm"),
    (into_buffer, "gemm"),
    (stored_into_stored, "fill"),
    (into_detached, "gemm"),
    (through_function, "gemm"),
    (result_and_argument, "both"),
    (of_lists, "lists"),
    (scaled, "number"),
    (reported, "report"),
    (with_anything, "anything"),
    (overloaded, "fill"),
    (compared, "equal"),
    (waited, "barrier"),
    (lambda module, x: torch.ops.flopwise_writes.same(x), "same"),
    (lambda module, x: torch.ops.flopwise_writes.double(x), "double"),
]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("given", [(4, 16), torch.ones(4, 16)], ids=["shape", "tensor"])
@pytest.mark.parametrize(("operator", "name"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_an_operator_is_a_row_whatever_it_gives_back(operator: Any, name: str, given: Any, train: bool) -> None:
    inputs = (given,) if isinstance(given, Tensor) else given
    profile = flopwise.profile(Around(operator), inputs, train=train)
    assert profile.unknown == {f"flopwise_writes::{name}": 1}
    assert not profile.exact
    assert profile.total("macs") == 2 * 4 * 16 * 16  # what it gave is not taken for a constant
    assert profile.total("params") == 2 * 16 * 16


def test_a_rule_counts_an_operator_that_gives_nothing() -> None:
    rules = {"flopwise_writes::gemm": lambda node: flopwise.Counts(mac=node.input(0).numel * 16)}
    profile = flopwise.profile(Around(into_new), (4, 16), rules=rules)
    assert profile.exact
    assert profile.total("macs") == 3 * 4 * 16 * 16


def test_what_was_written_into_is_another_tensor_afterwards() -> None:
    rows = {row.node.op: row.node for row in flopwise.profile(Around(into_buffer), (4, 16)).rows}
    (result,) = rows["flopwise_writes::gemm"].outputs
    assert result is not None
    assert rows["Gemm"].input(0).name == result.name


def test_elements_that_are_written_over_are_not_known_any_more() -> None:
    class Decides(nn.Module):
        def forward(self, x: Any) -> Any:
            flags = torch.zeros(4)
            torch.sum(x, 1, out=flags)
            return x @ x.T if flags.any() else x

    profile = flopwise.profile(Decides(), (4, 16))
    assert profile.total("macs") == 4 * 4 * 16
    assert any("ran on real tensors" in note for note in profile.notes)


def test_a_run_on_real_tensors_gives_back_what_was_written_over() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(16, 16))
            self.given = nn.Parameter(torch.ones(16, 16))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                gemm(x[:, :16] if x.sum() > 0 else x, self.weight, self.weight)
                torch.add(self.weight, 1, out=self.weight)
                self.given.data = self.weight * 3
            return x @ self.given

    module = Writes()
    given = module.given.data_ptr()
    profile = flopwise.profile(module, (16, 16))
    assert profile.unknown == {"flopwise_writes::gemm": 1}
    assert torch.equal(module.weight, torch.ones(16, 16))
    assert torch.equal(module.given, torch.ones(16, 16))
    assert module.given.data_ptr() == given


def test_a_tensor_that_is_given_other_elements_is_no_constant() -> None:
    def given(module: Any, x: Any) -> Any:
        module.held.data = x * 2
        return module.held

    assert flopwise.profile(Around(given), (4, 16)).total("macs") == 2 * 4 * 16 * 16


@pytest.mark.parametrize("compare", [torch.equal, torch.allclose], ids=lambda f: f.__name__)
def test_a_comparison_of_tensors_is_counted(compare: Any) -> None:
    class Compares(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if compare(x, x * 3) else x

    profile = flopwise.profile(Compares(), (4, 16))
    assert not profile.unknown
    assert profile.total("flops") > 4 * 16  # more than that of the product


def test_settings_and_checks_are_no_rows() -> None:
    class Checks(nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                torch.ops.aten._assert_tensor_metadata.default(x, None, None, torch.float32)
                assert torch.ops.aten.sym_size.int(x, 0) == 4
                torch._assert_async(x.new_ones(()))
            return x * 2

    profile = flopwise.profile(Checks(), (4, 16))
    assert profile.exact
    assert [row.node.op for row in profile.rows if sum(row.counts or ())] == ["Mul"]


def test_an_exported_program_calls_such_operators_on_copies() -> None:
    program = torch.export.export(Around(into_new), (torch.ones(4, 16),)).run_decompositions({})
    assert "auto_functionalized" in str(program.graph)
    profile = flopwise.profile(program)
    assert profile.unknown == {"flopwise_writes::gemm": 1}
    assert profile.total("macs") == 2 * 4 * 16 * 16


def test_targets_are_those_of_the_schemas() -> None:
    first = Target(0, "self")
    assert targets_of_function("add_") == targets_of_function("_foreach_add_") == (first,)
    assert targets_of_function("setitem_") == (Target(0, "input"),)
    assert targets_of_function("add") == targets_of_function("sort") == targets_of_function("__and__") == ()
    assert targets_of_function("rrelu_with_noise") == (Target(1, "noise"),)
    assert {t.name for t in targets_of_function("_fused_sgd_")} == {"self", "grads", "momentum_buffer_list"}
    assert targets_of_operator("aten::max") == (
        *(Target(None, "max"), Target(None, "max_values")),
        Target(None, "out"),
    )
    assert targets_of_operator("flopwise_writes::gemm") == (Target(2, "out"),)


def test_the_tensors_of_targets_are_taken_from_places_and_names() -> None:
    a, b, c = (torch.empty(1) for _ in range(3))
    assert written((Target(1, "y"),), (a, b), {}) == [b]
    assert written((Target(1, "y"),), (a,), {"y": [b, c]}) == [b, c]
    assert written((Target(0, "self"),), (), {"input": a, "out": (b, a)}) == [a, b]
    assert written((), (a,), {}) == []
