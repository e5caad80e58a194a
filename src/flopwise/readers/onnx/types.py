"""Element types and shapes of ONNX tensors by name, and small questions about messages that the readers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import onnx
from onnx import TypeProto, numpy_helper

from flopwise.errors import ModelError
from flopwise.operators.tables import with_effect
from flopwise.readers.onnx.file.skeleton import DTYPES
from flopwise.readers.onnx.listing import Initial

T = TypeVar("T")

#: No tensor can have as many elements: its bytes could not be addressed.
TOO_MANY = 1 << 63

#: The standard operators that have bodies.
CONTROL_FLOW: frozenset[str] = with_effect("bodies", "onnx.control")

#: Those that ask for a shape.
QUERIES: frozenset[str] = with_effect("shape query", "onnx.movement")

#: Operators on sequences and optionals of which onnx infers the type, but not what is asked of it.
ASKED: frozenset[str] = frozenset({"Optional", "OptionalHasElement", "SequenceLength"})

#: How many messages of one kind are told one by one.
TOLD = 5

#: Longest message, in characters.
LONGEST_MESSAGE = 600


#: All axes of a tensor, whatever its rank.
ALL_AXES: frozenset[int] = frozenset(range(64))


class Interval(NamedTuple):
    """A value of which only bounds are certain, element by element; arrays of one shape."""

    low: Any
    high: Any

    @property
    def exact(self) -> bool:
        """Whether both bounds are the same."""
        return self.low is self.high or bool((self.low == self.high).all())


class Facts(NamedTuple):
    """Facts about a value, None where unknown: its type, its elements, and the types of a sequence's members."""

    type: TypeProto | None = None
    items: list[TypeProto] | None = None
    value: Any = None
    #: The axes along which the shape is an upper bound.
    bound: frozenset[int] = frozenset()
    #: Bounds of the elements, where these are not certain.
    interval: Interval | None = None

    def same(self, other: Facts) -> bool:
        """Whether the other has the same shape, or members of the same shapes, and both are known."""
        if self.items is not None or other.items is not None:
            mine, theirs = shapes_of(self.items or ()), shapes_of(other.items or ())
            return self.items is not None and other.items is not None and mine == theirs and None not in mine
        if self.type is None or other.type is None:
            return False
        shape = concrete(self.type)
        return shape is not None and shape == concrete(other.type)

    def without_value(self) -> Facts:
        return self._replace(value=None, interval=None)


class Inner(NamedTuple):
    """A graph inside a control-flow operator, resolved by itself."""

    part: str
    graph: onnx.GraphProto
    shapes: Shapes
    #: How often it runs each time its operator runs; None when it is unknown.
    trips: int | None
    #: Whether it is one of several graphs of which one runs, and it is unknown which.
    branch: bool = False
    #: Names of what flows in from its operator; the rest it takes from the graphs around it.
    takes: tuple[str, ...] = ()
    #: Whether ``trips`` is an upper bound, because the data decide when it ends.
    bound: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Type:
    """A type with the facts that are needed most; equal types are one object."""

    type: TypeProto | None
    shape: tuple[int, ...] | None
    dtype: str | None


#: Of what nothing is known.
_NOTHING = Type(None, None, None)


