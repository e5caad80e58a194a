"""Operations that no Python function asked for: those of TorchScript, and of extensions in C++.

They are watched one level lower, where composite operators have been taken apart already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flopwise.readers.torch.capture import factories
from flopwise.readers.torch.capture.plans import Plan, plan_of
from flopwise.readers.torch.capture.recorder import Watch


class Unseen(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's class has no types
    """Hands to a watch what it cannot see."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # likewise
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watch = self._watch
        if watch.busy:
            return func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():  # PyTorch's own rules for shapes are written in Python as well
            return self._watched(plan_of(func), func, args, kwargs or {})

    def _watched(self, plan: Plan, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if plan.way == "values":
            return self._watch._value(plan, func, args, kwargs)
        if plan.way == "factory":
            return factories.factory(self._watch, plan, func, args, kwargs)
        return self._watch._record(plan, func, args, kwargs)
