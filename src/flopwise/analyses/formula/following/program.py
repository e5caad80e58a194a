"""Sizes in a program: what PyTorch modules get to see in place of plain numbers, and the shapes that follow from it."""

from __future__ import annotations

import builtins
import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from flopwise.analyses.formula.conditions import Guards, recording
from flopwise.analyses.formula.dim import Dim, Root, dim, require, term
from flopwise.analyses.formula.following.loops import LEAST, Followed, Loops
from flopwise.analyses.formula.subject import Explain, Request
from flopwise.analyses.formula.terms import Term, substituted
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators.late import Late
from flopwise.operators.shape import alike, both_alike, common
from flopwise.operators.shapes.calls import RULES as CALLS
from flopwise.operators.shapes.calls import Of
from flopwise.operators.size import Dims
from flopwise.operators.tables import row
from flopwise.sizes.run import WRONG
from flopwise.sizes.site import shapes_of

#: The program that is being followed, and where its own conditions are recorded.
_FOLLOWED: ContextVar[tuple[ProgramSizes, Guards]] = ContextVar("followed")

#: Rules that find what they need in the shapes and attributes of a lowered call, beside those of results that are like
#: the inputs; what others need stands in its arguments.
LOWERED = ("shapes.algebra:", "shapes.windows:")

#: Lowers a call into ONNX's vocabulary: operator, inputs and attributes.
Lower = Callable[[str, tuple[Any, ...], Mapping[str, Any], Sequence[Tensor]], Any]


