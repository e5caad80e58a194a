"""The name of each ATen operator in the vocabulary of ONNX, and its arguments as inputs and attributes.

A lowering is a function with the operator's own parameters, so that calling it with the arguments of a call binds them.
Tensors among the arguments are ours; an operator that has no name in ONNX keeps its own ("aten::addcmul").
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from flopwise.formats.torch.lower import elements, layers
from flopwise.formats.torch.lower.node import Lowered, Lowering, tensors
from flopwise.graph import Tensor

#: The operator of what no operation of PyTorch's was seen to make.
UNSEEN_OPERATOR = "torch::Unseen"

#: Operator without its namespace and without the underscore of its in-place form -> how it is lowered.
LOWERINGS: dict[str, Lowering] = {
    **elements.MOVEMENT,
    **elements.POINTWISE,
    **elements.REDUCTION,
    **layers.LOSSES,
    **layers.NORMALIZATION,
    **layers.LINEAR,
    **elements.SIGNALS,
}


class Call(NamedTuple):
    """A call of an operator: its arguments by the operator's own names, with defaults filled in."""

    lowering: Lowering | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def named(self) -> dict[str, object]:
        """Every argument by name; those beyond the known ones as ``arg3``."""
        if self.lowering is None:
            return {**{f"arg{i}": a for i, a in enumerate(self.args)}, **self.kwargs}
        names, defaults = _signature(self.lowering)
        values = dict(defaults)
        for position, value in enumerate(self.args):
            values[names[position] if position < len(names) else f"arg{position}"] = value
        values.update(self.kwargs)
        return values


@lru_cache(maxsize=4096)
def _signature(lowering: Lowering) -> tuple[tuple[str, ...], Mapping[str, object]]:
    parameters = inspect.signature(lowering).parameters.values()
    names = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return names, {p.name: p.default for p in parameters if p.default is not p.empty}


def lower(
    name: str, args: tuple[object, ...], kwargs: Mapping[str, object], outputs: Sequence[Tensor]
) -> tuple[Lowered, Call]:
    """The operator in ONNX's vocabulary, and the call by the names of its arguments.

    Args:
        name: with its namespace ("aten.add_").
        args: as they were given.
        kwargs: likewise.
        outputs: what came out.
    """
    space, _, bare = name.partition(".")
    if name == "torch.unseen":
        return Lowered(UNSEEN_OPERATOR, ()), Call(None, args, kwargs)
    if space == "autograd":
        return Lowered("torch::Function", tensors(*args)), Call(None, args, kwargs)
    base = bare[:-1] if bare.endswith("_") and not bare.endswith("__") else bare
    primitive = space == "prims" and base in elements.POINTWISE  # what PyTorch's own rules are written in
    key = base if space == "aten" or primitive else f"{space}.{base}"
    lowering = LOWERINGS.get(key) or LOWERINGS.get(key.removesuffix("_copy"))
    if "self" in kwargs:
        kwargs = {("input" if k == "self" else k): v for k, v in kwargs.items()}
    if kwargs and "out" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if lowering is not None:
        try:
            return lowering(*args, **kwargs), Call(lowering, args, kwargs)
        except (TypeError, AttributeError, IndexError, ValueError):
            pass  # a form of the call that the lowering does not know
    plain = f"{space}::{base}"
    return Lowered(plain, tensors(*args, *kwargs.values()), {}), Call(None, args, kwargs)
