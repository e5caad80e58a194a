"""A model with open sizes: what its formulas are derived from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from flopwise.analyses.formula.domains import OpenShape, Point, Sizes
from flopwise.analyses.formula.following.loops import Followed
from flopwise.analyses.formula.terms import Term, symbol, symbols, value
from flopwise.errors import InputError, did_you_mean
from flopwise.formats.inputs import Declared, InputSpec, input_specs
from flopwise.graph import Graph
from flopwise.operators.size import Dims

# The open sizes of a model's inputs: their names, and the shapes that the inputs have at a point.


@dataclass(frozen=True, slots=True)
class OpenInput:
    """An input with its shape in symbols, and what the user says about it."""

    name: str
    dtype: str | None
    shape: tuple[Term, ...]
    spec: InputSpec

    def at(self, point: Mapping[str, int]) -> InputSpec:
        """The input at the given sizes."""
        return replace(self.spec, shape=tuple(value(dim, point) for dim in self.shape))


@dataclass(frozen=True, slots=True)
class OpenInputs:
    """All inputs whose shape somebody states, and the symbols in them in the order in which they are met."""

    inputs: tuple[OpenInput, ...]
    symbols: tuple[str, ...]
    #: Symbol -> the number that the file has in its place.
    hints: Mapping[str, int]

    @property
    def shapes(self) -> list[tuple[str, str | None, tuple[Term, ...]]]:
        """Name, element type and shape of each input."""
        return [(i.name, i.dtype, i.shape) for i in self.inputs]

    def at(self, point: Mapping[str, int]) -> list[InputSpec]:
        """The inputs at the given sizes, as a reader takes them."""
        return [i.at(point) for i in self.inputs]


def open_inputs(
    declared: Sequence[Declared],
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
) -> OpenInputs:
    """The inputs of a model with their open sizes.

    Args:
        declared: name, dtype and dims of each input of the file, a dim being a number, a text or None.
        inputs: what the user says about inputs, see ``flopwise.formats.inputs.input_specs``; a symbol may stand
            where the file has a number.
        dims: symbols that are fixed.
        batch_size: first dimension of the inputs whose first dimension is the batch.

    Raises:
        InputError: an open size has no name, or an input does not fit.
    """
    named = {dim for one in declared for dim in one.dims or () if isinstance(dim, str)}
    specs = {s.name: s for s in input_specs(inputs, [d.name for d in declared], named)}
    fixed = dict(dims or {})
    hints: dict[str, int] = {}
    opened = tuple(_opened(declared, specs, fixed, batch_size, hints))
    _refuse_unknown(fixed, named, specs)
    names = tuple(dict.fromkeys(n for i in opened for d in i.shape for n in sorted(symbols(d))))
    return OpenInputs(opened, names, {n: h for n, h in hints.items() if n in names})


def _opened(
    declared: Sequence[Declared],
    specs: Mapping[str, InputSpec],
    fixed: Mapping[str, int],
    batch_size: int | None,
    hints: dict[str, int],
) -> Iterator[OpenInput]:
    """The inputs with a shape of the user's, or an open size; hints are what the file has in place of symbols."""
    batch = _batch(declared, specs) if batch_size is not None else None
    for one in declared:
        shape = one.dims
        if one.name in specs:
            shape = _overridden(one, specs[one.name], hints)
        if shape is None:
            continue
        if None in shape:
            raise InputError(_unnamed(one))
        if batch is not None and shape and shape[0] == batch:
            shape = (batch_size, *shape[1:])
        if one.name in specs or shape != one.dims or any(isinstance(dim, str) for dim in shape):
            terms = tuple(dim if isinstance(dim, int) else _term(str(dim), fixed) for dim in shape)
            yield OpenInput(one.name, one.dtype, terms, specs.get(one.name, InputSpec(one.name, ())))


def _overridden(one: Declared, spec: InputSpec, hints: dict[str, int]) -> tuple[int | str | None, ...]:
    """The user's shape; where it has a symbol and the file a number, the number is a hint."""
    if one.dims is not None and len(one.dims) != len(spec.shape) and any(isinstance(d, str) for d in spec.shape):
        raise InputError(
            f"input {one.name!r} has {len(one.dims)} dimensions, but {len(spec.shape)} are given: "
            f"{'x'.join(map(str, spec.shape)) or 'a scalar'}"
        )
    for old, new in zip(one.dims or (), spec.shape, strict=False):
        if isinstance(old, int) and isinstance(new, str):
            hints.setdefault(new, old)
    return spec.shape


