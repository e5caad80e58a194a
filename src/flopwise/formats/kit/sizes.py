"""The sizes of every tensor of a program by one pass over its graph; states, whose sizes outputs say."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from flopwise.errors import InputError
from flopwise.formats.kit.program import (
    CONTROL_FLOW,
    Dim,
    Graph,
    Model,
    Node,
    OptionalType,
    TensorType,
    Type,
    Value,
    concrete,
    fact_of,
    tensor_type,
)
from flopwise.formats.kit.tensors import elements as stored_elements
from flopwise.formats.limits import TOO_MANY, elements, refuse_huge
from flopwise.operators.size import OPEN, Most
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
    trusted: bool = False,
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
        trusted: whether the shapes written in the file are enough, where it writes all.

    Raises:
        InputError: the user says that a loop runs another number of times than it does.
        ModelError: a tensor has more elements than can exist.
    """
    graph, scope = model.graph, Scope()
    one = passes(model.opsets, stored_elements, trips, facts, _flows(graph))
    for value in (*graph.inputs, *graph.states):
        scope.tensors[value.name] = fact_of(facts, value.type)
    scope.tensors.update(_constants(graph, one))
    scope.tensors.update(given or {})
    declared = _Declared(graph, facts, symbols) if declared_holds else None
    if trusted and declared is not None and _says_all(graph, declared):
        scope.tensors.update(declared)
    else:
        one.run(graph, scope, declared)
    distinct = set(scope.tensors.values()) - {ABSENT}
    if not all(fact.sized for fact in distinct):
        scope.warnings.extend(filter(None, [remark(graph, scope)]))
    _refuse_huge(graph, scope, distinct)
    if declared is not None:
        _warn_of_contradictions(graph, declared, scope)
    return scope, one.met


def _flows(graph: Graph) -> Mapping[str, Flow]:
    """The functions that follow the bodies of control flow, by operator; none for a graph without control flow."""
    if not any(operation.op in CONTROL_FLOW or operation.has_bodies for operation in graph.operations):
        return {}
    from flopwise.sizes.control import FLOWS

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


def _says_all(graph: Graph, declared: _Declared) -> bool:
    """True where a file states the shapes of all results, and none of them come from bodies."""
    if any(operation.has_bodies for operation in graph.operations):
        return False
    return all(name in declared and declared[name].sized for node in graph.nodes for name in node.outputs if name)


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


# The inputs whose values decide shapes that nobody knows.

#: Elements up to which an input may be a setting rather than data.
_SETTING = 16

#: Operators whose inputs are all settings; others take data first.
_SETTINGS_ALONE = frozenset({"ConstantOfShape", "Range"})

#: How element types are written.
_SHORT = {"int64": "i64", "int32": "i32", "float32": "f32"}


def remark(graph: Graph, shapes: Scope) -> str:
    """The values of inputs that the first unresolved shape depends on, and how to give them; "" if on none."""
    lost = next((node for node in graph.nodes if node.inputs and not shapes.sized(node.first_output)), None)
    if lost is None or lost.domain or lost.first_output in shapes.faults:
        return ""
    if not all(shapes.sized(name) for name in lost.inputs if name):
        return ""
    if any(warning.startswith(f"no shape for {lost}") for warning in shapes.warnings):
        return ""
    behind = _behind(lost, graph, shapes)
    names = [value.name for value in graph.inputs if value.name in behind and _is_setting(value.name, shapes)]
    if not names:
        return ""
    return (
        f"the shape of {lost.first_output!r} depends on the value of {', '.join(map(repr, names))}: "
        f"give the value: {' '.join('-i ' + _example(name, shapes) for name in names)}"
    )


def _is_setting(name: str, shapes: Scope) -> bool:
    shape = shapes.shape(name)
    return shape is not None and len(shape) < 2 and elements(shape) <= _SETTING and shapes.of(name).elements is None


def _behind(node: Node, graph: Graph, shapes: Scope) -> set[str]:
    """The values that the settings of a node follow from."""
    makers = {name: maker for maker in graph.nodes for name in maker.outputs if name}
    waiting = list(node.inputs if node.op in _SETTINGS_ALONE else node.inputs[1:])
    behind: set[str] = set()
    while waiting:
        name = waiting.pop()
        known = shapes.of(name).elements
        if name and name not in behind and (known is None or None in known):
            behind.add(name)
            waiting.extend(makers[name].inputs if name in makers else ())
    return behind


