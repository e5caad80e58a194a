"""Rules for bodies of If, Loop and TensorIterator: they take all that they need through maps of ports.

https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.errors import InputError
from flopwise.operators.size import OPEN, Most, larger, smaller
from flopwise.sizes.control import Run, alike, bodies_of, fact_at, grouped, pass_on_warnings, run, scalar
from flopwise.sizes.facts import NOTHING, Fact, either, wider
from flopwise.sizes.loops import ROUNDS
from flopwise.sizes.program import Node, describe
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Inner, Scope


class Slice(NamedTuple):
    """How a tensor is cut along an axis, or put together: a part for each iteration."""

    axis: int
    start: int
    end: int
    stride: int
    part: int


class Taken(NamedTuple):
    """An input of a body that comes from outside."""

    #: Place among the operator's inputs, and among the body's.
    outside: int
    inside: int
    slice: Slice | None = None


class Given(NamedTuple):
    """A result of the operator: a result of the body, or its slices together."""

    outside: int
    inside: int
    slice: Slice | None = None


class Ports(NamedTuple):
    """How an operator and one of its bodies are connected."""

    taken: tuple[Taken, ...]
    given: tuple[Given, ...]
    #: Input of the body -> the result of the body that it is in the next iteration.
    back: Mapping[int, int] = {}
    #: The input that is the number of the iteration, and the result that says whether another one follows.
    iteration: int | None = None
    condition: int | None = None


def branches(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of an If and its results."""
    graphs, ports, condition = bodies_of(node), node.attributes.values["ports"], scalar(fact_at(given, 0))
    names = ["then_branch", "else_branch"]
    if condition is not None and type(condition) is not Most:
        names = [names[0] if condition else names[1]]
    runs = []
    for name in names:
        inputs = [NOTHING] * len(graphs[name].inputs)
        for one in ports[name].taken:
            inputs[one.inside] = given[one.outside]
        runs.append(run(whole, graphs[name], inputs, scope))
    pass_on_warnings(scope, runs)
    inner = [one.inner(name, 1, len(names) > 1) for name, one in zip(names, runs, strict=True)]
    results = [_results(ports[name], one, len(node.outputs)) for name, one in zip(names, runs, strict=True)]
    if len(results) < 2:
        return inner, results[0]
    return inner, [either(whole.facts, *both) for both in zip(*results, strict=True)]


def _results(ports: Ports, one: Run, number: int) -> list[Fact]:
    results = [NOTHING] * number
    for result in ports.given:
        results[result.outside] = one.outputs[result.inside]
    return results


