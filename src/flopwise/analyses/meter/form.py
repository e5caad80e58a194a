"""The costs of batches that differ in the sizes of their tensors alone: the sizes that are open, a formula in them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flopwise.analyses.formula.derivation.derive import derive
from flopwise.analyses.formula.domains import Point
from flopwise.analyses.formula.following.loops import Followed
from flopwise.analyses.formula.following.program import followed
from flopwise.analyses.formula.subject import Request, Subject
from flopwise.analyses.formula.terms import Term, symbol
from flopwise.analyses.meter.batch import BORDERS, NUMBERS, leaves, named, plain, replaced, said_by, saying, steers
from flopwise.analyses.meter.cost import How
from flopwise.analyses.meter.program import Program
from flopwise.analyses.meter.totals import Totals, keep, load, structure, totals_of
from flopwise.errors import FlopwiseError, InputError
from flopwise.formats.inputs import InputSpec, Value
from flopwise.formats.torch.description import position_name
from flopwise.formats.torch.read import REST, UNTIL_ELEMENTS
from flopwise.formats.torch.record.values import DTYPES
from flopwise.graph import Graph

#: A name of a tensor and the number of an axis.
Axis = tuple[str, int]

#: Shapes of tensors by name.
Shapes = Mapping[str, Sequence[int]]

#: Other sizes at which an axis is tried: a model takes them or not.
_OTHER: tuple[Callable[[int], int], ...] = (lambda n: 2 * n, lambda n: n + 1, lambda n: n // 2)


@dataclass(frozen=True)
class Axes:
    """The symbol of each open axis, which is called as users know it: notes and errors speak of it."""

    symbols: Mapping[Axis, str]
    #: One batch: its sizes stand where an axis is not open.
    example: Shapes

    def point(self, shapes: Shapes) -> dict[str, int] | None:
        """The size of each symbol in a batch; None where its sizes do not fit."""
        point: dict[str, int] = {}
        for name, shape in shapes.items():
            for axis, size in enumerate(shape):
                symbol = self.symbols.get((name, axis))
                if (self.example[name][axis] if symbol is None else point.setdefault(symbol, size)) != size:
                    return None
        return point

    def shapes(self, point: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of a batch at a size of each symbol."""
        return {
            name: tuple([point[self.symbols[name, i]] if (name, i) in self.symbols else n for i, n in enumerate(shape)])
            for name, shape in self.example.items()
        }


def axes_of(examples: Sequence[Shapes], takes: Callable[[Shapes], bool]) -> Axes:
    """The open axes of a model's inputs.

    Axes of one number and one size in all examples have one symbol: the first axis of each input is the batch. Of those
    that the model does not take alone at other sizes, the ones of one size are tried together.

    Args:
        examples: the shapes of batches, which differ where sizes change.
        takes: whether the model takes inputs of these shapes.
    """
    sizes: dict[Axis, tuple[int, ...]] = {
        (name, axis): tuple(shapes[name][axis] for shapes in examples)
        for name, shape in examples[0].items()
        for axis in range(len(shape))
    }
    sizes = {axis: of for axis, of in sizes.items() if max(of) > 1}
    groups: dict[tuple[object, ...], list[Axis]] = {}
    for axis, of in sizes.items():
        groups.setdefault((axis[1], *of), []).append(axis)
    open_groups, closed = _tried(groups.values(), examples[-1], takes)
    together: dict[tuple[object, ...], list[Axis]] = {}
    for group in closed:
        together.setdefault(sizes[group[0]], []).extend(group)
    merged = [group for group in together.values() if group not in closed]
    open_groups += _tried(merged, examples[-1], takes)[0]
    symbols: dict[Axis, str] = {}
    for group in open_groups:
        name, place = group[0]
        batch = place == 0 and "batch" not in symbols.values()
        symbols.update(dict.fromkeys(group, "batch" if batch else f"{name}.shape[{place}]"))
    return Axes(symbols, examples[-1])


def _tried(
    groups: Iterable[list[Axis]], example: Shapes, takes: Callable[[Shapes], bool]
) -> tuple[list[list[Axis]], list[list[Axis]]]:
    """The groups of axes that a model takes at other sizes, and the others."""
    right: list[list[Axis]] = []
    wrong: list[list[Axis]] = []
    for group in groups:
        name, axis = group[0]
        sizes = dict.fromkeys(other(example[name][axis]) for other in _OTHER)
        taken = any(size > 1 and takes(_with(example, group, size)) for size in sizes)
        (right if taken else wrong).append(group)
    return right, wrong


