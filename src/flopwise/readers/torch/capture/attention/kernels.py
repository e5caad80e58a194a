"""Which kernel of PyTorch's computes an attention, and how its result lies in memory.

Source: ``aten/src/ATen/native/transformers/sdp_utils_cpp.cpp`` and ``cuda/sdp_utils.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.options import AttentionKernel

_HALVES = (torch.float16, torch.bfloat16)
_ON_CPU = (torch.float32, torch.float64, *_HALVES)
_LONGEST_HEAD = 256


def kernel_of(device: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AttentionKernel:
    """The kernel that PyTorch chooses for ``scaled_dot_product_attention``.

    Args:
        device: type of the device.
        args: of the call: query, key, value, and perhaps the mask, the dropout and whether it is causal.
        kwargs: likewise.
    """
    values = dict(zip(("query", "key", "value", "attn_mask", "dropout_p"), args, strict=False)) | dict(kwargs)
    query, key, value = (values.get(name) for name in ("query", "key", "value"))
    mask, dropout = values.get("attn_mask"), values.get("dropout_p", 0.0)
    if not all(isinstance(t, TorchTensor) and t.dim() == 4 for t in (query, key, value)):
        return "math"
    assert isinstance(query, TorchTensor)
    assert isinstance(key, TorchTensor)
    assert isinstance(value, TorchTensor)
    width = query.shape[-1]
    same = width == key.shape[-1] == value.shape[-1]
    grouped = query.shape[1] != key.shape[1]
    if 0 in (*query.shape, *key.shape) or any(t.stride(-1) != 1 for t in (query, key, value)):
        return "math"
    if isinstance(mask, TorchTensor) and (mask.requires_grad or mask.dim() not in (2, 4)):
        return "math" if device == "cpu" or mask.dim() not in (2, 4) else "efficient"
    if device == "cpu":
        return "flash" if same and not dropout and query.dtype in _ON_CPU else "math"
    if device == "cuda":
        if same and mask is None and query.dtype in _HALVES and width <= _LONGEST_HEAD:
            return "flash"
        return "efficient" if not grouped and query.dtype in (torch.float32, *_HALVES) else "math"
    return "math"


def laid_out(result: Any, query: Any, kernel: AttentionKernel) -> Any:
    """The result of an attention as a fused kernel lays it down: flash in the order of the query, the efficient one
    with the heads of a position beside each other.
    """
    if not isinstance(result, TorchTensor) or result.dim() != 4:
        return result
    if kernel == "flash" and isinstance(query, TorchTensor) and query.shape == result.shape:
        fused = torch.empty_like(query, requires_grad=False)
    else:
        _, heads, length, width = result.shape
        strides = (length * heads * width, width, heads * width, 1)
        fused = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return fused.detach().requires_grad_(result.requires_grad)
