"""The members of sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.operators.shape import Call, Type, Types
from flopwise.operators.size import (
    OPEN,
    Dims,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    is_certain,
    require,
    settled,
    smaller,
)

#: A sequence of more members is one of unknown length.
LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Parts:
    """A tensor that is cut along an axis into parts of one size, the last one smaller: as many as a size says."""

    shape: Dims
    axis: int
    size: int
    #: Whether the parts have the axis.
    kept: bool

    @property
    def count(self) -> int:
        """Number of parts."""
        return -(-self.shape[self.axis] // self.size)

    def at(self, place: int) -> Dims:
        """The shape of the part at a place, from the end where it is negative; that it exists is a condition."""
        whole, size = self.shape[self.axis], self.size
        first = place if place >= 0 else self.count + place
        require(first, ">=")
        require(whole - first * size - 1, ">=")
        part = () if not self.kept else (smaller(whole - first * size, size) if size != 1 else 1,)
        return (*self.shape[: self.axis], *part, *self.shape[self.axis + 1 :])

    def joined(self, axis: int, new: bool) -> Dims:
        """The shape of all parts one after the other, or along an axis of their own."""
        first = self.at(0)
        axis = axis_of(axis, len(first) + new)
        if new:
            return (*first[:axis], self.count, *first[axis:])
        if self.kept and axis == self.axis:
            return self.shape
        return (*first[:axis], first[axis] * self.count, *first[axis + 1 :])


def _parts(call: Call) -> Parts | None:
    """The tensor of which the members of a sequence are parts, where a size with an expression says how many."""
    held = call.type(0)
    return None if held is None else held.parts


def _sequence(call: Call, dtype: str | None, members: list[Type], bound: bool = False) -> Types:
    return [call.sequence(dtype, members if len(members) <= LONGEST else None, bound=bound)]


def _bounded(call: Call) -> bool:
    """True if the sequence that is the first input may have fewer members."""
    held = call.type(0)
    return held is not None and held.bound


def _members(call: Call, place: int = 0) -> list[Type]:
    """The members of a sequence.

    Raises:
        UnresolvedError: they are not known.
    """
    members = call.members(place)
    if members is None:
        raise UnresolvedError
    return list(members)


def _place(call: Call, place: int, length: int) -> int | None:
    """A position in a sequence counted from the front; None where it is not known.

    Raises:
        MisfitError: there is no such position.
    """
    try:
        position = call.elements(place)[0]
    except UnresolvedError:
        return None
    if type(position) is not int:
        return None
    if not -length <= position < length:
        raise MisfitError(f"there is no member {position} in a sequence of {length}")
    return position % length


def _common(call: Call, types: list[Type | None]) -> Type | None:
    """The type that all of these tensors have in common; None where one is None."""
    known = [one for one in types if one is not None]
    return call.sequence(None, known).item if known and len(known) == len(types) else None


def _same_shape(members: Sequence[Type]) -> bool:
    return bool(members) and all(one.shape is not None and one.shape == members[0].shape for one in members)


def construct(call: Call) -> Types:
    """The inputs are the members."""
    members = [call.whole_type(place) for place in range(call.inputs)]
    if any(call.type(place) is None for place in range(call.inputs)):
        return [call.sequence(call.dtype(0), None)]
    return _sequence(call, call.dtype(0), members)


def empty(call: Call) -> Types:
    """No members."""
    return [call.sequence(call.type_attribute("dtype", "float32"), [])]


def inserted(call: Call) -> Types:
    """One member more."""
    members, new = call.members(0), call.whole_type(1) if call.type(1) is not None else None
    if members is None or new is None:
        return [call.sequence(call.dtype(1), None, item=_common(call, [call.item(0), new]))]
    if not call.has(2):
        return _sequence(call, call.dtype(1), [*members, new], _bounded(call))
    try:
        position = call.elements(2)[0]
    except UnresolvedError:
        position = None
    if type(position) is not int:
        if _same_shape([*members, new]):
            return _sequence(call, call.dtype(1), [new.plain] * (len(members) + 1), _bounded(call))
        return [call.sequence(call.dtype(1), None, item=_common(call, [*members, new]))]
    if not -len(members) - 1 <= position <= len(members):
        raise MisfitError(f"there is no place {position} in a sequence of {len(members)}")
    place = position + len(members) if position < 0 else position
    return _sequence(call, call.dtype(1), [*members[: max(place, 0)], new, *members[max(place, 0) :]])


def erased(call: Call) -> Types:
    """One member less."""
    members = call.members(0)
    if not members:
        return [call.sequence(call.dtype(0), None, item=call.item(0))]
    place = _place(call, 1, len(members)) if call.has(1) else len(members) - 1
    if place is None:
        if not _same_shape(members):
            return [call.sequence(call.dtype(0), None, item=call.item(0))]
        return _sequence(call, call.dtype(0), [members[0].plain] * (len(members) - 1), _bounded(call))
    return _sequence(call, call.dtype(0), [*members[:place], *members[place + 1 :]])


def at(call: Call) -> Types:
    """One member."""
    if (parts := _parts(call)) is not None:
        return [call.tensor(call.dtype(0), parts.at(settled(call.wholes(1)[0])))]
    members = call.members(0)
    place = _place(call, 1, len(members)) if members else None
    if members and place is not None:
        return [members[place]]
    return [call.item(0) or call.tensor(call.dtype(0), None)]


def split(call: Call) -> Types:
    """Parts along an axis: single elements, of a size, or of the sizes that are named.

    https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
    """
    x, dtype = call.shape(0), call.dtype(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    extent, keep = x[axis], True
    bound = type(extent) is Most
    if type(extent) is not int and is_certain(extent) and (not call.has(1) or call.ranked(1, 0, 1) == ()):
        size = settled(call.wholes(1)[0]) if call.has(1) else 1
        parts = Parts(x, axis, size, call.has(1) or bool(call.attr("keepdims", 1)))
        return [call.sequence(dtype, None, item=call.tensor(dtype, None), parts=parts)]
    if extent is OPEN or int(extent) > LONGEST or (bound and call.has(1)):
        return [call.sequence(dtype, None)]
    if not call.has(1):
        sizes: list[int] = [1] * int(extent)
        keep = bool(call.attr("keepdims", 1))
    else:
        sizes = call.wholes(1)
        if call.ranked(1, 0, 1) == ():
            size = settled(sizes[0])
            if size < 1:
                raise UnresolvedError("its parts have no elements")
            sizes = [min(size, extent - start) for start in range(0, int(extent), size)]
    members = [call.tensor(dtype, (*x[:axis], *((part,) if keep else ()), *x[axis + 1 :])) for part in sizes]
    return _sequence(call, dtype, members, bound)


def joined(call: Call) -> Types:
    """The members one after the other, or along an axis of their own.

    https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
    """
    own_axis = call.attr("new_axis", 0)
    if (parts := _parts(call)) is not None:
        return [parts.joined(call.attr("axis", 0), bool(own_axis))]
    members = _members(call)
    shapes = [one.shape for one in members]
    if not shapes or None in shapes or len({len(shape) for shape in shapes}) != 1:
        raise UnresolvedError
    extents: list[Any] = list(shapes[0])
    axis = axis_of(call.attr("axis", 0), len(extents) + bool(own_axis))
    if own_axis:
        extents.insert(axis, len(shapes))
    else:
        extents[axis] = sum(shape[axis] for shape in shapes[1:]) + extents[axis]
    if _bounded(call):
        extents[axis] = Most(extents[axis])
    return [tuple(extents)]


def optional(call: Call) -> Types:
    """An optional of the input, or an empty one without an input."""
    if not call.has(0):
        return [call.sequence(None, [], "optional")]
    held = call.type(0)
    if held is None:
        raise UnresolvedError
    if held.kind == "sequence":
        return [call.sequence(held.dtype, held.members, "optional sequence", held.item)]
    return [held if held.kind != "tensor" else call.sequence(held.dtype, [held], "optional")]


def element(call: Call) -> Types:
    """The value that an optional holds; anything else as it is."""
    held = call.type(0)
    if held is None:
        raise UnresolvedError
    if held.kind == "optional sequence":
        return [call.sequence(held.dtype, held.members, item=held.item)]
    if held.kind == "optional":
        return [held.members[0] if held.members else call.tensor(held.dtype, held.shape)]
    return [held]


def scores(call: Call) -> Types:
    """ZipMap: a map from class to score for each sample, as many scores as the table that it is made of has."""
    shape = call.ranked(0, 1, 2)
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    if not is_certain(rows) or int(rows) > LONGEST:
        return [call.sequence(call.dtype(0), None)]
    return _sequence(call, call.dtype(0), [call.tensor(call.dtype(0), (columns,))] * int(rows))