def _example(name: str, shapes: Scope) -> str:
    shape, dtype = shapes.shape(name) or (), shapes.of(name).dtype or ""
    data = ",".join(["5"] * elements(shape))
    return f"{name}:{_SHORT.get(dtype, dtype)}:{'x'.join(map(str, shape))}:{data}"


# Recurrent states: inputs that take what an output gave in the step before, so that the output says their shapes.

#: Steps after which a state has settled, or grows for ever.
STEPS = 8

#: Sizes that a state is tried with in place of its own: a little larger, and multiples that strides leave whole.
_OTHER_SIZES: tuple[Callable[[int], int], ...] = (lambda n: n + 1, lambda n: 2 * n or 2, lambda n: 32 * n or 32)

#: What names of inputs say, and what the names of the outputs that feed them say in its place.
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"(?<![a-zA-Z])input(?![a-zA-Z])", "output"),
    (r"(?<![a-zA-Z])in(?![a-zA-Z])", "out"),
    (r"(?<![a-zA-Z])prev(ious)?(?![a-zA-Z])", "next"),
    (r"(?<![a-zA-Z])old(?![a-zA-Z])", "new"),
    (r"i$", "o"),
    (r"(?<=[a-zA-Z_])0$", "n"),
    (r"$", "_out"),
    (r"$", "_new"),
    (r"$", "_next"),
    (r"$", "n"),
    (r"$", "N"),
    (r"^", "new_"),
    (r"^", "next_"),
    (r"^", "updated_"),
)


def states_of(graph: Graph, stated: Mapping[str, str], fixed: frozenset[str]) -> dict[str, str]:
    """Input -> the output that feeds it, for the states whose shapes the user does not give.

    Args:
        graph: the graph of the model.
        stated: the pairs that the user names.
        fixed: names of the inputs whose shapes the user gives.

    Raises:
        InputError: the user names an input or an output that the model does not have.
    """
    inputs = {v.name: v for v in graph.inputs}
    outputs = {v.name: v for v in graph.outputs}
    for name, output in stated.items():
        for word, one, names in (("input", name, inputs), ("output", output, outputs)):
            if one not in names:
                listed = ", ".join(map(repr, names)) or "none"
                raise InputError(f"the model has no {word} {one!r} for a state; its {word}s are {listed}")
    pairs = dict(stated)
    for name, value in inputs.items():
        if name not in pairs and name not in fixed and len(inputs) > 1 and concrete(value.type) is None:
            feeding = next((o for o in _fed_by(name) if o in outputs and o not in inputs), None)
            if feeding is not None and _alike(value.type, outputs[feeding].type):
                pairs[name] = feeding
    return {name: output for name, output in pairs.items() if name not in fixed}


def settled_states(
    values: Sequence[Value],
    states: Mapping[str, str],
    stated: Collection[str],
    symbols: Mapping[str, int],
    resolved: Callable[[Mapping[str, Type | None]], Scope],
    faulty: Callable[[Scope], bool],
) -> tuple[dict[str, Type | None], list[str], list[str]]:
    """Give each state the shape that its output has when it has that shape itself.

    Args:
        values: the inputs of the model; the others have concrete shapes.
        states: input -> output.
        stated: the states that the user names; the others are found by name.
        symbols: sizes of symbols as the user gives them.
        resolved: the facts about a model whose states have these types.
        faulty: whether a model with these facts cannot run.

    Returns:
        The types of the states; what they became, for a warning; and the names of those that do not settle, or that
        nothing but a name makes states, which stay as they are.
    """
    before = {v.name: v.type for v in values if v.name in states}
    types = {name: _opened(type_) for name, type_ in before.items()}  # what a name stands for elsewhere says nothing
    blameless = not faulty(resolved(types))
    for _ in range(STEPS + len(types)):
        if _step(types, states, resolved):
            continue
        still_open = next((name for name, type_ in types.items() if concrete(type_) is None), None)
        if still_open is None:
            if blameless and faulty(resolved(types)):
                return before, [], list(states)
            named = {name: type_ for name, type_ in before.items() if name not in stated}
            doubtful = _doubtful(named, types, symbols, lambda tried: not faulty(resolved(tried)))
            settled = {name: before[name] if name in doubtful else type_ for name, type_ in types.items()}
            listed = ", ".join(f"{n} {'x'.join(map(str, _dims(t)))} (as {states[n]})" for n, t in types.items())
            return (
                settled,
                [f"states take the shapes of the outputs that feed them: {listed}; -i changes that"],
                doubtful,
            )
        # Some models make a state of ones as large as they need it.
        types[still_open] = _with_dims(types[still_open], [1 if d is None else d for d in _dims(types[still_open])])
    return before, [], list(states)


