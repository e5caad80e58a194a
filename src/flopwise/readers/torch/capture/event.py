"""One recorded operation, and what it follows from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.graph import Body, Module, Tensor
from flopwise.readers.torch.capture.interception_plan import Plan


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
            waiting += tensors_among((*maker.args, *maker.kwargs.values()))
    return False


def tensors_among(things: Iterable[Any]) -> Iterator[Tensor]:
    """The graph tensors among some arguments, nested ones in a row."""
    for thing in things:
        if isinstance(thing, Tensor):
            yield thing
        elif isinstance(thing, (tuple, list)):
            yield from tensors_among(thing)
