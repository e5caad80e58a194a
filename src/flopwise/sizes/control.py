"""The bodies of control flow: how often each runs, with which sizes, and what comes out of it.

A body is followed like a graph of its own, with the facts that flow into it. Where the iterations of a loop differ in
shape, or a condition that can be computed ends it, the iterations are followed one by one. One engine follows the loops
of all formats; how an operator is connected to its body is said by `Ports`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.operators.size import (
    OPEN,
    Most,
    UnresolvedError,
    identities,
    identity,
    is_certain,
    larger,
    settled,
    smaller,
)
from flopwise.sizes.facts import ABSENT, NOTHING, Fact, Facts, either, wider
from flopwise.sizes.program import Graph, Node, captured, describe, graphs
from flopwise.sizes.run import Flow, Pass
from flopwise.sizes.scope import Inner, Scope
from flopwise.sizes.turns import Carried, Counting

#: Loops up to this long are followed for their values alone.
SHORT = 64

#: Rounds after which nothing more is opened in what a loop carries; each round opens an extent, and tensors have few.
ROUNDS = 8

#: Members of a sequence that a user's number of trips makes.
_MOST_MEMBERS = 4096


class Slice(NamedTuple):
    """A tensor cut along an axis, or put together along it: one slice for each iteration."""

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    #: Extent of each slice along the axis; None: it is without the axis.
    part: int | None = None

    def number(self, extent: int) -> int:
        """The number of slices along an axis of this extent."""
        if (self.start, self.end, self.stride) == (0, -1, 1):
            return extent
        first, last = (place + extent + 1 if place < 0 else place for place in (self.start, self.end))
        reach = last - first if self.stride > 0 else first - last
        return larger(-(-reach // max(abs(self.stride), 1)), 0)

    def of(self, facts: Facts, fact: Fact) -> Fact:
        """One slice of a tensor."""
        if fact.shape is None or not -len(fact.shape) <= self.axis < len(fact.shape):
            return facts.tensor(fact.dtype, None) if self.part is None else fact
        extents = list(fact.shape)
        if self.part is None:
            del extents[self.axis]
        else:
            extents[self.axis] = self.part
        return facts.tensor(fact.dtype, tuple(extents))

    def together(self, facts: Facts, rows: Sequence[Fact], length: int) -> Fact:
        """As many slices as ``length`` says put together; ``rows`` are one that stands for all, or each of them."""
        first, rank = rows[0], -1 if rows[0].shape is None else len(rows[0].shape) + (self.part is None)
        same = len(rows) == 1 or all(alike(first, one) for one in rows)
        if not same and self.part is None:
            return NOTHING
        if not -rank <= self.axis < rank:
            return facts.tensor(first.dtype, None) if self.part is None else rows[-1].plain
        extents = list(rows[-1].shape or ())
        if self.part is None:
            extents.insert(self.axis % rank, length)
        else:
            extents[self.axis] = extents[self.axis] * length if same and length is not OPEN else OPEN
        joined = facts.tensor(first.dtype, tuple(extents))
        if self.part is None and self.axis == 0 and type(length) is int and length == len(rows):
            elements = [element for one in rows if one.elements is not None for element in one.elements]
            if all(one.elements is not None for one in rows) and len(elements) <= 1024:
                return facts.constant(joined, tuple(elements))
        return joined


class Port(NamedTuple):
    """An input or a result of an operator that is one of its body, or one slice of it in each iteration."""

    #: Place among those of the operator, and among those of the body.
    outside: int
    inside: int
    slice: Slice | None = None


class Ports(NamedTuple):
    """The connections between an operator and one of its bodies."""

    #: Inputs.
    taken: Sequence[Port]
    #: Results: those of the last iteration, or the slices of all together.
    given: Sequence[Port]
    #: Input of the body -> the result of the body that it is in the next iteration.
    back: Mapping[int, int] = {}
    #: The body's input that is the number of the iteration, that which says that there is one, and the result that says
    #: whether another one follows.
    iteration: int | None = None
    going: int | None = None
    condition: int | None = None
    #: The operator's inputs that say how often it runs at most, and whether it runs at all.
    most: int | None = None
    first: int | None = None
    #: Whether a count below 0 is none.
    endless: bool = False
    #: Whether what is carried keeps its shape, so that one run holds for all.
    steady: bool = False
    #: Whether a graph of its own, ``cond``, is asked before each iteration.
    tested: bool = False


@dataclass(slots=True)
class Run:
    """One run of a body."""

    graph: Graph
    scope: Scope
    outputs: list[Fact]
    #: Whether every tensor in it has a size.
    resolved: bool

    def inner(self, part: str, trips: int | None, branch: bool = False, bound: bool = False) -> Inner:
        """The body as a part of its operator."""
        takes = tuple(value.name for value in self.graph.inputs)
        return Inner(part, self.graph, self.scope, trips, branch, takes, bound)


def run(whole: Pass, body: Graph, inputs: Sequence[Fact], around: Scope) -> Run:
    """A body with these inputs; one like an earlier one, with the same inputs, is that one.

    Raises:
        ModelError: there are too many.
    """
    names = whole.captured.get(id(body))
    if names is None:
        names = whole.captured[id(body)] = tuple(sorted(captured(body)))
    key = (id(body), tuple(inputs), tuple([around.tensors[name] for name in names]))
    earlier: tuple[Run, int] | None = whole.runs.get(key)
    if earlier is not None:
        whole.steps -= earlier[1]  # looked at once, but it becomes as many rows as before
        return earlier[0]
    before = whole.steps
    whole.bodies -= 1
    if whole.bodies < 0:
        raise ModelError(f"the bodies of its control flow run in more than {whole.most_bodies:,} ways")
    scope = Scope(around)
    for value, fact in zip(body.inputs, inputs, strict=False):
        scope.tensors[value.name] = fact
    for name, stored in body.initializers.items():
        scope.tensors[name] = whole.constant(stored)
    whole.steps -= len(body.nodes)
    whole.run(body, scope)
    facts = [scope.tensors[value.name] for value in body.outputs]
    resolved = scope.all_sized(name for node in body.nodes for name in node.outputs if name)
    one = Run(body, scope, facts, resolved)
    whole.runs[key] = one, before - whole.steps
    return one


def _pass_on_warnings(scope: Scope, runs: Iterable[Run]) -> None:
    """Hand on the warnings of the runs that count, each once."""
    for one in runs:
        scope.warnings.extend(warning for warning in one.scope.warnings if warning not in scope.warnings)


def _grouped(runs: Sequence[Run]) -> list[Inner]:
    """Runs of the same shapes as one body that runs several times, in order of their first run."""
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(runs):
        groups.setdefault(_signature(one.graph, one.scope), []).append(place)
    return [runs[p[0]].inner("body" if len(groups) == 1 else f"body[{p[0]}]", len(p)) for p in groups.values()]


def _signature(graph: Graph, scope: Scope) -> object:
    """A key of all shapes in a body, of its inputs too, and in its inner bodies: runs with one key cost the same."""
    names = [value.name for value in graph.inputs] + [o for node in graph.nodes for o in node.outputs if o]
    inside = [
        (inner.part, identity(inner.trips), inner.branch, _signature(inner.graph, inner.scope))
        for name in names
        for inner in scope.inner.get(name, ())
    ]
    facts = [scope.tensors[name] for name in names]
    return (*[(identities(fact.extents), _members(fact)) for fact in facts], *inside)


def _members(fact: Fact) -> tuple[object, ...]:
    return tuple([identities(member.extents) for member in fact.members or ()])


def _scalar(fact: Fact | None) -> Any:
    """The one element of a tensor; None when there is no such, or nobody knows it."""
    return fact.elements[0] if fact is not None and fact.elements is not None and len(fact.elements) == 1 else None


def alike(one: Fact, other: Fact) -> bool:
    """True if the shapes, or those of all members, are known in both and the same."""
    if not one.sized or not other.sized:
        return False
    return identities(one.extents) == identities(other.extents) and _members(one) == _members(other)


def _at(given: Sequence[Fact], place: int | None) -> Fact | None:
    """An input; None where it is left out."""
    return None if place is None or place >= len(given) or given[place] is ABSENT else given[place]


def branches(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of an If that may run, and its results: where the condition is unknown, true of both branches.

    Unless ports connect it to them, a branch takes what stands behind the condition, and gives its results in order.
    """
    bodies, connections = dict(graphs(node)), node.attributes.values.get("ports", {})
    condition = _scalar(_at(given, 0))
    names = [name for name in ("then_branch", "else_branch") if name in bodies]
    if condition is not None and type(condition) is not Most:
        taken = "then_branch" if condition else "else_branch"
        names = [name for name in names if name == taken]
    runs, results = list[Run](), list[Sequence[Fact]]()
    for name in names:
        ports: Ports | None = connections.get(name)
        inputs = given[1:]
        if ports is not None:
            places = {one.inside: given[one.outside] for one in ports.taken}
            inputs = tuple([places.get(place, NOTHING) for place in range(len(bodies[name].inputs))])
        runs.append(run(whole, bodies[name], inputs, scope))
        outputs = runs[-1].outputs
        if ports is not None:
            outside = {one.outside: outputs[one.inside] for one in ports.given}
            outputs = [outside.get(place, NOTHING) for place in range(len(node.outputs))]
        results.append(outputs)
    _pass_on_warnings(scope, runs)
    inner = [one.inner(name, 1, len(names) > 1) for name, one in zip(names, runs, strict=True)]
    if len(results) < 2:
        return inner, results[0] if results else []
    return inner, [either(whole.facts, *both) for both in zip(*results, strict=False)]


