"""The messages of a graph's nodes and stored tensors.

In a large model they take more memory than all else, and nobody looks at most of them. So its graph is read piece by
piece, and the messages are made when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError

from flopwise.errors import ModelError
from flopwise.graph.construction import give_back
from flopwise.readers.onnx.file.skeleton import GRAPH, Skeleton
from flopwise.readers.source.wire import message

#: Bytes of a graph from which on what it takes to write them is handed back.
_MUCH = 1 << 18


class Messages:
    """A graph, and its nodes and stored tensors as bytes, whether their messages are in it or not."""

    def __init__(self, graph: onnx.GraphProto, missing: Skeleton | None = None) -> None:
        """
        Args:
            graph: the graph.
            missing: the model whose nodes and stored tensors are not in it yet, if so.
        """
        self.graph = graph
        self.missing = missing

    def nodes(self) -> Iterator[bytes]:
        """Serialised graphs with all nodes in order, which come first in each.

        Raises:
            ModelError: the file is damaged.
        """
        return iter([_serialized(self.graph)]) if self.missing is None else map(_checked, self.missing.nodes)

    def tensors(self) -> Iterator[bytes]:
        """Serialised graphs with all stored tensors in order.

        Raises:
            ModelError: the file is damaged.
        """
        if self.missing is not None:
            return map(_checked, self.missing.tensors)
        return iter([_serialized(self.graph)] if self.graph.initializer else [])

    def complete(self) -> None:
        """Put the nodes and stored tensors into the graph, if they are not in it yet."""
        if self.missing is not None:
            for piece in (*self.missing.nodes, *self.missing.tensors):
                self.graph.MergeFromString(piece)
            self.missing = None

    def keep(self, missing: Skeleton | None) -> None:
        """Forget the graph and all else that nobody needs any more."""
        self.graph, self.missing = onnx.GraphProto(), missing


def parsed(data: bytes) -> onnx.ModelProto:
    """A serialised model.

    Raises:
        ModelError: it is damaged.
    """
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"not an ONNX model, or damaged ({error})") from error
    return model


def _checked(piece: bytes) -> bytes:
    """A piece of a graph from a file as protobuf writes it."""
    data: bytes = parsed(message(GRAPH, [piece])).graph.SerializeToString()
    return data


def _serialized(graph: onnx.GraphProto) -> bytes:
    """The graph's bytes; protobuf takes as much again to write them, which goes back to the system if it is much."""
    data: bytes = graph.SerializeToString()
    if len(data) > _MUCH:
        give_back()
    return data