def asking_line() -> str:
    """The file and line of the program that runs, below PyTorch and this library."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if not frame.f_globals.get("__name__", "").startswith(("flopwise.", "torch.")):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "the program"


_range = range


class _Ranges(type):
    """The metaclass of what replaces ``range`` while a program is followed: it makes ranges, and knows them."""

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, (_range, _Turns))

    def __call__(cls, *ends: Any) -> object:
        return _Turns(*ends) if any(type(end) is Dim for end in ends) else _range(*ends)


class _Range(metaclass=_Ranges):
    pass


class _Turns(Sequence[int]):
    """A range with an end that carries an expression."""

    def __init__(self, first: Any, end: Any = None, step: Any = 1) -> None:
        start, stop = (0, first) if end is None else (first, end)
        self.numbers = _range(int(start), int(stop), int(step))
        self.start, self.step = start, step
        span = stop - start if int(step) > 0 else start - stop
        self.turns = (span + abs(int(step)) - 1) // abs(int(step))

    def __iter__(self) -> Iterator[int]:
        program, guards = _FOLLOWED.get()
        if program.loops is None or program.loops.now is not None or len(self.numbers) < LEAST:
            self._fix()
            return iter(self.numbers)
        start, step = Dim.settled(self.start), Dim.settled(self.step)
        return program.loops.run(self.numbers, step, start, self.turns, (guards, program.guards))

    def __len__(self) -> int:
        self._fix()
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        self._fix()
        return self.numbers[place]

    def _fix(self) -> None:
        """Record that it runs as often as it does at the hint, over the same numbers."""
        for number in (self.start, self.step):
            Dim.settled(number)
        if len(self.numbers):
            require(term(self.turns) - len(self.numbers), "==")
        else:
            require(-term(self.turns), ">=")


@contextlib.contextmanager
def _watched(program: ProgramSizes, guards: Guards) -> Iterator[None]:
    """While a program runs: how often it goes through a range over a size, and the roots that it rounds, are noted."""
    token = _FOLLOWED.set((program, guards))
    builtins.range = _Range  # type: ignore[misc, assignment]
    math.sqrt, math.isqrt = _root, _whole_root
    try:
        yield
    finally:
        builtins.range = _range  # type: ignore[misc]
        math.sqrt, math.isqrt = _sqrt, _isqrt
        _FOLLOWED.reset(token)


_sqrt, _isqrt = math.sqrt, math.isqrt


def _root(number: Any) -> float:
    return Root(number) if type(number) is Dim else _sqrt(number)


def _whole_root(number: Any) -> int:
    return Root(number).floor() if type(number) is Dim else _isqrt(number)


class ProgramSizes:
    """The shapes of a run by the names of its tensors."""

    def __init__(
        self, inputs: Mapping[str, Dims], lower: Lower, explain: Explain | None = None, fixed: bool = True
    ) -> None:
        """
        Args:
            inputs: shapes of the inputs with open sizes, by name.
            lower: how a call is named in ONNX's vocabulary.
            explain: what finds the shapes for which there is no rule, or a wrong one; None: nothing does.
            fixed: whether loops run as often as they do at the hint.
        """
        self.inputs = inputs
        self.lower = lower
        self.explain = explain
        self.fixed = fixed
        self.start()

    def start(self) -> None:
        """A run begins."""
        self.shapes: dict[str, Dims | None] = dict(self.inputs)
        #: Conditions of the rules; those of the program itself are recorded by whoever runs it.
        self.guards = Guards()
        #: Shapes of tensors that an operation on a part of them has changed: they bear the name of its result.
        self.changed: dict[tuple[str, tuple[int, ...]], Dims] = {}
        #: The operators whose results no rule explains.
        self.open: list[str] = []
        #: Name of a result -> the first tensor that it was made of.
        self._sources: dict[str, Tensor] = {}
        #: Loops over sizes that run as often as these say; None where they run as often as they do at the hint.
        self.loops = None if self.fixed else Loops()

    def shape(self, tensor: Tensor) -> Dims | None:
        """The extents that a program gets to see."""
        return self.of(tensor) if tensor.name in self.shapes else None

    def of(self, tensor: Tensor) -> Dims | None:
        """The shape of a tensor; a stored one has the extents that it has."""
        return shape_of(tensor, self.shapes, self.changed)

    def made(self, name: str, args: Sequence[object], kwargs: Mapping[str, object], outputs: Sequence[Tensor]) -> None:
        """An operation was recorded: the shapes of its results."""
        bare = name.partition(".")[2]
        guards = Guards(reason=bare)
        loop = self.loops.gathered(args[0]) if self.loops and args else None
        with recording(guards):
            if loop is None:
                shapes = self.results(name, tuple(args), kwargs, outputs)
            else:
                shapes = self.gathered(loop, name, args, kwargs, outputs)
        if self.loops:
            self.loops.record(outputs, loop)
        fits = False
        for output, shape in zip(outputs, (*shapes, *[None] * len(outputs)), strict=False):
            self.shapes[output.name], right = self._checked(output, shape, (args, kwargs))
            fits = fits or right
            if self.shapes[output.name] is None:
                self.open.append(name)
        if fits:
            self.guards.add(guards)
        source = next((thing for thing in args if isinstance(thing, Tensor)), None)
        if source is None:
            return
        for output in outputs:
            if bare.endswith("_") and not bare.endswith("__"):
                self.change(output, source)
            if output.name != source.name:
                self._sources.setdefault(output.name, source)

    def _checked(self, output: Tensor, shape: Dims | None, arguments: object) -> tuple[Dims | None, bool]:
        """The shape that a rule gives a result and True, or one that explains the result, if any, and False."""
        if shape is not None and (any(isinstance(n, Of) for n in shape) or tuple(map(int, shape)) != output.shape):
            shape = None  # a size is an element of a tensor, or the rule is wrong
        position = self.explain.position(output.name) if self.explain else None
        if self.explain is None or position is None:
            return shape, shape is not None
        if shape is not None and self.explain.agrees(*position, shape):
            return shape, True
        return self.explain(*position, [self.of(t) for t in tensors_in(arguments)]), False

    def change(self, result: Tensor, part: Tensor) -> None:
        """Note down the shapes of the values that contain a part that was changed in place."""
        whole = self._sources.get(part.name)
        while whole is not None:
            shape = self.of(whole)
            if shape is not None and whole.shape is not None:
                self.changed.setdefault((result.name, whole.shape), shape)
            whole = self._sources.get(whole.name)

    def results(
        self, name: str, args: tuple[object, ...], kwargs: Mapping[str, object], outputs: Sequence[Tensor]
    ) -> Sequence[Dims | None]:
        """The shapes of results by the rule for the call, else by that for the operator."""
        bare = name.partition(".")[2]
        rule = CALLS.get(bare) or CALLS.get(bare.rstrip("_"))
        if rule is not None:
            try:
                return rule(*map(self.taken, args), **{k: self.taken(v) for k, v in kwargs.items()})
            except WRONG:
                pass
        try:
            lowered, _ = self.lower(name, args, kwargs, outputs)
            shape = row(lowered.op).shape
            by_shapes = isinstance(shape, Late) and shape.name.startswith(LOWERED)
            if shape is None or not (by_shapes or shape in (alike, both_alike, common)):
                return ()
            inputs = [None if t is None else self.of(t) for t in lowered.inputs]
            if any(t is not None and known is None for t, known in zip(lowered.inputs, inputs, strict=True)):
                return ()
            return shapes_of(shape, lowered.op, lowered.attrs, inputs, len(outputs))
        except WRONG:
            return ()

    def gathered(
        self, loop: int, name: str, args: Sequence[Any], kwargs: Mapping[str, object], outputs: Sequence[Tensor]
    ) -> Sequence[Dims | None]:
        """The shapes of results made of one tensor from each turn of a loop: each turn adds what the second adds."""
        assert self.loops is not None
        more = self.loops.turns[loop] - 1
        one, two = (self.results(name, (args[0][:n], *args[1:]), kwargs, outputs) for n in (1, 2))
        pairs = zip(one, two, strict=False)
        return [
            None if a is None or b is None else tuple(x + (y - x) * more for x, y in zip(a, b, strict=True))
            for a, b in pairs
        ]

    def taken(self, thing: object) -> Any:
        """An argument with shapes in place of tensors."""
        if isinstance(thing, Tensor):
            return Of(self.of(thing), thing.dtype == "bool")
        if isinstance(thing, (tuple, list)):
            parts = [self.taken(part) for part in thing]
            return parts if isinstance(thing, list) else tuple(parts)
        return thing


def tensors_in(thing: object) -> Iterator[Tensor]:
    """The tensors among arguments."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (tuple, list, Mapping)):
        for part in thing.values() if isinstance(thing, Mapping) else thing:
            yield from tensors_in(part)


