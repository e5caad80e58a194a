"""The settings of PyTorch during a run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


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
