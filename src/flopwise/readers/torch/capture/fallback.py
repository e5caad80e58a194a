"""Second attempts: operations that meta tensors cannot run in the way a program asked for them.

A size, an index or a number of repetitions may be given as a tensor. Meta tensors have no elements, but where these
follow from constants they are known beside, and where the shape of the result is the same for all, any will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Kwargs
from flopwise.readers.torch.capture.tensors import flat, like_meta
from flopwise.readers.torch.capture.values import Values, mark_made_up


def grouped_mm(mat_a: TorchTensor, mat_b: TorchTensor, *others: object, **more: Any) -> TorchTensor:
    """An empty result of a grouped matmul, on the device of ``mat_a``.

    (T, K) × (G, K, N) is (T, N); (M, K) × (K, N) with K split into G groups is (G, M, N); (G, M, K) × (K, N) with N
    split is (M, N); (G, M, K) × (G, K, N) is (G, M, N).
    """
    offsets = more.get("offs", others[0] if others else None)
    groups = offsets.shape[0] if isinstance(offsets, TorchTensor) else 1
    if mat_a.dim() == 2:
        size = (mat_a.shape[0], mat_b.shape[-1]) if mat_b.dim() == 3 else (groups, mat_a.shape[0], mat_b.shape[1])
    elif mat_b.dim() == 2:
        size = (mat_a.shape[1], mat_b.shape[1])
    else:
        size = (mat_a.shape[0], mat_a.shape[1], mat_b.shape[2])
    result = mat_a.new_empty(size, dtype=more.get("out_dtype") or mat_a.dtype)
    gradients = torch.is_grad_enabled() and any(
        isinstance(t, TorchTensor) and t.requires_grad for t in (mat_a, mat_b, *others)
    )
    return result.requires_grad_() if gradients else result


#: Operators that read the lengths of sequences.
READING = frozenset({"aten._pack_padded_sequence", "aten.pack_padded_sequence"})

#: Operators whose result has as many elements as the elements of their arguments say.
_NAMES = """
    nonzero argwhere masked_select unique _unique2 unique_dim unique_consecutive bincount one_hot repeat_interleave
"""
_COUNTING = frozenset(f"aten.{name}" for name in _NAMES.split())

#: Those of them whose elements say which ones of a tensor are chosen, and not how often.
_CHOOSING = frozenset(f"aten.{name}" for name in ("nonzero", "argwhere", "masked_select", "where"))

#: Operators -> the position and the name of an argument whose elements change no shape.
_FREE = {
    "aten.getitem": (1, ""),
    "aten.setitem_": (1, ""),
    "aten.full": (1, "fill_value"),
    "aten.full_like": (1, "fill_value"),
    "aten.new_full": (2, "fill_value"),
}

#: What PyTorch says when a meta tensor is asked for elements.
_WORDS = ("cannot be called on meta tensors", "torch.nonzero()", "_local_scalar_dense")

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def chosen(
    values: Values,
    name: str,
    func: Callable[..., object],
    args: Sequence[Any],
    kwargs: Kwargs,
    targets: Sequence[TorchTensor],
) -> object:
    """The elements of a result whose shape follows from those of the arguments, None where these are unknown.

    Where those were made up, all that can be chosen are.

    Args:
        values: the elements that are known.
        name: what the operator is called ("aten.nonzero").
        func: what computes it.
        args: its arguments, tensors on meta.
        kwargs: likewise.
        targets: the arguments that it writes into.
    """
    beside = values.beside(func, args, kwargs, targets)
    names = values.made_up_in((*args, *kwargs.values()))
    if beside is None or not names:
        return beside
    if name not in _CHOOSING:
        values.ask(next(flat((beside,)), None), name)
        return beside
    every = [values.all_of(v) if isinstance(a, TorchTensor) and (v := values.of(a)) is not None else a for a in args]
    with torch._C.DisableTorchFunction():
        beside = func(*every, **kwargs)
    mark_made_up(beside, names)
    return beside


def second_attempt(
    values: Values, name: str, func: Callable[..., object], args: Sequence[Any], kwargs: Kwargs
) -> object:
    """The result of an operator that failed on meta tensors, run with numbers in place of tensors; None if it fails.

    A grouped matmul has a rule of its own here.

    Args:
        values: the elements that are known.
        name: what the operator is called ("aten.view").
        func: what computes it.
        args: its arguments, tensors on meta.
        kwargs: likewise.
    """
    if name in ("aten._grouped_mm", "aten.grouped_mm"):
        return grouped_mm(*args, **kwargs)
    if name == "aten.masked_select" and len(args) == 2:
        return _masked_select(values, *args)
    if name == "aten.repeat_interleave":
        kwargs = _with_output_size(values, args, kwargs)
    position, free = _FREE.get(name, (-1, ""))
    plain_args = [_number_of(values, a, i == position) for i, a in enumerate(args)]
    plain_kwargs = {key: _number_of(values, a, key == free) for key, a in kwargs.items()}
    try:
        result = func(*plain_args, **plain_kwargs)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    return like_meta(result) if isinstance(result, TorchTensor) and not result.is_meta else result


def _masked_select(values: Values, tensor: TorchTensor, mask: TorchTensor) -> TorchTensor | None:
    """As many elements of a tensor as a mask has that is known."""
    flags = values.of(mask)
    if flags is None:
        return None
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)  # type: ignore[no-untyped-call] # PyTorch gives it no types
    return tensor.new_empty(int(values.all_of(flags).broadcast_to(shape).count_nonzero()))


def asks_for_elements(name: str, error: Exception) -> bool:
    """True if an operator failed because meta tensors have no elements."""
    return name in _COUNTING or any(words in str(error) for words in _WORDS)


def _number_of(values: Values, thing: object, any_will_do: bool) -> object:
    """The argument with numbers in place of tensors without axes (in tuples and lists too) that hold a known integer.

    With ``any_will_do``, the number changes no shape: any known one is taken, and 0 where it is unknown.
    """
    if isinstance(thing, TorchTensor):
        if thing.dim():
            return thing
        value = values.of(thing)
        if value is not None and (any_will_do or thing.dtype in _WHOLE):
            if not any_will_do:
                values.ask(value, "torch.Tensor.__index__")
            return value.item()
        return 0 if any_will_do and thing.dtype is not torch.bool else thing
    if thing.__class__ in (tuple, list, torch.Size):
        return tuple([_number_of(values, part, any_will_do) for part in thing])
    return thing


def _with_output_size(values: Values, args: Sequence[Any], kwargs: Kwargs) -> Kwargs:
    """The keyword arguments of ``repeat_interleave``, with the ``output_size`` that meta tensors need if it is known.

    Args:
        values: the elements that are known.
        args: tensor, repeats and dim, or repeats alone.
        kwargs: of the call.
    """
    repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0])
    counts = values.of(repeats) if isinstance(repeats, TorchTensor) else None
    if counts is None or "output_size" in kwargs:
        return kwargs
    values.ask(counts, "torch.repeat_interleave")
    times, dim = int(counts.sum()), kwargs.get("dim", args[2] if len(args) > 2 else None)
    if counts.numel() == 1 and len(args) > 1:  # one number for all
        times *= args[0].numel() if dim is None else args[0].shape[dim]
    return {**kwargs, "output_size": times}
