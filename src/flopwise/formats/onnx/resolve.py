"""Shapes of every tensor of an ONNX model by one pass over its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from flopwise.formats.onnx.file.literal import elements as stored_elements
from flopwise.formats.onnx.file.model import CONTROL_FLOW, Graph, Model
from flopwise.formats.onnx.types import concrete, fact_of
from flopwise.readers.limits import TOO_MANY, elements, refuse_huge
from flopwise.sizes.facts import ABSENT, Fact, Facts
from flopwise.sizes.run import Flow, Pass, in_short
from flopwise.sizes.scope import Scope

#: Nothing by name.
_NONE: Mapping[str, int] = {}


def resolve(
    model: Model,
    declared_holds: bool,
    facts: Facts,
    given: Mapping[str, Fact] | None = None,
    trips: Mapping[str, int] | None = None,
    symbols: Mapping[str, int] = _NONE,
    passes: Callable[..., Pass] = Pass,
) -> tuple[Scope, Mapping[str, int | None]]:
    """The shapes of a model whose inputs have concrete shapes, and the trips of its loops by name, None if unknown.

    Args:
        model: functions are inlined, nodes are in execution order, control flow has names.
        declared_holds: whether the shapes written in the file are for these inputs, so that they may fill in what
            cannot be inferred, and a contradiction is worth a warning.
        facts: where facts come from.
        given: facts about inputs that are not tensors, or whose elements are known.
        trips: how often loops run, by name.
        symbols: sizes of symbols in the shapes that are written in the file.
        passes: makes the pass over the graph.

    Raises:
        InputError: the user says that a loop runs another number of times than it does.
        ModelError: a tensor has more elements than can exist.
    """
    graph, scope = model.graph, Scope()
    one = passes(model.opsets, stored_elements, trips, facts, _flows(graph))
    for value in graph.inputs:
        scope.tensors[value.name] = fact_of(facts, value.type)
    scope.tensors.update(_constants(graph, one))
    scope.tensors.update(given or {})
    declared = _Declared(graph, facts, symbols) if declared_holds else None
    one.run(graph, scope, declared)
    distinct = set(scope.tensors.values()) - {ABSENT}
    if not all(fact.sized for fact in distinct):
        from flopwise.formats.onnx.open_values import remark

        scope.warnings.extend(filter(None, [remark(graph, scope)]))
    _refuse_huge(graph, scope, distinct)
    if declared is not None:
        _warn_of_contradictions(graph, declared, scope)
    return scope, one.met


def _flows(graph: Graph) -> Mapping[str, Flow]:
    """The functions that follow the bodies of control flow, by operator; none for a graph without control flow."""
    if not any(operation.op in CONTROL_FLOW for operation in graph.operations):
        return {}
    from flopwise.sizes.loops import FLOWS

    return FLOWS


def _constants(graph: Graph, one: Pass) -> Iterator[tuple[str, Fact]]:
    """The stored tensors with the facts about them; models of a million tensors have some hundred facts."""
    cases: dict[object, Fact] = {}
    for name, stored in graph.initializers.items():
        case = stored.dtype, stored.dims, stored.payload
        fact = cases.get(case)
        if fact is None:
            fact = cases[case] = one.constant(stored)
        yield name, fact


class _Declared(dict[str, Fact]):
    """The facts that a file states about results of operators, read when first asked for."""

    def __init__(self, graph: Graph, facts: Facts, symbols: Mapping[str, int]) -> None:
        super().__init__()
        self._graph, self._facts, self._symbols = graph, facts, symbols
        self._read = False

    def __contains__(self, name: object) -> bool:
        if not self._read:
            self._read = True
            for value in (*self._graph.values, *self._graph.outputs):
                if value.type is not None:
                    self[value.name] = fact_of(self._facts, value.type, self._symbols)
        return super().__contains__(name)

    def __bool__(self) -> bool:
        return True


def _refuse_huge(graph: Graph, scope: Scope, distinct: Iterable[Fact]) -> None:
    for value in graph.inputs:
        refuse_huge(value.name, concrete(value.type))
    if all(fact.extents is None or elements(fact.extents) < TOO_MANY for fact in distinct):
        return
    for name in (*graph.initializers, *(name for node in graph.nodes for name in node.outputs if name)):
        refuse_huge(name, scope.shape(name))


def _warn_of_contradictions(graph: Graph, declared: _Declared, scope: Scope) -> None:
    """Warn where a shape in the file is not the one that its operator gives."""
    wrong = {}
    if "" in declared:
        return
    for name, fact in declared.items():
        stated, inferred = fact.extents, scope.shape(name)
        if stated is not None and inferred is not None and stated != inferred:
            wrong[name] = (stated, inferred)
    makers = {o: n for n in graph.nodes for o in n.outputs} if wrong else {}
    scope.warnings.extend(
        in_short(
            [
                f"the file says that {name!r} has shape {stated}, but {makers[name]} gives {inferred}; "
                "the latter is used"
                for name, (stated, inferred) in wrong.items()
                if name in makers
            ],
            "more shapes in the file contradict their operators",
        )
    )
