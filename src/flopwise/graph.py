"""What every reader hands over: a graph of operators with resolved shapes, and no framework behind it.

Operators are named as in ONNX whatever the file was, because every front end already maps to that vocabulary.
What has no ONNX name keeps its own domain (``com.microsoft::MatMulNBits``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from flopwise.dtypes import BITS
from flopwise.errors import ShapeError

if TYPE_CHECKING:
    import sympy

#: One extent of a tensor. The core only multiplies and adds, so a sympy expression does as well as an integer.
Dim: TypeAlias = "int | sympy.Expr"
Shape: TypeAlias = "tuple[Dim, ...]"
Kind: TypeAlias = Literal["input", "weight", "buffer", "constant", "activation"]

#: Kinds whose contents are known before the first inference.
STORED: frozenset[str] = frozenset({"weight", "buffer", "constant"})


class Module(NamedTuple):
    """One step of a module path: the dotted path so far, and the class of the module there ("" if unknown)."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value in the graph: its name, shape (None when unresolved), element type and what it is for."""

    name: str
    shape: Shape | None
    dtype: str | None
    kind: Kind = "activation"

    @property
    def dims(self) -> Shape:
        """The shape.

        Raises:
            ShapeError: the shape is unresolved.
        """
        if self.shape is None:
            raise ShapeError(
                f"the shape of {self.name!r} is unresolved; give the input shapes with -i NAME:DTYPE:SHAPE"
            )
        return self.shape

    @property
    def numel(self) -> int:
        """Number of elements (1 for a scalar)."""
        return cast(int, math.prod(self.dims if self.shape is None else self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, bits rounded up; an unknown element type is taken as 32 bits wide."""
        return (self.numel * BITS.get(self.dtype or "float32", 32) + 7) // 8


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application. An omitted optional input or output is None."""

    op: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    scope: tuple[Module, ...] = ()
    #: What the file called the operator ("aten.conv2d.default", "InnerProduct").
    origin: str = ""
    #: Version of the operator set in force, because a few defaults changed (Softmax's axis). 0 = newest.
    version: int = 0

    def input(self, index: int) -> Tensor:
        """The index-th input.

        Raises:
            ShapeError: there is no such input.
        """
        if not self.has_input(index):
            raise ShapeError(f"{self.op} {self.name!r} has no input {index}")
        return cast(Tensor, self.inputs[index])

    def output(self, index: int = 0) -> Tensor:
        """The index-th output.

        Raises:
            ShapeError: there is no such output.
        """
        if index >= len(self.outputs) or self.outputs[index] is None:
            raise ShapeError(f"{self.op} {self.name!r} has no output {index}")
        return cast(Tensor, self.outputs[index])

    def has_input(self, index: int) -> bool:
        """Whether the index-th input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    @property
    def known_inputs(self) -> tuple[Tensor, ...]:
        """The inputs that are given, in order."""
        return tuple(filter(None, self.inputs))

    @property
    def known_outputs(self) -> tuple[Tensor, ...]:
        """The outputs that are used, in order."""
        return tuple(filter(None, self.outputs))

    @property
    def module(self) -> str:
        """Dotted path of the innermost module ("" at the root)."""
        return self.scope[-1].path if self.scope else ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A model: its inputs, outputs, operators in execution order, and a lazy loader for each stored tensor."""

    name: str
    format: str
    source: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    #: Name -> loader of a numpy array. Nothing is read before the loader is called.
    weights: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
