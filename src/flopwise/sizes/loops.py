"""Loop, Scan and SequenceMap: a body as often as the trip count, the axis or the sequence says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.errors import InputError
from flopwise.operators.size import OPEN, Most, identity, larger, settled, smaller
from flopwise.sizes.control import Run, alike, at, bodies_of, branches, grouped, pass_on_warnings, run, scalar
from flopwise.sizes.facts import NOTHING, Fact, Facts, wider
from flopwise.sizes.program import Graph, Node, describe
from flopwise.sizes.run import Flow, Pass
from flopwise.sizes.scope import Inner, Scope
from flopwise.sizes.turns import ending

#: Loops up to this long are followed for their values alone.
SHORT = 64

#: Rounds after which nothing more is opened in what a loop carries; each round opens an extent, and tensors have few.
ROUNDS = 8


@dataclass(slots=True)
class _Iterations:
    """The iterations of a loop one by one, and what comes out of it."""

    runs: list[Run]
    outputs: list[Fact]


def loop(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of a Loop and its results.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    body, facts = bodies_of(node)["body"], whole.facts
    start = list(given[2:])
    condition = scalar(given[1]) if at(given, 1) is not None else True
    count = scalar(at(given, 0))
    stated = whole.trips.get(node.name)
    bounded = type(count) is Most
    most = None if count is None else larger(count.high if type(count) is Most else count, 0)
    if condition is not None and not condition:
        most = 0
    general = _general(whole, body, start, scope)
    goes_on = scalar(general.outputs[0]) if general.outputs else None
    if goes_on is not None and not goes_on:
        most = smaller(1, most if most is not None else 1)
    elif goes_on is None and condition and (ends := ending(body, start, most, general.scope)) is not None:
        most, goes_on = ends, True
    exact = not bounded and most is not None and (goes_on is not None or most <= 1) and condition is not None
    carried = general.outputs[1 : 1 + len(start)]
    stable = all(alike(one, other) for one, other in zip(start, carried, strict=True))
    short = type(most) is int and most <= SHORT and bool(start) and all(fact.elements is not None for fact in start)
    said = stated is not None and type(stated) is not int  # a size with an expression says how often
    if not bounded and (not ((exact or said) and stable and general.resolved) or short):
        limit = most if exact or stated is None else stated
        limit = None if limit is None else settled(limit)  # each iteration differs from the one before
        if (limit is not None or goes_on is None) and (iterations := _follow(whole, body, start, limit, stated, scope)):
            whole.met[node.name] = len(iterations.runs)
            pass_on_warnings(scope, iterations.runs)
            return grouped(iterations.runs), iterations.outputs
    pass_on_warnings(scope, [general])
    trips = most if exact else stated if stated is not None else most
    if stated is not None and exact and not said and stated != trips:
        raise InputError(f"{describe(node)} runs {trips} times, not {stated}")
    if not exact and stated is None:
        more = f"at most {trips} times, counted as {trips}" if trips is not None else "an unknown number of times"
        scope.warnings.append(f"{describe(node)} runs {more}; give it with --trip {node.name}=N")
    whole.met[node.name] = trips
    bound = not exact and stated is None and trips is not None
    length = OPEN if trips is None else Most(trips) if bound else trips
    scans = [with_axis(facts, fact, 0, length) for fact in general.outputs[1 + len(start) :]]
    outputs = start if type(trips) is int and trips == 0 else [fact.plain for fact in carried]
    return [general.inner("body", trips, bound=bound)], [*outputs, *scans]


def _general(whole: Pass, body: Graph, start: Sequence[Fact], scope: Scope) -> Run:
    """A run that stands for all iterations: nothing is known about values, nor about extents that change."""
    facts = whole.facts
    always, number = facts.constant(facts.tensor("bool", ()), (True,)), facts.tensor("int64", ())
    carried = [fact.plain for fact in start]
    general = run(whole, body, [number, always, *carried], scope)
    for _ in range(ROUNDS):
        after = general.outputs[1 : 1 + len(carried)]
        more = [wider(facts, one, other) for one, other in zip(carried, after, strict=False)]
        if all(one is other for one, other in zip(carried, more, strict=False)):
            break
        carried = more
        general = run(whole, body, [number, always, *carried], scope)
    return general


def _follow(
    whole: Pass, body: Graph, start: list[Fact], limit: int | None, stated: int | None, scope: Scope
) -> _Iterations | None:
    """The iterations one by one; None when that is too long, or nothing says where the loop ends."""
    if limit is not None and limit * max(len(body.nodes), 1) > whole.steps:
        return None
    facts = whole.facts
    always, number = facts.constant(facts.tensor("bool", ()), (True,)), facts.tensor("int64", ())
    carried, runs, scans = list(start), list[Run](), list[list[Fact]]()
    goes_on = True
    while goes_on and (limit is None or len(runs) < limit):
        if whole.steps <= 0:
            return None
        whole.steps -= not body.nodes
        one = run(whole, body, [facts.constant(number, (len(runs),)), always, *carried], scope)
        condition = scalar(one.outputs[0])
        if condition is None and stated is None:
            return None
        runs.append(one)
        scans.append(one.outputs[1 + len(start) :])
        carried = one.outputs[1 : 1 + len(start)]
        goes_on = condition is None or bool(condition)
    if not runs:
        return None
    return _Iterations(runs, [*carried, *[_stacked(facts, rows) for rows in zip(*scans, strict=True)]])


def with_axis(facts: Facts, fact: Fact, axis: int, length: Any) -> Fact:
    """Slices put together along a new axis."""
    if fact.shape is None or not -len(fact.shape) - 1 <= axis <= len(fact.shape):
        return facts.tensor(fact.dtype, None)
    extents = list(fact.shape)
    extents.insert(axis % (len(extents) + 1), length)
    return facts.tensor(fact.dtype, tuple(extents))


def without_axis(facts: Facts, fact: Fact, axis: int) -> Fact:
    """One slice of a tensor along an axis."""
    if fact.shape is None or not -len(fact.shape) <= axis < len(fact.shape):
        return facts.tensor(fact.dtype, None)
    extents = list(fact.shape)
    del extents[axis]
    return facts.tensor(fact.dtype, tuple(extents))


def extent(fact: Fact, axis: int) -> Any:
    """The extent of a tensor along an axis; None when it is open, or there is no such axis."""
    if fact.shape is None or not -len(fact.shape) <= axis < len(fact.shape):
        return None
    size = fact.shape[axis]
    return None if size is OPEN else size


def _stacked(facts: Facts, rows: Sequence[Fact]) -> Fact:
    """An output of a body, collected over these iterations along a new first axis."""
    first = rows[0]
    if not all(alike(first, one) for one in rows):
        return NOTHING
    whole = with_axis(facts, first, 0, len(rows))
    if all(one.elements is not None for one in rows) and whole.shape is not None:
        elements = tuple([element for one in rows for element in one.elements or ()])
        if len(elements) <= 1024:
            return facts.constant(whole, elements)
    return whole


def scan(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body, once for each element along the scanned axes (in operator set 8 also for each member of the batch)."""
    body, facts, attributes = bodies_of(node)["body"], whole.facts, node.attributes.values
    batched = whole.opsets.get("", 1) < 9
    inputs = list(given[1 if batched else 0 :])
    states = len(inputs) - attributes.get("num_scan_inputs", 0)
    scanned = inputs[states:]
    axes = [1] * len(scanned) if batched else list(attributes.get("scan_input_axes") or ()) or [0] * len(scanned)
    extents = [extent(fact, axis) for fact, axis in zip(scanned, axes, strict=False)]
    lengths = list({identity(length): length for length in extents if length is not None}.values())
    trips = lengths[0] if len(lengths) == 1 else whole.trips.get(node.name)
    batch = extent(inputs[0], 0) if batched and inputs else 1
    first = [without_axis(facts, fact, 0) if batched else fact.plain for fact in inputs[:states]]
    slices = [
        without_axis(facts, without_axis(facts, fact, 1), 0) if batched else without_axis(facts, fact, axis)
        for fact, axis in zip(scanned, axes, strict=False)
    ]
    general = run(whole, body, [*first, *slices], scope)
    pass_on_warnings(scope, [general])
    total = None if trips is None or batch is None else trips * batch
    bound = type(total) is Most
    total = total.high if type(total) is Most else total
    whole.met[node.name] = total
    if total is None:
        scope.warnings.append(f"{describe(node)} runs an unknown number of times; give the input shapes with -i")
    length, size = OPEN if trips is None else trips, OPEN if batch is None else batch
    outputs = [with_axis(facts, fact, 0, size) if batched else fact.plain for fact in general.outputs[:states]]
    collected = general.outputs[states:]
    for fact, axis in zip(
        collected, list(attributes.get("scan_output_axes") or ()) or [0] * len(collected), strict=False
    ):
        if batched:
            outputs.append(with_axis(facts, with_axis(facts, fact, 0, length), 0, size))
        else:
            outputs.append(with_axis(facts, fact, axis, length))
    return [general.inner("body", total, bound=bound)], outputs


