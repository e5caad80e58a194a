"""Attention whose scores a function of the program changes (``flex_attention``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.capture.plans import Plan

if TYPE_CHECKING:
    from flopwise.readers.torch.capture.recorder import Watch


def flex_attention(watch: Watch, args: tuple[Any, ...]) -> Any:
    """Watch the operator; the function that changes the scores is watched on all scores at once.

    Args:
        watch: what writes operations down.
        args: query, key and value, then the function or None.
    """
    query, key, value = used = tuple([watch._swap(a) for a in args[:3]])
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    if watch.grad and any(t.requires_grad for t in used):
        out.requires_grad_()
    change = args[3] if len(args) > 3 else None
    if change is not None and getattr(change, "__name__", "") != "_identity":
        _change_scores(watch, change, (*query.shape[:-1], key.shape[-2]), query)
    public = "torch.nn.attention.flex_attention.flex_attention"
    watch._write(
        Plan("record", "aten.flex_attention", public, _nothing), out, used, {}, tuple(map(watch._ours, used)), {}
    )
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32), query.new_empty(query.shape[:-1])


def _change_scores(watch: Watch, change: Callable[..., Any], shape: tuple[int, ...], like: TorchTensor) -> None:
    """Run the function for one score on all scores; one that takes single scores only is unknown."""
    places = [
        torch.empty([n if i == axis else 1 for i in range(4)], dtype=torch.int64, device="meta")
        for axis, n in enumerate(shape)
    ]
    scores = torch.empty(shape, dtype=like.dtype, device="meta")
    for tensor in (scores, *places):
        watch._made(tensor, [], False)
    before = len(watch.events)
    try:
        with watch:
            change(scores, *places)
    except Exception:  # whatever it wants of a single score
        del watch.events[before:]
        unknown = Plan("record", "flex.score_mod", getattr(change, "__name__", "score_mod"), _nothing)
        watch._write(unknown, scores.new_empty(shape), (scores,), {}, (watch._ours(scores),), {})


def _nothing(*args: Any) -> None:
    """What nobody calls."""