def loop(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body of a Loop or TensorIterator and its results.

    Iterations are followed one by one where they differ in shape, or a few numbers decide when it ends.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    ports: Ports = node.attributes.values["ports"]
    body = bodies_of(node)["body"]
    most, exact = _trips(node, ports, given)
    carried = {one.inside: given[one.outside] for one in ports.taken if one.inside in ports.back}
    general = _general(whole, body, ports, given, carried, scope)
    if ports.condition is not None:
        going = scalar(general.outputs[ports.condition])
        exact = exact and going is not None
        if going is not None and not going:
            most = smaller(1, 1 if most is None else most)
    stable = all(alike(fact, general.outputs[ports.back[place]]) for place, fact in carried.items())
    if type(most) is not Most and not (exact and stable and general.resolved):
        runs = _followed(whole, body, ports, given, carried, scope, most if exact or most is None else None, most)
        if runs is not None:
            whole.met[node.name] = len(runs)
            pass_on_warnings(scope, runs)
            return grouped(runs), _joined(whole, node, ports, given, runs, len(runs))
    pass_on_warnings(scope, [general])
    number, bound = _number(whole, node, most, exact, scope)
    length: Any = OPEN if number is None else Most(number) if bound else number
    return [general.inner("body", number, bound=bound)], _joined(whole, node, ports, given, [general], length)


def _number(whole: Pass, node: Node, most: Any, exact: bool, scope: Scope) -> tuple[Any, bool]:
    """How often a body counts, None where nothing says it, and whether that is an upper bound.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    stated = whole.trips.get(node.name)
    if exact and type(stated) is int and type(most) is int and stated != most:
        raise InputError(f"{describe(node)} runs {most} times, not {stated}")
    number = most if exact or stated is None else stated
    bound = type(number) is Most
    number = number.high if type(number) is Most else number
    if not exact and stated is None:
        bound = number is not None
        often = "an unknown number of times" if number is None else f"at most {number} times, counted as {number}"
        scope.warnings.append(f"{describe(node)} runs {often}; give it with --trip {node.name}=N")
    whole.met[node.name] = number
    return number, bound


def _trips(node: Node, ports: Ports, given: Sequence[Fact]) -> tuple[Any, bool]:
    """The trips at most, None where nothing limits them, and whether only the body's condition ends it before."""
    limits: list[Any] = []
    exact = True
    if node.attributes.values["counted"]:
        count, first = scalar(fact_at(given, 0)), scalar(fact_at(given, 1))
        if count is None:
            exact = False
        elif not (type(count) is int and count < 0):
            limits.append(count)
        if first is None:
            exact = False
        elif not first:
            limits.append(0)
    for one in ports.taken:
        if one.slice is None:
            continue
        shape = given[one.outside].shape
        extent = OPEN if shape is None or one.slice.axis >= len(shape) else shape[one.slice.axis]
        if extent is OPEN:
            exact = False
        else:
            limits.append(_parts(extent, one.slice))
    if not limits:
        return None, False
    most = limits[0]
    for limit in limits[1:]:
        most = smaller(most, limit)
    return most, exact


def _parts(extent: Any, slice_: Slice) -> Any:
    """How many parts there are along an axis."""
    first, last = (place + extent + 1 if place < 0 else place for place in (slice_.start, slice_.end))
    reach = last - first if slice_.stride > 0 else first - last
    return larger(-(-reach // max(abs(slice_.stride), 1)), 0)


def _inputs(
    whole: Pass, body: Any, ports: Ports, given: Sequence[Fact], carried: dict[int, Fact], turn: int | None
) -> list[Fact]:
    """The inputs of the body in a turn, None for any turn."""
    facts = whole.facts
    inputs = [NOTHING] * len(body.inputs)
    for one in ports.taken:
        fact = given[one.outside]
        if one.slice is not None and fact.shape is not None and one.slice.axis < len(fact.shape):
            axis = one.slice.axis
            fact = facts.tensor(fact.dtype, (*fact.shape[:axis], one.slice.part, *fact.shape[axis + 1 :]))
        inputs[one.inside] = fact
    for place, fact in carried.items():
        inputs[place] = fact
    if ports.iteration is not None:
        number = facts.tensor("int64", ())
        inputs[ports.iteration] = number if turn is None else facts.constant(number, (turn,))
    return inputs


def _general(
    whole: Pass, body: Any, ports: Ports, given: Sequence[Fact], carried: dict[int, Fact], scope: Scope
) -> Run:
    """A run that stands for all iterations: nothing is known about values, nor about extents that change."""
    states = {place: fact.plain for place, fact in carried.items()}
    general = run(whole, body, _inputs(whole, body, ports, given, states, None), scope)
    for _ in range(ROUNDS):
        after = {p: wider(whole.facts, fact, general.outputs[ports.back[p]]) for p, fact in states.items()}
        if all(after[place] is fact for place, fact in states.items()):
            break
        states = after
        general = run(whole, body, _inputs(whole, body, ports, given, states, None), scope)
    return general


def _followed(
    whole: Pass,
    body: Any,
    ports: Ports,
    given: Sequence[Fact],
    carried: dict[int, Fact],
    scope: Scope,
    limit: Any,
    most: Any,
) -> list[Run] | None:
    """The iterations one by one; None when that is too long, or nothing says where the loop ends."""
    if limit is not None and (type(limit) is not int or limit * max(len(body.nodes), 1) > whole.steps):
        return None
    runs: list[Run] = []
    while most is None or len(runs) < most:
        if whole.steps <= 0:
            return None
        whole.steps -= not body.nodes
        one = run(whole, body, _inputs(whole, body, ports, given, carried, len(runs)), scope)
        goes_on = True if ports.condition is None else scalar(one.outputs[ports.condition])
        if goes_on is None or (limit is None and ports.condition is None):
            return None
        runs.append(one)
        carried = {place: one.outputs[ports.back[place]] for place in carried}
        if not goes_on:
            break
    return runs or None


def _joined(
    whole: Pass, node: Node, ports: Ports, given: Sequence[Fact], runs: Sequence[Run], trips: Any
) -> list[Fact]:
    """The results: those of the last iteration, and slices of all of them along an axis."""
    results = [NOTHING] * len(node.outputs)
    for one in ports.given:
        fact = runs[-1].outputs[one.inside].plain
        if one.slice is not None and fact.shape is not None and one.slice.axis < len(fact.shape):
            axis, extents = one.slice.axis, list(fact.shape)
            alike_ones = all(alike(fact, other.outputs[one.inside]) for other in runs)
            extents[axis] = extents[axis] * trips if alike_ones and trips is not OPEN else OPEN
            fact = whole.facts.tensor(fact.dtype, tuple(extents))
        results[one.outside] = fact
    return results
