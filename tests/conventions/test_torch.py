"""The convention of PyTorch's FlopCounterMode beside its own figures on meta tensors (torch 2.13)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tests.conventions.nodes import node, total

import flopwise

torch = pytest.importorskip("torch")

from tests import torch_golden, torch_modules  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402 - after the question for torch

nn = torch.nn
F = torch.nn.functional

#: Recorded on a CPU without gradients, where these are kernels that FlopCounterMode does not know.
FUSED: dict[str, int] = {
    "SDPA [2,4,32,16]": 2 * 262_144,
    "SDPA causal": 2 * 262_144,
    "MHA(64,4) batch_first [2,10,64] eval": 2 * 353_280,
    "TransformerEncoderLayer(64,4,128) [2,10,64] eval": 2 * 680_960,
    "LSTM(10,20,2 layers) seq-first [5,3,10]": 2 * 84_000,
    "LSTM bidir(10,20,2) [5,3,10]": 2 * 216_000,
}

#: Modules that do not run on meta tensors.
NOT_ON_META = ("dynamic-quantised Linear(64->32)", "sparse mm (coo 10% dense) [64,64]x[64,32]")


def _count(module: Any, inputs: Any, **more: Any) -> int | None:
    found = flopwise.profile(module, inputs, convention="torch", **more)
    return found.total("count") if found.exact else None


@pytest.mark.parametrize("name", torch_modules.MODULES)
def test_recorded_figures(name: str) -> None:
    said = torch_golden.recorded(name, "torch")
    found = _count(*torch_modules.MODULES[name]())
    if name in FUSED:
        assert (found, said[0]) == (FUSED[name], 0)
    else:
        assert found == said[0]


def of_torch(module: Any, args: Any, kwargs: Any = None) -> int:
    """What FlopCounterMode says with everything on the meta device and gradients on."""
    module = module.to("meta")
    args = [a.to("meta") for a in args]
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        module(*args, **(kwargs or {}))
    return counter.get_total_flops()


@pytest.mark.parametrize("name", [name for name in torch_modules.MODULES if name not in NOT_ON_META])
def test_flop_counter_mode_itself(name: str) -> None:
    module, inputs = torch_modules.MODULES[name]()
    found = _count(module, inputs)
    assert found == of_torch(module, inputs)


def _function(inside: Any) -> Any:
    return torch_modules.Function(inside)


@pytest.mark.parametrize(
    ("inside", "shapes"),
    [
        (torch.matmul, ((16,), (16,))),
        (torch.matmul, ((8,), (8, 16))),
        (torch.matmul, ((3, 8, 16), (16,))),
        (torch.matmul, ((8,), (3, 8, 16))),
        (torch.matmul, ((5, 8), (3, 8, 16))),
        (torch.matmul, ((3, 5, 8), (8, 16))),
        (torch.matmul, ((2, 1, 5, 8), (3, 8, 16))),
        (torch.addmm, ((5, 7), (5, 3), (3, 7))),
        (torch.addmv, ((5,), (5, 3), (3,))),
        (torch.addbmm, ((5, 7), (2, 5, 3), (2, 3, 7))),
        (torch.addr, ((5, 7), (5,), (7,))),
        (torch.outer, ((5,), (7,))),
        (torch.inner, ((5,), (5,))),
        (torch.inner, ((2, 5), (3, 5))),
        (torch.linalg.multi_dot, ((3, 4), (4, 5), (5, 6))),
        (F.linear, ((4,), (3, 4))),
        (F.linear, ((5, 4), (3, 4))),
        (F.linear, ((2, 5, 4), (3, 4), (3,))),
        (F.linear, ((2, 6, 5, 4), (3, 4), (3,))),
        (F.bilinear, ((2, 4), (2, 5), (6, 4, 5))),
        (F.conv1d, ((3, 10), (6, 3, 3))),
        (F.conv_transpose2d, ((3, 8, 8), (3, 5, 3, 3))),
        (F.scaled_dot_product_attention, ((2, 5, 8), (2, 7, 8), (2, 7, 8))),
        (F.scaled_dot_product_attention, ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))),
        (lambda x, y: torch.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 5))),
        (lambda x, y: torch.tensordot(x, y, 0), ((2, 3), (4,))),
        (lambda x, y: torch.einsum("ij,kj->ik", x, y), ((3, 4), (5, 4))),
        (lambda x, y: torch.einsum("i,j->ij", x, y), ((3,), (5,))),
        (lambda x, y: torch.einsum("ijk,jl->il", x, y), ((3, 4, 6), (4, 5))),
        (lambda x, y: torch.einsum("...ij,...jk->...ik", x, y), ((1, 7, 3, 4), (6, 1, 4, 5))),
        (lambda x, y: torch.einsum("bij,bjk", x, y), ((2, 3, 4), (2, 4, 5))),
        (lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), ((3, 4), (4, 5), (5, 6))),
        (lambda x, y, z: torch.einsum("ij,ij,ij->", x, y, z), ((3, 4), (3, 4), (3, 4))),
        (lambda x: torch.einsum("ii->", x), ((4, 4),)),
    ],
)
def test_forms_of_products(inside: Any, shapes: Any) -> None:
    inputs = [torch.zeros(s) for s in shapes]
    call = (lambda *given: inside(list(given))) if inside is torch.linalg.multi_dot else inside
    assert _count(_function(call), inputs) == of_torch(_function(call), inputs)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.LSTM(10, 20, 2, batch_first=True, bidirectional=True), (3, 5, 10)),
        (nn.LSTM(10, 20, bias=False, proj_size=7), (5, 3, 10)),
        (nn.GRU(10, 20, 2, bias=False), (5, 3, 10)),
        (nn.RNN(10, 20, nonlinearity="relu"), (5, 10)),
        (nn.GRUCell(10, 20), (3, 10)),
        (nn.RNNCell(10, 20), (10,)),
        (nn.TransformerDecoderLayer(16, 2, 32), ((5, 2, 16), (7, 2, 16))),
        (nn.MultiheadAttention(16, 2, add_bias_kv=True), ((5, 2, 16),) * 3),
        (nn.Bilinear(4, 5, 6), ((2, 4), (2, 5))),
    ],
    ids=str,
)
def test_layers(module: Any, shape: Any) -> None:
    inputs = [torch.zeros(s) for s in (shape if isinstance(shape[0], tuple) else (shape,))]
    assert _count(module.train(), inputs, mode="train") == of_torch(module, inputs)


@pytest.mark.parametrize("name", torch_golden.MACS)
def test_architectures(name: str) -> None:
    module, args, kwargs = torch_golden.architectures()[name]()
    assert _count(module, (args, kwargs)) == 2 * torch_golden.MACS[name]
    if name == "bert_base":
        kwargs = {}  # transformers asks for the elements of a mask, which meta tensors do not have
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert of_torch(module, args, kwargs) == 2 * torch_golden.MACS[name]


@pytest.mark.parametrize(
    ("one", "flops"),
    [
        (node("Gemm", [(8, 16), (16, 5), (5,)], [(8, 5)]), 2 * 640),
        (node("MatMul", [(8, 16), (16,)], [(8,)]), 0),
        (node("MatMul", [(3, 8, 16), (16, 5)], [(3, 8, 5)]), 2 * 1920),
        (node("Relu", [(8, 16)], [(8, 16)]), 0),
        (node("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], [(1, 4, 6, 6)]), 2 * 3888),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else str(value),
)
def test_operators_of_files(one: Any, flops: int) -> None:
    assert total("torch", one) == flops


def test_what_it_does_not_see_is_named() -> None:
    module, inputs = torch_modules.MODULES["matmul mat-vec [8,16]x[16]"]()
    notes = flopwise.profile(module, inputs, convention="torch").notes
    assert "the tool sees nothing of these products: aten.matmul 1" in notes