def _doubtful(
    before: Mapping[str, Type | None],
    types: Mapping[str, Type | None],
    symbols: Mapping[str, int],
    runs: Callable[[Mapping[str, Type | None]], bool],
) -> list[str]:
    """The states found by name with an extent that may as well be another one.

    Args:
        before: their types in the file.
        types: the types that all states settled at.
        symbols: sizes of symbols as the user gives them, which are a reason of their own.
        runs: whether the model runs when its states have these types.
    """
    places: list[tuple[str, int]] = []
    groups: dict[object, list[tuple[str, int]]] = {}
    for name, type_ in before.items():
        tensor, sizes = tensor_type(type_), _dims(types[name])
        for axis, dim in enumerate((tensor.dims if tensor else None) or ()):
            if isinstance(dim, int) or (dim is not None and symbols.get(dim) == sizes[axis]):
                continue
            places.append((name, axis))
            for common in (dim, sizes[axis]):  # inputs that must be equally large change together
                groups.setdefault(common, []).append((name, axis))
    doubtful: set[str] = set()
    for group in [*([place] for place in places), *(group for group in groups.values() if len(group) > 1)]:
        if all(name in doubtful for name, _ in group):
            continue
        for other in _OTHER_SIZES:
            tried = dict(types)
            for name, axis in group:
                sizes = _dims(tried[name])
                sizes[axis] = other(sizes[axis] or 0)
                tried[name] = _with_dims(tried[name], sizes)
            if runs(tried):
                doubtful.update(name for name, _ in group)
                break
    return [name for name in before if name in doubtful]


def _step(
    types: dict[str, Type | None], states: Mapping[str, str], resolved: Callable[[Mapping[str, Type | None]], Scope]
) -> bool:
    """Give each state the shape that its output has now; whether that changes one."""
    shapes = resolved(types)
    changed = False
    for name, type_ in types.items():
        dims, after = _dims(type_), _sizes_of(shapes.of(states[name]))
        sizes = [a if b is None else b for a, b in zip(dims, after, strict=True)] if len(after) == len(dims) else dims
        if sizes != dims:
            types[name] = _with_dims(type_, sizes)
            changed = True
    return changed


def _fed_by(name: str) -> list[str]:
    """The names that the output which feeds a state may have."""
    return [new for old, instead in _SPELLINGS if (new := re.sub(old, instead, name, count=1)) != name]


def _alike(one: Type | None, other: Type | None) -> bool:
    """True if two types may be those of one state: the same elements and rank, as far as they are known."""
    a, b = tensor_type(one), tensor_type(other)
    if a is None or b is None or (a.dtype and b.dtype and a.dtype != b.dtype):
        return False
    return a.dims is not None and (b.dims is None or len(a.dims) == len(b.dims))


def _opened(type_: Type | None) -> Type | None:
    """The type with the extents open that the file does not state."""
    return _with_dims(type_, _dims(type_)) if _dims(type_) else type_


def _dims(type_: Type | None) -> list[int | None]:
    """The extents that are numbers, None for the others."""
    tensor = tensor_type(type_)
    return [d if isinstance(d, int) else None for d in (tensor.dims if tensor else None) or ()]


def _sizes_of(fact: Fact) -> list[int | None]:
    """The extents of a result that are known, upper bounds included."""
    return [None if n is OPEN else int(n.high) if type(n) is Most else n for n in fact.shape or ()]


def _with_dims(type_: Type | None, dims: Sequence[Dim]) -> Type | None:
    if isinstance(type_, OptionalType):
        return OptionalType(_with_dims(type_.element, dims))
    return type(type_)(type_.dtype, tuple(dims)) if isinstance(type_, TensorType) else type_
