"""One recorded operation, where in the program it ran, and what it follows from; and tensors that a program makes where
no operation is seen: by numpy, in another thread, in C++.

Nothing is known of such a tensor: it changes from input to input, and what made it is a row of its own, without count.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.kinds import Args, Kwargs, Namespace
from flopwise.formats.torch.lower.node import tensors as tensors_of
from flopwise.graph import Body, Module, Tensor
from flopwise.readers.torch.capture.interception_plan import Plan, synthetic


class Position(threading.local):
    """The modules, functions and branches around the running code, for each thread by itself."""

    def __init__(self) -> None:
        #: The modules, outermost first.
        self.scope: tuple[Module, ...] = ()
        #: The running modules themselves.
        self.modules: tuple[nn.Module, ...] = ()
        #: The public functions that the innermost module went through, outermost first.
        self.via: tuple[str, ...] = ()
        #: Checkpoints and functions with a gradient of their own, outermost first.
        self.regions: tuple[str, ...] = ()
        #: Branches of which one runs, and which one is not known.
        self.within: tuple[Body, ...] = ()
        #: The call of a module that is running, by its place among all calls.
        self.call: int | None = None
        #: Whether an operation is running, so that whatever happens inside is part of it.
        self.busy = False

    @contextlib.contextmanager
    def occupied(self) -> Iterator[None]:
        """Mark all that happens meanwhile as part of one operation."""
        outside, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = outside

    def copy(self) -> Kwargs:
        """The position of this thread."""
        return dict(vars(self))

    def adopt(self, position: Namespace) -> None:
        """Go to a position that this thread or another was at."""
        vars(self).update(position)


class Event(NamedTuple):
    """One operation as the program called it, with graph tensors in place of PyTorch's."""

    plan: Plan
    args: Args
    kwargs: Mapping[str, Any]
    outputs: tuple[Tensor, ...]
    scope: tuple[Module, ...]
    via: tuple[str, ...]
    within: tuple[Body, ...] = ()
    #: The storages that autograd keeps: the name of the tensor that has it, "" for one of the operation's own, and its
    #: bytes; None where that is not recorded.
    saved: tuple[tuple[str, int], ...] | None = None
    #: The checkpoints around it, of those in ``via``, that keep its results and do not compute them once more.
    cached: tuple[str, ...] = ()


def follow_from_input(tensors: Iterable[Tensor], events: Sequence[Event]) -> bool:
    """True if one of some tensors follows from an input, or from an operation that was not seen.

    Args:
        tensors: the tensors.
        events: the operations so far.
    """
    makers = {t.name: event for event in events for t in event.outputs}
    reached: set[str] = set()
    waiting = [*tensors]
    while waiting:
        tensor = waiting.pop()
        maker = makers.get(tensor.name)
        if tensor.kind == "input" or (maker is not None and maker.plan is UNSEEN):
            return True
        if maker is not None and tensor.name not in reached:
            reached.add(tensor.name)
            waiting += tensors_of(*maker.args, *maker.kwargs.values())
    return False


#: The operation that stands for whatever made the tensor.
UNSEEN = synthetic("torch.unseen", "torch.unseen")

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

    def collect(self) -> None:
        """Collect what the run left in circles, at its end; a run around it still asks which objects are new."""
        if self._before is None:
            gc.collect(1)

    def is_new(self, tensor: TorchTensor) -> bool:
        """True if a tensor was made during the run; where the program collected garbage itself, every one may be."""
        if self._before is not None:
            return id(tensor) not in self._before
        return _collections() != self._collections or any(o is tensor for o in gc.get_objects(0))


def _collections() -> list[int]:
    """Number of collections of each generation of garbage."""
    return [generation["collections"] for generation in gc.get_stats()]


def holds_reals(data: object) -> bool:
    """True if nested lists and arrays hold real or complex numbers."""
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
        f"{shape} {tensor.dtype} appeared{' ' + place if place else ''} from an operation that flopwise does not "
        "see (numpy, another thread, C++): what made it is not counted, what is computed from it is"
    )


def _line_of_program() -> str:
    """File and line of the innermost code on the stack that is neither PyTorch's nor flopwise's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARIES) and not name.startswith("<frozen"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
