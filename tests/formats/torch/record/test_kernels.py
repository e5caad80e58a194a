"""Kernels of Triton, which a program launches beside PyTorch, are rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402


class KernelInterface:
    """What Triton's kernels have in common: ``kernel[grid](...)`` runs them."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        raise NotImplementedError


class Kernel(KernelInterface):
    """A kernel as Triton makes it of a function, which needs memory."""

    def __init__(self, fn: Callable[..., None]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        assert not any(isinstance(a, torch.Tensor) and a.is_meta for a in args), "an address of what has no memory"
        self.fn(*args, **kwargs)


class Tuned(KernelInterface):
    """A kernel whose options are chosen when it runs."""

    def __init__(self, kernel: Kernel) -> None:
        self.fn = kernel

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    jit = ModuleType("triton.runtime.jit")
    vars(jit)["KernelInterface"] = KernelInterface
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", jit)
    original = KernelInterface.__getitem__
    yield
    assert KernelInterface.__getitem__ is original


def _double(x: Any, out: Any, count: int, block: int = 16) -> None:
    out.detach().copy_(x * 2)


class Launches(nn.Module):
    def __init__(self, kernel: Any, asks: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16, bias=False)
        self.last = nn.Linear(16, 16, bias=False)
        self.kernel = kernel
        self.asks = asks

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        out = torch.empty_like(x)
        if self.asks and x.sum() == 12.5:
            return out
        self.kernel[(4,)](x, out, x.numel(), block=32)
        return self.last(out)


@pytest.mark.usefixtures("triton")
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("asks", [False, True], ids=["meta", "real"])
@pytest.mark.parametrize("kernel", [Kernel(_double), Tuned(Kernel(_double))], ids=["plain", "tuned"])
def test_a_launch_is_a_row(kernel: Any, asks: bool, train: bool) -> None:
    profile = flopwise.profile(Launches(kernel, asks), (4, 16), train=train)
    assert profile.unknown == {"triton::_double": 1}
    assert [row.node.op for row in profile.rows if row.count] == ["Gemm", *["ReduceSum", "Equal"] * asks, "Gemm"]
    assert profile.total("params") == 2 * 16 * 16


@pytest.mark.usefixtures("triton")
def test_a_rule_counts_a_kernel_by_its_arguments() -> None:
    def rule(node: Any) -> flopwise.Counts:
        return flopwise.Counts(mul=node.arguments["arg2"], add=node.arguments["block"])

    profile = flopwise.profile(Launches(Kernel(_double)), (4, 16), rules={"triton::_double": rule})
    assert profile.exact
    assert profile.total("flops") == 2 * 2 * 4 * 16 * 16 + 4 * 16 + 32


@pytest.mark.usefixtures("triton")
def test_operators_of_exported_programs_that_launch_kernels() -> None:
    table = pytest.importorskip("torch._higher_order_ops.triton_kernel_wrap").kernel_side_table
    kernel = table.add_kernel(Kernel(_double))
    constants = table.add_constant_args({"block": 32})

    class Wrapped(nn.Module):
        def __init__(self, functional: bool) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16, bias=False)
            self.functional = functional

        def forward(self, x: Any) -> Any:
            x, out = self.layer(x), torch.empty_like(x)
            launch = {"kernel_idx": kernel, "constant_args_idx": constants, "grid": [(4, 1, 1)]}
            arguments = {"kwargs": {"x": x, "out": out, "count": 64}, "tma_descriptor_metadata": {}}
            operators = torch.ops.higher_order
            if not self.functional:
                operators.triton_kernel_wrapper_mutation(**launch, **arguments)
                return self.layer(out)
            made = operators.triton_kernel_wrapper_functional(**launch, **arguments, tensors_to_clone=["out"])
            return self.layer(made["out"])

    for functional in (False, True):
        profile = flopwise.profile(Wrapped(functional), (4, 16))
        assert profile.unknown == {"triton::_double": 1}
        assert profile.total("macs") == 2 * 4 * 16 * 16
