"""A model is after a run what it was before, and so are PyTorch's settings: attributes, modes, containers, statistics,
gradients and random state.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.utils import _python_dispatch as python_dispatch

from flopwise.readers.torch.inputs.containers import ATOMS, CLOSED

#: Attributes that every module has; what stands in them is a module, a tensor or a function.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))

#: Values without an inside that a program could change.
_PLAIN = frozenset(ATOMS)
_HOLDERS = frozenset({dict, OrderedDict, set})

#: How far from a module its containers are looked into, and how many entries of one.
_DEPTH, _ENTRIES = 6, 10_000


class Containers:
    """The contents of the lists, dicts, sets and plain objects that a module holds beside its tensors and modules."""

    def __init__(self) -> None:
        #: Tensors inside that are neither parameters nor buffers.
        self.tensors: list[TorchTensor] = []
        self._seen: set[int] = set()
        self._restores: list[Callable[[], None]] = []

    def add(self, value: Any, depth: int = 0) -> None:
        """Remember what is in a value, and in what is in it."""
        if value.__class__ in _PLAIN or isinstance(value, CLOSED) or depth > _DEPTH or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, TorchTensor):
            self.tensors.append(value)
            return
        parts: Any = ()
        if isinstance(value, dict):
            self._restores.append(functools.partial(_put_back, value, dict(value)))
            parts = value.values()
        elif isinstance(value, (list, deque, bytearray, set)):
            self._restores.append(_elements(value))
            parts = value if isinstance(value, (list, deque)) else ()
        elif isinstance(value, (tuple, frozenset)):
            parts = [part for part in value if part.__class__ not in _PLAIN]
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._restores.append(functools.partial(_put_back, attributes, dict(attributes)))
            parts = (*parts, *attributes.values())
        if len(parts) <= _ENTRIES:
            for part in parts:
                self.add(part, depth + 1)

    def restore(self) -> None:
        """Put back what was there."""
        for restore in self._restores:
            restore()


def _put_back(held: dict[Any, Any], before: dict[Any, Any]) -> None:
    same = len(held) == len(before)
    for key, value in before.items() if same else ():
        if held.get(key, _GONE) is not value:
            same = False
            break
    if not same:
        kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict  # not what a subclass makes of it
        kind.clear(held)
        kind.update(held, before)


def _elements(held: list[Any] | deque[Any] | bytearray | set[Any]) -> Callable[[], None]:
    before = list(held)

    def restore() -> None:
        if len(held) != len(before) or any(a is not b for a, b in zip(held, before, strict=True)):
            held.clear()
            put: Any = held.update if isinstance(held, set) else held.extend
            put(before)

    return restore


class Elements:
    """The elements of a model's tensors on a run that computes with them."""

    def __init__(self, model: nn.Module, others: list[TorchTensor]) -> None:
        """
        Args:
            model: its buffers are copied at once, its parameters when an operation is about to write into one.
            others: tensors of the model that are neither, copied at once.
        """
        plain = [t for t in (*model.buffers(), *others) if not t.is_meta and t.layout is torch.strided]
        self._copies = [(t, t.detach().clone()) for t in plain]
        self._parameters: dict[int, TorchTensor] = {}
        for parameter in model.parameters():
            if not parameter.is_meta and parameter.layout is torch.strided and type(parameter.data) is TorchTensor:
                self._parameters.setdefault(parameter.untyped_storage().data_ptr(), parameter)

    def before_write(self, tensor: TorchTensor) -> None:
        """Copy the parameter whose storage an operation is about to write into."""
        if self._parameters and not tensor.is_meta and tensor.layout is torch.strided:
            parameter = self._parameters.pop(tensor.untyped_storage().data_ptr(), None)
            if parameter is not None:
                self._copies.append((parameter, parameter.detach().clone()))

    def restore(self) -> None:
        """Put back the elements; kernels that keep statistics do not say that they wrote, so all are compared."""
        with torch.no_grad():
            for tensor, before in self._copies:
                if not torch.equal(tensor.detach(), before):
                    tensor.detach().copy_(before)


