"""An application of the house's operator as a node of a program, and that node in the graph as the file has it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flopwise.errors import ShapeError
from flopwise.formats.kit.lowering import Finish, Lowered, Part, View
from flopwise.formats.kit.program import Attributes, Node, Operation, Own
from flopwise.graph import Layout, Module, Tensor
from flopwise.graph import Node as GraphNode
from flopwise.graph.graph import Order
from flopwise.operators.operator import Operator as Row
from flopwise.operators.shape import FromInput, ShapeRule
from flopwise.operators.tables import row
from flopwise.sizes.facts import Fact
from flopwise.sizes.run import dtypes_of
from flopwise.sizes.scope import Scope
from flopwise.sizes.site import Site


class Nodes:
    """The nodes of one file; those that say the same share an operation, so that its sizes are worked out once."""

    def __init__(self) -> None:
        self._operations: dict[object, Operation] = {}

    def node(
        self,
        origin: str,
        name: str,
        lowered: Lowered,
        inputs: Sequence[str],
        outputs: Sequence[str],
        dtypes: Sequence[str | None] = (),
        parts: Sequence[Part] = (),
        bodies: Mapping[str, object] | None = None,
    ) -> Node:
        """The node of an operator of the file.

        The inputs of the house come first; behind them stand settings, and those that only a rule of its own looks at.

        Args:
            origin: what the file calls the operator.
            name: of the node.
            lowered: the operator of the house.
            inputs: names of the file's inputs, "" for one that is left out.
            outputs: names of its results.
            dtypes: their element types as the file states them; None, or missing, where that of the row holds.
            parts: what runs behind it and is fused to it.
            bodies: its bodies by their names in the house, and how it is connected to them.
        """
        wanted = range(len(inputs)) if lowered.inputs is None else lowered.inputs
        places = [at if isinstance(at, int) and 0 <= at < len(inputs) and inputs[at] else -1 for at in wanted]
        while places and places[-1] < 0:
            places.pop()
        shows = len(places) if lowered.shows is None else lowered.shows
        settings = {key: one for key, one in lowered.settings.items() if one.place < len(inputs) and inputs[one.place]}
        others = range(len(inputs)) if lowered.as_in_file else [one.place for one in settings.values()]
        places += [place for place in others if place not in places]
        taken = tuple([inputs[place] if place >= 0 else "" for place in places])
        if bodies:
            operation = _operation(origin, lowered, places, shows, {}, dtypes, parts, bodies, len(inputs))
            return Node(operation, name, taken, tuple(outputs))
        key = (
            *(origin, lowered.op, tuple(places), shows, len(inputs), tuple(dtypes), lowered.as_in_file),
            *(lowered.shape, lowered.value, lowered.finish, lowered.layout, tuple(lowered.views.items())),
            *(repr(lowered.attrs), tuple(settings.items()), repr(parts)),
        )
        shared = self._operations.get(key)
        if shared is None:
            shared = _operation(origin, lowered, places, shows, settings, dtypes, parts, {}, len(inputs))
            self._operations[key] = shared
        return Node(shared, name, taken, tuple(outputs))


def _operation(
    origin: str,
    lowered: Lowered,
    places: Sequence[int],
    shows: int,
    settings: Mapping[str, FromInput],
    dtypes: Sequence[str | None],
    parts: Sequence[Part],
    bodies: Mapping[str, object],
    count: int,
) -> Operation:
    """The operation that equal nodes share: the row with its rules for sizes, and how the file draws it.

    Args:
        places: among the inputs of the file, by place among those of the node; -1 for one that is left out.
        shows: how many of them are the house's.
        settings: attributes that are inputs.
        count: how many inputs the file has.
    """
    seats = {place: seat for seat, place in enumerate(places) if place >= 0}
    known, rule, value = row(lowered.op), lowered.shape, lowered.value
    if rule is None:
        rule, value = known.shape, known.value
        if lowered.layout is not None and rule is not None:
            rule, value = _turned(rule, lowered.layout), None
    elif lowered.as_in_file and (order := [seats.get(place, -1) for place in range(count)]) != list(range(count)):
        rule = _asked(rule, order)
        value = value and value._replace(rule=_asked(value.rule, order))
    late = {name: one._replace(place=seats[one.place]) for name, one in settings.items()}
    if late:
        rule = rule and _asked(rule, range(shows), late)
        value = value and value._replace(rule=_asked(value.rule, range(shows), late))
    known = known._replace(shape=rule, value=value)
    if any(dtypes):
        known = known._replace(dtype=_stated(tuple(dtypes), known))
    drawing = _Drawing(origin, lowered, shows, tuple(parts), seats, late)
    domain, _, op = lowered.op.rpartition("::")
    values = {name: tuple(one) if isinstance(one, list) else one for name, one in lowered.attrs.items()}
    own = Own(known, functools.partial(_shown, drawing))
    return Operation(op, domain, Attributes.of({**values, **bodies}), "", 0, own)


def _stated(dtypes: tuple[str | None, ...], known: Row) -> Any:
    """The element types that a file states, and those of the row where it states none."""
    if all(dtypes):
        return lambda call: dtypes

    def rule(call: Any) -> Sequence[str | None]:
        own = dtypes_of(known.dtype, call) or [None]
        return [one or own[min(place, len(own) - 1)] for place, one in enumerate(dtypes)]

    return rule


def _asked(rule: Callable[..., Any], seats: Sequence[int], settings: Mapping[str, FromInput] = {}) -> Any:
    """A rule that sees other inputs than the node has: these, and some as attributes."""
    orders: list[tuple[int, Order]] = [(seat, None) for seat in seats]
    return lambda site, *more: site.asked(rule, orders, *more, settings=settings)


def _turned(rule: ShapeRule, layout: Layout) -> ShapeRule:
    """A rule that sees axes in the order of the house, and whose results have them in that of the file."""
    back = [tuple(sorted(range(len(order)), key=order.__getitem__)) if order else None for order in layout.outputs]

    def ask(site: Site) -> Any:
        orders = [*layout.inputs, *[None] * site.inputs][: site.inputs]
        results = site.asked(rule, list(enumerate(orders)))
        return [_in_order(one, back[place] if place < len(back) else None) for place, one in enumerate(results)]

    return ask  # type: ignore[return-value] # a site is a call


def _in_order(result: Any, order: Order) -> Any:
    dims = result.shape if isinstance(result, Fact) else result
    if order is None or dims is None or len(dims) != len(order):
        return result
    return tuple([dims[axis] for axis in order])


class _Drawing(NamedTuple):
    """How a node is drawn in the graph."""

    origin: str
    lowered: Lowered
    #: How many of its inputs are the house's.
    shows: int
    parts: tuple[Part, ...]
    #: Place among the file's inputs -> place among its own.
    seats: Mapping[int, int]
    #: Attributes that are inputs, by place among its own.
    settings: Mapping[str, FromInput]


def _shown(drawing: _Drawing, node: GraphNode, taken: Node, scope: Scope) -> list[GraphNode]:
    """The node as the file has it, and those of its parts."""
    lowered = drawing.lowered
    inputs = node.inputs[: drawing.shows]
    attrs, layout, views = node.attrs, lowered.layout, lowered.views
    if lowered.finish is not None:
        lowered = _finished(lowered, lowered.finish, inputs)
        attrs, layout, views = dict(lowered.attrs), lowered.layout, lowered.views
    if drawing.settings:
        values = {name: one.of(scope.of(taken.inputs[one.place]).elements) for name, one in drawing.settings.items()}
        attrs = {**attrs, **{name: value for name, value in values.items() if value is not None}}
    if views:
        inputs = tuple([_viewed(one, views.get(at)) for at, one in enumerate(inputs)])
    if not drawing.parts:
        return [replace(node, inputs=inputs, attrs=attrs, origin=drawing.origin, layout=layout)]
    result = next(iter(node.outputs), None)
    ends = [result and _before(result, part.label) for part in drawing.parts]
    outputs = (ends[0], *node.outputs[1:])
    nodes = [replace(node, inputs=inputs, outputs=outputs, attrs=attrs, origin=drawing.origin, layout=layout)]
    modules = node.modules(node.name) if callable(node.modules) else node.modules
    for part, data, end in zip(drawing.parts, ends, [*ends, result][1:], strict=True):
        beside = [node.inputs[drawing.seats[place]] for place in part.takes]
        label = f"{drawing.origin} ({part.label})"
        behind = replace(node, op=part.op, name=f"{node.name}/{part.label}", attrs=dict(part.attrs), origin=label)
        behind = replace(behind, inputs=(data, *beside), outputs=(end,), modules=modules)
        nodes.append(replace(behind, fault="", fused=True))
    return nodes


def _finished(lowered: Lowered, finish: Finish, inputs: Sequence[Tensor | None]) -> Lowered:
    """The operator with what only the shapes of its inputs say."""
    return finish(lowered, [None if one is None else one.shape for one in inputs])


def _before(result: Tensor, label: str) -> Tensor:
    """The tensor that an operator hands on to a part of itself."""
    return replace(result, name=f"{result.name}/before {label}", kind="activation")


def _viewed(tensor: Tensor | None, view: View | None) -> Tensor | None:
    if tensor is None or tensor.shape is None or view is None:
        return tensor
    try:
        return replace(tensor, shape=view(tensor.shape))
    except (IndexError, ShapeError):
        return tensor


def modules_of(name: str) -> tuple[Module, ...]:
    """The modules around an operator, by the path in its name; outermost first."""
    steps = name.split("/")[:-1]
    return tuple([Module(".".join(steps[: count + 1]), "") for count in range(len(steps)) if steps[count]])
