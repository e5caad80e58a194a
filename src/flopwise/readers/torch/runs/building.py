"""Models that are made on the meta device or exported, and what their program keeps of that beside them."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from flopwise.readers.torch.runs.restore import restored
from flopwise.readers.torch.runs.surroundings import Surroundings


def constructed(maker: object, make: Callable[[], object], device: torch.device | None) -> Any:
    """The object that ``make`` makes; the program keeps no tensor on the meta device in caches, names and classes,
    where models that it makes later would find it.

    Args:
        maker: the function or class that makes it.
        make: calls it.
        device: where tensors are made; None: where the program wants them.
    """
    surroundings = Surroundings()
    surroundings.add([maker], made=True)
    enabled = gc.isenabled()
    gc.collect(0)  # what is young afterwards was made meanwhile
    gc.disable()
    model = None
    try:
        with device or contextlib.nullcontext():
            model = make()
    finally:
        young = [thing for thing in gc.get_objects(0) if issubclass(type(thing), TorchTensor) and thing.is_meta]
        if enabled:
            gc.enable()
        held = _held_beside(young, model)
        if young and sys.getrefcount(model) > _OWN:
            held.append(model)
        del young
        if held:
            from flopwise.readers.torch.runs.escapes import empty_holders

            empty_holders(held, surroundings)
    return model


@contextlib.contextmanager
def exporting(model: nn.Module) -> Iterator[None]:
    """The model is in eval mode meanwhile and afterwards as it was; the program keeps none of the fake tensors."""
    surroundings = Surroundings()
    before = _fake()
    try:
        with restored(model, False, real=True, surroundings=surroundings):
            yield
    finally:
        known = {id(tensor) for tensor in before}
        held = [tensor for tensor in _fake() if id(tensor) not in known]
        if held:
            from flopwise.readers.torch.runs.escapes import empty_holders

            empty_holders(held, surroundings)


def _fake() -> list[TorchTensor]:
    return [thing for thing in gc.get_objects() if issubclass(type(thing), FakeTensor)]


#: References to an object that a variable and the question for their number make.
_OWN = 2


def _held_beside(tensors: list[TorchTensor], model: object) -> list[Any]:
    """The tensors that something else holds than the modules of a model."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    own = Counter(id(t) for m in modules for held in (m._parameters, m._buffers, vars(m)) for t in held.values())
    own.update({id(tensor._base) for tensor in tensors if tensor._base is not None})  # which a view holds in C++
    return [tensor for tensor in tensors if sys.getrefcount(tensor) - own[id(tensor)] > _OWN + 1]
