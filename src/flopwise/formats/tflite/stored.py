"""The elements of stored tensors: by place, or unpacked where zeros are left out."""

from __future__ import annotations

import functools
import math
from typing import Any

from flopwise._limits import within_unpacking
from flopwise.errors import ModelError
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import in_memory, in_storage
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import BITS
from flopwise.readers.subgraphs.tensors import Sparsity, Tensor


def stored_tensor(name: str, tensor: Tensor, storage: SourceStorage) -> StoredTensor | None:
    """A stored tensor; None for one that holds no numbers.

    Raises:
        ModelError: the file does not hold the elements that its shape says.
    """
    if not BITS.get(tensor.dtype):
        return None
    if tensor.data is None:
        return StoredTensor(name, tensor.shape, tensor.dtype, 0)
    if tensor.sparsity is None:
        return in_storage(name, tensor.shape, tensor.dtype, storage, (tensor.data,))
    nbytes = tensor.data.end - tensor.data.start
    what = f"{storage.name}: sparse tensor {name!r}"
    within_unpacking(nbytes, math.prod(tensor.shape) * BITS[tensor.dtype] // 8, what)
    return in_memory(name, functools.partial(_dense, what, tensor, storage), tensor.shape, tensor.dtype)


def _dense(what: str, tensor: Tensor, storage: SourceStorage) -> Any:
    """The elements of a sparse tensor with its zeros."""
    import numpy

    assert tensor.data is not None
    assert tensor.sparsity is not None
    dtype = {"bool": numpy.dtype(bool), "bfloat16": numpy.dtype("<u2")}.get(tensor.dtype) or numpy.dtype(tensor.dtype)
    data = numpy.frombuffer(storage.read(*tensor.data), dtype)
    try:
        places = _places(tensor.shape, tensor.sparsity, data.size)
    except (IndexError, ValueError) as error:
        raise ModelError(f"{what}: makes no sense ({error})") from error
    dense = numpy.zeros(math.prod(tensor.shape), dtype)
    dense[places] = data[: places.size]
    return dense.reshape(tensor.shape)


def _places(shape: tuple[int, ...], sparsity: Sparsity, stored: int) -> Any:
    """Where each stored element lies in the dense tensor, in row-major order.

    tensorflow/lite/kernels/internal/utils/sparsity_format_converter.cc

    Raises:
        ValueError: levels, orders and shapes do not go together.
    """
    import numpy

    order, blocks, levels = sparsity
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise ValueError("its axes are in no order")
    positions = numpy.zeros(1, numpy.int64)
    indices: list[Any] = []
    for level in levels:
        if level.size >= 0:
            parents = numpy.repeat(numpy.arange(positions.size), level.size)
            steps = numpy.tile(numpy.arange(level.size), positions.size)
            children = positions[parents] * level.size + steps
        else:
            segments, listed = numpy.array(level.segments, numpy.int64), numpy.array(level.indices, numpy.int64)
            counts = segments[positions + 1] - segments[positions]
            if counts.min(initial=0) < 0 or counts.sum() > listed.size:
                raise ValueError("its segments overlap")
            parents = numpy.repeat(numpy.arange(positions.size), counts)
            starts = numpy.repeat(segments[positions] - numpy.cumsum(counts) + counts, counts)
            children = starts + numpy.arange(parents.size)
            steps = listed[children]
        if parents.size > stored:
            raise ValueError("its levels have more elements than are stored")
        indices = [*(one[parents] for one in indices), steps]
        positions = children
    by_axis = dict(zip(order, indices, strict=True))
    sizes = dict(zip(order, (level.size for level in levels), strict=True))
    places = numpy.zeros(positions.size, numpy.int64)
    for axis, extent in enumerate(shape):
        index = by_axis[axis]
        for place, block in enumerate(blocks):
            if block == axis:
                index = index * sizes[rank + place] + by_axis[rank + place]
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < extent:
            raise ValueError("an index lies outside")
        places = places * extent + index
    return places
