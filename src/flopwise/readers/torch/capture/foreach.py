"""Operators on lists of tensors (``torch._foreach_add``): one operation for each tensor, as PyTorch runs them too where
it has no kernel for the list.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.readers.torch.capture.interception_plan import FOREACH, Plan
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.capture.writes import schemas

#: Operators of lists -> the function of one tensor where its name is another, or where it takes no number.
_OTHERWISE: dict[str, Function] = {
    "norm": torch.linalg.vector_norm,
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "maximum_": torch.Tensor.clamp_min_,
    "minimum_": torch.Tensor.clamp_max_,
}

#: Operators whose last argument, a number, is taken by its name alone by the function of one tensor.
_SCALED = frozenset({"addcmul", "addcdiv"})


def each(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The results of an operator for each tensor of its lists; where there is none for one tensor, it is recorded as it
    is.
    """
    name = plan.name.partition(FOREACH)[2]
    bare = name.removesuffix("_")
    one = _OTHERWISE.get(name) or getattr(torch.Tensor if bare != name else torch, name, None)
    operands, named = _positional(plan.name.replace(".", "::"), args, kwargs)
    length = next((len(a) for a in operands if _is_list(a)), 0)
    if bare in _SCALED and len(operands) > 3:
        named["value"] = operands.pop()
    if one is None or not length or isinstance(named.get("value"), TorchTensor):
        return recorder.record(plan, func, args, kwargs)
    with recorder.interception:
        results = [
            one(*[_part(a, index) for a in operands], **{key: _part(value, index) for key, value in named.items()})
            for index in range(length)
        ]
    return None if bare != name and plan.public.startswith("torch.ops.") else tuple(results)


def _positional(name: str, args: tuple[object, ...], kwargs: Kwargs) -> tuple[list[Any], Kwargs]:
    """The arguments in the order of the operator's schema, and those that it takes by name alone."""
    names = {key for key in kwargs if key != "alpha"}
    for schema in schemas(name) if names else ():
        order = [a.name for a in schema.arguments if not a.kwarg_only]
        if names <= set(order):
            operands = [*args, *[kwargs[key] for key in order[len(args) :] if key in names]]
            return operands, {key: value for key, value in kwargs.items() if key not in names}
    return list(args), dict(kwargs)


def _is_list(argument: object) -> bool:
    return isinstance(argument, (tuple, list)) and bool(argument) and isinstance(argument[0], TorchTensor)


def _part(argument: object, index: int) -> Any:
    """The part of an argument that belongs to one tensor."""
    return argument[index] if isinstance(argument, (tuple, list)) else argument
