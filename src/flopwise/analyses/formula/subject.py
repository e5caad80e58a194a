"""A model with open sizes: what its formulas are derived from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from flopwise.analyses.formula.following.followed import Followed
from flopwise.analyses.formula.points import OpenShape, Point, Sizes
from flopwise.graph import Graph
from flopwise.operators.size import Dims


class Explain(Protocol):
    """A finder of the shapes of outputs at several points, by the node's position and the output's place."""

    def __call__(self, position: int, place: int, inputs: Sequence[Dims | None]) -> Dims | None:
        """A shape in the extents of the inputs for which there is no rule."""

    def agrees(self, position: int, place: int, shape: Dims) -> bool:
        """True if a shape is right at all points."""

    def position(self, name: str) -> tuple[int, int] | None:
        """The position of the node that makes a tensor, and the place of the output; None where none does."""


@dataclass(frozen=True)
class Request:
    """At which sizes a model is followed."""

    #: The sizes as numbers.
    point: Point
    #: The shapes of the inputs.
    sizes: Sizes
    #: How often loops run whose number of iterations is a symbol.
    trips: Mapping[str, int]
    #: What finds shapes for which there is no rule; None: nothing does.
    explain: Explain | None = None
    #: Whether the loops of a program run as often as they do at the point.
    fixed: bool = True


@dataclass(frozen=True)
class Subject:
    """A model with open sizes, and how it is read at a point."""

    #: The symbols.
    names: Sequence[str]
    #: Reads the model at a size of each symbol; raises FlopwiseError where the model cannot have these sizes.
    read: Callable[[Point], Graph]
    #: Reads it with sizes that carry expressions.
    follow: Callable[[Request], Followed]
    #: Sizes that the model is known to take.
    hints: Point = field(default_factory=dict)
    #: The open inputs.
    shapes: Sequence[OpenShape] = ()
    #: Those of the symbols that are numbers of trips of the loop of that name.
    loops: Sequence[str] = ()
    #: Whether it is a program, which runs each time that it is followed.
    runs: bool = False
    #: The point at which it is followed; None: the one that it takes best.
    start: Point | None = None
    #: The subject from a point on at which a program may take another way: the smallest sizes there are numbers in it.
    way: Callable[[Point], Subject] | None = None
    #: Sizes of each symbol at which programs may take other ways, ordinary ones first.
    tried: Mapping[str, Sequence[int]] = field(default_factory=dict)
