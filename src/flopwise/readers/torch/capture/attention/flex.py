"""Attention whose scores a function of the program changes (``flex_attention``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.capture.attention.masks import pairs_of_block_mask
from flopwise.readers.torch.capture.interception_plan import synthetic
from flopwise.readers.torch.capture.recorder import Recorder


def flex_attention(recorder: Recorder, args: tuple[Any, ...]) -> Any:
    """The results of the operator; the function that changes the scores is recorded on all scores at once.

    Args:
        recorder: what writes operations down.
        args: query, key and value, then the function or None.
    """
    stand_ins = recorder.stand_ins
    query, key, value = used = tuple([stand_ins.swap(a) for a in args[:3]])
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    if recorder.grad and any(t.requires_grad for t in used):
        out.requires_grad_()
    change = args[3] if len(args) > 3 else None
    if change is not None and getattr(change, "__name__", "") != "_identity":
        _change_scores(recorder, change, (*query.shape[:-1], key.shape[-2]), query)
    plan = synthetic("aten.flex_attention", "torch.nn.attention.flex_attention.flex_attention")
    pairs = pairs_of_block_mask(args[4] if len(args) > 4 else None, query, key)
    recorder.write(plan, out, used, {}, tuple(map(stand_ins.graphed, used)), pairs)
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32), query.new_empty(query.shape[:-1])


def _change_scores(recorder: Recorder, change: Callable[..., Any], shape: tuple[int, ...], like: TorchTensor) -> None:
    """Run the function for one score on all scores; a function that takes single scores only is unknown."""
    indices = [
        torch.empty([n if i == axis else 1 for i in range(4)], dtype=torch.int64, device="meta")
        for axis, n in enumerate(shape)
    ]
    scores = torch.empty(shape, dtype=like.dtype, device="meta")
    for tensor in (scores, *indices):
        recorder.stand_ins.result(tensor, False)
    before = len(recorder.events)
    try:
        with recorder.interception:
            change(scores, *indices)
    except Exception:  # it needs a single score
        del recorder.events[before:]
        plan = synthetic("flex.score_mod", getattr(change, "__name__", "score_mod"))
        recorder.write(plan, scores.new_empty(shape), (scores,), {}, (recorder.stand_ins.graphed(scores),), {})
