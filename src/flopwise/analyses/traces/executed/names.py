"""The row of a model that the name of an executed node speaks of, and the agreement of their sizes.

Engines make names of names: ``relu_2_nchwc`` is a convolution in blocks of channels, called after the last tensor that
it makes; ``fc/MatMulAddFusion`` a product that took a sum in. Exporters number the nodes of every model alike, so that
a name alone proves nothing: the result has as many elements as the row's, or the name is of another model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from flopwise.graph import Node, Shape
from flopwise.rows import Row

#: Channels of a block, where onnxruntime keeps them in blocks on x86: 8, with AVX-512 16.
BLOCKS = (8, 16)

#: What onnxruntime makes of a name, each cut once in this order: a number against equal names, a copy, a layout, a
#: fusion.
_CUTS: tuple[Callable[[str], str], ...] = (
    lambda name: re.sub(r"_token_\d+$", "", name),
    lambda name: name.removesuffix("/duplicated"),
    lambda name: name.removesuffix("_nchwc"),
    lambda name: name.removesuffix("_bn"),
    lambda name: name.removesuffix("_quant"),
    lambda name: re.split(r"/\w+Fusion\b", name)[0],
)


class Names:
    """The rows of a model by the names of their nodes and of the tensors that they make."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._nodes: dict[str, int] = {}
        self._makers: dict[str, int] = {}
        for place, row in enumerate(rows):
            if row.node.name:
                self._nodes.setdefault(row.node.name, place)
            for tensor in row.node.known_outputs:
                self._makers.setdefault(tensor.name, place)

    @property
    def makers(self) -> Mapping[str, int]:
        """Name of a tensor -> position of the row that makes it."""
        return self._makers

    def find(self, name: str) -> int | None:
        """Position of the row that a name speaks of, by its node or by a tensor that it makes; None without one."""
        for form in forms(name):
            place = self._nodes.get(form, self._makers.get(form))
            if place is not None:
                return place
        return None


def forms(name: str) -> Iterator[str]:
    """A name, and what is left of it after each thing that an engine adds.

    >>> list(forms("relu_2_nchwc")), list(forms("fc/MatMulAddFusion_token_7"))
    (['relu_2_nchwc', 'relu_2'], ['fc/MatMulAddFusion_token_7', 'fc/MatMulAddFusion', 'fc'])
    """
    yield name
    for cut in _CUTS:
        shorter = cut(name)
        if shorter != name:
            yield shorter
        name = shorter


def same_size(node: Node, other: Node) -> bool:
    """True where a result of one node has as many elements as one of the other."""
    return any(same_elements(one.shape, two.shape) for one in node.known_outputs for two in other.known_outputs)


def same_elements(executed: Shape | None, own: Shape | None) -> bool:
    """True where two shapes have as many elements, channels perhaps padded by the engine, or one is unknown."""
    if executed is None or own is None or math.prod(executed) == math.prod(own):
        return True
    apart = [(a, b) for a, b in zip(executed, own, strict=False) if a != b]
    return len(executed) == len(own) and len(apart) == 1 and executed[1] != own[1] and executed[1] in padded(own[1])


def padded(channels: int) -> tuple[int, ...]:
    """A number of channels rounded up to whole blocks, of each size that engines have.

    >>> padded(20), padded(32)
    ((24, 32), (32, 32))
    """
    return tuple(-(-channels // block) * block for block in BLOCKS)
