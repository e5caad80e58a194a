"""One recorded operation, where in the program it ran, and what it follows from."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from flopwise.graph import Body, Module, Tensor
from flopwise.readers.torch.capture.interception_plan import Plan
from flopwise.readers.torch.lower.node import tensors as tensors_of


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
        """What happens meanwhile is part of one operation."""
        outside, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = outside

    def copy(self) -> dict[str, Any]:
        """The position of this thread."""
        return dict(vars(self))

    def adopt(self, position: dict[str, Any]) -> None:
        """Go to a position that this thread or another was at."""
        vars(self).update(position)


class Event(NamedTuple):
    """One operation as the program asked for it, with graph tensors in place of PyTorch's."""

    plan: Plan
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Tensor, ...]
    scope: tuple[Module, ...]
    via: tuple[str, ...]
    within: tuple[Body, ...] = ()
    #: The storages that autograd keeps: the name of the tensor that has it, "" for one of the operation's own, and its
    #: bytes; None where that is not recorded.
    saved: tuple[tuple[str, int], ...] | None = None


def follow_from_input(tensors: Iterable[Tensor], events: Sequence[Event], unseen: Plan) -> bool:
    """Whether one of some tensors follows from an input, or from what is not known to follow from none.

    Args:
        tensors: the tensors.
        events: the operations so far.
        unseen: the plan of operations that were not seen.
    """
    makers = {t.name: event for event in events for t in event.outputs}
    reached: set[str] = set()
    waiting = [*tensors]
    while waiting:
        tensor = waiting.pop()
        maker = makers.get(tensor.name)
        if tensor.kind == "input" or (maker is not None and maker.plan is unseen):
            return True
        if maker is not None and tensor.name not in reached:
            reached.add(tensor.name)
            waiting += tensors_of(*maker.args, *maker.kwargs.values())
    return False
