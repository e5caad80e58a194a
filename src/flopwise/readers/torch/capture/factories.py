"""Functions that make tensors: from numbers alone, like another tensor, or on another device.

They are made on meta, wherever the program wants them; few and known elements are kept beside.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.readers.torch.capture.interception_plan import Plan
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.capture.tensors import like_meta
from flopwise.readers.torch.capture.values import mark_made_up, sized_by

_META = torch.device("meta")

#: Operators that make a tensor of the numbers that they are called with.
_OF_NUMBERS = frozenset(f"aten.{name}" for name in ("tensor", "as_tensor", "asarray", "vander", "scalar_tensor"))


def factory(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """A tensor made from numbers."""
    if recorder.elements_were_read(args, kwargs):
        with recorder.aside():
            data, _ = recorder.values.in_numbers(list(args))
            return recorder.stand_ins.outside(func(*data, **_without_device(kwargs)))
    if recorder.real:
        return recorder.record(plan, func, args, kwargs)
    options = _without_device(kwargs)
    if plan.name in _OF_NUMBERS:
        if args and isinstance(args[0], TorchTensor):
            return recorder.record(plan, func, args, options)
        return _of_numbers(recorder, plan, func, args, options)
    if any(isinstance(a, TorchTensor) for a in (*args, *options.values())):
        return recorder.record(plan, func, args, options)
    on_meta = {**options, "device": _META}
    tensor = recorder.record(plan, func, args, on_meta, lambda: func(*args, **{**options, "device": "cpu"}))
    if torch.device(kwargs.get("device") or "cpu") == _META:
        recorder.stand_ins.let_be(tensor)
    return tensor


def like(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """A tensor of the size of another, or of its type."""
    if recorder.elements_were_read(args, kwargs) and isinstance(args[0], TorchTensor):
        with recorder.aside():
            like_it = torch.empty(args[0].shape, dtype=args[0].dtype)
            return recorder.stand_ins.outside(func(like_it, *args[1:], **_without_device(kwargs)))
    if recorder.real or not args or not isinstance(args[0], TorchTensor):
        return recorder.record(plan, func, args, kwargs)
    options = _without_device(kwargs)
    if plan.name == "aten.new_tensor":
        data = args[1] if len(args) > 1 else options["data"]
        return _of_numbers(recorder, plan, torch.tensor, (data,), {"dtype": options.get("dtype", args[0].dtype)})
    first = recorder.stand_ins.swap(args[0])
    return recorder.record(plan, func, args, options, lambda: func(sized_by(first), *args[1:], **options))


def move(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """A tensor of another type, or the same one where only the device changes."""
    if recorder.real:
        return recorder.record(plan, func, args, kwargs)
    swap = recorder.stand_ins.swap
    if plan.name not in ("aten.to", "aten.type"):
        stored = isinstance(args[0], TorchTensor) and id(args[0]) in recorder.stand_ins.graph_tensors
        return args[0] if stored else swap(args[0])
    settings = [a for a in args[1:] if not isinstance(a, (torch.device, str)) or (plan.name == "aten.type")]
    settings = [swap(a) for a in settings if not (isinstance(a, int) and not isinstance(a, bool))]
    options = {k: v for k, v in kwargs.items() if k != "device"}
    if not any(isinstance(a, (torch.dtype, TorchTensor, str)) for a in (*settings, *options.values())):
        return args[0]
    return recorder.record(plan, func, (args[0], *settings), options)


def _of_numbers(recorder: Recorder, plan: Plan, func: Function, args: Args, options: Kwargs) -> object:
    """A tensor of numbers; some may be tensors themselves, whose elements are known or not."""
    stand_ins = recorder.stand_ins
    data, exact = recorder.values.in_numbers(stand_ins.swap(list(args)))
    with recorder.aside():
        tensor = func(*data, **options)
    if exact:
        constant = stand_ins.constant(tensor)
        mark_made_up(recorder.values.of(constant), recorder.values.made_up_in(stand_ins.swap(list(args))))
        return constant
    return recorder.record(plan, lambda *parts: like_meta(tensor), args, {})


def _without_device(kwargs: Kwargs) -> Kwargs:
    return {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
