"""How many pairs of a query and a key the mask of an attention leaves, where its elements are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.operators.masks import pairs_within
from flopwise.readers.torch.capture.stand_ins import StandIns
from flopwise.readers.torch.capture.values import LARGEST_FLAGS

#: Operators with a mask among their arguments.
ATTENTION = frozenset(
    f"aten.{name}"
    for name in (
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_dot_product_cudnn_attention",
    )
)

#: A mask that is added closes a pair when it is this or less: the pair's weight is zero in every element type.
_CLOSED = -10_000.0


def pairs_left(
    stand_ins: StandIns, args: Sequence[Any], kwargs: Mapping[str, Any], module: torch.nn.Module | None
) -> dict[str, int]:
    """What the mask of an attention leaves, under "pairs"; nothing where there is no mask, or one that is not known.

    Args:
        stand_ins: what knows elements.
        args: query, key, value, and the mask, as the program passed them.
        kwargs: likewise.
        module: the innermost module; where the elements of a mask are not known, because they follow from the input
            or are many, its own ``is_causal`` and ``sliding_window`` say what the mask leaves at most.
    """
    mask = kwargs.get("attn_mask", kwargs.get("attn_bias", args[3] if len(args) > 3 else None))
    if not isinstance(mask, TorchTensor) or len(args) < 2:
        return {}
    query, key = args[0], args[1]
    queries, keys = query.shape[-2], key.shape[-2]
    heads = math.prod(query.shape[:-2])
    elements = mask if not mask.is_meta and "_flopwise" not in mask.__dict__ else stand_ins.elements_of(mask)
    if elements is not None and mask.numel():
        return {"pairs": _open(elements) * (heads * queries * keys // mask.numel())}
    if module is None:
        return {}
    window = getattr(module, "sliding_window", None)
    causal = bool(getattr(module, "is_causal", False))
    if not causal and not isinstance(window, int):
        return {}
    left = window - 1 if isinstance(window, int) and window > 0 else None
    return {"pairs": heads * pairs_within(queries, keys, keys - queries, left, 0 if causal else None)}


def _open(mask: TorchTensor) -> int:
    """Elements of a mask that leave their pair; counted once for each mask, which all layers share."""
    count: int | None = mask.__dict__.get("_flopwise_open")
    if count is None:
        with torch._C.DisableTorchFunction():
            plain = mask.detach()
            count = int((plain if plain.dtype is torch.bool else plain > _CLOSED).count_nonzero())
        mask._flopwise_open = count  # type: ignore[attr-defined]
    return count


def pairs_of_block_mask(block_mask: Any, query: TorchTensor, key: TorchTensor) -> dict[str, int]:
    """What a block mask of ``flex_attention`` leaves, under "pairs": its function asked for every pair.

    Nothing where there is none, or where its function needs elements that are not known.
    """
    if not isinstance(block_mask, tuple) or not callable(block_mask[-1]):
        return {}
    rule: Callable[..., Any] = block_mask[-1]
    if getattr(rule, "__name__", "") == "noop_mask":
        return {}
    batch, heads, queries, keys = (*query.shape[:2], query.shape[-2], key.shape[-2])
    own = [t.shape[:2] for t in block_mask if isinstance(t, TorchTensor) and t.dim() >= 3]
    rows = own[0] if own else (batch, heads)  # 1 where the mask is the same for all
    if math.prod(rows) * queries * keys > LARGEST_FLAGS:
        return {}
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            places = [
                torch.arange(n).reshape([n if i == axis else 1 for i in range(4)])
                for axis, n in enumerate((*rows, queries, keys))
            ]
            left = torch.as_tensor(rule(*places)).expand(*rows, queries, keys)
            return {"pairs": int(left.count_nonzero()) * (batch * heads // math.prod(rows))}
    except Exception:  # the function takes single pairs only, or elements that are not known
        return {}
