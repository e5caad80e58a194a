"""Shapes of tensors that PyTorch's operators make from sizes."""

from __future__ import annotations

from typing import Any

from flopwise.operators.shapes.calls.of import Of, Shapes, sizes_of
from flopwise.operators.size import UnresolvedError, require


def filled(*size: object, **options: object) -> Shapes:
    return [tuple(sizes_of(size or (options["size"],)))]


def full(size: Any, *settings: object, **options: object) -> Shapes:
    return [tuple(size)]


def new_filled(x: Of, *size: object, **options: Any) -> Shapes:
    sizes = size or (options["size"],)
    return [tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else tuple(sizes)]


def new_full(x: Of, size: Any, *settings: object, **options: object) -> Shapes:
    return [tuple(size)]


def arange(*ends: Any, **options: object) -> Shapes:
    ends = ends or tuple(options[k] for k in ("start", "end", "step") if k in options)
    start, end, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    step = options.get("step", step)
    if not all(isinstance(e, int) for e in (start, end)) or type(step) is not int or step <= 0:
        raise UnresolvedError
    if type(start) is int and type(end) is int:
        return [(len(range(start, end, step)),)]
    require(end - start, ">=")
    return [(-(-(end - start) // step),)]


def linspace(start: object, end: object, steps: int, **options: object) -> Shapes:
    return [(steps,)]


def eye(n: int, m: int | None = None, **options: object) -> Shapes:
    return [(n, n if m is None else m)]


def alike(x: Of, *settings: object, **options: object) -> Shapes:
    return [x.shape]


def meshgrid(*tensors: Any, indexing: str = "ij") -> Shapes:
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    extents = [t.shape[0] if t.shape else 1 for t in vectors]
    if indexing == "xy" and len(extents) > 1:
        extents[:2] = extents[1::-1]
    return [tuple(extents)] * len(vectors)


def one_hot(x: Of, num_classes: int = -1) -> Shapes:
    if type(num_classes) is int and num_classes < 0:
        raise UnresolvedError
    return [(*x.shape, num_classes)]


def affine_grid(theta: Of, size: Any, *settings: object, **options: object) -> Shapes:
    return [(size[0], *size[2:], len(size) - 2)]
