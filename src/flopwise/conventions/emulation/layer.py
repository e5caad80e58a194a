"""One call of a module, as a hook on it sees the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from flopwise.graph import Tensor
from flopwise.operators.extents import product

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
    def x_shape(self) -> tuple[int, ...]:
        """The shape of X; extents may be expressions, which compute as integers do."""
        return cast("tuple[int, ...]", self.x.dims)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """The shape of Y."""
        return cast("tuple[int, ...]", self.y.dims)

    def size(self, option: str) -> int:
        """An option that is a whole number."""
        return cast(int, self.options[option])

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


#: Operations of a step of a recurrent layer besides its products and biases, in widths of the state.
_BESIDES: dict[str, int] = {"RNN": 1, "GRU": 7, "LSTM": 10}


def recurrent(layer: Layer, of_product: Callable[[Tensor], int]) -> int:
    """(products + biases + 1, 7 or 10 widths) of each layer × directions × steps; a cell takes one step.

    Args:
        layer: the call.
        of_product: a matrix of weights -> what its product with a vector costs.
    """
    kind, steps = layer.kind.removesuffix("Cell"), layer.x_shape[:2]
    suffixes = [f"_l{number}" for number in range(layer.size("num_layers"))] if kind == layer.kind else [""]
    cost = len(suffixes) * _BESIDES[kind] * layer.size("hidden_size")
    for name in (f"{which}{suffix}" for suffix in suffixes for which in ("ih", "hh")):
        cost += of_product(layer.tensors[f"weight_{name}"])
        cost += layer.tensors[f"bias_{name}"].numel if layer.options["bias"] else 0
    if kind != layer.kind:
        return cost * steps[0]
    return cost * product(steps) * (2 if layer.options["bidirectional"] else 1)


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
