"""Results of a run: tensors in whatever the module returns, and those that the program keeps beside them, from which
gradients may start too: a loss that is an attribute, an entry of a dictionary, what a closure holds.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from torch import Tensor as TorchTensor

from flopwise.formats.torch.containers import tensors_inside
from flopwise.formats.torch.lower.node import tensors
from flopwise.graph import Tensor
from flopwise.readers.torch.capture.event import Event
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.runs.calls import Calls


def results(recorder: Recorder, calls: Calls, result: object) -> tuple[Tensor, ...]:
    """The graph tensors in what a module returned: those of lists and mappings in a row.

    Where gradients are asked for, then those of other objects, and those that the program keeps and that ask for a
    gradient which the others do not lead to.
    """
    listed = calls.flat((result,))
    if not recorder.grad:  # a cache that a language model hands on counts as its state
        return listed
    names = {tensor.name for tensor in listed}
    inner = [recorder.stand_ins.tensor_of(tensor) for _, tensor in tensors_inside(result)]
    outputs = [*listed, *{t.name: t for t in inner if t.name not in names}.values()]
    return (*outputs, *_held_tensors(recorder, outputs))


def _held_tensors(recorder: Recorder, outputs: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that the program keeps, from which gradients go where none goes from the outputs."""
    reached = {tensor.name for tensor in outputs if tensor.grad}
    events = recorder.events
    left = _unreached(events, reached)
    if not left:
        return []
    alive = _alive(recorder)
    tensors: list[Tensor] = []
    for tensor in reversed(left):
        if tensor.name in alive and tensor.name not in reached:
            tensors.append(tensor)
            reached.add(tensor.name)
            _unreached(events, reached)
    return tensors[::-1]


def _unreached(events: Sequence[Event], reached: set[str]) -> list[Tensor]:
    """The results that ask for a gradient and get none from what is reached; what does is added to ``reached``."""
    left: list[Tensor] = []
    for event in reversed(events):
        asking = [tensor for tensor in event.outputs if tensor.grad]
        if not asking:
            continue
        if any(tensor.name in reached for tensor in asking):
            reached.update(t.name for t in tensors(*event.args, *event.kwargs.values()) if t.grad)
        else:
            left += asking
    return left[::-1]


def _alive(recorder: Recorder) -> set[str]:
    """Names of the results that somebody still holds; what only holds itself is collected before."""
    stand_ins = recorder.stand_ins
    stand_ins.births.collect()
    results = [tensor for event in recorder.events for tensor in event.outputs]
    own = {id(tensor) for tensor in (*results, *stand_ins.renamed)}  # earlier runs have results of the same names
    held = [thing for thing in gc.get_objects() if issubclass(type(thing), TorchTensor)]
    known = [graph_tensor for tensor in held if (graph_tensor := stand_ins.known(tensor)) is not None]
    return {graph_tensor.name for graph_tensor in known if id(graph_tensor) in own}
