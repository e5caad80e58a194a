"""Operations that no Python function asked for: those of TorchScript, and of extensions in C++.

They are recorded one level lower, where composite operators have been decomposed already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flopwise.readers.torch.capture import factories
from flopwise.readers.torch.capture.interception import Interception
from flopwise.readers.torch.capture.interception_plan import Plan, plan_of
from flopwise.readers.torch.capture.recorder import Recorder


class Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's class has no types
    """Hands the operators that reach the dispatcher to a recorder, except inside an operation that is recorded."""

    def __init__(self, recorder: Recorder, interception: Interception) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # likewise
        self._recorder = recorder
        self._interception = interception

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._recorder.position.busy or self._recorder.closed:
            return func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():  # PyTorch's own shape rules are written in Python as well
            return self._record(plan_of(func), func, args, kwargs or {})

    def _record(self, plan: Plan, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if plan.way == "values":
            return self._interception.value(plan, func, args, kwargs)
        if plan.way == "factory":
            return factories.factory(self._recorder, plan, func, args, kwargs)
        return self._recorder.record(plan, func, args, kwargs)
