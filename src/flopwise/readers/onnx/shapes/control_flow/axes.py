"""Slices of a tensor along an axis, and slices put together again, as loops take and make them."""

from __future__ import annotations

import numpy
import onnx

from flopwise.readers.onnx.types import Facts, tensor_type


def extent(facts: Facts, axis: int) -> int | None:
    """The extent of a tensor along an axis; None when it is open, or there is no such axis."""
    dims = _dims(facts)
    return dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None


def without_axis(facts: Facts, axis: int) -> Facts:
    """One slice of a tensor along an axis."""
    dims = _dims(facts)
    if dims is None or not -len(dims) <= axis < len(dims):
        return Facts()
    axis %= len(dims)
    del dims[axis]
    return _retyped(facts, dims, frozenset(a - (a > axis) for a in facts.bound if a != axis))


def with_axis(facts: Facts, axis: int, length: int | None) -> Facts:
    """Slices put together along a new axis."""
    dims = _dims(facts)
    if dims is None or not -len(dims) - 1 <= axis <= len(dims):
        return Facts()
    axis %= len(dims) + 1
    dims.insert(axis, length)
    return _retyped(facts, dims, frozenset(a + (a >= axis) for a in facts.bound))


def repeated(facts: Facts, trips: int | None, bound: bool) -> Facts:
    """An output of a body, collected over so many iterations along a new first axis."""
    whole = with_axis(facts, 0, trips)
    return whole._replace(bound=whole.bound | {0}) if bound else whole


def stack(iterations: tuple[Facts, ...]) -> Facts:
    """An output of a body, collected over these iterations along a new first axis."""
    first = iterations[0]
    if not all(first.same(one) for one in iterations):
        return Facts()
    together = first._replace(bound=first.bound.union(*(one.bound for one in iterations)))
    stacked = repeated(together, len(iterations), bound=False)
    if all(isinstance(one.value, numpy.ndarray) for one in iterations):
        stacked = stacked._replace(value=numpy.stack([one.value for one in iterations]))
    return stacked


def widened(before: Facts, after: Facts) -> Facts:
    """What holds for both: extents that differ are open; ``before`` itself if nothing differs."""
    if before.same(after):
        return before
    if before.items is not None:
        return Facts(type=before.type)
    one, other = (None if facts.type is None else tensor_type(facts.type) for facts in (before, after))
    if one is None or not one.HasField("shape"):
        return before
    if other is None or not other.HasField("shape") or len(other.shape.dim) != len(one.shape.dim):
        return Facts(type=onnx.helper.make_tensor_type_proto(one.elem_type, None))
    dims = [a.dim_value for a in one.shape.dim]
    opened = [None if not d or d != b.dim_value else d for d, b in zip(dims, other.shape.dim, strict=True)]
    if [d or None for d in dims] == opened:
        return before
    return Facts(type=onnx.helper.make_tensor_type_proto(one.elem_type, opened))


def _dims(facts: Facts) -> list[int | None] | None:
    tensor = None if facts.type is None else tensor_type(facts.type)
    if tensor is None or not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _retyped(facts: Facts, dims: list[int | None], bound: frozenset[int]) -> Facts:
    code = tensor_type(facts.type).elem_type if facts.type is not None else 0
    return Facts(onnx.helper.make_tensor_type_proto(code, dims), bound=bound)
