"""Small modules, one per operator or idiom, on which the tools that count PyTorch modules differ.

Imports torch: ask for it with ``pytest.importorskip`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor, nn

Case: TypeAlias = "tuple[nn.Module, tuple[Tensor, ...]]"


class Function(nn.Module):
    """A function of tensors as a module; its own two parameters are there for tools that need some.

    It has to look up functions of torch when it runs, for tools that put their own in the place of these.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(2))
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class OfWeight(nn.Module):
    """A function of the input and of a layer's stored tensors; the layer itself is not called."""

    def __init__(self, layer: nn.Module, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.layer.weight, self.layer.bias)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=False)


class Shared(nn.Module):
    """One layer called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(self.layer(x)))


class Derived(nn.Linear):
    """A class of its own below nn.Linear."""


class Direct(nn.Module):
    """A layer whose ``forward`` is called instead of the layer, so that no hook runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.forward(x)


class Mixed(nn.Module):
    """A parameter used by hand, a layer, and a layer that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(64, 32))
        self.child = nn.Linear(32, 32, bias=False)
        self.unused = nn.Linear(10, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.child(x @ self.own)


class Branching(nn.Module):
    """A loop and a branch of the language."""

    def __init__(self) -> None:
        super().__init__()
        self.often = nn.Linear(16, 16, bias=False)
        self.never = nn.Linear(16, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.often(x) if x.shape[0] == 4 else self.never(x)
        return x


class Product(torch.autograd.Function):
    """A matrix product with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return grad.mm(weight.t()), x.t().mm(grad)


class OwnGradient(nn.Module):
    """A parameter in an ``autograd.Function``."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.matrix)


class Sparse(nn.Module):
    """A matrix in coordinates, one element in ten, times a dense one."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(2))
        dense = torch.zeros(64 * 64)
        dense[::10] = 1
        self.matrix = dense.reshape(64, 64).to_sparse()

    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(self.matrix, x)


def _quantized() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 32)), {nn.Linear})