class Shapes:
    """Element type and shape of each tensor by name, and what the user should know about them."""

    def __init__(self, types: Mapping[str, TypeProto], stored: Iterable[Initial]) -> None:
        self.warnings: list[str] = []
        #: Types of the members of a sequence, or of what an optional holds, by the name of the sequence or optional.
        self.items: dict[str, list[TypeProto]] = {}
        #: Tensors whose shape is an upper bound, because the data decide it, and the axes along which it is.
        self.bounds: dict[str, frozenset[int]] = {}
        #: Bounds of the elements of small tensors that follow from such shapes.
        self.intervals: dict[str, Interval] = {}
        #: Elements of small tensors, members of short sequences, None for an empty optional, by name.
        self.values: dict[str, Any] = {}
        #: Why an operator cannot run, by the name of its first output.
        self.faults: dict[str, str] = {}
        #: The bodies of a control-flow operator, by the name of its first output.
        self.inner: dict[str, list[Inner]] = {}
        self._types: dict[str, Type] = {}
        #: The same by serialised type: models of a million tensors have some hundred types.
        self._distinct: dict[bytes, Type] = {}
        cases: dict[tuple[int, tuple[int, ...]], Type] = {}
        for tensor in stored:
            case = tensor.data_type, tensor.dims
            type_ = cases.get(case)
            if type_ is None:
                type_ = cases[case] = Type(onnx.helper.make_tensor_type_proto(*case), case[1], DTYPES.get(case[0]))
            self._types[tensor.name] = type_
        #: The types of stored tensors, which are no other tensor's.
        self._of_stored: frozenset[Type | None] = frozenset(cases.values())
        for name, message in types.items():
            self.set(name, message)

    def set(self, name: str, type_: TypeProto) -> None:
        """Write down the type of a tensor that is not stored; what is stored has its own."""
        if not self.is_stored(name):
            self._types[name] = self.like(type_)

    def fill(self, values: Iterable[onnx.ValueInfoProto]) -> None:
        """Write down the types of those tensors among these whose shape is not known."""
        for value in values:
            self.write(value.name, self.like(value.type))

    def write(self, name: str, type_: Type) -> None:
        """Write down the type of a tensor that a node makes, where its shape is not known."""
        before = self._types.get(name)
        if before is None or before.shape is None:
            self._types[name] = type_

    def all_known(self, names: Iterable[str]) -> bool:
        """Whether all these tensors have a shape."""
        return all(type_ is not None and type_.shape is not None for type_ in set(map(self._types.get, names)))

    def of(self, name: str) -> Type:
        """What is known about a tensor."""
        return self._types.get(name, _NOTHING)

    def is_stored(self, name: str) -> bool:
        """Whether a tensor is stored."""
        return self._types.get(name) in self._of_stored

    def shape_of(self, type_: TypeProto) -> tuple[int, ...] | None:
        """The shape of a type if every dim is known, else None; no type is looked at twice."""
        return self.like(type_).shape

    def like(self, type_: TypeProto) -> Type:
        """A type with what is asked of it most; equal types are one object."""
        data = type_.SerializeToString()
        distinct = self._distinct.get(data)
        if distinct is None:
            alone = TypeProto.FromString(data)  # not the part of a model, which would stay in memory for it
            distinct = self._distinct[data] = Type(alone, concrete(alone), element_type(alone))
        return distinct

    def distinct(self) -> Iterator[tuple[int, ...]]:
        """The shapes of all tensors that have one."""
        return (type_.shape for type_ in set(self._types.values()) if type_.shape is not None)

    def take(self, facts: Mapping[str, Facts]) -> None:
        """Write down facts about values from outside, besides their types."""
        for name, one in facts.items():
            if one.value is not None:
                self.values[name] = one.value
            if one.items is not None:
                self.items[name] = one.items
            if one.bound:
                self.bounds[name] = one.bound
            if one.interval is not None:
                self.intervals[name] = one.interval

    def facts(self, name: str) -> Facts:
        """All facts about a value."""
        bound = self.bounds.get(name, frozenset())
        return Facts(self.type(name), self.items.get(name), self.values.get(name), bound, self.intervals.get(name))

    def sized(self, name: str) -> bool:
        """Whether the shape of a tensor, or of every member of a sequence, is known."""
        if self.shape(name) is not None:
            return True
        items = self.items.get(name)
        return items is not None and None not in shapes_of(items)

    def type(self, name: str) -> TypeProto | None:
        """What is known about a tensor, None when nothing is."""
        return self.of(name).type

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor if every dim is known, else None."""
        return self.of(name).shape

    def dtype(self, name: str) -> str | None:
        """Element type of a tensor, None when unknown."""
        return self.of(name).dtype


def element_type(type_: TypeProto) -> str | None:
    """The element type of a tensor, or of the tensors in a sequence; None when unknown."""
    if type_.HasField("tensor_type"):
        return DTYPES.get(type_.tensor_type.elem_type)
    if type_.HasField("sequence_type"):
        return element_type(type_.sequence_type.elem_type)
    if type_.HasField("map_type"):
        return element_type(type_.map_type.value_type)
    tensor = tensor_type(type_)
    return None if tensor is None else DTYPES.get(tensor.elem_type)


def tensor_type(type_: TypeProto) -> Any:
    """The type of a tensor, also of one that is sparse or optional; None for a sequence or map."""
    if type_.HasField("tensor_type"):
        return type_.tensor_type
    if type_.HasField("optional_type"):
        return tensor_type(type_.optional_type.elem_type)
    return type_.sparse_tensor_type if type_.HasField("sparse_tensor_type") else None


def shapes_of(types: Iterable[TypeProto]) -> list[tuple[int, ...] | None]:
    """The shapes of tensor types."""
    return each(types, concrete)


def each(types: Iterable[TypeProto], fact: Callable[[TypeProto], T]) -> list[T]:
    """A fact about each type; the members of a long sequence are mostly of one type, which is looked at once."""
    listed = list(types)
    facts = {id(type_): fact(type_) for type_ in {id(type_): type_ for type_ in listed}.values()}
    return [facts[id(type_)] for type_ in listed]


def concrete(type_: TypeProto) -> tuple[int, ...] | None:
    """The shape of a tensor type if every dim is a number, else None."""
    tensor = type_.tensor_type if type_.HasField("tensor_type") else tensor_type(type_)
    if tensor is None or not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    values = tuple([dim.dim_value for dim in dims])
    if not values or min(values) > 0:
        return values
    settled = all(dim.dim_value > 0 or (dim.dim_value == 0 and dim.HasField("dim_value")) for dim in dims)
    return values if settled else None


def opened(type_: TypeProto, axes: Iterable[int]) -> TypeProto:
    """The type of a tensor with these axes open."""
    tensor = tensor_type(type_)
    if not axes or tensor is None or not tensor.HasField("shape"):
        return type_
    new = TypeProto()
    new.CopyFrom(type_)
    for axis, dim in enumerate(tensor_type(new).shape.dim):
        if axis in axes:
            dim.ClearField("value")
    return new


def open_axes(type_: TypeProto | None, shape: Sequence[int] | None) -> frozenset[int]:
    """The axes of a tensor of this shape whose extents the type does not state."""
    tensor = None if type_ is None else tensor_type(type_)
    if tensor is None or shape is None or not tensor.HasField("shape") or len(tensor.shape.dim) != len(shape):
        return ALL_AXES
    stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    return frozenset(axis for axis, dim in enumerate(shape) if stated[axis] != dim)


def elements(shape: Iterable[int]) -> int:
    """Number of elements, at most TOO_MANY: a file may claim so many dims that the product itself takes hours."""
    dims = list(shape)
    if len(dims) <= 8:
        return min(math.prod(dims), TOO_MANY)
    if 0 in dims:
        return 0
    product = 1
    for dim in dims:
        product *= dim
        if product >= TOO_MANY:
            return TOO_MANY
    return product


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs in a node's attributes: the bodies of its control flow."""
    if not node.domain and node.op_type not in CONTROL_FLOW:  # looking at attributes takes time
        return []
    return [g for a in node.attribute for g in (*((a.g,) if a.HasField("g") else ()), *a.graphs)]


