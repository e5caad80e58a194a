"""The ways in which functions are met that are not simply recorded: they make tensors from numbers alone, like another
tensor, or on another device; ask or set something about a tensor; look at elements; or call others.

New tensors are made on meta, wherever the program wants them; few and known elements are kept beside.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.record import higher
from flopwise.formats.torch.record.names import FOREACH, Plan, schemas
from flopwise.formats.torch.record.recorder import Recorder, asker
from flopwise.formats.torch.record.stand_ins import META, is_transformed
from flopwise.formats.torch.record.tensors import like_meta
from flopwise.formats.torch.record.values import NeedsLower, NeedsValues, mark_made_up, sized_by

#: Functions that take elements out of a tensor.
_READS = frozenset(
    f"aten.{name}"
    for name in (
        "item",
        "tolist",
        "numpy",
        "__array__",
        "__float__",
        "__complex__",
        "__dlpack__",
        "_local_scalar_dense",
    )
)

#: Functions that compare all elements of two tensors.
_COMPARE = frozenset({"aten.equal", "aten.allclose"})

#: Functions that say how large a tensor is.
_SIZES = frozenset(f"aten.{name}" for name in ("shape", "size", "numel", "nelement", "sym_size", "sym_numel"))

#: Functions that leave something at a tensor.
_HOOKS = frozenset(f"aten.{name}" for name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"))


def ways_of(recorder: Recorder) -> dict[str, Callable[[Plan, Function, Args, Kwargs], Any]]:
    """Handlers of functions, by the way of their plans."""
    ways: dict[str, Callable[[Recorder, Plan, Function, Args, Kwargs], Any]] = {
        "through": _through,
        "ask": _ask,
        "factory": _factory,
        "like": _like,
        "values": _value,
        "device": _device,
        "move": _move,
        "set": _set,
        "higher": higher.run,
        "lower": _lower,
        "detach": Recorder.record,
        "each": _each,
        "record": Recorder.record,
    }
    return {name: functools.partial(way, recorder) for name, way in ways.items()}


# --- functions that ask, set, look at elements, or call others


def _through(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """Call a Python function of PyTorch's and record the operations inside it."""
    position = recorder.position
    if func in recorder.inside:  # it calls ``__torch_function__`` once more all the same
        return recorder.record(Plan("record", plan.name, plan.public, func), func, args, kwargs)
    recorder.inside.add(func)
    before = position.via
    position.via = (*before, plan.public)
    try:
        with recorder:
            return plan.call(*args, **kwargs)
    finally:
        position.via = before
        recorder.inside.discard(func)


