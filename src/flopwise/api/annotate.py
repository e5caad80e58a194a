"""``flopwise.annotate``: names of modules in the traces that a profiler records."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flopwise._kinds import described
from flopwise.analyses.traces.kineto.records import LABEL
from flopwise.errors import InputError

if TYPE_CHECKING:
    from torch import nn


def annotate(model: nn.Module) -> AbstractContextManager[None]:
    """A context in which each call of a module of a model is a named range in traces: ``flopwise::layer1.0.conv1``.

    ``flopwise.trace`` then knows of every operator which module it ran in, also where shapes were not recorded or
    layers are all alike. With a GPU the ranges are NVTX's as well, for Nsight Systems. Compiled code runs without
    ranges, and is compiled as it is without them: a range within it would be a barrier that nothing is fused across.

    Args:
        model: a module of PyTorch; it is the same behind the ``with`` block.

    Raises:
        InputError: it is none.
    """
    from flopwise.formats.torch.kinds import is_module

    if not is_module(model):
        raise InputError(f"annotate(model=...): expected a module of PyTorch, not {described(model)}")
    return _annotated(model)


@contextlib.contextmanager
def _annotated(model: nn.Module) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for path, module in _modules(model):
            stack.enter_context(_in_named_range(module, LABEL + path))
        yield


def _modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that run Python code of their own, by their first path."""
    import torch

    for path, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            yield path, module


@contextlib.contextmanager
def _in_named_range(module: nn.Module, name: str) -> Iterator[None]:
    """The module with a range around its ``forward``; hooks would switch PyTorch's fused encoder layers off."""
    own = vars(module).get("forward")
    vars(module)["forward"] = _in_range(module.forward, name)
    try:
        yield
    finally:
        if own is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own


def _in_range(forward: Callable[..., object], name: str) -> Callable[..., object]:
    import torch
    from torch.autograd.profiler import record_function

    nvtx = torch.cuda.nvtx if _has_nvtx() else None
    # Much less than record_function, which calls an operator; PyTorch's compiler marks its own work with it.
    range_of = getattr(torch._C._profiler, "_RecordFunctionFast", record_function)

    @functools.wraps(forward)
    def call(*args: object, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # a range would cut the program that is compiled in pieces
            return forward(*args, **kwargs)
        if nvtx is not None:
            nvtx.range_push(name)
        try:
            with range_of(name):
                return forward(*args, **kwargs)
        finally:
            if nvtx is not None:
                nvtx.range_pop()

    return call


def _has_nvtx() -> bool:
    """True where there is a GPU, and PyTorch can mark ranges for its tools."""
    import torch

    if not torch.cuda.is_available():
        return False
    try:
        torch.cuda.nvtx.mark(LABEL)  # type: ignore[no-untyped-call]
    except RuntimeError:  # built without
        return False
    return True
