"""A model is after a run what it was before, and so are PyTorch's settings: attributes, modes, containers, statistics,
gradients, hooks and random state.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import CellType, FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.utils import _device as default_device
from torch.utils import _python_dispatch as python_dispatch

from flopwise.formats.torch.kinds import Namespace
from flopwise.readers.torch.runs.contents import PLAIN, Contents, put_back
from flopwise.readers.torch.runs.substitutes import substituted
from flopwise.readers.torch.runs.surroundings import Surroundings

#: Attributes that every module has; what stands in them is a module, a tensor or a function.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))

_HOLDERS = frozenset({dict, OrderedDict, set})


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
        self._given: list[tuple[TorchTensor, TorchTensor]] = []
        for parameter in model.parameters():
            if not parameter.is_meta and parameter.layout is torch.strided and type(parameter.data) is TorchTensor:
                self._parameters.setdefault(parameter.untyped_storage().data_ptr(), parameter)

    def before_write(self, tensor: TorchTensor) -> None:
        """Copy the parameter whose storage an operation is about to write into."""
        if self._parameters and not tensor.is_meta and tensor.layout is torch.strided:
            parameter = self._parameters.pop(tensor.untyped_storage().data_ptr(), None)
            if parameter is not None:
                self._copies.append((parameter, parameter.detach().clone()))

    def before_set(self, tensor: TorchTensor) -> None:
        """Keep the elements of a tensor of the model that is about to be given others."""
        if not any(tensor is held for held, _ in self._given):
            self._given.append((tensor, tensor.detach()))

    def restore(self) -> None:
        """Put back the elements; kernels that keep statistics do not say that they wrote, so all are compared."""
        for tensor, before in self._given:
            tensor.data = before
        with torch.no_grad():
            for tensor, before in self._copies:
                if not torch.equal(tensor.detach(), before):
                    tensor.detach().copy_(before)


@contextlib.contextmanager
def restored(
    model: nn.Module, training: bool | None, real: bool, surroundings: Surroundings | None = None
) -> Iterator[Elements | None]:
    """Whatever happens inside, the model is afterwards as it was before; yields what keeps elements on a real run.

    Args:
        model: the model.
        training: the mode to put its modules into meanwhile; None leaves them.
        real: whether elements of its tensors may change.
        surroundings: what remembers all that the model's code can reach beside the model.
    """
    modules = list(model.modules())
    attributes = [(vars(m), dict(vars(m))) for m in modules]
    registered: list[tuple[Namespace, Namespace]] = []
    unregistered: list[Namespace | set[str]] = []
    contents = Contents()
    for module in modules:
        for name, value in vars(module).items():
            kind = value.__class__
            if kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, value))):
                continue
            if name not in _OF_EVERY_MODULE:
                contents.add(value)
            elif kind in _HOLDERS:
                if not value:  # most of them: hooks that nobody has
                    unregistered.append(value)
                elif kind is set:
                    contents.add(value)
                else:
                    registered.append((value, dict(value)))
                    if name.endswith("hooks"):
                        contents.code += value.values()
    if surroundings is not None:
        surroundings.add({*map(type, modules)})
        surroundings.add(contents.code)
    elements = Elements(model, contents.tensors) if real else None
    if training is not None:
        for module in modules:
            vars(module)["training"] = training
    try:
        with _random_state(), _tensors_as_they_were(modules):
            yield elements
    finally:
        for held, before in (*attributes, *registered):
            put_back(held, before)
        for empty in unregistered:
            if empty:
                empty.clear()
        contents.restore()
        if elements is not None:
            elements.restore()


@contextlib.contextmanager
def _tensors_as_they_were(modules: list[nn.Module]) -> Iterator[None]:
    """Gradients, whether they are asked for, hooks and attributes of parameters are afterwards as they were."""
    parameters: list[nn.Parameter] = [p for m in modules for p in m._parameters.values() if p is not None]
    before = [(p, p.grad, p.requires_grad, p._backward_hooks) for p in parameters]
    buffers = [b for m in modules for b in m._buffers.values() if b is not None]
    attributes = [(held := vars(tensor), dict(held)) for tensor in (*parameters, *buffers)]
    try:
        yield
    finally:
        for held, values in attributes:
            put_back(held, values)
        for parameter, gradient, asked, hooks in before:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if parameter.requires_grad is not asked:
                parameter.requires_grad_(asked)
            if parameter._backward_hooks is not hooks:
                parameter._backward_hooks = hooks


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
    """The result of some work, which runs as it is written even in a function that ``torch.compile`` compiles."""
    if "torch._dynamo" not in sys.modules:
        return work()
    disable: Any = sys.modules["torch._dynamo"].disable
    result: T = disable(work)()
    return result


@contextlib.contextmanager
def without_dynamo() -> Iterator[None]:
    """In the block, PyTorch's own functions for sizes do not import TorchDynamo, which most of a short reading would
    wait for, to tell it that it is not to compile them.
    """
    own = [] if "torch._dynamo" in sys.modules else [one for one in _never_compiled() if _MARK not in vars(one)]
    for function in own:
        setattr(function, _MARK, function)
    try:
        yield
    finally:
        for function in own:
            vars(function).pop(_MARK, None)


#: Where PyTorch keeps what TorchDynamo made of such a function (torch/_compile.py of 2.13).
_MARK = "__dynamo_disable"


@functools.cache
def _never_compiled() -> list[object]:
    """PyTorch's functions for the sizes of results that TorchDynamo is not to compile."""
    marking = sys.modules["torch._compile"].__dict__
    parts = [vars(module) for name, module in sys.modules.items() if name.startswith(("torch._refs", "torch._decomp"))]
    rest = [one for part in parts for one in part.values() if isinstance(one, FunctionType)]
    seen, result = set[int](), list[Any]()
    while rest:
        function = rest.pop()
        if id(function) not in seen:
            seen.add(id(function))
            inner = [one for one in map(_content, function.__closure__ or ()) if isinstance(one, FunctionType)]
            result += inner if function.__globals__ is marking else ()
            rest += inner
    return result


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # it is empty


