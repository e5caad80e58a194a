"""Elements in memory: an array, or one value that is repeated. NumPy is imported when somebody asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from flopwise.errors import ModelError
from flopwise.graph.stored import Array, Elements


class ArrayElements(Elements):
    """Elements that are an array in memory once somebody asks."""

    def __init__(self, load: Callable[[], object], flat: bool = False) -> None:
        """
        Args:
            load: gives the array.
            flat: whether each call gives the same memory, so that ``raw`` may hand it out.
        """
        self._load = load
        self._flat = flat

    def blocks(self, elements: int) -> Iterator[Array]:
        import numpy

        from flopwise.readers.weights.encoding import numbers

        array = numpy.asanyarray(self._load())
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            for at in range(0, flat.size, elements):
                yield numbers(flat[at : at + elements])
            return
        for at in range(0, array.size, elements):
            yield numbers(array.flat[at : at + elements])

    def array(self) -> Array | None:
        import numpy

        from flopwise.readers.weights.encoding import numbers

        array: Array = numbers(numpy.asanyarray(self._load()))
        return array

    def raw(self) -> Array | None:
        if not self._flat:
            return None
        import numpy

        array = numpy.asanyarray(self._load())
        if not array.flags.c_contiguous or array.dtype.kind not in "iuf" or not array.dtype.isnative:
            return None
        view: Array = array.reshape(-1).view()
        view.flags.writeable = False
        return view


class RepeatedElements(Elements):
    """One value that stands for all elements, in no more memory than one of them."""

    def __init__(self, value: Callable[[], Array], shape: tuple[int, ...]) -> None:
        """
        Args:
            value: gives the value, an array of one element.
            shape: of the tensor.
        """
        self._value = value
        self._shape = shape

    def blocks(self, elements: int) -> Iterator[Array]:
        import numpy

        from flopwise.readers.weights.encoding import numbers

        value, count = numbers(self._value())[0], math.prod(self._shape)
        for at in range(0, count, elements):
            yield numpy.broadcast_to(value, (min(elements, count - at),))

    def array(self) -> Array | None:
        import numpy

        from flopwise.readers.weights.encoding import numbers

        try:
            return numpy.broadcast_to(numbers(self._value())[0], self._shape)
        except ValueError as error:
            raise ModelError(f"a tensor of shape {self._shape} cannot be made ({error})") from error
