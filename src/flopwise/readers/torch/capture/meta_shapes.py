"""Results on meta tensors where PyTorch's own rule for them is missing, or narrower than the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor


def grouped_mm(mat_a: TorchTensor, mat_b: TorchTensor, *rest: Any, **more: Any) -> TorchTensor:
    """(T, K) × (G, K, N) is (T, N); (M, K) × (K, N) with K split into groups is (G, M, N)."""
    offsets = more.get("offs", rest[0] if rest else None)
    groups = offsets.shape[0] if isinstance(offsets, TorchTensor) else 1
    if mat_a.dim() == 2:
        size = (mat_a.shape[0], mat_b.shape[-1]) if mat_b.dim() == 3 else (groups, mat_a.shape[0], mat_b.shape[1])
    elif mat_b.dim() == 2:
        size = (mat_a.shape[1], mat_b.shape[1])
    else:
        size = (mat_a.shape[0], mat_a.shape[1], mat_b.shape[2])
    return mat_a.new_empty(size, dtype=more.get("out_dtype") or mat_a.dtype)


_SHAPES: dict[str, Callable[..., Any]] = {
    "aten._grouped_mm": grouped_mm,
    "aten.grouped_mm": grouped_mm,
}


def shaped(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator as meta tensors; None when there is no rule here."""
    rule = _SHAPES.get(name)
    if rule is None:
        return None
    with torch.no_grad():
        result = rule(*args, **kwargs)
    gradients = torch.is_grad_enabled() and any(isinstance(a, TorchTensor) and a.requires_grad for a in args)
    return result.requires_grad_() if gradients else result
