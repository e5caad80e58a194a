"""The graph of a module as fvcore sees it: each part in the mode that it is in, in the wrappers of parallel runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.graph import Graph, Module

if TYPE_CHECKING:
    from torch import nn


def read(model: nn.Module, inputs: Any) -> Graph:
    """The graph of a module, each of its modules in the mode that it is in.

    Args:
        model: the module.
        inputs: a tensor, or the positional arguments.
    """
    import torch
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    from flopwise.readers.torch.read import read_torch

    args = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        return _wrapped(read_torch(model.module, (args, {}), mode="as-is"))
    return read_torch(model, (args, {}), mode="as-is")


def dropouts(graph: Graph) -> Iterator[list[str]]:
    """The modules around each call of a dropout layer, the layer last: in eval mode it leaves no node, but a trace."""
    layers = {m.path for m in graph.modules if "torch.nn.modules.dropout._DropoutNd" in m.bases}
    for call in graph.calls:
        if call.path in layers:
            around = [call.path]
            while call.caller is not None:
                call = graph.calls[call.caller]
                around.append(call.path)
            yield around[::-1]


def _wrapped(graph: Graph) -> Graph:
    """The graph of the module in a wrapper, with the wrapper's name before each of its names."""

    def inside(path: str) -> str:
        return f"module.{path}" if path else "module"

    def around(scope: Sequence[Module]) -> tuple[Module, ...]:
        return (Module("", ""), *(Module(inside(m.path), m.kind) for m in scope))

    return replace(
        graph,
        nodes=tuple(replace(node, scope=around(node.scope)) for node in graph.nodes),
        modules=tuple(replace(module, path=inside(module.path)) for module in graph.modules),
        calls=tuple(replace(call, path=inside(call.path)) for call in graph.calls),
    )
