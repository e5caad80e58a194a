"""The settings of PyTorch during a run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils import _python_dispatch as python_dispatch

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
    """The function or module itself, in place of what ``torch.compile`` would make of it."""
    return (lambda function: function) if model is None else model
