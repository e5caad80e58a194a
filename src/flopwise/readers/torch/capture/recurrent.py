"""Recurrent layers whose steps repeat: PyTorch unrolls them on meta tensors, one operation after the other, so they run
on few steps, and what those give is stretched to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Function
from flopwise.readers.torch.capture.stand_ins import SavedStorages

#: The steps of the two short runs; from the second step on each keeps as many bytes as the one before.
_SHORT = (2, 3)


def steps_of(args: Sequence[Any]) -> int:
    """The steps of a call that may be shortened; 0 where it may not: a packed sequence, whose lengths are data.

    Args:
        args: input, first state, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first.
    """
    plain = len(args) == 9 and isinstance(args[0], TorchTensor) and isinstance(args[3], bool)
    return int(args[0].shape[_axis(args)]) if plain and args[0].dim() == 3 else 0


def shortened(func: Function, args: Sequence[Any], saved: SavedStorages | None) -> object:
    """The results of a call, as of one with fewer steps.

    Args:
        func: the layer.
        args: of the call, on meta tensors.
        saved: what autograd keeps, which is stretched too; None where that is not recorded.
    """
    axis, steps = _axis(args), steps_of(args)
    if steps <= _SHORT[-1]:
        return func(*args)
    sizes: list[dict[str, int]] = []
    for count in _SHORT if saved else _SHORT[:1]:
        if saved:
            saved.forget()
        result = func(args[0].narrow(axis, 0, count), *args[1:])
        if saved:
            sizes.append(saved.sizes())
    if saved and len(sizes) == len(_SHORT):
        fewer, more = sizes
        own = more.get("", 0) + (steps - _SHORT[1]) * (more.get("", 0) - fewer.get("", 0))
        saved.state({**more, "": own})
    return (_stretched(result[0], axis, steps), *result[1:])


def _axis(args: Sequence[object]) -> int:
    """The axis of the steps: the second where the batch is the first."""
    return 1 if args[-1] else 0


def _stretched(tensor: TorchTensor, axis: int, steps: int) -> TorchTensor:
    """A meta tensor that has more steps along an axis, and its elements in the same order."""
    shape = [steps if place == axis else extent for place, extent in enumerate(tensor.shape)]
    strides, reach = [0] * len(shape), 1
    for place in sorted(range(len(shape)), key=lambda place: (tensor.stride(place), -place)):
        strides[place] = reach
        reach *= shape[place]
    longer = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
    return longer.requires_grad_(tensor.requires_grad)
