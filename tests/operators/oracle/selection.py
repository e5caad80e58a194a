"""Scatter with a reduction, and plain algorithms for the operators whose work depends on the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import larger, plain, smaller

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": smaller,
    "max": larger,
}


def scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    y = x.copy()
    for at in np.ndindex(indices.shape):
        to = (*at[:axis], int(indices[at]), *at[axis + 1 :])
        y[to] = _COMBINE[reduction](y[to], updates[at])
    return y


def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    y = x.copy()
    for at in np.ndindex(indices.shape[:-1]):
        to = tuple(int(i) for i in indices[at])
        for rest in np.ndindex(x.shape[len(to) :]):
            y[to + rest] = _COMBINE[reduction](y[to + rest], updates[at + rest])
    return y


def _place(kept: list[Any], v: Any, smallest_first: bool) -> int:
    """Where v belongs in a sorted list, by binary search."""
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high) // 2
        if plain(v < kept[middle]) == smallest_first:
            high = middle
        else:
            low = middle + 1
    return low


def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    del sorted
    rows = np.moveaxis(x, axis, -1)
    y = np.empty((*rows.shape[:-1], int(k[0])), object)
    for at in np.ndindex(rows.shape[:-1]):
        kept: list[Any] = []
        for v in rows[at]:
            kept.insert(_place(kept, v, not largest), v)
            del kept[int(k[0]) :]
        y[at] = kept
    return np.moveaxis(y, -1, axis)


def unique(x: Any) -> Any:
    kept: list[Any] = []
    for v in x.flat:
        at = _place(kept, v, True)
        if at == 0 or plain(kept[at - 1]) != v.value:
            kept.insert(at, v)
    return np.array(kept, object)


def non_zero(x: Any) -> Any:
    return np.array([at for at in np.ndindex(x.shape) if not x[at].equals(0.0).value]).T


def compress(x: Any, condition: Any) -> Any:
    """Of the flattened input; testing a flag is one operation on it."""
    return np.array([v for v, flag in zip(x.flat, condition, strict=False) if (flag & True).value], object)


def non_max_suppression(
    boxes: Any, scores: Any, limit: Any, overlap: float, threshold: Any, *, center_point_box: int = 0
):
    """Greedy: a box is kept unless it overlaps one that was kept before it."""
    chosen = []
    for b in range(boxes.shape[0]):
        corners = [_corners(box, center_point_box) for box in boxes[b]]
        areas = [(y2 - y1) * (x2 - x1) for y1, x1, y2, x2 in corners]
        for c in range(scores.shape[1]):
            order: list[Any] = []
            for i, score in enumerate(scores[b, c]):
                if (score > threshold[0]).value:
                    place = _place([scores[b, c, j] for j in order], score, False)
                    order.insert(place, i)
            kept: list[int] = []
            for i in order:
                if len(kept) < limit[0] and all(_apart(corners, areas, i, j, overlap[0]) for j in kept):
                    kept.append(i)
            chosen.extend((b, c, i) for i in kept)
    return np.array(chosen)


def _corners(box: Any, centred: int) -> tuple[Any, Any, Any, Any]:
    if centred:
        x, y, w, h = box
        dx, dy = w / 2.0, h / 2.0
        return y - dy, x - dx, y + dy, x + dx
    y1, x1, y2, x2 = box
    return smaller(y1, y2), smaller(x1, x2), larger(y1, y2), larger(x1, x2)


def _apart(corners: Any, areas: Any, i: int, j: int, overlap: float) -> bool:
    a, b = corners[i], corners[j]
    height = larger(0.0, smaller(a[2], b[2]) - larger(a[0], b[0]))
    width = larger(0.0, smaller(a[3], b[3]) - larger(a[1], b[1]))
    common = height * width
    return bool((common / (areas[i] + areas[j] - common) <= overlap).value)


DEFINITIONS: dict[str, Callable[..., Any]] = {"ScatterElements": scatter_elements, "ScatterND": scatter_nd}

#: Operators whose work depends on the data: the rule must bound what these execute.
ALGORITHMS: dict[str, Callable[..., Any]] = {
    "TopK": top_k,
    "Unique": unique,
    "NonZero": non_zero,
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
}
