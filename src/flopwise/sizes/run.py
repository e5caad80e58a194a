"""The forward pass: the facts about the results of each node from those about its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from flopwise.graph import Attrs
from flopwise.operators.operator import Operator
from flopwise.operators.shape import Dtypes, ShapeRule, Typed
from flopwise.operators.size import MisfitError, Most, UnresolvedError, product
from flopwise.operators.tables import row
from flopwise.sizes.facts import ABSENT, LARGEST_VALUE, NOTHING, Fact, Facts, bulk
from flopwise.sizes.program import Graph, Node, describe
from flopwise.sizes.scope import Inner, Scope
from flopwise.sizes.site import Site, Surroundings, impossible

#: Operators in bodies that are looked at before loops are no longer followed one iteration after the other.
STEPS = 20_000

#: Ways in which the bodies of control flow may run, before a model is refused.
BODIES = 20_000

#: Elements that are computed in all.
ROOM = 1 << 22

#: What rules raise of inputs and attributes that make no sense.
WRONG = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)

#: How many messages of one kind are told one by one.
TOLD = 5


class Results(NamedTuple):
    """The facts about the results of a node, and what is wrong with it."""

    facts: tuple[Fact, ...]
    #: Why it cannot run with these inputs; "" if nothing is wrong.
    fault: str = ""
    #: Why nothing is known about its results; "" if there is no reason to say.
    failure: str = ""


#: The bodies of a control-flow operator and its results.
Flow: TypeAlias = "Callable[[Pass, Node, tuple[Fact, ...], Scope], tuple[list[Inner], Sequence[Fact]]]"


class _Case(NamedTuple):
    """The row, attributes and version that nodes of an operation have in common."""

    row: Operator
    #: Follows the bodies of control flow; None for other operators.
    flow: Flow | None
    attributes: Attrs
    #: Of its operator set.
    version: int
    #: The inputs whose elements its rule has asked for.
    steered: set[int]


class Pass:
    """The pass over the graphs of one program."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        elements: Callable[[Any], tuple[object, ...] | None],
        trips: Mapping[str, int] | None = None,
        facts: Facts | None = None,
        flows: Mapping[str, Flow] | None = None,
    ) -> None:
        """
        Args:
            opsets: versions of operator sets by domain.
            elements: the elements of a small stored tensor; None where they are not at hand.
            trips: how often loops run, by name, as the user says.
            facts: where facts come from.
            flows: control-flow operator -> what follows its bodies.
        """
        self.opsets = opsets
        self.flows = flows or {}
        self.facts = facts or Facts()
        self.trips = dict(trips or {})
        #: The names of all control-flow operators so far, with their trips where these are certain.
        self.met: dict[str, int | None] = {}
        #: Operators in bodies that may still be looked at, to follow loops.
        self.steps = STEPS
        #: Ways in which bodies may still run.
        self.bodies = self.most_bodies = BODIES
        #: The runs of bodies so far, by all that they follow from.
        self.runs: dict[Any, Any] = {}
        #: How many more elements may be computed.
        self.room = ROOM
        #: The names that a body takes from the graphs around it.
        self.captured: dict[int, tuple[str, ...]] = {}
        self._elements = elements
        #: The results of nodes so far, by all that they follow from.
        self.results: dict[Any, Results] = {}
        self._cases: dict[object, _Case] = {}
        self._constants: dict[int, tuple[Any, Fact]] = {}

    def constant(self, stored: Any) -> Fact:
        """The fact about a stored tensor."""
        known = self._constants.get(id(stored))
        if known is None:
            fact = self.facts.stored(stored.dtype, stored.dims, lambda: self._elements(stored))
            known = self._constants[id(stored)] = (stored, fact)  # what lives keeps its id
        return known[1]

    def run(self, graph: Graph, scope: Scope, declared: Mapping[str, Fact] | None = None) -> None:
        """Complete the facts about the tensors of a graph.

        Args:
            graph: its nodes are in execution order.
            scope: has the facts about inputs and stored tensors.
            declared: what the file states of tensors, for those of which nothing else is known.
        """
        tensors, known = scope.tensors, self.results
        fact_of = tensors.__getitem__
        failures: list[str] = []
        for node in graph.nodes:
            outputs = node.outputs
            given = tuple(map(fact_of, node.inputs))
            key = (node.operation, len(outputs), given)
            results = known.get(key)
            if results is None:
                results = self.case(node, given, key, graph, scope)
            facts, fault, failure = results
            for name, fact in zip(outputs, facts):  # noqa: B905 - they are as many, and asking takes as long as the rest
                if fact.partial and declared and name in declared:
                    fact = self._with_declared(name, fact, declared[name], scope)
                tensors[name] = fact
            if fault:
                scope.faults[node.first_output] = fault
            elif failure:
                failures.append(f"no shape for {describe(node)}: {failure}")
        tensors[""] = ABSENT
        scope.warnings.extend(in_short(failures, "more operators have no shape"))

    def case(self, node: Node, given: tuple[Fact, ...], key: Any, graph: Graph, scope: Scope) -> Results:
        """The results of a node with inputs, or attributes, that no node had so far."""
        case = self._cases.get(node.operation)
        if case is None:
            case = self._cases[node.operation] = self._case(node)
        known, flow, attributes, version, steered = case
        if flow is not None:
            return self.followed(flow, node, given, scope)
        valued = known.value is not None and self.room > 0 and is_ready(known.value.needs, given)
        narrow = None if valued else self._narrow(key, given, steered)
        if narrow is not None:
            results = self.results.get(narrow)
            if results is not None:
                self.results[key] = results
                return results
        around = tuple.__new__(Surroundings, (node, scope.tensors, graph.nodes))  # half the time of its own constructor
        site = Site(node.op, attributes, given, key[1], version, self.facts, self.constant, around)
        results = self.applied(known, site, valued)
        if not site.looked_around:
            self.results[key] = results
            if not valued:
                steered.update(site.steered)
                if narrow is not None:
                    self.results[self._narrow(key, given, steered) or key] = results
        return results

    def _narrow(self, key: Any, given: tuple[Fact, ...], steered: set[int]) -> object:
        """The key of results that follow from the elements of some inputs only; None if no other elements are known."""
        for place, fact in enumerate(given):
            if fact.plain is not fact and place not in steered:
                plain = tuple([one if i in steered else one.plain for i, one in enumerate(given)])
                return (*key[:2], plain, len(steered))
        return None

    def _case(self, node: Node) -> _Case:
        op, domain, own = node.op, node.domain, getattr(node.operation, "own", None)
        name = f"{domain}::{op}" if domain else op
        known = row(name) if own is None else own.row
        return _Case(
            known, self.flows.get(name), node.attributes.values, node.version or self.opsets.get(domain, 1), set()
        )

    def applied(self, known: Operator, site: Site, valued: bool) -> Results:
        """The results of an operator by the rules in its row."""
        if known.shape is None:
            return Results((NOTHING,) * site.outputs)
        shapes, fault, failure = _by_rule(known.shape, site)
        try:
            dtypes = dtypes_of(known.dtype, site) if shapes or not isinstance(known.shape, Typed) else []
        except UnresolvedError as error:
            dtypes, shapes, failure = [], (), failure or str(error)
        facts = []
        for place in range(site.outputs):
            shape = shapes[place] if place < len(shapes) else None
            if isinstance(shape, Fact):
                facts.append(shape)
                continue
            if shape is not None and (wrong := impossible(shape)):
                shape, failure = None, wrong
            dtype = dtypes[min(place, len(dtypes) - 1)] if dtypes else None
            facts.append(self.facts.tensor(dtype, shape) if shape is not None or dtype is not None else NOTHING)
        if valued and not fault and not failure:
            self._add_elements(known, site, facts)
        return Results(tuple(facts), fault, failure)

    def _add_elements(self, known: Operator, site: Site, facts: list[Fact]) -> None:
        """Put in place of each small result the same with its elements, where these can be computed."""
        shapes = [fact.shape for fact in facts]
        if known.value is None or any(shape is None or not _is_small(shape) for shape in shapes):
            return
        try:
            results = known.value.rule(site, shapes)  # type: ignore[arg-type] # none is None
        except WRONG:
            return
        for place, elements in enumerate(results):
            if place < len(facts) and elements is not None and len(elements) == product(facts[place].shape or ()):
                self.room -= len(elements)
                if not all(element is None for element in elements) or not elements:
                    facts[place] = self.facts.constant(facts[place].plain, tuple(elements))

    def followed(self, flow: Flow, node: Node, given: tuple[Fact, ...], scope: Scope) -> Results:
        """The results of control flow; its bodies are noted in the scope."""
        try:
            inner, made = flow(self, node, given, scope)
        except WRONG as error:
            failure = "" if isinstance(error, UnresolvedError) and not error.args else str(error)
            if not isinstance(error, UnresolvedError):
                failure = f"its inputs or attributes make no sense: {type(error).__name__}: {error}"[:300]
            return Results((NOTHING,) * len(node.outputs), "", failure)
        if node.first_output:
            scope.inner[node.first_output] = inner
        count = len(node.outputs)
        return Results((*made[:count], *[NOTHING] * (count - len(made))))

    def _with_declared(self, name: str, fact: Fact, declared: Fact, scope: Scope) -> Fact:
        """The fact about a tensor with what the file states of it: that fills in, and wins over an upper bound."""
        if fact.kind != "tensor" or declared.kind != "tensor":
            return declared if fact is NOTHING else fact
        dtype = fact.dtype or declared.dtype
        if declared.extents is None or (fact.shape is not None and len(fact.shape) != len(declared.extents)):
            return fact if fact.dtype is not None or dtype is None else self.facts.tensor(dtype, fact.shape)
        shape = declared.extents
        if fact.shape is not None:
            shape = tuple([_stated(size, word) for size, word in zip(fact.shape, shape, strict=True)])
        if fact.shape is None or any(size is not word for size, word in zip(fact.shape, shape, strict=True)):
            scope.stated.add(name)
        return self.facts.tensor(dtype, shape)