def _with(example: Shapes, group: Sequence[Axis], size: int) -> Shapes:
    """The shapes with another size of some axes."""
    return {
        name: tuple([size if (name, axis) in group else n for axis, n in enumerate(shape)])
        for name, shape in example.items()
    }


#: Formulas that are derived for one model, at most: for each set of inputs, for masks with and without holes, for
#: sizes of 1, which programs treat on their own.
MOST_FORMULAS = 12

#: How often axes that changed against expectation are opened.
MOST_EXAMPLES = 4

_PROFILED = "each new shape is counted by a profile"

#: The remark on a program that tells batches of one shape apart.
OF_ELEMENTS = (
    "the elements of tensors decide what runs: batches of one shape count as the first of them, and not exactly"
)

#: What the elements of a batch say beside its shapes, by input.
Facts = Mapping[str, Any]


class Form:
    """The costs of batches that differ in the sizes of their tensors alone."""

    def __init__(self, program: Program, call: tuple[list[Any], dict[str, Any]]) -> None:
        """
        Args:
            program: the model.
            call: the arguments of a batch, of which no tensor is kept.
        """
        self.program = program
        #: The arguments with tensors without memory in place of the batch's; None where there are no formulas.
        self.call: tuple[list[Any], dict[str, Any]] | None = None
        self.examples: list[Shapes] = []
        self.axes: Axes | None = None
        #: What a batch says beside its sizes, and which symbols are 1 -> its formula; None where there is none.
        self.ways: dict[Hashable, Totals | None] = {}
        #: The facts of the last batch whose elements were at hand.
        self.facts: Facts = {}
        #: Whether elements decide what runs; None where that was not looked at.
        self.follows: bool | None = None
        try:
            stand_in = functools.partial(_stand_in, {})
            args = [replaced(value, position_name(program.names, i), stand_in) for i, value in enumerate(call[0])]
            self.call = args, {name: replaced(value, name, stand_in) for name, value in call[1].items()}
        except InputError as error:
            program.remark(f"no formula ({error}): {_PROFILED}")

    def figures(self, batch: Any, tensors: Mapping[str, Tensor]) -> tuple[dict[str, int], How, bool]:
        """The figures of a batch, where they come from, and whether they are exact.

        Args:
            batch: as the model is called with it.
            tensors: in it, by name.

        Raises:
            ModelError: the model fails with it.
        """
        said = {name: said_by(name, tensor) for name, tensor in tensors.items() if steers(name)}
        self.facts = {name: self.facts.get(name) if fact is None else fact for name, fact in said.items()}
        shapes = {name: tuple(t.shape) for name, t in tensors.items() if not name.startswith(BORDERS)}
        point = self.point(shapes) if self.call is not None else None
        if self.call is not None and max((point or {}).values(), default=1) <= 1:
            self.program.remark(f"no formula where no size above 1 may change: {_PROFILED}")
        found = self.by_formula(batch, point) if point else None
        if found is not None:
            return found[0], "formula", found[1]
        figures, exact = self.program.profiled(batch)
        return figures, "profile", exact and not self.follows_elements(shapes)

    def follows_elements(self, shapes: Shapes) -> bool:
        """True if elements of the tensors of a batch decide what runs, beside the facts that its key has.

        Args:
            shapes: of a batch; the answer is that of the first one.
        """
        if self.follows is None:
            graph = self.graph_at(shapes)
            self.follows = self.call is not None and (graph is None or _of_elements(graph))
        if self.follows:
            self.program.remark(OF_ELEMENTS)
        return self.follows

    def point(self, shapes: Shapes) -> dict[str, int] | None:
        """The size of each symbol; None where the sizes do not fit what is open."""
        point = None if self.axes is None else self.axes.point(shapes)
        if point is None and len(self.examples) < MOST_EXAMPLES:
            self.examples.append(shapes)
            self.program.progress("trying which sizes of the inputs may change")
            self.axes = axes_of(self.examples, self.takes)
            self.ways.clear()
            point = self.axes.point(shapes)
        return point

    def by_formula(self, batch: Any, point: Point) -> tuple[dict[str, int], bool] | None:
        """The figures by a formula, and whether they are exact; None where none holds."""
        way = self.way(point)
        if way is None:
            return None
        if way.key not in self.ways:
            self.ways[way.key] = self.formula(batch, way)
        totals = self.ways[way.key]
        if totals is None:
            return None
        figures = way.figures(totals)
        if figures is None:
            self.outside(totals.unmet(way.free), point)
            return None
        return figures, totals.exact

    def outside(self, names: Sequence[str], point: Point) -> None:
        """Remark that the formula does not hold for a batch, once for all batches that break a condition on the same
        symbols.
        """
        where = f"the formula does not hold for some sizes of {' and '.join(names)}, such as "
        if not any(note.startswith(where) for note in self.program.notes):
            self.program.remark(f"{where}{' and '.join(str(point[name]) for name in names)}: {_PROFILED}")

    def way(self, point: Point) -> Way | None:
        """The way of a batch; None where its borders are not at hand, or those of two inputs differ."""
        borders = {fact for name, fact in self.facts.items() if name.startswith(BORDERS)}
        lengths = next(iter(borders), ())
        row = next((name for name, size in point.items() if lengths and sum(lengths) == size), None)
        if borders and (row is None or len(borders) > 1):
            return None
        return Way(
            {name: fact for name, fact in self.facts.items() if not name.startswith(BORDERS)},
            {name: size for name, size in point.items() if size > 1},
            {name: size for name, size in point.items() if size <= 1},
            row,
            lengths,
        )

    def formula(self, batch: Any, way: Way) -> Totals | None:
        """The formula of a way, compared with the profile of a batch that takes it; None where there is none."""
        program = self.program
        if not way.free:
            return None
        if program.formulas >= MOST_FORMULAS:
            program.remark(f"more than {MOST_FORMULAS} formulas would be needed: {_PROFILED}")
            return None
        program.formulas += 1
        subject = self.subject(way)
        digest = self.digest(subject, way)
        truth, _ = program.profiled(batch)
        totals = load(digest) if program.keeps else None
        if totals is not None and _agree(way.figures(totals), truth):
            program.progress("the formula was derived before, and gives the profile of this batch")
            return totals
        try:
            totals = self.derived(subject)
        except FlopwiseError as error:
            program.remark(f"no formula ({error}): {_PROFILED}")
            return None
        figures = way.figures(totals)
        if figures is not None and not _agree(figures, truth):
            program.remark(f"the formula is not what the profile of a batch says: {_PROFILED}")
            return None
        if program.keeps:
            keep(digest, totals)
        return totals

    def derived(self, subject: Subject) -> Totals:
        """The formula of a subject.

        Raises:
            InputError: there is none.
            ModelError: the model fails.
        """
        token = UNTIL_ELEMENTS.set(True)
        try:
            formula = derive(subject, self.program.counting, self.program.progress)
        finally:
            UNTIL_ELEMENTS.reset(token)
        if _of_elements(formula.graph):
            self.follows = True
            raise InputError("the elements of tensors decide what runs")
        return totals_of(formula)

    def digest(self, subject: Subject, way: Way) -> str:
        """The digest that a formula is kept under: the model, the inputs, and the way."""
        assert self.call is not None
        arguments = named(*self.call, self.program.names)
        types = [(name, t.dtype, t.requires_grad) for name, t in leaves(arguments).items()]
        shapes = [(name, *map(str, dims)) for name, _, dims in subject.shapes]
        parts = (structure(self.program.model), self.program.train, types, shapes, [*plain(arguments)], way.key)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def subject(self, way: Way) -> Subject:
        """The model with open sizes, from which the formula of a way is derived."""
        assert self.axes is not None
        axes = self.axes
        terms: dict[str, Term] = {**way.fixed, **{name: symbol(name) for name in way.free}}
        shapes = [
            (
                name,
                None,
                tuple([terms[axes.symbols[name, i]] if (name, i) in axes.symbols else n for i, n in enumerate(shape)]),
            )
            for name, shape in axes.example.items()
        ]

        def graph_at(sizes: Point) -> Graph:
            point = {**way.fixed, **sizes}
            return self.program.graph(self.inputs(axes.shapes(point), way.facts, point[way.row] if way.row else 0))

        def follow(own: Request) -> Followed:
            return followed(lambda: graph_at(own.point), own)

        return Subject([*way.free], graph_at, follow, way.free, [*filter(_is_open, shapes)], runs=True)

    def inputs(self, shapes: Shapes, facts: Facts, row: int) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with tensors of these shapes.

        Args:
            shapes: of the tensors.
            facts: what they say beside their sizes.
            row: tokens in a row, which are one sequence.
        """
        assert self.call is not None
        tensors = [*leaves(named(*self.call, self.program.names)).values()]
        met: dict[int, Tensor] = {}

        def make(name: str, value: Any) -> Any:
            if not isinstance(value, Tensor):
                return Value(row) if row and name.startswith(NUMBERS) else value
            if name.startswith(BORDERS):
                return torch.tensor([0, row], dtype=value.dtype)
            if not value.dim():
                return value
            if facts.get(name) is not None:
                return saying(name, facts[name], shapes[name], value.dtype)
            if value.requires_grad or value.dtype not in DTYPES or sum(one is value for one in tensors) > 1:
                empty = torch.empty(*shapes[name], dtype=value.dtype, device="meta", requires_grad=value.requires_grad)
                return met.setdefault(id(value), empty)
            return InputSpec(name, tuple(shapes[name]), DTYPES[value.dtype])

        args, kwargs = self.call
        made = {name: replaced(value, name, make) for name, value in named(args, kwargs, self.program.names)}
        return [*made.values()][: len(args)], {name: made[name] for name in kwargs}

    def takes(self, shapes: Shapes) -> bool:
        """True if the model takes inputs of these shapes."""
        return self.graph_at(shapes) is not None

    def graph_at(self, shapes: Shapes) -> Graph | None:
        """The graph at inputs of these shapes, until elements decide; None where the model does not take them."""
        if self.call is None:
            return None
        row = max((size for shape in shapes.values() for size in shape), default=1)
        token = UNTIL_ELEMENTS.set(True)
        try:
            return self.program.graph(self.inputs(shapes, self.facts, row))
        except FlopwiseError:
            return None
        finally:
            UNTIL_ELEMENTS.reset(token)


@dataclass(frozen=True)
class Way:
    """The way that a program takes with a batch, and the sizes of it."""

    #: What the elements of its tensors say.
    facts: Facts
    #: The sizes of the symbols, and those of them that stay as they are because programs treat 1 on its own.
    free: Mapping[str, int]
    fixed: Mapping[str, int]
    #: The symbol of the tokens in a row, if borders say where sequences end, and the lengths of these.
    row: str | None
    lengths: Sequence[int]

    @property
    def key(self) -> Hashable:
        """The key of all batches of one formula."""
        return tuple(self.facts.items()), tuple(self.fixed.items()), self.row

    def figures(self, totals: Totals) -> dict[str, int] | None:
        """The figures of the batch by a formula; None where it does not hold."""
        if self.row is None:
            return totals.at(self.free)
        return totals.of_lengths(self.free, self.row, self.lengths)


def _of_elements(graph: Graph) -> bool:
    """True if elements that are not known decide what runs in a graph that was read until there."""
    return graph.program.guessed or any(node.op == REST for node in graph.nodes)


def _agree(figures: Mapping[str, int] | None, truth: Mapping[str, int]) -> bool:
    """True if figures are those of a profile."""
    return figures is not None and all(truth[name] == figure for name, figure in figures.items())


def _is_open(shape: tuple[str, None, tuple[Term, ...]]) -> bool:
    return any(not isinstance(size, int) for size in shape[2])


def _stand_in(tensors: dict[int, Tensor], name: str, value: Any) -> Any:
    """The part of an argument that is kept: of a tensor its shape and type, of a single number its value.

    Args:
        tensors: those before, by the tensors that they stand for: one that is met twice is one.
        name: of the argument.
        value: the argument.
    """
    if not isinstance(value, Tensor):
        return value.value
    if not value.dim():
        return value.detach().cpu()
    if value.is_nested:
        raise InputError(f"input {name!r} is a nested tensor")
    if id(value) not in tensors:
        tensors[id(value)] = torch.empty(
            value.shape, dtype=value.dtype, device="meta", requires_grad=value.requires_grad
        )
    return tensors[id(value)]
