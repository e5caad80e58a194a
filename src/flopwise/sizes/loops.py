"""Loop, Scan and SequenceMap: a body as often as the trip count, the axis or the sequence says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.errors import InputError
from flopwise.operators.size import OPEN, Most, identity, larger, settled, smaller
from flopwise.sizes.control import Run, alike, bodies_of, branches, fact_at, grouped, pass_on_warnings, run, scalar
from flopwise.sizes.facts import NOTHING, Fact, Facts, wider
from flopwise.sizes.program import Graph, Node, describe
from flopwise.sizes.run import Flow, Pass
from flopwise.sizes.scope import Inner, Scope
from flopwise.sizes.turns import ending

#: Loops up to this long are followed for their values alone.
SHORT = 64

#: Rounds after which nothing more is opened in what a loop carries; each round opens an extent, and tensors have few.
ROUNDS = 8


def loop(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of a Loop and its results.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    body, start = bodies_of(node)["body"], list(given[2:])
    count, condition = scalar(fact_at(given, 0)), True if fact_at(given, 1) is None else scalar(given[1])
    most = None if count is None else larger(count.high if type(count) is Most else count, 0)
    if condition is not None and not condition:
        most = 0
    general = _run_for_all(whole, body, start, scope)
    carried, collected = general.outputs[1 : 1 + len(start)], general.outputs[1 + len(start) :]
    trips = _Trips(most, whole.trips.get(node.name), bounded=type(count) is Most)
    trips.look_at_condition(condition, body, start, general)
    if _needs_unrolling(start, carried, trips, general) and (iterations := _unrolled(whole, body, start, trips, scope)):
        runs, outputs = iterations
        whole.met[node.name] = len(runs)
        pass_on_warnings(scope, runs)
        return grouped(runs), outputs
    pass_on_warnings(scope, [general])
    number = trips.number
    if trips.exact and type(trips.stated) is int and trips.stated != number:
        raise InputError(f"{describe(node)} runs {number} times, not {trips.stated}")
    unsure = not trips.exact and trips.stated is None
    if unsure:
        _ask_for_trips(node, scope, number)
    whole.met[node.name] = number
    length = Most(number) if unsure and number is not None else number
    outputs = start if type(number) is int and number == 0 else [fact.plain for fact in carried]
    scans = [with_axis(whole.facts, fact, 0, length) for fact in collected]
    return [general.inner("body", number, bound=unsure and number is not None)], [*outputs, *scans]


@dataclass(slots=True)
class _Trips:
    """Trip count of a Loop: its limit, and whether it is known exactly."""

    #: At most, as its inputs and its condition say; None if nothing limits it.
    most: int | None
    #: As the user says, and a size with an expression.
    stated: int | None
    #: Whether the data decide its trip count.
    bounded: bool
    #: Whether it runs as often as ``most`` says.
    exact: bool = False
    #: Whether the condition is known to end it no earlier.
    goes_on: bool = False

    @property
    def number(self) -> int | None:
        """Number of times that the body counts; None if that is unknown."""
        return self.most if self.exact or self.stated is None else self.stated

    def look_at_condition(self, first: object, body: Graph, start: Sequence[Fact], general: Run) -> None:
        """Complete this with what the condition says: ``first`` as it is before, None if unknown."""
        another = scalar(general.outputs[0]) if general.outputs else None
        if another is not None and not another:
            self.most = smaller(1, self.most if self.most is not None else 1)
        elif another is None and first and (ends := ending(body, start, self.most, general.scope)) is not None:
            self.most, another = ends, True
        self.goes_on = another is not None
        if not self.bounded and self.most is not None:
            self.exact = (self.goes_on or self.most <= 1) and first is not None


def _needs_unrolling(start: Sequence[Fact], carried: Sequence[Fact], trips: _Trips, general: Run) -> bool:
    """True if iterations run one by one: shapes may differ between them, or a few numbers are carried a few times."""
    stable = all(alike(one, other) for one, other in zip(start, carried, strict=True))
    if trips.bounded:
        return False
    certain = trips.exact or (trips.stated is not None and type(trips.stated) is not int)  # a size with an expression
    short = type(trips.most) is int and trips.most <= SHORT and bool(start)
    return not (certain and stable and general.resolved) or (short and all(f.elements is not None for f in start))


def _ask_for_trips(node: Node, scope: Scope, most: int | None) -> None:
    """Warn that nobody knows how often a body runs; ``most`` is the limit, None if there is none."""
    often = "an unknown number of times" if most is None else f"at most {most} times, counted as {most}"
    scope.warnings.append(f"{describe(node)} runs {often}; give it with --trip {node.name}=N")


def _run_for_all(whole: Pass, body: Graph, start: Sequence[Fact], scope: Scope) -> Run:
    """One run of the body that holds for every iteration.

    What a loop carries has no known values, and extents that change from one iteration to the next are open: they are
    widened until nothing changes any more, or for ``ROUNDS`` rounds.
    """
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


def _unrolled(
    whole: Pass, body: Graph, start: list[Fact], trips: _Trips, scope: Scope
) -> tuple[list[Run], list[Fact]] | None:
    """A run for each iteration, and the Loop's results; None if they are too many or nothing says where it ends."""
    limit = None if trips.number is None else settled(trips.number)  # each iteration differs from the one before
    if trips.goes_on if limit is None else limit * max(len(body.nodes), 1) > whole.steps:
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
        if condition is None and trips.stated is None:
            return None
        runs.append(one)
        scans.append(one.outputs[1 + len(start) :])
        carried = one.outputs[1 : 1 + len(start)]
        goes_on = condition is None or bool(condition)
    if not runs:
        return None
    return runs, [*carried, *[_stacked(facts, rows) for rows in zip(*scans, strict=True)]]