def sequence_map(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body, once for each member of the sequence."""
    body, facts = bodies_of(node)["body"], whole.facts
    members = given[0].members if given else None
    if members is None:
        stated = whole.trips.get(node.name)
        general = run(whole, body, [_member(facts, fact, None) for fact in given], scope)
        pass_on_warnings(scope, [general])
        whole.met[node.name] = stated
        if stated is None:
            scope.warnings.append(
                f"{describe(node)} runs an unknown number of times; give it with --trip {node.name}=N"
            )
        made = [
            facts.sequence(fact.dtype, None if stated is None else [fact.plain] * min(stated, _MOST), item=fact.plain)
            for fact in general.outputs
        ]
        return [general.inner("body", stated)], made
    runs = []
    for place in range(len(members)):
        if place and whole.steps <= 0:
            break
        runs.append(run(whole, body, [_member(facts, fact, place) for fact in given], scope))
    pass_on_warnings(scope, runs)
    whole.met[node.name] = len(members)
    made = []
    for place in range(len(node.outputs)):
        results = [one.outputs[place].plain for one in runs if place < len(one.outputs)]
        dtype = results[0].dtype if results else None
        made.append(facts.sequence(dtype, results if len(results) == len(members) else None))
    return grouped(runs), made


#: Members of a sequence that a user's number of trips makes.
_MOST = 4096


def _member(facts: Facts, fact: Fact, place: int | None) -> Fact:
    """The member of a sequence at a place; what is not a sequence is handed to each iteration whole."""
    if fact.kind != "sequence":
        return fact
    if fact.members is not None and place is not None and place < len(fact.members):
        return fact.members[place]
    return fact.item or facts.tensor(fact.dtype, None)


FLOWS: dict[str, Flow] = {"If": branches, "Loop": loop, "Scan": scan, "SequenceMap": sequence_map}