@contextlib.contextmanager
def restored(model: nn.Module, training: bool | None, real: bool) -> Iterator[Elements | None]:
    """Whatever happens inside, the model is afterwards as it was before; yields what keeps elements on a real run.

    Args:
        model: the model.
        training: the mode to put its modules into meanwhile; None leaves them.
        real: whether elements of its tensors may change.
    """
    modules = list(model.modules())
    attributes = [(vars(m), dict(vars(m))) for m in modules]
    registered: list[tuple[dict[str, Any], dict[str, Any]]] = []
    unregistered: list[dict[str, Any] | set[str]] = []
    containers = Containers()
    for module in modules:
        for name, value in vars(module).items():
            kind = value.__class__
            if kind in _PLAIN or (kind is tuple and _PLAIN.issuperset(map(type, value))):
                continue
            if name not in _OF_EVERY_MODULE:
                containers.add(value)
            elif kind in _HOLDERS:
                if not value:  # most of them: hooks that nobody has
                    unregistered.append(value)
                elif kind is set:
                    containers.add(value)
                else:
                    registered.append((value, dict(value)))
    elements = Elements(model, containers.tensors) if real else None
    gradients = [(p, p.grad) for m in modules for p in m._parameters.values() if p is not None]
    if training is not None:
        for module in modules:
            vars(module)["training"] = training
    try:
        with _random_state():
            yield elements
    finally:
        for held, before in (*attributes, *registered):
            _put_back(held, before)
        for empty in unregistered:
            if empty:
                empty.clear()
        containers.restore()
        if elements is not None:
            elements.restore()
        for parameter, gradient in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient


@contextlib.contextmanager
def _random_state() -> Iterator[None]:
    """Python's, numpy's and PyTorch's generators, and the default element type, are afterwards as they were."""
    python, default = random.getstate(), torch.get_default_dtype()
    generator = torch.get_rng_state()
    cuda: Any = torch.cuda
    devices = cuda.get_rng_state_all() if cuda.is_initialized() else []
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_default_dtype(default)
        torch.set_rng_state(generator)
        if devices:
            cuda.set_rng_state_all(devices)
        if numpy:
            numpy.random.set_state(legacy)


_GONE = object()


T = TypeVar("T")


@contextlib.contextmanager
def outside_of_modes() -> Iterator[None]:
    """Modes of the caller that make every tensor another (fake, functional) are suspended."""
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    modes: Any = python_dispatch
    with modes._disable_current_modes():
        yield


def uncompiled(work: Callable[[], T]) -> T:
    """What some work gives, in a function that ``torch.compile`` compiles too."""
    if "torch._dynamo" not in sys.modules:
        return work()
    disable: Any = sys.modules["torch._dynamo"].disable
    result: T = disable(work)()
    return result


@contextlib.contextmanager
def plain_execution() -> Iterator[None]:
    """Fused paths are off, so that every operation is seen; compiled modules run as they were written; function modes
    that stand between a program and its operations (``with torch.device(...)``) are suspended.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    suspended = []
    modes: Any = torch.overrides
    compiler: Any = torch
    compiled = compiler.compile
    while modes._get_current_function_mode() is not None:
        suspended.append(modes._pop_mode())
    functions: Any = torch._C._functorch
    depth = functions.maybe_current_level() or 0
    try:
        compiler.compile = _uncompiled
        if "torch._dynamo" in sys.modules:
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            yield
    finally:
        while (functions.maybe_current_level() or 0) > depth:  # an exported program steps in and out by operations
            functions.pop_dynamic_layer_stack()
        compiler.compile = compiled
        torch.backends.mha.set_fastpath_enabled(fast)
        while suspended:
            modes._push_mode(suspended.pop())


def _uncompiled(model: Any = None, **options: Any) -> Any:
    """The function or module itself, instead of the compiled one that ``torch.compile`` returns."""
    return (lambda function: function) if model is None else model