def with_axis(facts: Facts, fact: Fact, axis: int, length: Any) -> Fact:
    """Slices stacked along a new axis of this length; None is open."""
    if fact.shape is None or not -len(fact.shape) - 1 <= axis <= len(fact.shape):
        return facts.tensor(fact.dtype, None)
    extents = list(fact.shape)
    extents.insert(axis % (len(extents) + 1), OPEN if length is None else length)
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
    """The outputs of all iterations stacked along a new first axis."""
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
    inputs, named_axes, batch = list(given), attributes, 1
    batched = whole.opsets.get("", 1) < 9
    if batched:  # behind how long sequences are, all inputs have an axis of the batch before the one that is scanned
        batch = extent(given[1], 0) if len(given) > 1 else 1
        inputs, named_axes = [without_axis(facts, fact, 0) for fact in given[1:]], {}
    states = len(inputs) - attributes.get("num_scan_inputs", 0)
    scanned = inputs[states:]
    axes = named_axes.get("scan_input_axes") or [0] * len(scanned)
    extents = [extent(fact, axis) for fact, axis in zip(scanned, axes, strict=False)]
    lengths = list({identity(length): length for length in extents if length is not None}.values())
    trips = lengths[0] if len(lengths) == 1 else whole.trips.get(node.name)
    slices = [without_axis(facts, fact, axis) for fact, axis in zip(scanned, axes, strict=False)]
    general = run(whole, body, [*[fact.plain for fact in inputs[:states]], *slices], scope)
    pass_on_warnings(scope, [general])
    total = None if trips is None or batch is None else trips * batch
    bound = type(total) is Most
    total = total.high if type(total) is Most else total
    whole.met[node.name] = total
    if total is None:
        scope.warnings.append(f"{describe(node)} runs an unknown number of times; give the input shapes with -i")
    collected = general.outputs[states:]
    axes = named_axes.get("scan_output_axes") or [0] * len(collected)
    outputs = [fact.plain for fact in general.outputs[:states]]
    outputs += [with_axis(facts, fact, axis, trips) for fact, axis in zip(collected, axes, strict=False)]
    if batched:
        outputs = [with_axis(facts, fact, 0, batch) for fact in outputs]
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
            _ask_for_trips(node, scope, None)
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