def _lower(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """Leave to the dispatcher a function that is transformed, or that computes gradients.

    Raises:
        NeedsLower: the dispatcher does not record, or gradients are not recorded.
    """
    swap = recorder.stand_ins.swap
    if not recorder.low or (plan.way == "lower" and not recorder.grad):
        raise NeedsLower
    if recorder.real or plan.way != "lower" or is_transformed():
        return func(*args, **kwargs)
    return func(*[swap(a) for a in args], **{k: swap(v) for k, v in kwargs.items()})


def _device(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """The device of a tensor, or whether it is the meta device: the model's in place of a stand-in's."""
    if recorder.real:
        return func(*args, **kwargs)
    return recorder.device if plan.name == "aten.device" else False


def _ask(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """The answer to a question about a tensor."""
    swap = recorder.stand_ins.swap
    if recorder.real:
        return func(*args, **kwargs)
    if plan.name == "aten.requires_grad_":
        if recorder.grad:
            func(swap(args[0]), *args[1:], **kwargs)
        return args[0]
    if plan.name in _HOOKS:
        return func(swap(args[0]), *args[1:], **kwargs)
    if plan.name == "aten.data_ptr" and "_flopwise" in args[0].__dict__:  # the address of what has no memory
        raise NeedsValues(plan.public)
    if plan.public.startswith("torch.ops."):  # it is told the device as well
        result = func(*[swap(a) for a in args], **{key: swap(v) for key, v in kwargs.items()})
    else:
        result = func(*[swap(a) if a.__class__ in (list, tuple) else a for a in args], **kwargs)
    sizes = recorder.sizes
    if sizes is None or plan.name not in _SIZES:
        return result
    caller = sys._getframe(2).f_globals.get("__name__", "")  # through ``__torch_function__``
    shape = None if caller.startswith("flopwise.") else sizes.shape(recorder.stand_ins.tensor_of(args[0]))
    if shape is None:  # it gets the size as a plain number, else with its expression
        return result
    if plan.name in ("aten.numel", "aten.nelement", "aten.sym_numel"):
        return math.prod(shape)
    whole = isinstance(result, (tuple, list))
    return torch.Size(shape) if whole else shape[kwargs["dim"] if "dim" in kwargs else args[-1]]


def _value(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The result of a function that looks at elements.

    Raises:
        NeedsValues: the elements are not known.
    """
    if plan.name in _READS and isinstance(args[0], TorchTensor):
        recorder.read(args[0])
    if recorder.real:
        recorder.looked = True
        return recorder.record(plan, func, args, kwargs) if plan.name in _COMPARE else func(*args, **kwargs)
    if plan.name in ("aten.__repr__", "aten.__str__", "aten.__format__"):
        return "<tensor>"
    elements = [recorder.stand_ins.elements_of(a) if isinstance(a, TorchTensor) else a for a in args]
    if any(e is None and isinstance(a, TorchTensor) for e, a in zip(elements, args, strict=True)):
        raise NeedsValues(plan.public)
    for part in elements:
        recorder.values.ask(part, plan.public, asker)
    if plan.name in _COMPARE:
        return recorder.record(plan, func, args, kwargs)
    with recorder.aside():
        return func(*elements, **kwargs)


def _set(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Give a tensor another attribute; ``data`` is that of another tensor."""
    if recorder.real and plan.name == "aten.data" and recorder.before_set is not None:
        recorder.before_set(args[0])
    swapped = args if recorder.real else tuple([recorder.stand_ins.swap(a) for a in args])
    result = func(*swapped, **kwargs)
    if plan.name == "aten.data":
        recorder.stand_ins.become(*swapped)
    return result


# --- functions that make tensors


#: Operators that make a tensor of the numbers that they are called with.
_OF_NUMBERS = frozenset(f"aten.{name}" for name in ("tensor", "as_tensor", "asarray", "vander", "scalar_tensor"))


def _factory(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
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
    on_meta = {**options, "device": META}
    tensor = recorder.record(plan, func, args, on_meta, lambda: func(*args, **{**options, "device": "cpu"}))
    if torch.device(kwargs.get("device") or "cpu") == META:
        recorder.stand_ins.let_be(tensor)
    return tensor


def _like(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
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


def _move(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
    """A tensor of another type, or the same one where only the device changes."""
    if recorder.real:
        return recorder.record(plan, func, args, kwargs)
    swap = recorder.stand_ins.swap
    if plan.name not in ("aten.to", "aten.type"):
        stored = isinstance(args[0], TorchTensor) and id(args[0]) in recorder.stand_ins.graph_tensors
        return args[0] if stored else swap(args[0])
    named = plan.name == "aten.type"  # as "torch.FloatTensor", or that class
    given = [getattr(torch, a.rpartition(".")[2], a) if named and isinstance(a, str) else a for a in args[1:]]
    given = [getattr(a, "dtype", a) if named else swap(a) for a in given if not isinstance(a, (torch.device, str))]
    settings = [a for a in given if not (isinstance(a, int) and not isinstance(a, bool))]
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


# --- operators on lists of tensors: one operation for each, as PyTorch runs them where it has no kernel for the list

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


def _each(recorder: Recorder, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
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
    with recorder:
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
