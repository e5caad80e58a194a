"""Shape inference of If, Loop and TensorIterator, whose bodies take all that they need through maps of ports.

https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.errors import InputError
from flopwise.operators.size import OPEN, Most, larger, smaller
from flopwise.sizes.control import Run, alike, bodies_of, fact_at, grouped, pass_on_warnings, run, scalar
from flopwise.sizes.facts import NOTHING, Fact, either, wider
from flopwise.sizes.loops import ROUNDS
from flopwise.sizes.program import Graph, Node, describe
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Inner, Scope


class Slice(NamedTuple):
    """A tensor cut into parts of ``part`` along an axis, or concatenated from them: one for each iteration."""

    axis: int
    start: int
    end: int
    stride: int
    part: int


class BodyInput(NamedTuple):
    """An input of a body that is an input of the operator, or a slice of one in each iteration."""

    #: Place among the operator's inputs, and among the body's.
    outside: int
    inside: int
    slice: Slice | None = None


class BodyResult(NamedTuple):
    """A result of the operator that is a result of the body in the last iteration, or all its slices together."""

    #: Place among the operator's results, and among the body's.
    outside: int
    inside: int
    slice: Slice | None = None


class Ports(NamedTuple):
    """The connections between an operator and one of its bodies."""

    taken: tuple[BodyInput, ...]
    given: tuple[BodyResult, ...]
    #: Input of the body -> the result of the body that it is in the next iteration.
    back: Mapping[int, int] = {}
    #: The input that is the number of the iteration, and the result that says whether another one follows.
    iteration: int | None = None
    condition: int | None = None


def branches(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of an If that may run, and its results: where the condition is unknown, true of both branches."""
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
    results = [_branch_results(ports[name], one, len(node.outputs)) for name, one in zip(names, runs, strict=True)]
    if len(results) < 2:
        return inner, results[0]
    return inner, [either(whole.facts, *both) for both in zip(*results, strict=True)]


def _branch_results(ports: Ports, one: Run, number: int) -> list[Fact]:
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
    most, exact = _trip_limit(node, ports, given)
    carried = {one.inside: given[one.outside] for one in ports.taken if one.inside in ports.back}
    general = _run_for_all(whole, body, ports, given, carried, scope)
    if ports.condition is not None:
        going = scalar(general.outputs[ports.condition])
        exact = exact and going is not None
        if going is not None and not going:
            most = smaller(1, 1 if most is None else most)
    stable = all(alike(fact, general.outputs[ports.back[place]]) for place, fact in carried.items())
    if type(most) is not Most and not (exact and stable and general.resolved):
        runs = _unrolled(whole, body, ports, given, carried, scope, most if exact or most is None else None, most)
        if runs is not None:
            whole.met[node.name] = len(runs)
            pass_on_warnings(scope, runs)
            return grouped(runs), _loop_results(whole, node, ports, given, runs, len(runs))
    pass_on_warnings(scope, [general])
    number, bound = _count_of_body(whole, node, most, exact, scope)
    length: int = OPEN if number is None else Most(number) if bound else number
    return [general.inner("body", number, bound=bound)], _loop_results(whole, node, ports, given, [general], length)


def _count_of_body(whole: Pass, node: Node, most: int | None, exact: bool, scope: Scope) -> tuple[int | None, bool]:
    """Number of times a body counts (None if unknown), and if that is an upper bound; warns where users should say.

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


def _trip_limit(node: Node, ports: Ports, given: Sequence[Fact]) -> tuple[int | None, bool]:
    """The trips at most (None if nothing limits them), and if only the body's condition can end the loop earlier."""
    limits: list[int] = []
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
            limits.append(_slices(extent, one.slice))
    if not limits:
        return None, False
    most = limits[0]
    for limit in limits[1:]:
        most = smaller(most, limit)
    return most, exact


def _slices(extent: int, slice_: Slice) -> int:
    """Number of slices along an axis of this extent."""
    first, last = (place + extent + 1 if place < 0 else place for place in (slice_.start, slice_.end))
    reach = last - first if slice_.stride > 0 else first - last
    return larger(-(-reach // max(abs(slice_.stride), 1)), 0)


def _inputs_in_turn(
    whole: Pass, body: Graph, ports: Ports, given: Sequence[Fact], carried: dict[int, Fact], turn: int | None
) -> list[Fact]:
    """The body's inputs in an iteration; ``turn`` is its number, None for any iteration."""
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


def _run_for_all(
    whole: Pass, body: Graph, ports: Ports, given: Sequence[Fact], carried: dict[int, Fact], scope: Scope
) -> Run:
    """One run of the body that holds for every iteration.

    What a loop carries has no known values, and extents that change from one iteration to the next are open: they are
    widened until nothing changes any more, or for ``ROUNDS`` rounds.
    """
    states = {place: fact.plain for place, fact in carried.items()}
    general = run(whole, body, _inputs_in_turn(whole, body, ports, given, states, None), scope)
    for _ in range(ROUNDS):
        after = {p: wider(whole.facts, fact, general.outputs[ports.back[p]]) for p, fact in states.items()}
        if all(after[place] is fact for place, fact in states.items()):
            break
        states = after
        general = run(whole, body, _inputs_in_turn(whole, body, ports, given, states, None), scope)
    return general


def _unrolled(
    whole: Pass,
    body: Graph,
    ports: Ports,
    given: Sequence[Fact],
    carried: dict[int, Fact],
    scope: Scope,
    limit: int | None,
    most: int | None,
) -> list[Run] | None:
    """A run of the body for each iteration; None if they are too many, or nothing says where the loop ends.

    Args:
        whole: the pass, whose ``steps`` limit the work.
        body: the body.
        ports: how it is connected.
        given: the operator's inputs.
        carried: position of a body's input -> what it is in the first iteration.
        scope: the scope around.
        limit: ``most`` if only the body's condition can end the loop earlier, else None.
        most: trips at most; None for no limit.
    """
    if limit is not None and (type(limit) is not int or limit * max(len(body.nodes), 1) > whole.steps):
        return None
    runs: list[Run] = []
    while most is None or len(runs) < most:
        if whole.steps <= 0:
            return None
        whole.steps -= not body.nodes
        one = run(whole, body, _inputs_in_turn(whole, body, ports, given, carried, len(runs)), scope)
        goes_on = True if ports.condition is None else scalar(one.outputs[ports.condition])
        if goes_on is None or (limit is None and ports.condition is None):
            return None
        runs.append(one)
        carried = {place: one.outputs[ports.back[place]] for place in carried}
        if not goes_on:
            break
    return runs or None


def _loop_results(
    whole: Pass, node: Node, ports: Ports, given: Sequence[Fact], runs: Sequence[Run], trips: int
) -> list[Fact]:
    """The operator's results: those of the last iteration, or the slices of all iterations along an axis."""
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
