"""One call of a module, as a hook on it sees the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flopwise.graph import Tensor

_OWN = "torch.nn.modules."


class Layer(NamedTuple):
    """One call of a module."""

    path: str
    #: Its class: the bare name of one of PyTorch's own ("Conv2d"), the whole name of any other.
    kind: str
    #: The same of the class and its classes above.
    bases: frozenset[str]
    options: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: How many of ``inputs`` are positional, which is all that a hook is given.
    positional: int
    training: bool
    #: Position of the node at which its count stands; -1 when the graph has no nodes.
    at: int

    @property
    def x(self) -> Tensor:
        """The first positional argument.

        Raises:
            IndexError: there is none; the tools fail as well.
        """
        return self.inputs[: self.positional][0]

    @property
    def y(self) -> Tensor:
        """The first tensor of the result.

        Raises:
            IndexError: there is none.
        """
        return self.outputs[0]

    @property
    def params(self) -> int:
        """Elements of its own parameters."""
        return sum([t.numel for t in self.tensors.values() if t.kind == "weight"])


def elements(layer: Layer) -> int:
    """numel(X)."""
    return layer.x.numel


def results(layer: Layer) -> int:
    """numel(Y)."""
    return layer.y.numel


def ranked(*kinds: str) -> list[str]:
    """The names of each kind in one, two and three dimensions.

    >>> ranked("Conv")
    ['Conv1d', 'Conv2d', 'Conv3d']
    """
    return [f"{kind}{rank}d" for kind in kinds for rank in (1, 2, 3)]


def bare(kind: str) -> str:
    """The bare name of a class of PyTorch's own; any other stays as it is.

    >>> bare("torch.nn.modules.conv.Conv2d"), bare("mine.Conv2d")
    ('Conv2d', 'mine.Conv2d')
    """
    return kind.rpartition(".")[2] if kind.startswith(_OWN) else kind
