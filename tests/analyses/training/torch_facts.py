"""What PyTorch itself does in a training step: its own count of a real backward pass, and what its autograd keeps.

Imports torch: ask for it with ``pytest.importorskip`` first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from flopwise.graph import Graph
from flopwise.profiles.profile import Profile

#: Operators that FlopCounterMode knows, also where PyTorch's code makes one of several of its products.
PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Attention"}
PRODUCTS |= {
    f"aten::{name}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell")
}


class Step(NamedTuple):
    """Multiply-accumulates of a forward and of a backward pass."""

    forward: int
    backward: int


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result, however it is nested."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def measured(model: nn.Module, args: Any, kwargs: Any) -> Step:
    """FlopCounterMode's figures, halved, around a real forward and backward pass; attention without fused kernels."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        result = model(*args, **kwargs)
        forward = counter.get_total_flops()
        losses = [t.sum() for t in tensors(result) if t.is_floating_point() and t.requires_grad]
        torch.stack(losses).sum().backward()
        both = counter.get_total_flops()
    return Step(forward // 2, (both - forward) // 2)


def of_profile(profile: Profile) -> Step:
    """The same of our profile: the operators that FlopCounterMode knows."""
    rows = [row for row in profile.rows if row.node.op in PRODUCTS]
    assert all(row.macs is not None and row.backward_macs is not None for row in rows)
    return Step(sum(row.macs or 0 for row in rows), sum(row.backward_macs or 0 for row in rows))


def overcounted(graph: Graph) -> int:
    """What FlopCounterMode counts too much in convolutions with groups.

    Its formula for the gradient of the weight multiplies all input channels with all output channels; only those of one
    group meet (torch 2.13, conv_backward_flop).
    """
    total = 0
    for node in graph.nodes:
        groups = node.attrs.get("group", 1)
        if node.op == "Conv" and groups > 1 and node.input(1).grad:
            total += (groups - 1) * node.output().numel * math.prod(node.input(1).dims[1:])  # type: ignore[arg-type]
    return total


def kept(model: nn.Module, args: Any, kwargs: Any) -> int:
    """Bytes of the storages that autograd keeps, parameters and buffers left out, each storage once."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    found: dict[int, tuple[int, torch.Tensor]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = model(*args, **kwargs)
        total = sum(size for size, _ in found.values())
    del result
    return total
