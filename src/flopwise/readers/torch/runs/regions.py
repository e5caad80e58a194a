"""Stretches of a program that are not modules: checkpoints, and functions with a gradient of their own."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

from flopwise.readers.torch.capture.recorder import Recorder

#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
CHECKPOINT = "torch.utils.checkpoint.checkpoint#"

#: What follows the number where the whole stretch is computed once more, and not only what gradients need.
REENTRANT = ":reentrant"

#: The entry in ``Node.via`` of what runs in a ``torch.autograd.Function``, then its name and the number of the call.
APPLIED = "torch.autograd.Function.apply:"


@contextlib.contextmanager
def regions(recorder: Recorder) -> Iterator[None]:
    """Operations say meanwhile in which of these they ran."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_functions(recorder))
        if recorder.grad and "torch.utils.checkpoint" in sys.modules:
            stack.enter_context(_checkpoints(recorder))
        yield


@contextlib.contextmanager
def _inside(recorder: Recorder, entry: str) -> Iterator[None]:
    before = recorder.position.regions
    recorder.position.regions = (*before, entry)
    try:
        yield
    finally:
        recorder.position.regions = before


def _next(recorder: Recorder) -> int:
    recorder.regions_entered += 1
    return recorder.regions_entered


@contextlib.contextmanager
def _functions(recorder: Recorder) -> Iterator[None]:
    """Watch the functions with a gradient of their own."""
    owner: Any = torch.autograd.Function
    original = vars(owner)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        run = original.__get__(None, cls)
        if threading.get_ident() not in recorder.threads:
            return run(*args, **kwargs)
        number = _next(recorder)
        if cls.__name__ == "CheckpointFunction" and cls.__module__ == "torch.utils.checkpoint":
            with _inside(recorder, f"{CHECKPOINT}{number}{REENTRANT}"):
                return args[0](*args[2:])  # the function itself, so that its gradients are seen
        with _inside(recorder, f"{APPLIED}{cls.__name__}#{number}"):
            operands = args if recorder.real else [recorder.stand_ins.swap(a) for a in args]
            result = run(*operands, **kwargs)
        if recorder.grad:
            recorder.applied(cls.__name__, operands, result)
        return result

    owner.apply = classmethod(apply)
    try:
        yield
    finally:
        owner.apply = original


@contextlib.contextmanager
def _checkpoints(recorder: Recorder) -> Iterator[None]:
    """Watch what is computed once more in the backward pass."""
    hook: Any = sys.modules["torch.utils.checkpoint"]._checkpoint_hook
    open_: list[Any] = []

    def enter(self: Any) -> Any:
        region = _inside(recorder, f"{CHECKPOINT}{_next(recorder)}")
        region.__enter__()
        open_.append(region)
        return super(hook, self).__enter__()

    def leave(self: Any, *args: Any) -> Any:
        open_.pop().__exit__(None, None, None)
        return super(hook, self).__exit__(*args)

    hook.__enter__, hook.__exit__ = enter, leave
    try:
        yield
    finally:
        del hook.__enter__, hook.__exit__
