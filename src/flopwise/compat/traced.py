"""Inputs and outputs of an operator, as a rule that was written for fvcore asks them: like ``torch._C.Value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.graph import Node, Tensor


class _Type:
    """The type of a value."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def sizes(self) -> list[int]:
        """The shape."""
        return list(self._tensor.dims)

    def dim(self) -> int:
        """How many dimensions."""
        return len(self._tensor.dims)


class _List:
    """What made a list."""

    def __init__(self, things: Sequence[Any]) -> None:
        self._things = things

    def inputs(self) -> list[Value]:
        """The members."""
        return [Value(thing) for thing in self._things]


class Value:
    """An input or output of an operator, with the methods of ``torch._C.Value`` that rules call."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def isCompleteTensor(self) -> bool:  # noqa: N802 - the name that rules call
        """Whether it is a tensor."""
        return isinstance(self._thing, Tensor)

    def type(self) -> _Type:
        """Its type, which knows the shape."""
        return _Type(self._thing)

    def toIValue(self) -> Any:  # noqa: N802 - the name that rules call
        """What it is, when it is not a tensor."""
        return None if isinstance(self._thing, Tensor) else self._thing

    def node(self) -> _List:
        """What made it, when it is a list."""
        return _List(self._thing if isinstance(self._thing, (list, tuple)) else ())


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
        rest = [transposed, arguments.get("output_padding", [0]), arguments.get("groups", 1), False, False, True, True]
        return [Value(thing) for thing in (x, weight, bias, *settled, *rest)], outputs
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