def _case(module: nn.Module, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Case:
    return module.eval(), tuple(torch.zeros(shape, dtype=dtype) for shape in shapes)


_IMAGE = (1, 16, 8, 8)

#: Name -> the module in eval mode and its positional inputs, made anew at each call.
MODULES: dict[str, Callable[[], Case]] = {
    "Linear(64->32,bias) x[8,64]": lambda: _case(nn.Linear(64, 32), (8, 64)),
    "Linear no bias 3D x[2,10,64]": lambda: _case(nn.Linear(64, 32, bias=False), (2, 10, 64)),
    "Linear bias 3D x[2,10,64]": lambda: _case(nn.Linear(64, 32), (2, 10, 64)),
    "F.linear bias 3D functional": lambda: _case(
        OfWeight(nn.Linear(64, 32), lambda *tensors: F.linear(*tensors)), (2, 10, 64)
    ),
    "x @ W (operator)": lambda: _case(OfWeight(nn.Linear(64, 32), lambda x, w, b: x @ w.t()), (2, 10, 64)),
    "Conv2d 3->10 k3 bias x[1,3,10,10]": lambda: _case(nn.Conv2d(3, 10, 3), (1, 3, 10, 10)),
    "Conv2d same, batch 4": lambda: _case(nn.Conv2d(3, 10, 3), (4, 3, 10, 10)),
    "Conv2d 16->32 k3 groups4 nobias [1,16,8,8] pad1": lambda: _case(
        nn.Conv2d(16, 32, 3, padding=1, groups=4, bias=False), _IMAGE
    ),
    "Conv2d padding='same' dilation2 16->16 k3": lambda: _case(
        nn.Conv2d(16, 16, 3, padding="same", dilation=2, bias=False), _IMAGE
    ),
    "Conv2d padding='same' even kernel k4 16->16": lambda: _case(
        nn.Conv2d(16, 16, 4, padding="same", bias=False), _IMAGE
    ),
    "F.conv2d functional 3->10 k3": lambda: _case(
        OfWeight(nn.Conv2d(3, 10, 3), lambda *tensors: F.conv2d(*tensors)), (1, 3, 10, 10)
    ),
    "Conv1d 8->16 k3 nobias [1,8,20]": lambda: _case(nn.Conv1d(8, 16, 3, bias=False), (1, 8, 20)),
    "Conv3d 2->4 k3 nobias [1,2,6,6,6]": lambda: _case(nn.Conv3d(2, 4, 3, bias=False), (1, 2, 6, 6, 6)),
    "ConvT2d 16->8 k2 s2 nobias [1,16,8,8]": lambda: _case(nn.ConvTranspose2d(16, 8, 2, stride=2, bias=False), _IMAGE),
    "ConvT2d 16->8 k4 s2 p1 groups 2 bias": lambda: _case(
        nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1, groups=2), _IMAGE
    ),
    "bmm [4,8,16]x[4,16,32]": lambda: _case(Function(lambda *tensors: torch.bmm(*tensors)), (4, 8, 16), (4, 16, 32)),
    "matmul broadcast [8,16]x[4,16,32]": lambda: _case(
        Function(lambda *tensors: torch.matmul(*tensors)), (8, 16), (4, 16, 32)
    ),
    "matmul mat-vec [8,16]x[16]": lambda: _case(Function(lambda *tensors: torch.matmul(*tensors)), (8, 16), (16,)),
    "einsum bhid,bhjd->bhij [2,4,8,16]": lambda: _case(
        Function(lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b)), (2, 4, 8, 16), (2, 4, 8, 16)
    ),
    "einsum ij,j->i [8,16]": lambda: _case(Function(lambda a, b: torch.einsum("ij,j->i", a, b)), (8, 16), (16,)),
    "einsum ii->i... elementwise i,i->i [64]": lambda: _case(
        Function(lambda a, b: torch.einsum("i,i->i", a, b)), (64,), (64,)
    ),
    "baddbmm [4,8,32]+[4,8,16]x[4,16,32]": lambda: _case(
        Function(lambda *tensors: torch.baddbmm(*tensors)), (4, 8, 32), (4, 8, 16), (4, 16, 32)
    ),
    "SDPA [2,4,32,16]": lambda: _case(
        Function(lambda *tensors: F.scaled_dot_product_attention(*tensors)), *[(2, 4, 32, 16)] * 3
    ),
    "SDPA causal": lambda: _case(
        Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), *[(2, 4, 32, 16)] * 3
    ),
    "MHA(64,4) batch_first [2,10,64] eval": lambda: _case(SelfAttention(), (2, 10, 64)),
    "TransformerEncoderLayer(64,4,128) [2,10,64] eval": lambda: _case(
        nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (2, 10, 64)
    ),
    "LSTM(10,20,2 layers) seq-first [5,3,10]": lambda: _case(nn.LSTM(10, 20, 2), (5, 3, 10)),
    "LSTM bidir(10,20,2) [5,3,10]": lambda: _case(nn.LSTM(10, 20, 2, bidirectional=True), (5, 3, 10)),
    "GRU(10,20) [5,3,10]": lambda: _case(nn.GRU(10, 20), (5, 3, 10)),
    "LSTMCell(10,20) [3,10]": lambda: _case(nn.LSTMCell(10, 20), (3, 10)),
    "BatchNorm2d(16) eval [1,16,8,8]": lambda: _case(nn.BatchNorm2d(16), _IMAGE),
    "LayerNorm(64) [2,10,64]": lambda: _case(nn.LayerNorm(64), (2, 10, 64)),
    "GroupNorm(4,16) [1,16,8,8]": lambda: _case(nn.GroupNorm(4, 16), _IMAGE),
    "RMSNorm(64) [2,10,64]": lambda: _case(nn.RMSNorm(64), (2, 10, 64)),
    "ReLU [1,16,8,8]": lambda: _case(nn.ReLU(), _IMAGE),
    "GELU": lambda: _case(nn.GELU(), _IMAGE),
    "SiLU": lambda: _case(nn.SiLU(), _IMAGE),
    "Sigmoid": lambda: _case(nn.Sigmoid(), _IMAGE),
    "Softmax dim-1 [4,10,10]": lambda: _case(nn.Softmax(-1), (4, 10, 10)),
    "MaxPool2d k3 s2 [1,16,8,8]": lambda: _case(nn.MaxPool2d(3, 2), _IMAGE),
    "AvgPool2d k2 [1,16,8,8]": lambda: _case(nn.AvgPool2d(2), _IMAGE),
    "AdaptiveAvgPool2d(1) [1,16,8,8]": lambda: _case(nn.AdaptiveAvgPool2d(1), _IMAGE),
    "Embedding(100,64) [2,10]": lambda: _case(nn.Embedding(100, 64), (2, 10), dtype=torch.int64),
    "Upsample bilinear x2 [1,16,8,8]": lambda: _case(nn.Upsample(scale_factor=2, mode="bilinear"), _IMAGE),
    "F.interpolate nearest x2": lambda: _case(Function(lambda x: F.interpolate(x, scale_factor=2)), _IMAGE),
    "add x+y [1,16,8,8]": lambda: _case(Function(lambda x, y: x + y), _IMAGE, _IMAGE),
    "torch.mul [2,3,4]*[4]": lambda: _case(Function(lambda *tensors: torch.mul(*tensors)), (2, 3, 4), (4,)),
    "shared Linear called 3x [8,64]": lambda: _case(Shared(), (8, 64)),
    "subclass of nn.Linear": lambda: _case(Derived(64, 32, bias=False), (8, 64)),
    "m.forward() direct call": lambda: _case(Direct(), (8, 64)),
    "own nn.Parameter + child + unused": lambda: _case(Mixed(), (8, 64)),
    "dynamic control flow": lambda: _case(Branching(), (4, 16)),
    "custom autograd.Function matmul": lambda: _case(OwnGradient(), (8, 64)),
    "dynamic-quantised Linear(64->32)": lambda: _case(_quantized(), (8, 64)),
    "sparse mm (coo 10% dense) [64,64]x[64,32]": lambda: _case(Sparse(), (64, 32)),
    "bf16 Linear": lambda: _case(nn.Linear(64, 32, bias=False, dtype=torch.bfloat16), (8, 64), dtype=torch.bfloat16),
    "torch.compile(Linear)": lambda: _case(torch.compile(nn.Linear(64, 32, bias=False)), (8, 64)),
}
