"""PyTorch's settings during a run: nothing is fused or compiled, and modes of the caller are suspended."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import CellType, FunctionType
from typing import Any, TypeVar

import torch
from torch.utils import _device as default_device
from torch.utils import _python_dispatch as python_dispatch


@contextlib.contextmanager
def substituted(owner: object, name: str, substitute: object) -> Iterator[None]:
    """An attribute of a class or Python module is another meanwhile.

    Python modules that are imported meanwhile may have taken it over under a name of their own, as ``torch._dynamo``
    does with ``nn.Module._call_impl``, to see whether somebody has replaced it; afterwards they have the original.
    """
    original, known = vars(owner)[name], len(sys.modules)
    setattr(owner, name, substitute)
    try:
        yield
    finally:
        setattr(owner, name, original)
        for module in [*sys.modules.values()][known:] if len(sys.modules) > known else ():
            names = getattr(module, "__dict__", {})
            for key in [key for key, value in names.items() if value is substitute]:
                names[key] = original


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
