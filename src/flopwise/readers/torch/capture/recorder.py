"""Watching a module run: every tensor operation that a program asks for, at the level of the public functional API.

The operations run on meta tensors, which have a shape and no memory: whatever real tensor reaches an operation, a
parameter or a constant, is replaced by a stand-in there, so nothing of the module is touched or copied. Values of
small tensors that follow from constants alone (positions, masks, lengths) are computed beside, so that a program that
asks for them gets them.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor
from torch.overrides import TorchFunctionMode

from flopwise.graph import Body, Kind, Module, Tensor
from flopwise.readers.torch.capture import control, factories
from flopwise.readers.torch.capture.fallback import asks_for_elements, second
from flopwise.readers.torch.capture.flex import flex_attention
from flopwise.readers.torch.capture.packed import SPARSE, shape_of, stored_elements, unpacked
from flopwise.readers.torch.capture.plans import Plan, is_sign, plan_of
from flopwise.readers.torch.capture.shape_cache import OVER, PLAIN, again, keep, key_of
from flopwise.readers.torch.capture.tensors import DTYPES, flat, in_order, like_meta
from flopwise.readers.torch.capture.values import NeedsLower, NeedsValues, Values

_PLANS: dict[Any, Plan] = {}
_SIGNED: dict[Any, Plan] = {}
_META = torch.device("meta")

#: Where PyTorch works the shapes of results out in Python.
_RULES_FOR_SHAPES = frozenset(
    {
        "torch._meta_registrations",
        "torch._prims",
        "torch._prims_common.wrappers",
        "torch._refs",
        "torch._refs.nn.functional",
        "torch._decomp.decompositions",
    }
)
_PARAMETER = torch.nn.Parameter

#: Says how deep a program is in transformed functions (``torch.func``), None where it is in none.
_transform = torch._C._functorch.maybe_current_level


class Event(NamedTuple):
    """One operation as it was asked for: arguments with our tensors in place of PyTorch's."""

    plan: Plan
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Tensor, ...]
    scope: tuple[Module, ...]
    via: tuple[str, ...]
    within: tuple[Body, ...] = ()