class FollowedProgram(Followed):
    """A program that ran with sizes that carry expressions: the shapes of its tensors by name."""

    slow = True

    def __init__(self, base: Graph, program: ProgramSizes, guards: Guards) -> None:
        super().__init__(base, base, guards)
        self.shapes, self.changed = program.shapes, program.changed
        self.open, self.loops = program.open, program.loops

    def substitute(self, scales: Mapping[str, Term]) -> tuple[Graph, Guards]:
        """The graph and its conditions with each symbol replaced by a term, without running the program again."""

        def scaled(shape: Dims) -> Dims:
            return tuple([dim(int(n), substituted(term(n), scales)) for n in shape])

        shapes = {name: None if shape is None else scaled(shape) for name, shape in self.shapes.items()}
        changed = {key: scaled(shape) for key, shape in self.changed.items()}
        return expressed(self.graph, shapes, changed), super().substitute(scales)[1]


def shape_of(
    tensor: Tensor, shapes: Mapping[str, Dims | None], changed: Mapping[tuple[str, tuple[int, ...]], Dims]
) -> Dims | None:
    """The shape of a tensor by its name, or, where a part of it has the name as well, by its name and extents."""
    shape = shapes.get(tensor.name, tensor.shape)
    if shape is None or tensor.shape is None or tuple(map(int, shape)) == tensor.shape:
        return shape
    return changed.get((tensor.name, tensor.shape))


def expressed(
    graph: Graph, shapes: Mapping[str, Dims | None], changed: Mapping[tuple[str, tuple[int, ...]], Dims]
) -> Graph:
    """The graph of a program with sizes that carry expressions; what has none is unresolved."""
    tensors: dict[int, Tensor] = {}

    def tensor(old: Tensor | None) -> Tensor | None:
        if old is None or old.name not in shapes:
            return old
        if id(old) not in tensors:
            shape = shape_of(old, shapes, changed)
            tensors[id(old)] = old if shape is old.shape else replace(old, shape=shape)
        return tensors[id(old)]

    def arguments(thing: object) -> Any:
        if isinstance(thing, Tensor):
            return tensor(thing)
        if isinstance(thing, (list, tuple)) and not hasattr(thing, "_fields"):
            return type(thing)(map(arguments, thing))
        return thing

    def node(old: Node) -> Node:
        invocation = old.invocation
        if invocation.arguments is not None:
            named = {name: arguments(thing) for name, thing in invocation.arguments.items()}
            invocation = invocation._replace(arguments=named)
        inputs, outputs = tuple(map(tensor, old.inputs)), tuple(map(tensor, old.outputs))
        return replace(old, inputs=inputs, outputs=outputs, invocation=invocation)

    program = graph.program
    calls = [c._replace(inputs=arguments(c.inputs), outputs=arguments(c.outputs)) for c in program.calls]
    return replace(
        graph,
        inputs=tuple(filter(None, map(tensor, graph.inputs))),
        outputs=tuple(filter(None, map(tensor, graph.outputs))),
        nodes=tuple(map(node, graph.nodes)),
        program=program._replace(calls=tuple(calls)),
    )


def followed(run: Callable[[], Graph], request: Request) -> Followed:
    """The graph of a PyTorch program that was handed sizes with expressions, with these and the conditions met.

    Args:
        run: runs the program.
        request: the sizes.
    """
    from flopwise.formats.torch.lower.operators import lower
    from flopwise.formats.torch.record.values import HANDED_OUT

    program, guards = ProgramSizes(request.sizes, lower, request.explain, request.fixed), Guards(reason=asking_line)
    token = HANDED_OUT.set(program)
    try:
        with recording(guards), _watched(program, guards):
            graph = run()
    finally:
        HANDED_OUT.reset(token)
    guards.add(program.guards)
    return FollowedProgram(graph, program, guards)