@contextlib.contextmanager
def plain_execution() -> Iterator[None]:
    """Fused paths are off, so that every operation is seen; compiled modules run as they were written; function modes
    that stand between a program and its operations (``with torch.device(...)``) are suspended.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    modes: Any = torch.overrides
    suspended = _popped()
    functions: Any = torch._C._functorch
    depth = functions.maybe_current_level() or 0
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else without_dynamo()
    try:
        with substituted(torch, "compile", _uncompiled), eager, _default_device():
            yield
    finally:
        while (functions.maybe_current_level() or 0) > depth:  # an exported program steps in and out by operations
            functions.pop_dynamic_layer_stack()
        torch.backends.mha.set_fastpath_enabled(fast)
        _popped()
        while suspended:
            modes._push_mode(suspended.pop())


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes in one thread: what is computed beside stand-ins is small, and waking others takes longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _popped() -> list[Any]:
    """The function modes that were in force, the innermost first."""
    modes: Any = torch.overrides
    popped = []
    while modes._get_current_function_mode() is not None:
        popped.append(modes._pop_mode())
    return popped


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    """The device of new tensors is afterwards as it was; its function mode is not looked after here."""
    local: Any = torch._GLOBAL_DEVICE_CONTEXT
    device: Any = default_device
    before, context = device.CURRENT_DEVICE, getattr(local, "device_context", None)
    try:
        yield
    finally:
        device.CURRENT_DEVICE, local.device_context = before, context


def _uncompiled(model: object = None, **options: object) -> object:
    """The function or module itself, instead of the compiled one that ``torch.compile`` returns."""
    return (lambda function: function) if model is None else model
