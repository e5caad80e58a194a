"""The nodes of a graph with what is asked of them most, read once: protobuf makes a name anew for whoever asks."""

from __future__ import annotations

from typing import NamedTuple

import onnx


class Listed(NamedTuple):
    """A node, and what is asked of it most."""

    proto: onnx.NodeProto
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""
        return next(filter(None, self.outputs), "")


def listed(graph: onnx.GraphProto) -> list[Listed]:
    """The nodes of a graph in order; equal names are one object."""
    one = dict[str, str]().setdefault
    return [
        Listed(
            node,
            one(op := node.op_type, op),
            one(domain := node.domain, domain),
            tuple([one(name, name) for name in node.input[:]]),
            tuple([one(name, name) for name in node.output[:]]),
        )
        for node in graph.node
    ]
