"""What makes tensors while a program is watched: from numbers alone, like another tensor, or on another device.

They are made on meta, wherever the program wants them; their elements are kept beside where they are known and few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.capture.plans import Plan
from flopwise.readers.torch.capture.tensors import like_meta
from flopwise.readers.torch.capture.values import sized_by

if TYPE_CHECKING:
    from flopwise.readers.torch.capture.recorder import Watch

_META = torch.device("meta")

#: Operators that make a tensor of the numbers that they are given.
_OF_NUMBERS = frozenset(f"aten.{name}" for name in ("tensor", "as_tensor", "asarray", "vander", "scalar_tensor"))


def factory(watch: Watch, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor that is made from numbers."""
    if watch.real:
        return watch._record(plan, func, args, kwargs)
    given = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
    if plan.name in _OF_NUMBERS:
        if args and isinstance(args[0], TorchTensor):
            return watch._record(plan, func, args, given)
        return _of_numbers(watch, plan, func, args, given)
    if any(isinstance(a, TorchTensor) for a in (*args, *given.values())):
        return watch._record(plan, func, args, given)
    return watch._record(
        plan, func, args, {**given, "device": _META}, lambda: func(*args, **{**given, "device": "cpu"})
    )


def like(watch: Watch, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of the size of another, or of its type."""
    if watch.real or not args or not isinstance(args[0], TorchTensor):
        return watch._record(plan, func, args, kwargs)
    given = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
    if plan.name == "aten.new_tensor":
        data = args[1] if len(args) > 1 else given["data"]
        return _of_numbers(watch, plan, torch.tensor, (data,), {"dtype": given.get("dtype", args[0].dtype)})
    first = watch._swap(args[0])
    return watch._record(plan, func, args, given, lambda: func(sized_by(first), *args[1:], **given))


def _of_numbers(watch: Watch, plan: Plan, func: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """A tensor of given numbers; some may be tensors themselves, of which the elements are known or not."""
    data, known = watch.values.in_numbers(watch._swap(list(args)))
    made = func(*data, **given)
    return watch.stand_in(made) if known else watch._record(plan, lambda *parts: like_meta(made), args, {})


def move(watch: Watch, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of another type, or the same one where only the device is another."""
    if watch.real:
        return watch._record(plan, func, args, kwargs)
    if plan.name not in ("aten.to", "aten.type"):
        return args[0] if isinstance(args[0], TorchTensor) and id(args[0]) in watch.known else watch._swap(args[0])
    wanted = [a for a in args[1:] if not isinstance(a, (torch.device, str)) or (plan.name == "aten.type")]
    wanted = [watch._swap(a) for a in wanted if not (isinstance(a, int) and not isinstance(a, bool))]
    given = {k: v for k, v in kwargs.items() if k != "device"}
    if not any(isinstance(a, (torch.dtype, TorchTensor, str)) for a in (*wanted, *given.values())):
        return args[0]
    return watch._record(plan, func, (args[0], *wanted), given)
