"""An operator in ONNX's vocabulary, as the lowerings hand it over, and what they are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from flopwise.graph import Tensor

T = TypeVar("T")

#: A tensor that a call may leave out.
Opt: TypeAlias = Tensor | None


class Lowered(NamedTuple):
    """An operator's name, its inputs in ONNX's order (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, object] = {}


#: A function with the parameters of an operator of PyTorch's: calling it with the arguments of a call binds them.
Lowering: TypeAlias = Callable[..., Lowered]


def named(text: str, of: Callable[[str], T]) -> dict[str, T]:
    """A table of text by name: an operator and a colon, and the names that PyTorch has for it.

    ``Own`` stands for operators of ONNX that have PyTorch's name, ``aten`` for those that ONNX does not have. In front
    of either a name may have ``special_``.

    >>> named("Max: maximum fmax  Own: relu  aten: special_erfcx", str)
    {'maximum': 'Max', 'fmax': 'Max', 'relu': 'Relu', 'special_erfcx': 'aten::erfcx'}
    """
    table: dict[str, T] = {}
    head = ""
    for word in text.split():
        if word.endswith(":"):
            head = word[:-1]
            continue
        bare = word.removeprefix("special_")
        table[word] = of({"Own": bare.capitalize(), "aten": f"aten::{bare}"}.get(head, head))
    return table


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
