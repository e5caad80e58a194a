"""An operator in ONNX's vocabulary, as the lowerings hand it over, and its attributes in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from flopwise.graph import Tensor


class Lowered(NamedTuple):
    """An operator's name, its inputs in ONNX's order (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, object] = {}


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


class Arguments(Protocol):
    """The arguments of a call."""

    @property
    def named(self) -> dict[str, object]:
        """Every argument by name."""


class Attributes(Mapping[str, Any]):
    """The attributes of an operator, and under "args" the call as it was; made when somebody asks.

    Operators with equal attributes have the same ``shared``; ``call`` has the arguments of the call in ``named``.
    """

    __slots__ = ("call", "shared")

    def __init__(self, attrs: Mapping[str, object], call: Arguments) -> None:
        self.shared = attrs
        self.call = call

    def get(self, name: str, default: object = None) -> Any:
        """The attribute, or the default; short, because every rule asks."""
        if name in self.shared:
            return self.shared[name]
        return self.call.named if name == "args" else default

    def __getitem__(self, name: str) -> object:
        if name in self.shared:
            return self.shared[name]
        if name == "args":
            return self.call.named
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.shared or name == "args"

    def __iter__(self) -> Iterator[str]:
        return iter((*self.shared, "args"))

    def __len__(self) -> int:
        return len(self.shared) + 1
