"""Tensors that a program makes where no operation is seen: by numpy, in another thread, in C++.

Nothing is known of such a tensor: it changes from input to input, and what made it is a row of its own, without count.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.graph import Tensor
from flopwise.readers.torch.capture.interception_plan import synthetic

#: The operation that stands for whatever made the tensor.
PLAN = synthetic("torch.unseen", "torch.unseen")

#: The folders of PyTorch and of flopwise, whose code is not a line of the program.
_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parents[3]) + os.sep)


class Births:
    """Tells tensors that are made during a run from those that were there before."""

    #: Whether a run is on, which a run inside it must not disturb.
    _running = False

    def __init__(self) -> None:
        self._before: frozenset[int] | None = None
        self._collections: list[int] = []

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Objects that come into being meanwhile are known as new.

        The youngest generation of the garbage collector is emptied, and collections wait until the end: what is in it
        then is new. That takes no time however many objects there are.
        """
        if Births._running:
            self._before = frozenset(id(o) for o in gc.get_objects() if isinstance(o, TorchTensor))
            yield
            return
        enabled = gc.isenabled()
        gc.collect(0)
        gc.disable()
        self._collections = _collections()
        Births._running = True
        try:
            yield
        finally:
            Births._running = False
            if enabled:
                gc.enable()

    def is_new(self, tensor: TorchTensor) -> bool:
        """Whether a tensor was made during the run; where the program collected garbage itself, every one may be."""
        if self._before is not None:
            return id(tensor) not in self._before
        return _collections() != self._collections or any(o is tensor for o in gc.get_objects(0))


def _collections() -> list[int]:
    """How often the garbage of each generation was collected."""
    return [generation["collections"] for generation in gc.get_stats()]


def holds_reals(data: Any) -> bool:
    """Whether there are real numbers in nested lists and arrays."""
    if isinstance(data, (float, complex)):
        return True
    if isinstance(data, (list, tuple)):
        return any(map(holds_reals, data))
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    return kind in ("f", "c")


def described(tensor: Tensor, module: str) -> str:
    """A note on where a tensor appeared.

    Args:
        tensor: its graph tensor.
        module: the path of the module that ran, "" for the model itself.
    """
    shape = "×".join(map(str, tensor.shape or ())) or "a scalar"
    line = _line_of_program()
    place = " ".join(part for part in (f"in {module}" if module else "", f"at {line}" if line else "") if part)
    return (
        f"{shape} {tensor.dtype} appeared{' ' + place if place else ''} from where no operation is seen (numpy, "
        "another thread, C++): what made it is unknown, and what follows from it is counted"
    )


def _line_of_program() -> str:
    """File and line of the innermost code on the stack that is neither PyTorch's nor flopwise's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARIES) and not name.startswith("<frozen"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
