"""The oldest constructors of PyTorch (``torch.IntTensor([3])``), which no mode of its own sees, as the functions that
took their place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.runs.substitutes import substituted


class Constructor(type):
    """The type of what stands in for a constructor, and has its name, by which ``Tensor.type`` knows it."""

    original: Any

    def __call__(cls, *args: Any, **kwargs: object) -> object:
        if not kwargs and all(isinstance(size, int) for size in args):
            return torch.empty(args, dtype=cls.original.dtype)
        if not kwargs and len(args) == 1 and isinstance(args[0], (list, tuple)):
            make = torch.empty if isinstance(args[0], torch.Size) else torch.tensor
            return make(args[0], dtype=cls.original.dtype)
        return cls.original(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TorchTensor) and instance.dtype == cls.original.dtype

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __getattr__(cls, name: str) -> object:
        return getattr(cls.original, name)


_KINDS = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")

#: Name -> what stands in for the constructor.
SUBSTITUTES = {
    name: Constructor(f"torch.{name}", (), {"original": vars(torch)[name]})
    for name in [f"{kind}Tensor" for kind in _KINDS]
}


@contextlib.contextmanager
def constructors() -> Iterator[None]:
    """Programs that call the oldest constructors call the functions of today meanwhile."""
    with contextlib.ExitStack() as stack:
        for name, substitute in SUBSTITUTES.items():
            stack.enter_context(substituted(torch, name, substitute))
        yield
