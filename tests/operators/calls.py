"""One call of a function of PyTorch's, beside the plain definition of what it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input
from tests.operators.oracle.number import Number, pointwise


class Does(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@dataclass(frozen=True)
class Call:
    """A call on small random inputs."""

    op: str
    #: PyTorch's function, of tensors.
    function: Callable[..., Any]
    #: The same on arrays of numbers that count; what steers (indices, labels) it gets as a plain array.
    definition: Callable[..., Any]
    inputs: tuple[Input, ...]
    #: What PyTorch drew at random, read off its first result: one more input of the definition, and counted.
    drawn: Callable[[Any], Any] | None = None
    #: How far the values may be apart, where PyTorch computes with fewer digits.
    tolerance: float = 1e-6
    #: What becomes of the tensors before the function gets them.
    prepare: Callable[..., list[Any]] | None = None
    #: Whether all that the call does counts, or only what the operator does.
    whole: bool = True

    def tensors(self) -> list[Any]:
        """The inputs as PyTorch gets them."""
        tensors = [torch.from_numpy(np.array(x.array)) for x in self.inputs]
        return tensors if self.prepare is None else self.prepare(*tensors)


def call(op: str, function: Callable[..., Any], definition: Callable[..., Any], *inputs: Input, **more: Any) -> Call:
    return Call(f"aten::{op}", function, definition, inputs, **more)


def each(scalar: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar function over broadcast arrays."""
    return lambda *arrays: pointwise(scalar, *arrays)


def complex_of(real: Any, imaginary: Any) -> Any:
    """One complex number of two, which is no arithmetic."""
    return Number(complex(real.value, imaginary.value), real.tally)


def label(one: Call) -> str:
    shapes = ",".join("x".join(map(str, x.array.shape)) for x in one.inputs)
    return f"{one.op.removeprefix('aten::')}({shapes})"
