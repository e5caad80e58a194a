"""Recurrent states: inputs that take what an output gave in the step before, so that the output says their shapes.

Names propose pairs, and names are not enough: ``input`` and ``output`` of an image network are no state. A size found
by name holds where it follows from the other inputs as well: where the model runs with no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from flopwise.errors import InputError
from flopwise.formats.onnx.file.model import Dim, Graph, OptionalType, TensorType, Type, Value
from flopwise.formats.onnx.types import concrete, tensor_type
from flopwise.operators.size import OPEN, Most
from flopwise.sizes.facts import Fact
from flopwise.sizes.scope import Scope

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
        dims, after = _dims(type_), _sizes(shapes.of(states[name]))
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


def _sizes(fact: Fact) -> list[int | None]:
    """The extents of a result that are known, upper bounds included."""
    return [None if n is OPEN else int(n.high) if type(n) is Most else n for n in fact.shape or ()]


def _with_dims(type_: Type | None, dims: Sequence[Dim]) -> Type | None:
    if isinstance(type_, OptionalType):
        return OptionalType(_with_dims(type_.element, dims))
    return type(type_)(type_.dtype, tuple(dims)) if isinstance(type_, TensorType) else type_