def refuse_bytes(*names: Iterable[str]) -> None:
    """Refuse names that are not text; protobuf returns as bytes what is not UTF-8.

    Raises:
        ModelError: one is not text.
    """
    try:
        for some in names:
            "".join(some)
    except TypeError:
        raise ModelError("a name is not UTF-8; the file is damaged") from None


def one_line(text: str) -> str:
    """A message as one line that a terminal can show: names in a file may hold anything, and be of any length."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def first_line(error: Exception) -> str:
    """What an error of onnx's C++ side says, on one line."""
    text = " ".join(str(error).split()).replace("[ShapeInferenceError] ", "").replace("[TypeInferenceError] ", "")
    return text[:300]


def in_short(messages: Sequence[str], more: str) -> list[str]:
    """The first messages, and how many more there are."""
    others = len(messages) - TOLD
    return [*messages[:TOLD], f"{others} {more}"] if others > 0 else list(messages)


def first_output(node: onnx.NodeProto) -> str:
    """The name of the first output that a node makes; "" if it makes none."""
    return next((o for o in node.output if o), "")


def describe(node: onnx.NodeProto) -> str:
    """A node as a message names it."""
    name = node.name or (node.output[0] if node.output else "")
    return f"{node.op_type} {name!r}"


def has_payload(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are there."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    if tensor.HasField("raw_data"):
        return True
    lists = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    return any(len(f) for f in lists) or len(tensor.string_data) > 0 or 0 in tensor.dims


def array_of(tensor: onnx.TensorProto) -> Any:
    """The elements of a tensor as an array; None when they are not there, or not as many as the tensor says."""
    if not has_payload(tensor):
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        return None
