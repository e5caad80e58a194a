"""Shared by the drop-ins for hook-based tools: the graph of one call, a user's own hooks, printed figures."""

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


def graph_of_call(model: nn.Module, args: Iterable[object] = (), kwargs: Mapping[str, object] | None = None) -> Graph:
    """The graph of a module in eval mode, called with tensors, shapes (tuples of integers) or plain values.

    Raises:
        ModelError: the module fails.
    """
    return read(model, (list(args), dict(kwargs or {})))


def forward_seconds(model: nn.Module, trace: Trace) -> dict[str, float]:
    """Seconds of the forward pass in each module of a trace, those within it included, by dotted path; "" is the model.

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


def class_name(cls: type) -> str:
    """The name that conventions use for a class: "Linear" for PyTorch's own, "package.module.Class" for others."""
    return bare(f"{cls.__module__}.{cls.__qualname__}")


def trainable_elements(module: nn.Module) -> int:
    """Number of elements in a module's parameters that require a gradient."""
    return sum([p.numel() for p in module.parameters() if p.requires_grad])


def children_first(model: nn.Module) -> Iterator[nn.Module]:
    """A module and all within it, children before their parent, in the order of ``nn.Module.apply``."""
    for child in model.children():
        yield from children_first(child)
    yield model


def hook_result(hook: Hook, module: nn.Module, layer: Layer, attribute: str, start: object) -> Any:
    """The value of a module's attribute after a user's own hook has run on one call.

    The hook gets a copy of the module and meta tensors; the module itself does not change.

    Args:
        hook: takes the module, its positional arguments and its result, and adds to the attribute.
        module: the module.
        layer: the call, with the shapes of its arguments and results.
        attribute: name of the attribute, such as "total_ops".
        start: its value before the hook.
    """
    stand_in = copy.copy(module)
    vars(stand_in)[attribute] = start
    results = tuple(map(meta_tensor, layer.outputs))
    hook(
        stand_in,
        tuple(map(meta_tensor, layer.inputs[: layer.positional])),
        results[0] if len(results) == 1 else results,
    )
    return getattr(stand_in, attribute)


def meta_tensor(tensor: Tensor) -> torch.Tensor:
    """A tensor on the meta device (no memory) of the same shape and type; float32 where the type is unknown."""
    import torch

    dtype = getattr(torch, tensor.dtype or "float32", torch.float32)
    return torch.empty(tuple(map(int, tensor.dims)), dtype=dtype, device="meta")


@contextlib.contextmanager
def with_extra_repr(model: nn.Module, words: Callable[[nn.Module, str], str]) -> Iterator[None]:
    """In the block, each module's ``extra_repr`` (the text in the brackets when it is printed) is replaced.

    Args:
        model: the module; afterwards it is as it was.
        words: the module and its own ``extra_repr`` -> the text in its place.
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
