"""The elements of stored tensors: decoded from bytes, of an array in memory, or one value that is repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from flopwise.errors import ModelError
from flopwise.graph.stored import Elements
from flopwise.readers.weights.encoding import Encoding, numbers
from flopwise.readers.weights.storage import Span


class EncodedElements(Elements):
    """Elements in bytes, in an encoding."""

    def __init__(self, span: Span, encoding: Encoding, count: int) -> None:
        self.storage = span.storage
        self._span = span
        self._encoding = encoding
        self._count = count

    def blocks(self, elements: int) -> Iterator[Any]:
        encoding, left = self._encoding, self._count
        if not left:
            return
        for part in self._span.parts(max(elements // encoding.elements, 1) * encoding.nbytes):
            block = encoding.decode(numpy.frombuffer(part, numpy.uint8))[:left]
            left -= block.size
            yield block

    def raw(self) -> Any:
        view = self._span.view() if self._encoding.stored and not self._encoding.stored.startswith(">") else None
        return None if view is None else numpy.frombuffer(view, self._encoding.stored, self._count)


class ArrayElements(Elements):
    """Elements that are an array in memory once somebody asks."""

    def __init__(self, load: Callable[[], Any], flat: bool = False) -> None:
        """
        Args:
            load: gives the array.
            flat: whether each call gives the same memory, so that ``raw`` may hand it out.
        """
        self._load = load
        self._flat = flat

    def blocks(self, elements: int) -> Iterator[Any]:
        array = numpy.asanyarray(self._load())
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            for at in range(0, flat.size, elements):
                yield numbers(flat[at : at + elements])
            return
        for at in range(0, array.size, elements):
            yield numbers(array.flat[at : at + elements])

    def whole(self) -> Any:
        return numbers(numpy.asanyarray(self._load()))

    def raw(self) -> Any:
        if not self._flat:
            return None
        array = numpy.asanyarray(self._load())
        if not array.flags.c_contiguous or array.dtype.kind not in "iuf" or not array.dtype.isnative:
            return None
        view = array.reshape(-1).view()
        view.flags.writeable = False
        return view


class RepeatedElements(Elements):
    """One value that stands for all elements, in no more memory than one of them."""

    def __init__(self, value: Callable[[], Any], shape: tuple[int, ...]) -> None:
        """
        Args:
            value: gives the value, an array of one element.
            shape: of the tensor.
        """
        self._value = value
        self._shape = shape

    def blocks(self, elements: int) -> Iterator[Any]:
        value, count = numbers(self._value())[0], math.prod(self._shape)
        for at in range(0, count, elements):
            yield numpy.broadcast_to(value, (min(elements, count - at),))

    def whole(self) -> Any:
        try:
            return numpy.broadcast_to(numbers(self._value())[0], self._shape)
        except ValueError as error:
            raise ModelError(f"a tensor of shape {self._shape} cannot be made ({error})") from error


def strided(
    elements: EncodedElements,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    each: int = 1,
    marks: tuple[bool, bool] = (False, False),
) -> Any:
    """A tensor whose elements do not lie in its order, or are marked as conjugate or negative.

    Args:
        elements: what its storage holds, from its first element to its last.
        shape: its shape, in stored units.
        strides: in stored units.
        each: elements of a unit.
        marks: whether it is marked as conjugate, and as negative.
    """
    parts = list(elements.blocks(1 << 18))
    flat = numpy.concatenate(parts) if parts else numpy.empty(0, numpy.float32)
    width = flat.itemsize
    steps = (*(stride * each * width for stride in strides), width)
    array = numpy.lib.stride_tricks.as_strided(flat, (*shape, each), steps, writeable=False)
    conjugate, negative = marks
    array = array.conj() if conjugate else array
    return -array if negative else array