def _by_rule(rule: ShapeRule, site: Site) -> tuple[Sequence[Any], str, str]:
    """Results of a shape rule, a misfit of its inputs, and the reason if nothing is known, else ""."""
    try:
        return rule(site), "", ""
    except MisfitError as error:
        return (), f"does not fit its inputs: {error}" if error.args else "", ""
    except UnresolvedError as error:
        return (), "", str(error)
    except WRONG as error:
        return (), "", f"its inputs or attributes make no sense: {type(error).__name__}: {error}"[:300]


def _stated(size: object, word: int) -> Any:
    """A size where the file states a number."""
    if type(size) is int:
        return size
    if type(size) is Most:
        return word if size.low <= word <= size.high else size
    return word


def is_ready(needs: str, given: Sequence[Fact]) -> bool:
    """True if the elements are known that a rule for elements needs: of no input, of some or of all."""
    if needs == "none":
        return True
    if needs == "some":
        return any(fact.elements is not None for fact in given)
    for fact in given:
        if fact.elements is None and fact is not ABSENT:
            return False
    return len(given) > 0


def _is_small(shape: Sequence[int]) -> bool:
    """True if a result is so small that its elements are followed."""
    return all(type(n) is int for n in shape) and bulk(shape) <= LARGEST_VALUE


def dtypes_of(rule: Dtypes, site: Site) -> list[str | None]:
    """The element types of the results in order, the last one that of all that follow."""
    if type(rule) is int:
        return [site.dtype_or_none(rule)]
    if callable(rule):
        try:
            return list(rule(site))
        except UnresolvedError:
            raise
        except WRONG:
            return []
    listed = rule if isinstance(rule, tuple) else (rule,)
    return [one if isinstance(one, str) else site.dtype_or_none(one) for one in listed]


def in_short(messages: Sequence[str], more: str) -> list[str]:
    """The first messages, and how many more there are."""
    others = len(messages) - TOLD
    return [*messages[:TOLD], f"{others} {more}"] if others > 0 else list(messages)
