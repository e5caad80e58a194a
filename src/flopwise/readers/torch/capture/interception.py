"""Interception: PyTorch hands over each public function that a program calls, and the plan says what to do with it.

Operations that no Python function asked for (those of TorchScript, and of extensions in C++) are recorded one level
lower, where composite operators have been decomposed already.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.readers.torch.capture import control, factories
from flopwise.readers.torch.capture.interception_plan import Plan, is_sign, plan_of
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.capture.stand_ins import is_transformed
from flopwise.readers.torch.capture.values import NeedsLower, NeedsValues

_PLANS: dict[object, Plan] = {}
_SIGN_PLANS: dict[object, Plan] = {}

#: Modules in which PyTorch works out the shapes of results in Python.
_META_RULES = frozenset(
    {
        "torch._meta_registrations",
        "torch._prims",
        "torch._prims_common.wrappers",
        "torch._refs",
        "torch._refs.nn.functional",
        "torch._decomp.decompositions",
    }
)


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


class Interception(TorchFunctionMode):
    """Hands the functions that a program calls to a recorder, in the thread that entered it."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        recorder.interception = self
        self._inside: set[Function] = set()
        self.ways: dict[str, Callable[[Plan, Function, Args, Kwargs], object]] = {
            "record": recorder.record,
            "through": self._through,
            "ask": self._ask,
            "factory": functools.partial(factories.factory, recorder),
            "like": functools.partial(factories.like, recorder),
            "values": self._value,
            "device": self._device,
            "move": functools.partial(factories.move, recorder),
            "set": self._set,
            "higher": functools.partial(control.run, recorder),
            "lower": self._lower,
            "detach": recorder.detach,
            "each": self._each,
        }

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Any = None) -> object:
        plan = _PLANS.get(func)
        if plan is None:
            plan = plan_of(func)
            _PLANS[func] = plan
        if self._recorder.closed:
            return func(*args, **(kwargs or {}))
        if is_transformed():
            return self._lower(plan, func, args, kwargs or {})
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") in _META_RULES:  # part of an operation that was not seen itself
            self._recorder.stand_ins.foreign.append(plan.name)
            return func(*args, **(kwargs or {}))
        if plan.sign and is_sign(frame):
            plan = _SIGN_PLANS.get(func) or _SIGN_PLANS.setdefault(func, plan._replace(public=plan.sign))
        return self.ways[plan.way](plan, func, args, kwargs or {})

    def _device(self, plan: Plan, func: Function, args: tuple[object, ...], kwargs: Kwargs) -> object:
        """The device of a tensor, or whether it is the meta device: the model's in place of a stand-in's."""
        if self._recorder.real:
            return func(*args, **kwargs)
        return self._recorder.device if plan.name == "aten.device" else False

    def _through(self, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
        """Call a Python function of PyTorch's and record the operations inside it."""
        recorder, position = self._recorder, self._recorder.position
        if func in self._inside:  # it calls ``__torch_function__`` once more all the same
            return recorder.record(Plan("record", plan.name, plan.public, func), func, args, kwargs)
        self._inside.add(func)
        before = position.via
        position.via = (*before, plan.public)
        try:
            with self:
                return plan.call(*args, **kwargs)
        finally:
            position.via = before
            self._inside.discard(func)

    def _lower(self, plan: Plan, func: Function, args: tuple[object, ...], kwargs: Kwargs) -> object:
        """Leave to the dispatcher a function that is transformed, or that computes gradients.

        Raises:
            NeedsLower: the dispatcher does not record, or gradients are not recorded.
        """
        recorder, swap = self._recorder, self._recorder.stand_ins.swap
        if not recorder.low or (plan.way == "lower" and not recorder.grad):
            raise NeedsLower
        if recorder.real or plan.way != "lower" or is_transformed():
            return func(*args, **kwargs)
        return func(*[swap(a) for a in args], **{k: swap(v) for k, v in kwargs.items()})

    def _each(self, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> object:
        """The result of an operator on lists of tensors, which few programs call."""
        from flopwise.readers.torch.capture.foreach import each

        return each(self._recorder, plan, func, args, kwargs)

    def _ask(self, plan: Plan, func: Function, args: tuple[object, ...], kwargs: Kwargs) -> object:
        recorder, swap = self._recorder, self._recorder.stand_ins.swap
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
        if recorder.sizes is not None and plan.name in _SIZES:
            return self._sized(plan, result, args, kwargs)
        return result

    def _sized(self, plan: Plan, result: object, args: Args, kwargs: Kwargs) -> object:
        """The size that a program passed, with its expression."""
        sizes, stand_ins = self._recorder.sizes, self._recorder.stand_ins
        asker = sys._getframe(3).f_globals.get("__name__", "")  # through ``_ask`` and ``__torch_function__``
        if sizes is None or asker.startswith("flopwise."):
            return result
        shape = sizes.shape(stand_ins.tensor_of(args[0]))
        if shape is None:
            return result
        if plan.name in ("aten.numel", "aten.nelement", "aten.sym_numel"):
            return math.prod(shape)
        return (
            torch.Size(shape)
            if isinstance(result, (tuple, list))
            else shape[kwargs["dim"] if "dim" in kwargs else args[-1]]
        )

    def _value(self, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """The result of a function that looks at elements.

        Raises:
            NeedsValues: the elements are not known.
        """
        recorder = self._recorder
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
            recorder.values.ask(part, plan.public)
        if plan.name in _COMPARE:
            return recorder.record(plan, func, args, kwargs)
        with recorder.aside():
            return func(*elements, **kwargs)

    def _set(self, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
        recorder = self._recorder
        if recorder.real and plan.name == "aten.data" and recorder.before_set is not None:
            recorder.before_set(args[0])
        swapped = args if recorder.real else tuple([recorder.stand_ins.swap(a) for a in args])
        result = func(*swapped, **kwargs)
        if plan.name == "aten.data":
            recorder.stand_ins.become(*swapped)
        return result


class Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's class has no types
    """Hands the operators that reach the dispatcher to a recorder, except inside an operation that is recorded."""

    def __init__(self, recorder: Recorder, interception: Interception) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # likewise
        self._recorder = recorder
        self._interception = interception

    def __torch_dispatch__(self, func: Function, types: object, args: Args = (), kwargs: Any = None) -> object:
        recorder = self._recorder
        if recorder.position.busy or recorder.closed:
            return func(*args, **(kwargs or {}))
        if recorder.compiles is not None and recorder.compiles():
            with torch._C.DisableTorchFunction():
                return func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():  # PyTorch's own shape rules are written in Python as well
            plan = plan_of(func)
            below, self._recorder.below = self._recorder.below, torch.is_grad_enabled() and plan.way != "detach"
            try:
                return self._interception.ways[plan.way](plan, func, args, kwargs or {})
            finally:
                self._recorder.below = below
