"""One application of an operator, as its rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from flopwise.graph import Attrs
from flopwise.graph.dtypes import BITS, DTYPES
from flopwise.graph.graph import Order
from flopwise.operators.shape import Call, Element, FromInput, ShapeRule
from flopwise.operators.size import Dims, Most, UnresolvedError, require, written
from flopwise.operators.tables import row
from flopwise.sizes.facts import ABSENT, LARGEST_RANK, LARGEST_VALUE, NOTHING, Fact, Facts, Kind
from flopwise.sizes.program import Node

#: The operator set whose rules are asked by those of other domains.
_NEWEST = 17

#: How the first operator sets spell them.
_SPELLINGS = {"float": "float32", "double": "float64"}


class Surroundings(NamedTuple):
    """The graph around a node."""

    node: Node
    #: All tensors of the graph by name.
    tensors: Mapping[str, Fact]
    nodes: Sequence[Node]


#: Around an operator by itself.
_ALONE: Any = Surroundings(None, {}, ())  # type: ignore[arg-type] # whoever asks for it finds nothing


class Site(Call):
    """An operator with what flows in."""

    #: Attributes that are inputs in the file: what looks one up, also where it is only known in part.
    late: Mapping[str, Callable[[bool], Any]] = {}

    def __init__(
        self,
        op: str,
        attributes: Attrs,
        given: tuple[Fact, ...],
        outputs: int,
        version: int,
        facts: Facts,
        constant_of: Callable[[object], Fact],
        surroundings: Surroundings,
    ) -> None:
        """
        Args:
            op: the operator.
            attributes: its attributes.
            given: its inputs.
            outputs: how many outputs it has.
            version: of its operator set.
            facts: where facts come from.
            constant_of: the fact about a stored tensor in an attribute.
            surroundings: what is around it.
        """
        self.op, self.attributes, self.given, self.outputs, self.version = op, attributes, given, outputs, version
        self.facts, self.constant_of, self.surroundings = facts, constant_of, surroundings
        #: The inputs whose elements were asked for.
        self.steered: set[int] = set()
        #: Whether something was asked for that is no input.
        self.looked_around = False

    @property
    def inputs(self) -> int:
        return len(self.given)

    def has(self, place: int) -> bool:
        return place < len(self.given) and self.given[place] is not ABSENT

    def type(self, place: int) -> Fact | None:
        if not self.has(place):
            return None
        fact = self.given[place]
        return None if fact.dtype is None and fact.shape is None and fact.members is None else fact.plain

    def whole_type(self, place: int) -> Fact:
        self.steered.add(place)
        return self.given[place]

    def type_of(self, name: str) -> Fact | None:
        self.looked_around = True
        fact = self.surroundings.tensors.get(name)
        return None if fact is None else fact.plain

    def shape(self, place: int = 0) -> Dims:
        fact = self.given[place] if place < len(self.given) else ABSENT
        if fact.shape is None:
            raise UnresolvedError(*([f"it has no input {place}"] if fact is ABSENT else []))
        return fact.shape

    def dtype(self, place: int) -> str:
        return (self.given[place].dtype if place < len(self.given) else None) or "float32"

    def dtype_or_none(self, place: int) -> str | None:
        """The element type of an input; None where it is not known."""
        return self.given[place].dtype if place < len(self.given) else None

    def known(self, dtype: str, dims: Dims, elements: Sequence[Element]) -> Fact:
        if len(elements) > LARGEST_VALUE:
            return self.facts.tensor(dtype, dims)
        return self.facts.constant(self.facts.tensor(dtype, dims), tuple(elements))

    def elements(self, place: int) -> tuple[Element, ...]:
        self.steered.add(place)
        elements = self.given[place].elements if place < len(self.given) else None
        if elements is None:
            raise UnresolvedError
        return elements

    def wholes(self, place: int) -> list[int]:
        return [element if type(element) is int else _integer(element) for element in self.elements(place)]

    def number(self, place: int) -> int | None:
        if not self.has(place):
            return None
        self.steered.add(place)
        elements = self.given[place].elements
        if elements is None or len(elements) != 1 or elements[0] is None:
            return None
        return _integer(elements[0])

    def attr(self, name: str, default: object = None) -> Any:
        if name in self.late:
            return self.late[name](False)
        return self.attributes.get(name, default)

    def attribute(self, name: str, default: object) -> Any:
        value = self.attr(name, default)
        if isinstance(default, list) and isinstance(value, tuple):
            return list(value)
        if not isinstance(value, type(default)):
            raise UnresolvedError(f"its attribute {name!r} is of the wrong type")
        return value

    def settings(self, name: str, place: int) -> list[int] | None:
        named = self.attr(name)
        if named is not None:
            return list(named) if isinstance(named, (list, tuple)) else [named]
        return self.wholes(place) if self.has(place) else None

    def settings_or_open(self, name: str, place: int) -> list[int | None] | None:
        named = self.late[name](True) if name in self.late else self.attributes.get(name)
        if named is not None:
            return list(named) if isinstance(named, (list, tuple)) else [named]
        if not self.has(place):
            return None
        self.steered.add(place)
        fact = self.given[place]
        if fact.elements is not None:
            return [e if type(e) is int or e is None else _integer(e) for e in fact.elements]
        shape = fact.shape
        if shape is not None and len(shape) < 2:
            count = shape[0] if shape else 1
            if type(count) is int:
                if count > LARGEST_RANK:
                    raise UnresolvedError(f"its input {place} has {count} elements")
                return [None] * count
        raise UnresolvedError

    def constant(self, name: str) -> Fact | None:
        """The fact about a stored tensor in an attribute."""
        value = self.attributes.get(name)
        return None if value is None else self.constant_of(value)

    def type_attribute(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        if isinstance(value, str):
            value = _SPELLINGS.get(value.lower(), value.lower())
            return value if value in BITS else self._refuse_type(name)
        return DTYPES[value] if value in DTYPES else self._refuse_type(name)

    def _refuse_type(self, name: str) -> str:
        raise UnresolvedError(f"its attribute {name!r} is not an element type")

    def tensor(self, dtype: str | None, dims: Iterable[int] | None) -> Fact | None:
        if dims is None:
            return self.facts.tensor(dtype, None)
        extents = tuple(dims)
        if wrong := impossible(extents):
            raise UnresolvedError(wrong)
        for extent in extents:
            if type(extent) is not int:
                require(extent, ">=")
        return self.facts.tensor(dtype, extents)

    def sequence(
        self,
        dtype: str | None,
        members: Sequence[Fact] | None,
        kind: Kind = "sequence",
        item: Fact | None = None,
        bound: bool = False,
        parts: Any = None,
    ) -> Fact:
        return self.facts.sequence(dtype, members, kind, item, bound, parts)

    def item(self, place: int) -> Fact | None:
        fact = self.given[place] if place < len(self.given) else None
        return None if fact is None else fact.item

    def members(self, place: int) -> tuple[Fact, ...] | None:
        return self.given[place].members if place < len(self.given) else None

    def ask(
        self,
        op: str,
        inputs: Sequence[Fact | None],
        *,
        without: Sequence[str] = (),
        only: Sequence[str] | None = None,
        more: Mapping[str, object] | None = None,
        values: Sequence[Any] = (),
    ) -> Dims | None:
        rule = row(op).shape
        kept = {n: v for n, v in self.attributes.items() if n not in without and (only is None or n in only)}
        given = [ABSENT if fact is None else fact for fact in inputs]
        for place, elements in enumerate(values):
            if elements is not None:
                given[place] = self.facts.constant(given[place].plain, tuple(elements))
        if rule is None:
            raise UnresolvedError
        attributes = {**kept, **(more or {})}
        asked = Site(op, attributes, tuple(given), 1, _NEWEST, self.facts, self.constant_of, self.surroundings)
        shape = rule(asked)[0]
        return shape.shape if isinstance(shape, Fact) else shape

    def asked(
        self,
        rule: Callable[..., Any],
        seats: Sequence[tuple[int, Order]],
        *more: object,
        settings: Mapping[str, FromInput] = {},
    ) -> Any:
        """The answer of a rule that sees the inputs in other places, or their axes in another order.

        Args:
            rule: the rule.
            seats: for each input that it sees, its place among those here, -1 for none, and the order of its axes.
            more: further arguments of the rule.
            settings: attributes that are inputs here.
        """
        given = tuple([ABSENT if seat < 0 else self._in_order(self.given[seat], order) for seat, order in seats])
        around = self.surroundings
        inner = Site(self.op, self.attributes, given, self.outputs, self.version, self.facts, self.constant_of, around)
        if settings:
            inner.late = {name: partial(self._late, one) for name, one in settings.items()}
        try:
            return rule(inner, *more)
        finally:
            self.steered.update([seats[place][0] for place in inner.steered if place < len(seats)])
            self.looked_around |= inner.looked_around

    def _late(self, one: FromInput, open_too: bool) -> Any:
        """The value of an attribute that is an input; None for a number that is not known, where that will do."""
        values: list[Any] = (self.settings_or_open("", one.place) or []) if open_too else self.wholes(one.place)
        return values if one.many else values[0]

    def _in_order(self, fact: Fact, order: Order) -> Fact:
        """A fact with its axes in another order; itself where it has other axes."""
        if order is None or fact.shape is None or len(fact.shape) != len(order):
            return fact
        return self.facts.tensor(fact.dtype, tuple([fact.shape[axis] for axis in order]))

    def others(self, op: str) -> Iterator[Site]:
        self.looked_around = True
        own, tensors, nodes = self.surroundings
        for node in nodes:
            if node.op == op and node.domain == own.domain:
                given = tuple([tensors.get(name, NOTHING) if name else ABSENT for name in node.inputs])
                around, values = Surroundings(node, tensors, nodes), node.attributes.values
                yield Site(op, values, given, len(node.outputs), self.version, self.facts, self.constant_of, around)

    def feeds(self, other: Call) -> bool:
        return isinstance(other, Site) and other.surroundings.node.inputs[:1] == self.surroundings.node.outputs[:1]


def impossible(shape: Iterable[object]) -> str:
    """Why there is no tensor of a shape; "" if there is."""
    for size in shape:
        most = size.high if type(size) is Most else size
        if type(most) is int and most < 0:
            return f"its inputs make the shape {written(shape)}, which no tensor has"
        if not isinstance(size, int):
            return f"its inputs or attributes make the shape {written(shape)}"
    return ""


def shapes_of(
    rule: ShapeRule, op: str, attributes: Mapping[str, object], inputs: Sequence[Dims | None], outputs: int
) -> list[Dims | None]:
    """The shapes of the results of one operator by itself; None where they are not known.

    Args:
        rule: the rule in its row.
        op: the operator.
        attributes: its attributes.
        inputs: shapes of its inputs, None for one that is left out.
        outputs: how many it has.

    Raises:
        UnresolvedError: something that the rule needs is not known.
    """
    facts = Facts()
    given = tuple([ABSENT if shape is None else facts.tensor("float32", shape) for shape in inputs])
    alone = Site(op, attributes, given, outputs, _NEWEST, facts, lambda stored: NOTHING, _ALONE)
    results = rule(alone)
    return [one.shape if isinstance(one, Fact) else None if one is None else tuple(one) for one in results]


def _integer(element: object) -> int:
    """An element as a whole number of any kind.

    Raises:
        UnresolvedError: it is none, or not known.
    """
    if isinstance(element, int):
        return element
    if type(element) is float and element.is_integer():
        return int(element)
    raise UnresolvedError
