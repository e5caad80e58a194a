"""Inputs without the tokens that a mask takes out of every sequence."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.graph import Tensor
from flopwise.readers.inputs import InputSpec


def unpadded_inputs(specs: Sequence[InputSpec], tensors: Sequence[Tensor]) -> list[str]:
    """The inputs, as texts, without columns that are zero throughout a mask; [] where no mask is given, or all count.

    Args:
        specs: the inputs as the user gave them.
        tensors: the inputs of the model.
    """
    masks = [spec.value for spec in specs if "mask" in spec.name.lower() and getattr(spec.value, "ndim", 0) == 2]
    used = [int((mask != 0).any(axis=0).sum()) for mask in masks]
    if not masks or not 0 < used[0] < masks[0].shape[1]:
        return []
    tokens = masks[0].shape[1]
    texts = []
    for tensor in tensors:
        dims = [used[0] if place == 1 and size == tokens else size for place, size in enumerate(tensor.dims)]
        texts.append(f"{tensor.name}:{tensor.dtype}:{'x'.join(map(str, dims))}")
    return texts
