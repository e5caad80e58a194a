"""A module as fvcore sees it: its graph, each part in its own mode, also in the wrappers of parallel runs.

Inputs and outputs of an operator are as a rule that was written for fvcore asks them: like ``torch._C.Value``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.graph import Graph, Module, Node, Tensor

if TYPE_CHECKING:
    import torch
    from torch import nn


class Value:
    """An input or output of an operator, with the methods of ``torch._C.Value`` that rules call.

    It stands for its type and for what made it as well, of which rules ask the shape and the members of a list.
    """

    def __init__(self, thing: object) -> None:
        self._thing: Any = thing

    def isCompleteTensor(self) -> bool:  # noqa: N802 - the name that rules call
        """True for a tensor."""
        return isinstance(self._thing, Tensor)

    def toIValue(self) -> object:  # noqa: N802 - the name that rules call
        """The thing itself; None for a tensor."""
        return None if isinstance(self._thing, Tensor) else self._thing

    def type(self) -> Value:
        """Its type, which knows ``sizes`` and ``dim``."""
        return self

    def sizes(self) -> list[int]:
        """The shape of a tensor."""
        return list(self._thing.dims)

    def dim(self) -> int:
        """The number of dimensions of a tensor."""
        return len(self._thing.dims)

    def node(self) -> Value:
        """The node that made it, which knows ``inputs``."""
        return self

    def inputs(self) -> list[Value]:
        """The members of a list; none of anything else."""
        return [Value(thing) for thing in self._thing] if isinstance(self._thing, (list, tuple)) else []


def values_of(node: Node, kind: str) -> tuple[list[Value], list[Value]]:
    """Inputs in the order of the operator's schema, and outputs."""
    import torch

    arguments = dict(node.attrs.get("args", {}))
    outputs = [Value(tensor) for tensor in node.outputs]
    if kind == "aten::_convolution":
        names = ("stride", "padding", "dilation")
        settled = [arguments.get(name) for name in names]
        x, weight, bias = (*node.inputs, None)[:3]
        transposed = node.op == "ConvTranspose"
        flags = [transposed, arguments.get("output_padding", [0]), arguments.get("groups", 1), False, False, True, True]
        return [Value(thing) for thing in (x, weight, bias, *settled, *flags)], outputs
    if kind in ("aten::linear",) and node.op.endswith("_cell"):
        return [Value(tensor) for tensor in node.inputs[:2]], outputs
    packet = getattr(torch.ops.aten, kind.partition("::")[2], None) if kind.startswith("aten::") else None
    if packet is None:
        return [Value(thing) for thing in arguments.values()], outputs
    schema = getattr(packet, packet.overloads()[0])._schema
    named = [("input" if a.name == "self" else a.name, a) for a in schema.arguments]
    values = [
        arguments.pop(
            name, arguments.pop(f"arg{place}", argument.default_value if argument.has_default_value() else None)
        )
        for place, (name, argument) in enumerate(named)
    ]
    return [Value(thing) for thing in values], outputs


def read(model: nn.Module, inputs: torch.Tensor | Sequence[object]) -> Graph:
    """The graph of a module, each of its modules in the mode that it is in.

    Args:
        model: the module.
        inputs: the tuple of the positional arguments, or the only one: a tensor, a list, a dict.
    """
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    from flopwise.formats.torch.read import read_torch

    args = list(inputs) if type(inputs) is tuple else [inputs]  # a tuple with names is an argument
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        return _wrapped(read_torch(model.module, (args, {}), mode="as-is"))
    return read_torch(model, (args, {}), mode="as-is")


def dropouts(graph: Graph) -> Iterator[list[str]]:
    """The modules around each call of a dropout layer, the layer last: in eval mode it leaves no node, but a trace."""
    layers = {m.path for m in graph.program.modules if "torch.nn.modules.dropout._DropoutNd" in m.bases}
    for call in graph.program.calls:
        if call.path in layers:
            around = [call.path]
            while call.caller is not None:
                call = graph.program.calls[call.caller]
                around.append(call.path)
            yield around[::-1]


def _wrapped(graph: Graph) -> Graph:
    """The graph of the module in a wrapper, with the wrapper's name before each of its names."""

    def inside(path: str) -> str:
        return f"module.{path}" if path else "module"

    def around(scope: Sequence[Module]) -> tuple[Module, ...]:
        return (Module("", ""), *(Module(inside(m.path), m.kind) for m in scope))

    program = graph.program._replace(
        modules=tuple(module._replace(path=inside(module.path)) for module in graph.program.modules),
        calls=tuple(call._replace(path=inside(call.path)) for call in graph.program.calls),
    )
    nodes = tuple(replace(node, modules=around(node.scope)) for node in graph.nodes)
    return replace(graph, nodes=nodes, program=program)