def _batch(declared: Sequence[Declared], specs: Mapping[str, InputSpec]) -> int | str | None:
    """The first dimension of the first input that has one."""
    shapes = (specs[d.name].shape if d.name in specs else d.dims for d in declared)
    return next((shape[0] for shape in shapes if shape), None)


def _term(dim: str, fixed: Mapping[str, int]) -> Term:
    """A dimension in symbols: exporters write sums and products of symbols as the name of a dimension."""
    if dim in fixed:
        return fixed[dim]
    try:
        term = _evaluated(ast.parse(dim.strip(), mode="eval").body, fixed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return symbol(dim)
    return symbol(dim) if isinstance(term, int) else term


def _evaluated(node: ast.expr, fixed: Mapping[str, int]) -> Term:
    if isinstance(node, ast.Name):
        return fixed[node.id] if node.id in fixed else symbol(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left, fixed), _evaluated(node.right, fixed)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv) and isinstance(right, int) and right > 0:
            return left // right
    raise ValueError("no sum or product of symbols")


def _refuse_unknown(fixed: Mapping[str, int], declared: set[str], specs: Mapping[str, InputSpec]) -> None:
    texts = declared | {d for spec in specs.values() for d in spec.shape if isinstance(d, str)}
    names = texts | {n for text in texts for n in symbols(_term(text, {}))}
    for name in fixed:
        if name not in names:
            listed = ", ".join(sorted(names)) or "none"
            near = did_you_mean(name, names) or ";"
            raise InputError(f"no input has a dimension named {name!r}{near} the symbolic dimensions are: {listed}")


def _example(one: Declared) -> str:
    """The option that names the dimensions that are usually open: the batch, and what follows the channels."""
    dims = one.dims or (None, 3, None, None)
    names = {1: "N", 2: "NS", 3: "NSC", 4: "NCHW", 5: "NCDHW"}.get(len(dims), "")
    parts = []
    for i, dim in enumerate(dims):
        stays = isinstance(dim, str) or (isinstance(dim, int) and (i >= len(names) or names[i] == "C"))
        parts.append(str(dim) if stays else names[i : i + 1] or f"D{i}")
    return f"-i {one.name}:{one.dtype or 'float32'}:{','.join(parts)}"


def _unnamed(one: Declared) -> str:
    return f"input {one.name!r} has open dimensions without a name; name them, for example {_example(one)}"


def closed_model(declared: Sequence[Declared]) -> str:
    """The error for a model without open sizes: how to name some."""
    first = next((d for d in declared if d.dims), None)
    how = f"; put symbols in place of numbers, for example {_example(first)}" if first else ""
    return f"the model has no open dimension, so its cost is a number and no formula{how}"


class Explain(Protocol):
    """A finder of the shapes of outputs at several points, by the node's position and the output's place."""

    def __call__(self, position: int, place: int, inputs: Sequence[Dims | None]) -> Dims | None:
        """A shape in the extents of the inputs for which there is no rule."""

    def agrees(self, position: int, place: int, shape: Dims) -> bool:
        """True if a shape is right at all points."""

    def position(self, name: str) -> tuple[int, int] | None:
        """The position of the node that makes a tensor, and the place of the output; None where none does."""


@dataclass(frozen=True)
class Request:
    """At which sizes a model is followed."""

    #: The sizes as numbers.
    point: Point
    #: The shapes of the inputs.
    sizes: Sizes
    #: How often loops run whose number of iterations is a symbol.
    trips: Mapping[str, int]
    #: What finds shapes for which there is no rule; None: nothing does.
    explain: Explain | None = None
    #: Whether the loops of a program run as often as they do at the point.
    fixed: bool = True


@dataclass(frozen=True)
class Subject:
    """A model with open sizes, and how it is read at a point."""

    #: The symbols.
    names: Sequence[str]
    #: Reads the model at a size of each symbol; raises FlopwiseError where the model cannot have these sizes.
    read: Callable[[Point], Graph]
    #: Reads it with sizes that carry expressions.
    follow: Callable[[Request], Followed]
    #: Sizes that the model is known to take.
    hints: Point = field(default_factory=dict)
    #: The open inputs.
    shapes: Sequence[OpenShape] = ()
    #: Those of the symbols that are numbers of trips of the loop of that name.
    loops: Sequence[str] = ()
    #: Whether it is a program, which runs each time that it is followed.
    runs: bool = False
    #: The point at which it is followed; None: the one that it takes best.
    start: Point | None = None
    #: The subject from a point on at which a program may take another way: the smallest sizes there are numbers in it.
    way: Callable[[Point], Subject] | None = None
    #: Sizes of each symbol at which programs may take other ways, ordinary ones first.
    tried: Mapping[str, Sequence[int]] = field(default_factory=dict)
