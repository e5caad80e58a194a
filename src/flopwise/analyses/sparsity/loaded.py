"""Stored tensors of a graph as they are measured: through the graph's own loaders, one whole tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A stored tensor whose elements come whole."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Any]

    def blocks(self, elements: int = 1 << 18) -> Iterator[Any]:
        """The elements in row-major order."""
        array = numpy.asarray(self.load())
        if array.size and not any(array.strides):  # one value everywhere: never made whole
            for start in range(0, array.size, elements):
                yield numpy.broadcast_to(
                    array.reshape(-1)[:1] if array.size == 1 else array[(0,) * array.ndim],
                    (min(elements, array.size - start),),
                )
            return
        flat = array.reshape(-1)
        for start in range(0, flat.size, elements):
            yield flat[start : start + elements]

    def raw(self) -> Any:
        """None: the elements are not known to lie in a file as they are."""
        return None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)
