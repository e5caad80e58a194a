"""The members of sequences, of which there may be as many as a size says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flopwise.analyses.formula.dim import Dim, require, smaller, term
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, axis_of, whole

#: Operators that make sequences of tensors, or take them.
OPERATORS = frozenset(
    {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"}
    | {"SequenceLength", "SplitToSequence"}
)


@dataclass(frozen=True, slots=True)
class Listed:
    """Members of shapes of their own."""

    shapes: tuple[Shape, ...]

    @property
    def count(self) -> int:
        return len(self.shapes)

    def at(self, place: int) -> Shape:
        """The shape of the member at a place, counted from the end where it is negative."""
        return self.shapes[place]

    def extent(self, axis: int) -> int:
        """The sum of their extents along an axis."""
        return sum(shape[axis] for shape in self.shapes)

    @property
    def all(self) -> tuple[Shape, ...]:
        """Shapes of as many elements as all members together have."""
        return self.shapes


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor cut along an axis into parts of one size, the last one smaller."""

    shape: Shape
    axis: int
    size: int
    #: Whether the members have the axis.
    kept: bool = True

    @property
    def count(self) -> int:
        return -(-self.shape[self.axis] // self.size)

    def at(self, place: int) -> Shape:
        """The shape of the member at a place, counted from the end where it is negative."""
        whole, size = self.shape[self.axis], self.size
        first = place if place >= 0 else self.count + place
        require(term(first), ">=")
        require(term(whole - first * size) - 1, ">=")
        part = () if not self.kept else (smaller(whole - first * size, size) if size != 1 else 1,)
        return (*self.shape[: self.axis], *part, *self.shape[self.axis + 1 :])

    def extent(self, axis: int) -> int:
        """The sum of their extents along an axis."""
        return self.shape[axis] if self.kept and axis == self.axis else self.at(0)[axis] * self.count

    @property
    def all(self) -> tuple[Shape, ...]:
        """A shape of as many elements as all members together have."""
        return (self.shape,)


Members: TypeAlias = "Listed | Cut"


def members(site: Site, sequences: Mapping[str, Members]) -> Members | None:
    """The members of the sequence that an operator makes; None where it makes none.

    Raises:
        UnknownError: they are not known.
    """
    op = site.node.op
    if op == "SequenceConstruct":
        return Listed(tuple(site.shape(place) for place in range(len(site.node.inputs))))
    if op == "SequenceEmpty":
        return Listed(())
    if op == "SplitToSequence":
        return _split(site)
    if op not in ("SequenceErase", "SequenceInsert"):
        return None
    held = list(_taken(site, sequences, Listed).all)
    if op == "SequenceErase":
        del held[_place(site, 1) if site.has(1) else -1]
    elif site.has(2):
        held.insert(_place(site, 2), site.shape(1))
    else:
        held.append(site.shape(1))
    return Listed(tuple(held))


def _split(site: Site) -> Members:
    x = site.shape(0)
    axis = axis_of(site.attr("axis", 0), len(x))
    if not site.has(1):
        made: Members = Cut(x, axis, 1, bool(site.attr("keepdims", 1)))
    elif site.value(1).ndim == 0:
        made = Cut(x, axis, site.whole(1)[0])
    else:
        return Listed(tuple((*x[:axis], size, *x[axis + 1 :]) for size in site.whole(1)))
    if type(made.count) is Dim:
        return made
    return Listed(tuple(made.at(place) for place in range(made.count)))


def shape(site: Site, sequences: Mapping[str, Members]) -> Shape:
    """The shape of a member, of all members one after the other, or of their number.

    Raises:
        UnknownError: it is not known.
    """
    if site.node.op == "SequenceLength":
        return ()
    held = _taken(site, sequences)
    if site.node.op == "SequenceAt":
        return held.at(_place(site, 1))
    first = held.at(0)
    if site.attr("new_axis", 0):
        axis = axis_of(site.attr("axis", 0), len(first) + 1)
        return (*first[:axis], held.count, *first[axis:])
    axis = axis_of(site.attr("axis", 0), len(first))
    return (*first[:axis], held.extent(axis), *first[axis + 1 :])


def _taken(site: Site, sequences: Mapping[str, Members], kind: type = object) -> Members:
    """The members of the sequence that an operator takes."""
    held = sequences.get(site.node.input(0).name)
    if held is None or not isinstance(held, kind):
        raise UnknownError
    return held


def _place(site: Site, index: int) -> int:
    """The place of a member, a plain number."""
    place = whole(site.value(index).ravel().tolist()[0])
    if type(place) is Dim:
        raise UnknownError
    return place


def length(site: Site, sequences: Mapping[str, Members]) -> int:
    """The number of members.

    Raises:
        UnknownError: it is not known.
    """
    return _taken(site, sequences).count
