"""An operator in ONNX's vocabulary, as the lowerings hand it over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise.graph import Tensor


class Lowered(NamedTuple):
    """An operator's name, its inputs in ONNX's order (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, Any] = {}


def tensor(value: object) -> Tensor | None:
    """The argument when it is a tensor: numbers are attributes that cost nothing to read."""
    return value if isinstance(value, Tensor) else None


def tensors(*values: object) -> tuple[Tensor, ...]:
    """The tensors among some arguments, nested ones in a row."""
    flat: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            flat.append(value)
        elif isinstance(value, (tuple, list)):
            flat.extend(tensors(*value))
    return tuple(flat)


def all_tensors(op: str) -> Callable[..., Lowered]:
    """An operator on all tensors that it is given, in their order."""

    def lowered(*args: object, **kwargs: object) -> Lowered:
        return Lowered(op, tensors(*args, *kwargs.values()))

    return lowered


def repeated(value: Any, count: int) -> list[int]:
    """A number for each axis, given once for all or one by one."""
    if isinstance(value, int):
        return [value] * count
    values = [int(v) for v in value]
    return values * count if len(values) == 1 else values


def axes(value: Any, rank: int) -> list[int]:
    """Axes from 0 on; None or none named means all."""
    if value is None or value in ((), []):
        return list(range(rank))
    named = [value] if isinstance(value, int) else list(value)
    return [a % rank if rank else 0 for a in named]