def call(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body of a call and its results."""
    one = run(whole, dict(graphs(node))["body"], given, scope)
    _pass_on_warnings(scope, [one])
    return [one.inner("body", 1)], one.outputs


def loop(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of a loop and its results; one without ports is ONNX's Loop, or has a condition of its own.

    Raises:
        InputError: the user says that it runs another number of times than it does.
    """
    bodies = dict(graphs(node))
    ports: Ports | None = node.attributes.values.get("ports")
    if ports is None and "cond" in bodies:
        same = [Port(place, place) for place in range(len(given))]
        ports = Ports(same, same, {place: place for place in range(len(given))}, tested=True)
    elif ports is None:
        carried, results = len(given) - 2, len(bodies["body"].outputs) - 1
        ports = Ports(
            [Port(place, place) for place in range(2, len(given))],
            [Port(at, at + 1, None if at < carried else Slice(0)) for at in range(max(results, carried))],
            {place: place - 1 for place in range(2, len(given))},
            iteration=0,
            going=1,
            condition=0,
            most=0,
            first=1,
        )
    return _Loop(whole, node, given, scope, ports, bodies["body"], bodies.get("cond")).followed()


def scan(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body, once for each element along the scanned axes (in operator set 8 also for each member of the batch)."""
    body, attributes = dict(graphs(node))["body"], node.attributes.values
    axes, batch, first = attributes, None, Slice(0)
    if whole.opsets.get("", 1) < 9:  # behind how long sequences are, all inputs have an axis of the batch before others
        extent = (_at(given, 1) or NOTHING).shape
        batch, axes = extent[0] if extent else OPEN, {}
        given = tuple([first.of(whole.facts, fact) for fact in given[1:]])
    states, scanned = len(given) - attributes.get("num_scan_inputs", 0), attributes.get("num_scan_inputs", 0)
    inputs = [None] * states + [Slice(axis) for axis in axes.get("scan_input_axes") or [0] * scanned]
    results = len(body.outputs)
    outputs = [None] * states + [Slice(axis) for axis in axes.get("scan_output_axes") or [0] * (results - states)]
    ports = Ports(
        [Port(place, place, one) for place, one in enumerate(inputs[: len(given)])],
        [Port(place, place, one) for place, one in enumerate(outputs[:results])],
        {place: place for place in range(states)},
        steady=True,
    )
    inner, facts = _Loop(whole, node, given, scope, ports, body).followed()
    if batch is None:
        return inner, facts
    (part,) = inner
    total = None if part.trips is None or batch is OPEN else part.trips * batch
    if total is None and part.trips is not None:
        scope.warnings.append(f"{describe(node)} runs an unknown number of times; give the input shapes with -i")
    bound = total is not None and (part.bound or type(total) is Most)
    whole.met[node.name] = total = total.high if type(total) is Most else total
    inner = [part._replace(trips=total, bound=bound)]
    return inner, [first.together(whole.facts, [fact], batch) for fact in facts]


class _Loop(NamedTuple):
    """A loop with what flows in."""

    whole: Pass
    node: Node
    given: tuple[Fact, ...]
    scope: Scope
    ports: Ports
    body: Graph
    #: The graph that is asked before each iteration.
    test: Graph | None = None

    def followed(self) -> tuple[list[Inner], Sequence[Fact]]:
        """The bodies and the results."""
        whole, node, ports = self.whole, self.node, self.ports
        start = {one.inside: self.given[one.outside] for one in ports.taken if one.inside in ports.back}
        most, exact = self._limit()
        goes_on, general, stated = not ports.tested, None, whole.trips.get(node.name)
        if not ports.tested:
            general = self._for_all(start)
            if ports.condition is not None:
                most, goes_on = self._ended(most, general, start)
        exact = exact and most is not None and (goes_on or (type(most) is not Most and most <= 1))
        certain = exact or (stated is not None and type(stated) is not int)  # a size with an expression
        differs = general is None or (not ports.steady and self._differs(start, general, most, certain))
        if type(most) is not Most and differs:
            limit = most if exact or stated is None or ports.tested else stated
            if (iterations := self._one_by_one(start, limit, exact, goes_on)) is not None:
                return self._in_turn(*iterations)
        if general is None:
            general = self._for_all(start)
        return self._in_general(general, start, most, exact)

    def _limit(self) -> tuple[int | None, bool]:
        """The trips at most, None if nothing says so, and whether that is all that inputs say."""
        ports, limits, sure = self.ports, dict[Any, int](), True
        for one in ports.taken:
            shape = self.given[one.outside].shape
            if one.slice is None or shape is None or not -len(shape) <= one.slice.axis < len(shape):
                continue
            if (extent := shape[one.slice.axis]) is not OPEN:
                number = one.slice.number(extent)
                limits[identity(number)] = number
            elif one.slice.part is not None:
                sure = False
        if len(limits) != 1 and any(one.slice is not None and one.slice.part is None for one in ports.taken):
            return None, False  # a scan goes over axes of one extent
        count, first = (_at(self.given, place) for place in (ports.most, ports.first))
        if count is not None:
            number = _scalar(count)
            if number is None:
                sure = False
            elif not ports.endless or not (type(number) is int and number < 0):
                sure = sure and type(number) is not Most
                number = larger(number, 0)
                limits[identity(number)] = number
        if first is not None:
            flag = _scalar(first)
            sure = sure and flag is not None
            if flag is not None and not flag:
                return 0, True
        most = None
        for number in limits.values():
            most = number if most is None else smaller(most, number)
        return most, sure

    def _ended(self, most: int | None, general: Run, start: Mapping[int, Fact]) -> tuple[int | None, bool]:
        """The trips at most as the condition says, and whether it is known to end the loop no earlier."""
        ports = self.ports
        another, first = _scalar(general.outputs[ports.condition or 0]), _at(self.given, ports.first)
        if another is not None:
            return most if another else smaller(1, 1 if most is None else most), True
        if first is not None and not _scalar(first):
            return most, False
        inputs, outputs = ([value.name for value in values] for values in (self.body.inputs, self.body.outputs))
        going = "" if ports.going is None else inputs[ports.going]
        try:
            counting = Counting(
                {name: (one.op, one.inputs) for one in reversed(self.body.nodes) for name in one.outputs},
                {inputs[at]: Carried(_scalar(fact), inputs[at], outputs[ports.back[at]]) for at, fact in start.items()},
                lambda name: True if name == going else _scalar(general.scope.of(name)),
                "" if ports.iteration is None else inputs[ports.iteration],
                1,
            )
            ends, open_ = counting.ends(outputs[ports.condition or 0])
        except (UnresolvedError, LookupError):
            return most, False
        limits = [limit for limit in (most, ends) if limit is not None]
        if open_ or ends is None or all(type(limit) is int for limit in limits) or not all(map(is_certain, limits)):
            return most, False
        return larger(smaller(*limits) if len(limits) > 1 else limits[0], 0), True

    def _inputs(self, carried: Mapping[int, Fact], turn: int | None) -> list[Fact]:
        """The body's inputs in an iteration; ``turn`` is its number, None for any iteration."""
        ports, facts = self.ports, self.whole.facts
        inputs = [NOTHING] * len(self.body.inputs)
        for one in ports.taken:
            if one.inside < len(inputs):
                fact = self.given[one.outside]
                inputs[one.inside] = fact if one.slice is None else one.slice.of(facts, fact)
        for place, fact in carried.items():
            if place < len(inputs):
                inputs[place] = fact
        if ports.iteration is not None and ports.iteration < len(inputs):
            number = facts.tensor("int64", ())
            inputs[ports.iteration] = number if turn is None else facts.constant(number, (turn,))
        if ports.going is not None and ports.going < len(inputs):
            inputs[ports.going] = facts.constant(facts.tensor("bool", ()), (True,))
        return inputs

    def _for_all(self, start: Mapping[int, Fact]) -> Run:
        """One run of the body that holds for every iteration.

        What a loop carries has no known values, and extents that change from one iteration to the next are open: they
        are widened until nothing changes any more, or for ``ROUNDS`` rounds.
        """
        back = self.ports.back
        carried = {place: fact.plain for place, fact in start.items()}
        general = run(self.whole, self.body, self._inputs(carried, None), self.scope)
        for _ in range(0 if self.ports.steady else ROUNDS):
            after = {at: wider(self.whole.facts, fact, general.outputs[back[at]]) for at, fact in carried.items()}
            if all(after[place] is fact for place, fact in carried.items()):
                break
            carried = after
            general = run(self.whole, self.body, self._inputs(carried, None), self.scope)
        return general

    def _differs(self, start: Mapping[int, Fact], general: Run, most: int | None, certain: bool) -> bool:
        """True where iterations may differ in shape, nobody knows how many there are, or a few carry a few numbers."""
        stable = all(alike(fact, general.outputs[self.ports.back[place]]) for place, fact in start.items())
        short = type(most) is int and most <= SHORT and bool(start)
        return not (certain and stable and general.resolved) or (
            short and all(fact.elements is not None for fact in start.values())
        )

    def _one_by_one(
        self, carried: dict[int, Fact], limit: int | None, exact: bool, goes_on: bool
    ) -> tuple[list[Run], list[Run], dict[int, Fact]] | None:
        """The tests and the runs of all iterations, and what the last one hands on.

        None if they are too many, or nothing says where they end.
        """
        whole, ports, stated = self.whole, self.ports, self.whole.trips.get(self.node.name)
        if limit is None:
            if goes_on:
                return None
        else:
            limit = settled(limit)  # each iteration differs from the one before
            if (exact or stated is not None) and limit * max(len(self.body.nodes), 1) > whole.steps:
                return None
        tests, runs, another = list[Run](), list[Run](), True
        while another and (limit is None or len(runs) < limit):
            if whole.steps <= 0:
                return None
            inputs = self._inputs(carried, len(runs))
            whole.steps -= not self.body.nodes
            if self.test is not None:
                tests.append(run(whole, self.test, inputs, self.scope))
                another = _scalar(next(iter(tests[-1].outputs), None))
                if another is None or type(another) is Most:
                    return None
                if not another:
                    break
            runs.append(run(whole, self.body, inputs, self.scope))
            carried = {place: runs[-1].outputs[ports.back[place]] for place in carried}
            if ports.condition is not None:
                another = _scalar(runs[-1].outputs[ports.condition])
                if another is None and stated is None:
                    return None
                another = another is None or bool(another)
            elif self.test is None and not exact and stated is None:
                return None
        return (tests, runs, carried) if runs or tests else None

    def _in_turn(
        self, tests: list[Run], runs: list[Run], carried: Mapping[int, Fact]
    ) -> tuple[list[Inner], list[Fact]]:
        """The bodies and the results of a loop whose iterations were followed one by one."""
        number, stated = len(runs), self.whole.trips.get(self.node.name)
        if self.test is not None and type(stated) is int and stated != number:
            raise InputError(f"{describe(self.node)} runs {number} times, not {stated}")
        self.whole.met[self.node.name] = number
        _pass_on_warnings(self.scope, [*tests, *runs])
        inner = [one._replace(part="cond", trips=len(tests)) for one in _grouped(tests)[:1]]
        return [*inner, *_grouped(runs)], self._results(runs, carried, number)

    def _in_general(
        self, general: Run, start: Mapping[int, Fact], most: int | None, exact: bool
    ) -> tuple[list[Inner], list[Fact]]:
        """The bodies and the results of a loop whose iterations are all alike, or not known one by one."""
        whole, node, scope, stated = self.whole, self.node, self.scope, self.whole.trips.get(self.node.name)
        runs, inner = [general], list[Inner]()
        number = most if exact or stated is None else stated
        if exact and type(stated) is int and type(number) is int and stated != number:
            raise InputError(f"{describe(node)} runs {number} times, not {stated}")
        bound = type(number) is Most
        length = OPEN if number is None else number
        number = number.high if type(number) is Most else number
        if self.test is not None:
            carried = {one.inside: general.scope.of(self.body.inputs[one.inside].name) for one in self.ports.taken}
            test = run(whole, self.test, self._inputs(carried, None), scope)
            inner, runs = [test.inner("cond", None if number is None else number + 1)], [test, general]
        _pass_on_warnings(scope, runs)
        if not exact and stated is None:
            bound = number is not None
            often = "an unknown number of times" if number is None else f"at most {number} times, counted as {number}"
            cure = f"it with --trip {node.name}=N"
            if number is None and self.ports.most is None and any(one.slice for one in self.ports.taken):
                cure = "the input shapes with -i"
            scope.warnings.append(f"{describe(node)} runs {often}; give {cure}")
            length = Most(number) if number is not None else length
        whole.met[node.name] = number
        never = type(number) is int and number == 0
        after = start if never else {at: general.outputs[back].plain for at, back in self.ports.back.items()}
        return [*inner, general.inner("body", number, bound=bound)], self._results([general], after, length)

    def _results(self, runs: Sequence[Run], carried: Mapping[int, Fact], length: int) -> list[Fact]:
        """The results: what the last iteration hands on, or the slices of all iterations.

        Args:
            runs: one that stands for all, or each of them.
            carried: the body's inputs as another iteration would have them.
            length: how many iterations there are.
        """
        results = [NOTHING] * max([one.outside + 1 for one in self.ports.given], default=0)
        kept = {result: carried[place] for place, result in self.ports.back.items() if place in carried}
        for one in self.ports.given:
            if one.slice is not None:
                rows = [each.outputs[one.inside] for each in runs]
                results[one.outside] = one.slice.together(self.whole.facts, rows, length)
            else:
                results[one.outside] = kept[one.inside] if one.inside in kept else runs[-1].outputs[one.inside].plain
        return results


def sequence_map(whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope) -> tuple[list[Inner], Sequence[Fact]]:
    """The body, once for each member of the sequence."""
    body, facts = dict(graphs(node))["body"], whole.facts
    members = given[0].members if given else None
    if members is None:
        stated = whole.trips.get(node.name)
        general = run(whole, body, [_member(facts, fact, None) for fact in given], scope)
        _pass_on_warnings(scope, [general])
        whole.met[node.name] = stated
        if stated is None:
            scope.warnings.append(
                f"{describe(node)} runs an unknown number of times; give it with --trip {node.name}=N"
            )
        made = [
            facts.sequence(
                fact.dtype, None if stated is None else [fact.plain] * min(stated, _MOST_MEMBERS), item=fact.plain
            )
            for fact in general.outputs
        ]
        return [general.inner("body", stated)], made
    runs = []
    for place in range(len(members)):
        if place and whole.steps <= 0:
            break
        runs.append(run(whole, body, [_member(facts, fact, place) for fact in given], scope))
    _pass_on_warnings(scope, runs)
    whole.met[node.name] = len(members)
    made = []
    for place in range(len(node.outputs)):
        results = [one.outputs[place].plain for one in runs if place < len(one.outputs)]
        dtype = results[0].dtype if results else None
        made.append(facts.sequence(dtype, results if len(results) == len(members) else None))
    return _grouped(runs), made


def _member(facts: Facts, fact: Fact, place: int | None) -> Fact:
    """The member of a sequence at a place; what is not a sequence is handed to each iteration whole."""
    if fact.kind != "sequence":
        return fact
    if fact.members is not None and place is not None and place < len(fact.members):
        return fact.members[place]
    return fact.item or facts.tensor(fact.dtype, None)


#: What follows the bodies of an operator.
FLOWS: Mapping[str, Flow] = {
    "If": branches,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
    "tflite::CALL": call,
}
