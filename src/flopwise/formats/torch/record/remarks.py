"""Facts about an operation's arguments beside their shapes: how many pairs the mask of an attention leaves, where its
elements are known, and which kernel of PyTorch's computes it, and so how its result lies in memory; what a sparse
matrix stores; and the weights that a quantized layer has packed.

Source: ``aten/src/ATen/native/transformers/sdp_utils_cpp.cpp`` and ``cuda/sdp_utils.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.options import AttentionKernel
from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.lower.layers import LINEAR
from flopwise.formats.torch.record.stand_ins import StandIns
from flopwise.formats.torch.record.values import DTYPES, LARGEST_FLAGS, elements_in_a_row, is_mask, made_up
from flopwise.graph import Tensor
from flopwise.operators.masks import pairs_within

#: Operators with a mask among their arguments.
ATTENTION = frozenset(
    f"aten.{name}" for name in LINEAR if "scaled_dot_product" in name and name != "_scaled_dot_product_flash_attention"
)

#: Operators of sequences that lie in a row, whose borders are among the arguments.
_VARLEN = frozenset({"torch_attn._varlen_attn", "torch_attn._varlen_attn_out"})

#: Behind scores that a program masks by itself.
_SOFTMAX = frozenset({"aten.softmax", "aten._softmax", "aten._safe_softmax"})

#: Operators whose first matrix may be sparse.
_SPARSE = frozenset(f"aten.{name}" for name in ("_sparse_mm", "smm", "sspaddmm", "_sparse_sparse_matmul"))

#: A mask that is added closes a pair when it is this or less: the pair's weight is zero in every element type.
_CLOSED = -10_000.0


def remarks(
    name: str, args: Args, kwargs: Kwargs, stand_ins: StandIns, module: torch.nn.Module | None, path: str
) -> Kwargs:
    """Facts about the arguments of a call, by name.

    Args:
        name: the operator.
        args: of the call.
        kwargs: likewise.
        stand_ins: what knows elements.
        module: the innermost module.
        path: its path.
    """
    if name in ATTENTION:
        return _nested(args, kwargs, stand_ins) or pairs_left(stand_ins, args, kwargs, module)
    if name in _SOFTMAX:
        return mask_of_module(module)
    if name in _VARLEN:
        return _varlen(name, args, kwargs, stand_ins)
    if name in _SPARSE:
        sparse = [a for a in args if isinstance(a, TorchTensor) and a.layout is not torch.strided and not a.is_meta]
        return {"nnz": sparse[0]._nnz()} if sparse else {}
    return _packed(args, path) if name.startswith("quantized.") else {}


def _packed(args: Sequence[object], module: str) -> dict[str, Tensor]:
    """The weight and the bias in the packed form of a quantized layer, by name; nothing where there is none.

    Args:
        args: the arguments of an operator.
        module: the path of the layer.
    """
    prefix = f"{module}." if module else ""
    for packed in args:
        for layer in ("linear", "conv1d", "conv2d", "conv3d") if isinstance(packed, torch.ScriptObject) else ():
            for kind in ("", "_fp16") if layer == "linear" else ("",):
                try:
                    weight, bias = getattr(torch.ops.quantized, f"{layer}_unpack{kind}")(packed)
                except (RuntimeError, TypeError):
                    continue
                tensors = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
                return {
                    n: Tensor(prefix + n, tuple(t.shape), DTYPES.get(t.dtype), "weight") for n, t in tensors.items()
                }
    return {}


def pairs_left(stand_ins: StandIns, args: Args, kwargs: Kwargs, module: torch.nn.Module | None) -> dict[str, int]:
    """The pairs that the mask of an attention leaves, under "pairs"; empty where there is no mask, or it is not known.

    Where the elements of a mask are not known, because they follow from the input or are many, the module's own
    ``is_causal`` and ``sliding_window`` say what the mask leaves at most.
    """
    mask = kwargs.get("attn_mask", kwargs.get("attn_bias", args[3] if len(args) > 3 else None))
    if not isinstance(mask, TorchTensor) or len(args) < 2:
        return {}
    query, key = args[0], args[1]
    queries, keys = query.shape[-2], key.shape[-2]
    heads = math.prod(query.shape[:-2])
    elements = mask if not mask.is_meta and "_flopwise" not in mask.__dict__ else stand_ins.elements_of(mask)
    if elements is not None and mask.numel() and all(map(is_mask, made_up(elements))):
        return {"pairs": _pairs_of_mask(elements) * (heads * queries * keys // mask.numel())}
    stated = mask_of_module(module)
    if not stated:
        return {}
    left, causal = stated["left_window_size"], stated["is_causal"]
    window = left if left >= 0 else None
    return {"pairs": heads * pairs_within(queries, keys, keys - queries, window, 0 if causal else None)}


def mask_of_module(module: torch.nn.Module | None) -> dict[str, int]:
    """The mask that a module of transformers states, as attributes of ONNX's ``Attention``; empty where it states
    none.
    """
    window, causal = getattr(module, "sliding_window", None), bool(getattr(module, "is_causal", False))
    if not causal and not isinstance(window, int):
        return {}
    return {"is_causal": int(causal), "left_window_size": window - 1 if isinstance(window, int) and window > 0 else -1}


def _varlen(name: str, args: Args, kwargs: Kwargs, stand_ins: StandIns) -> Kwargs:
    """The lengths of packed sequences and their heads, under "ragged"; their cumulative lengths are arguments."""
    names = ("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k", "is_causal", "scale", "window_size")
    call = {**dict(zip(("out", *names) if name.endswith("_out") else names, args, strict=False)), **kwargs}
    both = call["query"], call["key"]
    paged = call.get("block_table") is not None or call.get("seqused_k") is not None
    borders = [call["cu_seq_q"], call.get("cu_seq_k")]
    lengths = None if paged else _lengths(borders, [tensor.shape[0] for tensor in both], stand_ins)
    window = tuple([None if side < 0 else side for side in call.get("window_size") or (-1, -1)])
    heads = tuple([tensor.shape[-2] for tensor in both])
    causal = bool(call.get("is_causal", False))
    return {"ragged": {"lengths": lengths, "heads": heads, "is_causal": causal, "window": window}}


def _nested(args: Args, kwargs: Kwargs, stand_ins: StandIns) -> Kwargs:
    """As ``_varlen``, for nested tensors (batch, heads, ragged length, head size); empty for others."""
    both: Any = (*args, kwargs.get("query"), kwargs.get("key"))[:2]
    if not all(isinstance(tensor, TorchTensor) and tensor.is_nested for tensor in both) or both[0].dim() != 4:
        return {}
    inner = [values for values in map(elements_in_a_row, both) if values is not None]
    if len(inner) < 2:
        return {}
    heads = tuple([int(tensor.shape[1]) for tensor in both])
    paged = any(getattr(tensor, "_lengths", None) is not None for tensor in both)  # with gaps between them
    rows = [values.numel() // (n * values.shape[-1]) for values, n in zip(inner, heads, strict=True)]
    lengths = None if paged else _lengths([getattr(t, "_offsets", None) for t in both], rows, stand_ins)
    causal = bool(kwargs.get("is_causal", args[5] if len(args) > 5 else False))
    return {"ragged": {"lengths": lengths, "heads": heads, "is_causal": causal}}


def _lengths(borders: Sequence[object], rows: Sequence[int], stand_ins: StandIns) -> tuple[tuple[int, ...], ...] | None:
    """The lengths of the packed sequences of queries and of keys, by their cumulative ones; None if any is unknown, or
    they do not end at the number of tokens.

    Args:
        borders: cumulative lengths of queries and of keys; None for keys that share those of the queries.
        rows: tokens of all queries, and of all keys.
        stand_ins: what knows elements.
    """
    both: list[tuple[int, ...]] = []
    for cumulative, tokens in zip(borders, rows, strict=True):
        if cumulative is None and both:
            both.append(both[0])
            continue
        elements = stand_ins.elements_of(cumulative) if isinstance(cumulative, TorchTensor) else None
        if elements is None:
            return None
        with torch._C.DisableTorchFunction():
            lengths = tuple([end - start for start, end in pairwise(elements.tolist())])
        if sum(lengths) != tokens or min(lengths, default=0) < 0:
            return None
        both.append(lengths)
    return tuple(both)


def _pairs_of_mask(mask: TorchTensor) -> int:
    """Number of query-key pairs that a mask lets through: True, or above ``_CLOSED`` in a mask that is added.

    It is counted once for each mask, since layers share them.
    """
    count: int | None = mask.__dict__.get("_flopwise_open")
    if count is None:
        with torch._C.DisableTorchFunction():
            plain = mask.detach()
            count = int((plain if plain.dtype is torch.bool else plain > _CLOSED).count_nonzero())
        mask._flopwise_open = count  # type: ignore[attr-defined]
    return count


def pairs_of_block_mask(block_mask: object, query: TorchTensor, key: TorchTensor) -> dict[str, int]:
    """The pairs that a block mask of ``flex_attention`` leaves, under "pairs": its function is asked for every pair.

    Empty where there is none, or where its function needs elements that are not known.
    """
    rule: Function | None = block_mask[-1] if isinstance(block_mask, tuple) else None
    if not callable(rule) or getattr(rule, "__name__", "") == "noop_mask":
        return {}
    batch, heads, queries, keys = (*query.shape[:2], query.shape[-2], key.shape[-2])
    own = [t.shape[:2] for t in block_mask if isinstance(t, TorchTensor) and t.dim() >= 3]  # type: ignore[attr-defined]
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


_HALVES = (torch.float16, torch.bfloat16)
_ON_CPU = (torch.float32, torch.float64, *_HALVES)
_LONGEST_HEAD = 256


def kernel_of(device: str, args: Sequence[object], kwargs: Kwargs) -> AttentionKernel:
    """The kernel that PyTorch chooses for ``scaled_dot_product_attention``.

    A fused one needs four axes, none of them empty in query and key, and the last one contiguous; a mask of two or four
    axes.

    Args:
        device: type of the device.
        args: of the call: query, key, value, and perhaps the mask, the dropout and whether it is causal.
        kwargs: likewise.
    """
    values = dict(zip(("query", "key", "value", "attn_mask", "dropout_p"), args, strict=False)) | dict(kwargs)
    qkv: list[Any] = [values.get(name) for name in ("query", "key", "value")]
    mask, dropout = values.get("attn_mask"), values.get("dropout_p", 0.0)
    fits = all(isinstance(t, TorchTensor) and t.dim() == 4 and t.stride(-1) == 1 for t in qkv)
    if not fits or 0 in (*qkv[0].shape, *qkv[1].shape):
        return "math"
    if isinstance(mask, TorchTensor) and mask.dim() not in (2, 4):
        return "math"
    query, key, value = qkv
    width, is_trained = query.shape[-1], isinstance(mask, TorchTensor) and mask.requires_grad
    same = width == key.shape[-1] == value.shape[-1]
    if device == "cpu":
        return "flash" if same and not dropout and not is_trained and query.dtype in _ON_CPU else "math"
    if is_trained:
        return "efficient"
    if device != "cuda":
        return "math"
    if same and mask is None and query.dtype in _HALVES and width <= _LONGEST_HEAD:
        return "flash"
    grouped = query.shape[1] != key.shape[1]
    return "efficient" if not grouped and query.dtype in (torch.float32, *_HALVES) else "math"


def laid_out(result: object, query: object, kernel: AttentionKernel) -> object:
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