class Watch(TorchFunctionMode):
    """Writes down every operation of the thread that entered it."""

    def __init__(self, known: dict[int, Tensor], device: torch.device, real: bool, grad: bool, low: bool) -> None:
        """
        Args:
            known: our tensor for each of the module's parameters and buffers and for each input, by id.
            device: where the program is told that its tensors are.
            real: whether to compute with the tensors as they are, instead of on meta tensors.
            grad: whether gradients are to be known.
            low: whether somebody watches one level lower what is not seen here.
        """
        super().__init__()
        self.known = known
        self.device = device
        self.real = real
        self.grad = grad
        self.low = low
        self.events: list[Event] = []
        self.scope: tuple[Module, ...] = ()
        self.via: tuple[str, ...] = ()
        #: What the running code is in that is no module: checkpoints and functions with a gradient of their own.
        self.regions: tuple[str, ...] = ()
        self.regions_entered = 0
        #: The branches around the running code of which nobody knows whether they run.
        self.within: tuple[Body, ...] = ()
        #: Whether an operation is being run, so that what happens inside is part of it.
        self.busy = False
        self.values = Values()
        self.numbered = 0
        #: Tensors that came from nowhere: neither stored nor made by an operation that was seen.
        self.foreign: list[str] = []
        self._stand_ins: dict[int, tuple[TorchTensor, TorchTensor]] = {}
        self._held: list[TorchTensor] = []
        self._inside: set[Any] = set()
        self._thread = threading.get_ident()
        self._ways: dict[str, Callable[[Plan, Any, tuple[Any, ...], dict[str, Any]], Any]] = {
            "record": self._record,
            "through": self._through,
            "ask": self._ask,
            "factory": functools.partial(factories.factory, self),
            "like": functools.partial(factories.like, self),
            "values": self._value,
            "device": self._device,
            "move": functools.partial(factories.move, self),
            "set": self._set,
            "higher": self._higher,
            "lower": self._lower,
        }

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        plan = _PLANS.get(func)
        if plan is None:
            plan = plan_of(func)
            _PLANS[func] = plan
        if _transform() is not None:
            return self._lower(plan, func, args, kwargs or {})
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") in _RULES_FOR_SHAPES:  # of an operation that was not seen itself
            self.foreign.append(plan.name)
            return func(*args, **(kwargs or {}))
        if plan.sign and is_sign(frame):
            plan = _SIGNED.get(func) or _SIGNED.setdefault(func, replace(plan, public=plan.sign))
        return self._ways[plan.way](plan, func, args, kwargs or {})

    # What a program may ask.

    def _through(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in self._inside:  # it hands itself over again all the same
            return self._record(Plan("record", plan.name, plan.public, func), func, args, kwargs)
        self._inside.add(func)
        before = self.via
        self.via = (*before, plan.public)
        try:
            with self:
                return plan.call(*args, **kwargs)
        finally:
            self.via = before
            self._inside.discard(func)

    def _lower(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of tensors that stand for others, or one that computes gradients."""
        if not self.low or (plan.way == "lower" and not self.grad):
            raise NeedsLower
        if self.real or plan.way != "lower" or _transform() is not None:
            return func(*args, **kwargs)
        return func(*[self._swap(a) for a in args], **{k: self._swap(v) for k, v in kwargs.items()})

    def _ask(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.real:
            return func(*args, **kwargs)
        if plan.name == "aten.requires_grad_":
            if self.grad:
                func(self._swap(args[0]), *args[1:], **kwargs)
            return args[0]
        return func(*[self._swap(a) if a.__class__ in (list, tuple) else a for a in args], **kwargs)

    def _device(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs) if self.real else self.device

    def _value(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.real:
            return func(*args, **kwargs)
        if plan.name in ("aten.__repr__", "aten.__str__", "aten.__format__"):
            return "<tensor>"
        found = [self._value_of(a) if isinstance(a, TorchTensor) else a for a in args]
        if any(a is None and isinstance(b, TorchTensor) for a, b in zip(found, args, strict=True)):
            raise NeedsValues(plan.public)
        return func(*found, **kwargs)

    def _set(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs) if self.real else func(*[self._swap(a) for a in args])

    def _higher(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if plan.name == "higher.flex_attention":
            outside, self.busy = self.busy, True
            try:
                return flex_attention(self, args)
            finally:
                self.busy = outside
        return control.run(self, plan, func, args, kwargs)

    # What computes.

    def _record(
        self,
        plan: Plan,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        value: Callable[[], Any] | None = None,
    ) -> Any:
        """Run an operation and write it down.

        Args:
            plan: what it is.
            func: what to call.
            args: as the program gave them.
            kwargs: likewise.
            value: what computes the result's elements where they follow from constants.
        """
        if self.real:
            used, given = args, kwargs
        else:
            used = tuple([self._swap(a) for a in args])
            given = {k: self._swap(v) for k, v in kwargs.items()} if kwargs else kwargs
            if not self.real and (plan.name == "aten.getitem" or plan.name == "aten.setitem_"):
                used = (used[0], self.values.settled_index(used[1], self.stand_in), *used[2:])
        ours = tuple([self._ours(a) for a in used])  # before the call: it may change its arguments
        named = {k: self._ours(v) for k, v in given.items()} if given else {}
        if plan.name in SPARSE:
            named |= stored_elements(args)
        elif plan.name.startswith("quantized."):
            named |= self._unpacked(args)
        outside, self.busy = self.busy, True
        try:
            result = func(*used, **given) if self.real else self._compute(plan, func, used, given, value)
        finally:
            self.busy = outside
        self._write(plan, result, used, given, ours, named)
        return result

    def _has_values(self, args: Sequence[Any]) -> bool:
        """Whether the elements of an argument are known, so that those of the result may be."""
        for arg in args:
            if isinstance(arg, TorchTensor):
                if "_flopwise_values" in arg.__dict__:
                    return True
            elif arg.__class__ in (list, tuple) and self._has_values(arg):
                return True
        return False

    def _known_or_new(self, plan: Plan, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A result as it was before, or a new one."""
        key = key_of(plan.name, args, kwargs)
        result = again(key)
        if result is None:
            result = func(*args, **kwargs)
            keep(key, result)
        return result

    def _unpacked(self, args: Sequence[Any]) -> dict[str, Any]:
        """The weight and the bias in the packed form of a quantized layer."""
        for packed in args:
            found = unpacked(packed)
            if found is not None:
                path = self.scope[-1].path if self.scope else ""
                names = ("weight", "bias")
                return {
                    name: Tensor(
                        f"{path}.{name}" if path else name, tuple(t.shape), DTYPES.get(t.dtype), "weight", grad=False
                    )
                    for name, t in zip(names, found, strict=False)
                    if t is not None
                }
        return {}

    def _compute(
        self, plan: Plan, func: Any, args: Sequence[Any], kwargs: dict[str, Any], value: Callable[[], Any] | None
    ) -> Any:
        """The result on meta tensors, with its elements beside where they follow from constants."""
        if value is None and not self.grad and not self._has_values(args):
            if plan.name in OVER:
                return args[0]
            if plan.name in PLAIN and "out" not in kwargs:
                return self._on_meta(self._known_or_new(plan, func, args, kwargs))
        beside = self.values.beside(func, args, kwargs, plan.inplace) if value is None else None
        try:
            result = self._on_meta(func(*args, **kwargs))
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            if beside is None:
                result = second(self.values, plan.name, func, args, kwargs)
            else:
                result = self.values.shaped_as(beside)
            if result is None:
                if asks_for_elements(plan.name, error):
                    raise NeedsValues(plan.public) from error
                raise
        if value is not None:
            beside = self.values.made(result, value)
        if beside is not None:
            self.values.keep(result, beside)
        return result

    def _on_meta(self, result: Any) -> Any:
        """A result as it is, or what stands for it where it has memory: it was made of numbers alone."""
        return self.stand_in(result) if type(result) is TorchTensor and not result.is_meta else result

    def _write(
        self, plan: Plan, result: Any, args: Any, kwargs: Any, ours: tuple[Any, ...], named: Mapping[str, Any]
    ) -> None:
        """Write an operation down, and give its results our tensors."""
        outputs: list[Tensor] = []
        inplace = plan.inplace or (bool(kwargs) and kwargs.get("out") is not None)
        if plan.name == "aten.setitem_":
            self._made(args[0], outputs, True)
        elif isinstance(result, TorchTensor):
            if not inplace and ("_flopwise" in result.__dict__ or id(result) in self.known):
                return  # an argument as it was
            self._made(result, outputs, inplace)
        elif isinstance(result, (tuple, list)):
            for part in flat(result):
                if inplace or "_flopwise" not in part.__dict__:
                    self._made(part, outputs, inplace)
        if outputs:
            via = (*self.regions, *self.via, plan.public)
            self.events.append(Event(plan, ours, named, tuple(outputs), self.scope, via, self.within))

    def _made(self, tensor: TorchTensor, outputs: list[Tensor], inplace: bool) -> None:
        """Give a result our tensor; what is written into a view is written into what it is a view of."""
        self.numbered += 1
        made = Tensor(
            f"t{self.numbered}",
            shape_of(tensor),
            DTYPES.get(tensor.dtype),
            grad=self.grad and tensor.requires_grad,
            contiguous=in_order(tensor),
        )
        self._call_it(tensor, made)
        if inplace:
            base = tensor._base
            if base is not None and ("_flopwise" in base.__dict__ or id(base) in self.known):
                around = self.tensor_of(base)
                self._call_it(
                    base, replace(around, name=made.name, kind="activation", grad=self.grad and base.requires_grad)
                )
        outputs.append(made)

    def _call_it(self, tensor: TorchTensor, ours: Tensor) -> None:
        if id(tensor) in self.known:
            self.known[id(tensor)] = ours
        else:
            tensor._flopwise = ours  # type: ignore[attr-defined]

    def applied(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Write down a function with a gradient of its own: its results are new tensors, made from its arguments."""
        plan = Plan("record", f"autograd.{name}.apply", "torch.autograd.Function.apply", _nothing)
        ours = tuple(self.tensor_of(a) for a in args if isinstance(a, TorchTensor))
        outputs: list[Tensor] = []
        for part in flat((result,)):
            self._made(part, outputs, False)
        via = (*self.regions, *self.via, plan.public)
        self.events.append(Event(plan, ours, {}, tuple(outputs), self.scope, via, self.within))

    # Tensors of the program, and ours.

    def _swap(self, thing: Any) -> Any:
        """What takes the place of an argument on meta tensors."""
        if isinstance(thing, TorchTensor):
            return thing if "_flopwise" in thing.__dict__ and id(thing) not in self.known else self.stand_in(thing)
        kind = thing.__class__
        if kind is tuple or kind is list:
            return kind([self._swap(part) for part in thing])
        if kind is torch.device or (kind is str and thing.partition(":")[0] in ("cpu", "cuda", "mps", "xpu")):
            return _META
        if kind is dict:
            return {key: self._swap(part) for key, part in thing.items()}
        return thing

    def stand_in(self, tensor: TorchTensor) -> TorchTensor:
        """The meta tensor that stands for a tensor of the program's, always the same one."""
        known = self._stand_ins.get(id(tensor))
        if known is not None:
            return known[1]
        outside, self.busy = self.busy, True
        with torch._C.DisableTorchFunction(), torch.no_grad():
            ours = self.known.get(id(tensor)) or self._constant(tensor)
            stand_in = like_meta(tensor)
            if isinstance(tensor, _PARAMETER):
                stand_in = _PARAMETER(stand_in, tensor.requires_grad)
            elif self.grad and tensor.requires_grad and _transform() is None:
                stand_in.requires_grad_()
            stand_in._flopwise = ours  # type: ignore[attr-defined]
            if ours.kind != "weight":
                self.values.hold(stand_in, tensor)
        self.busy = outside
        self._stand_ins[id(tensor)] = (tensor, stand_in)
        return stand_in

    def _constant(self, tensor: TorchTensor) -> Tensor:
        """Our tensor for one that the program holds outside of its parameters and buffers."""
        self.numbered += 1
        name = f"constant{self.numbered}"
        if tensor.is_meta and not isinstance(tensor, _PARAMETER):
            self.foreign.append(name)
        kind: Kind = "weight" if isinstance(tensor, _PARAMETER) else "constant"
        ours = Tensor(name, shape_of(tensor), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)
        return replace(ours, contiguous=in_order(tensor))

    def _ours(self, thing: Any) -> Any:
        """An argument with our tensors in place of PyTorch's."""
        if isinstance(thing, TorchTensor):
            return self.tensor_of(thing)
        kind = thing.__class__
        if kind is tuple or kind is list:
            return kind([self._ours(part) for part in thing])
        if kind is dict:
            return {key: self._ours(part) for key, part in thing.items()}
        return thing

    def tensor_of(self, tensor: TorchTensor) -> Tensor:
        """Our tensor for one of PyTorch's."""
        ours: Tensor | None = self.known.get(id(tensor)) or tensor.__dict__.get("_flopwise")
        if ours is not None:
            return ours
        if not self.real:
            return self.stand_in(tensor).__dict__["_flopwise"]  # type: ignore[no-any-return]
        made = self._constant(tensor)
        self.known[id(tensor)] = made
        self._held.append(tensor)  # so that its id stays its own
        return made

    def _value_of(self, tensor: TorchTensor) -> TorchTensor | None:
        return self.values.of(self._swap(tensor))


def _nothing(*args: Any) -> None:
    """What nobody calls."""
