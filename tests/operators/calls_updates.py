"""Updates by index of PyTorch's that do more than ONNX's scatter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.operators.arrays import given, real
from tests.operators.calls import Call, call
from tests.operators.oracle.number import Number, numbers, pointwise, select


def means_at(x: Any, places: Any, updates: Any, include_self: bool) -> Any:
    """Each element's mean with the updates that come to its place, or of those alone where there are any.

    Args:
        x: the elements.
        places: the index of an element for each update.
        updates: a number for each place.
        include_self: whether the element itself belongs to them.
    """
    tally = x.flat[0].tally
    count = numbers(np.full(x.shape, float(include_self)), tally)
    total = x.copy()
    if not include_self:
        for at in places.values():
            total[at] = Number(0.0, tally)
    for of, at in places.items():
        total[at] = total[at] + updates[of]
        count[at] = count[at] + 1.0
    if not include_self:
        count = pointwise(lambda n: select(n.equals(0.0), 1.0, n), count)
    return total / count


def by_element(index: Any, dim: int) -> dict[Any, Any]:
    """Place of an update -> place of the element that it comes to; the index has one for each update."""
    return {of: (*of[:dim], int(index[of]), *of[dim + 1 :]) for of in np.ndindex(index.shape)}


def by_slice(index: Any, dim: int, shape: tuple[int, ...]) -> dict[Any, Any]:
    """The same for an index of whole slices; the updates have a shape."""
    return {of: (*of[:dim], int(index[of[dim]]), *of[dim + 1 :]) for of in np.ndindex(*shape)}


def added_at(x: Any, index: Any, rows: Any, alpha: float) -> Any:
    """Rows added to those that an index picks, times a factor."""
    y = x.copy()
    for of, at in by_slice(index, 0, rows.shape).items():
        y[at] = y[at] + rows[of] * alpha
    return y


def calls() -> Iterator[Call]:
    x, index, rows = real(3, 4), given([[0, 1, 0, 2], [1, 1, 1, 1]]), given([0, 2, 0, 0])
    for own in (True, False):
        yield call(
            "scatter_reduce",
            lambda x, i, s, own=own: x.scatter_reduce(0, i, s, "mean", include_self=own),
            lambda x, i, s, own=own: means_at(x, by_element(i, 0), s, own),
            x, index, real(5, 4),
        )  # fmt: skip
        yield call(
            "index_reduce",
            lambda x, i, s, own=own: x.index_reduce(1, i, s, reduce="mean", include_self=own),
            lambda x, i, s, own=own: means_at(x, by_slice(i, 1, s.shape), s, own),
            x, rows, real(3, 4),
        )  # fmt: skip
    yield call(
        "index_add",
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        lambda x, i, s: added_at(x, i, s, 2.0),
        x, rows, real(4, 4),
    )  # fmt: skip
