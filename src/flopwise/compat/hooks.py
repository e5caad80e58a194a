"""For the signatures of tools with hooks: one run, calls of a user's own hooks, and printed figures."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from flopwise.api.read import read
from flopwise.conventions.emulation.layer import Layer, bare
from flopwise.errors import InputError
from flopwise.graph import Graph, Tensor

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flopwise.analyses.traces.trace import Trace

#: A user's rule: module, positional arguments, result; it adds to an attribute of the module.
Hook: TypeAlias = Callable[[Any, Any, Any], object]


def watched(model: nn.Module, args: Iterable[object] = (), kwargs: Mapping[str, object] | None = None) -> Graph:
    """The graph of a module in eval mode, called with tensors, shapes or plain values.

    Raises:
        ModelError: the module fails.
    """
    return read(model, (list(args), dict(kwargs or {})))


def recorded(model: nn.Module, trace: Trace) -> dict[str, float]:
    """The seconds that each module took in a trace, with those within it, by its path; "" is the model itself.

    Raises:
        InputError: the trace has no time in a module of this model.
    """
    from flopwise.analyses.traces.lines import module_times

    times = {path: time / 1e9 for path, time in module_times(trace).items()}
    if not any(times.get(path) for path, _ in model.named_modules() if path):
        raise InputError(
            f"the trace is of {trace.model or 'no model'}: no module of {type(model).__name__} has time in it"
        )
    return times


def kind_of(cls: type) -> str:
    """The conventions' name of a class: the bare name of one of PyTorch's own, else the whole one."""
    return bare(f"{cls.__module__}.{cls.__qualname__}")


def trained(module: nn.Module) -> int:
    """Elements of the parameters of a module that ask for a gradient."""
    return sum([p.numel() for p in module.parameters() if p.requires_grad])


def inside_first(model: nn.Module) -> Iterator[nn.Module]:
    """All modules as ``nn.Module.apply`` visits them: what a module holds before the module itself."""
    for child in model.children():
        yield from inside_first(child)
    yield model


def hooked(hook: Hook, module: nn.Module, layer: Layer, attribute: str, start: object) -> Any:
    """The value of an attribute of the module to which a user's own hook has added in one call.

    The hook is given a stand-in of the module, and tensors without elements; the module itself does not change.

    Args:
        hook: takes the module, its positional arguments and its result.
        module: the module.
        layer: the call.
        attribute: where the hook adds.
        start: what it adds to.
    """
    stand_in = copy.copy(module)
    vars(stand_in)[attribute] = start
    results = tuple(map(hollow, layer.outputs))
    hook(stand_in, tuple(map(hollow, layer.inputs[: layer.positional])), results[0] if len(results) == 1 else results)
    return getattr(stand_in, attribute)


def hollow(tensor: Tensor) -> torch.Tensor:
    """A tensor of the same shape and type that takes no memory."""
    import torch

    dtype = getattr(torch, tensor.dtype or "float32", torch.float32)
    return torch.empty(tuple(map(int, tensor.dims)), dtype=dtype, device="meta")


@contextlib.contextmanager
def with_extra_repr(model: nn.Module, words: Callable[[nn.Module, str], str]) -> Iterator[None]:
    """While the context lasts, other text stands between the brackets of each module's printed form.

    Args:
        model: the module; afterwards it is as it was.
        words: the module and what it says of itself -> what it is to say.
    """
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            attributes, own = vars(module), module.extra_repr
            if "extra_repr" in attributes:
                stack.callback(attributes.update, extra_repr=own)
            else:
                stack.callback(attributes.pop, "extra_repr")
            attributes["extra_repr"] = functools.partial(_said, words, module, own)
        yield


def _said(words: Callable[[nn.Module, str], str], module: nn.Module, own: Callable[[], str]) -> str:
    return words(module, own())
