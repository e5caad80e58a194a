"""Sizes in a program: what PyTorch modules get to see in place of plain numbers, and the shapes that follow from it."""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from flopwise.analyses.formula.dim import Dim, dim, recording, require, term
from flopwise.analyses.formula.facts import ModelFacts
from flopwise.analyses.formula.following.loops import LEAST, Loops
from flopwise.analyses.formula.guards import Guards
from flopwise.analyses.formula.propagation.aten.of import Of
from flopwise.analyses.formula.propagation.aten.table import RULES as CALLS
from flopwise.analyses.formula.propagation.engine import PROGRAMS, RULES, WRONG, Explain, Propagation
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, shape_of
from flopwise.analyses.formula.subject import Reading, Sizes
from flopwise.analyses.formula.terms.evaluation import substituted
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.graph import Graph, Node, Tensor

#: The program that is being followed, and where its own conditions are recorded.
_FOLLOWED: ContextVar[tuple[ProgramSizes, Guards]] = ContextVar("followed")

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
    """What stands in place of the class ``range`` while a program is followed: it makes ranges, and knows them."""

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, (_range, _Turns))

    def __call__(cls, *ends: Any) -> Any:
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
        for number in (self.start, self.step):
            if type(number) is Dim:
                require(term(number) - int(number), "==")
        start, step = int(self.start), int(self.step)
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
            if type(number) is Dim:
                require(term(number) - int(number), "==")
        if len(self.numbers):
            require(term(self.turns) - len(self.numbers), "==")
        else:
            require(-term(self.turns), ">=")


@contextlib.contextmanager
def _watched(program: ProgramSizes, guards: Guards) -> Iterator[None]:
    """While a program runs: how often it goes through a range over a size is noted down."""
    token = _FOLLOWED.set((program, guards))
    builtins.range = _Range  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        builtins.range = _range  # type: ignore[misc]
        _FOLLOWED.reset(token)


class ProgramSizes:
    """The shapes of a run by the names of its tensors."""

    def __init__(
        self, inputs: Mapping[str, Shape], lower: Lower, explain: Explain | None = None, fixed: bool = True
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
        self.shapes: dict[str, Shape | None] = dict(self.inputs)
        #: Conditions of the rules; those of the program itself are recorded by whoever runs it.
        self.guards = Guards()
        #: Shapes of tensors that an operation on a part of them has changed: they bear the name of its result.
        self.changed: dict[tuple[str, tuple[int, ...]], Shape] = {}
        #: The operators whose results no rule explains.
        self.open: list[str] = []
        #: Name of a result -> the first tensor that it was made of.
        self._sources: dict[str, Tensor] = {}
        #: Loops over sizes that run as often as these say; None where they run as often as they do at the hint.
        self.loops = None if self.fixed else Loops()

    def shape(self, tensor: Tensor) -> Shape | None:
        """The extents that a program gets to see."""
        return self.of(tensor) if tensor.name in self.shapes else None

    def of(self, tensor: Tensor) -> Shape | None:
        """The shape of a tensor; a stored one has the extents that it has."""
        return shape_of(tensor, self.shapes, self.changed)

    def made(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Tensor]) -> None:
        """An operation was recorded: the shapes of its results."""
        bare = name.partition(".")[2]
        guards = Guards(reason=bare)
        loop = self.loops.gathered(args[0]) if self.loops and args else None
        with recording(guards):
            if loop is None:
                shapes = self.results(name, bare, tuple(args), kwargs, outputs)
            else:
                shapes = self.gathered(loop, name, args, kwargs, outputs)
        if self.loops:
            self.loops.record(outputs, loop)
        fits = False
        for place, output in enumerate(outputs):
            shape = shapes[place] if place < len(shapes) else None
            if shape is not None and any(isinstance(size, Of) for size in shape):
                shape = None  # a size is an element of a tensor
            right = shape is not None and tuple(map(int, shape)) == output.shape
            position = self.explain.position(output.name) if self.explain else None
            if self.explain is not None and position is not None:
                if shape is None or not right or not self.explain.agrees(*position, shape):
                    right, shape = False, self.explain(*position, [self.of(t) for t in tensors_in((args, kwargs))])
            elif not right:
                shape = None
            self.shapes[output.name] = shape
            fits = fits or right
            if shape is None:
                self.open.append(name)
        for guard, why in guards.reasons.items() if fits else ():
            self.guards.reasons.setdefault(guard, why)
        source = next((thing for thing in args if isinstance(thing, Tensor)), None)
        if source is None:
            return
        for output in outputs:
            if bare.endswith("_") and not bare.endswith("__"):
                self.change(output, source)
            if output.name != source.name:
                self._sources.setdefault(output.name, source)

    def change(self, result: Tensor, part: Tensor) -> None:
        """Note down the shapes of the values that contain a part that was changed in place."""
        whole = self._sources.get(part.name)
        while whole is not None:
            shape = self.of(whole)
            if shape is not None and whole.shape is not None:
                self.changed.setdefault((result.name, whole.shape), shape)
            whole = self._sources.get(whole.name)

    def results(
        self, name: str, bare: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Sequence[Tensor]
    ) -> Sequence[Shape | None]:
        """The shapes of results by the rule for the call, else by that for the operator."""
        rule = CALLS.get(bare) or CALLS.get(bare.rstrip("_"))
        if rule is not None:
            try:
                return rule(*map(self.taken, args), **{k: self.taken(v) for k, v in kwargs.items()})
            except (UnknownError, *WRONG):
                pass
        try:
            lowered, _ = self.lower(name, args, kwargs, outputs)
            if lowered.op not in PROGRAMS:
                return ()
            node = Node(lowered.op, "", lowered.inputs, tuple(outputs), lowered.attrs, origin=name)
            shapes = [None if t is None else self.of(t) for t in node.inputs]
            hints = [t.shape for t in outputs]
            return RULES[lowered.op](Site(node, shapes, [None] * len(shapes), hints, lambda place: None))
        except (UnknownError, *WRONG):
            return ()

    def gathered(
        self, loop: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Tensor]
    ) -> Sequence[Shape | None]:
        """The shapes of results made of one tensor from each turn of a loop: each turn adds what the second adds."""
        assert self.loops is not None
        bare, more = name.partition(".")[2], self.loops.turns[loop] - 1
        one, two = (self.results(name, bare, (args[0][:n], *args[1:]), kwargs, outputs) for n in (1, 2))
        pairs = zip(one, two, strict=False)
        return [
            None if a is None or b is None else tuple(x + (y - x) * more for x, y in zip(a, b, strict=True))
            for a, b in pairs
        ]

    def taken(self, thing: Any) -> Any:
        """An argument with shapes in place of tensors."""
        if isinstance(thing, Tensor):
            return Of(self.of(thing), thing.dtype == "bool")
        if isinstance(thing, (tuple, list)):
            parts = [self.taken(part) for part in thing]
            return parts if isinstance(thing, list) else tuple(parts)
        return thing


def tensors_in(thing: Any) -> Iterator[Tensor]:
    """The tensors among arguments."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (tuple, list, Mapping)):
        for part in thing.values() if isinstance(thing, Mapping) else thing:
            yield from tensors_in(part)


class Followed(ModelFacts):
    """Facts about a model whose own code was run with sizes that carry expressions."""

    def __init__(self, guards: Guards) -> None:
        super().__init__()
        self.guards = guards
        #: The loops of the code over sizes; None where there are none.
        self.loops: Loops | None = None

    def give(self, walk: Propagation, scales: Mapping[str, Term]) -> None:
        """Hand what was found to a walk over the graph, with other terms in place of the symbols."""
        for guard, why in self.guards.reasons.items():
            walk.guards.reason = why
            walk.guards.require(substituted(guard.expression, scales), guard.relation)


class ProgramFacts(Followed):
    """Facts about a program: the shapes of its tensors by name, with their conditions."""

    def __init__(self, program: ProgramSizes, guards: Guards) -> None:
        super().__init__(guards)
        self.shapes = program.shapes
        self.changed = program.changed
        self.open = program.open
        self.loops = program.loops

    def give(self, walk: Propagation, scales: Mapping[str, Term]) -> None:
        """Hand over the shapes and conditions."""

        def scaled(shape: Shape) -> Shape:
            return tuple(dim(int(n), substituted(term(n), scales)) for n in shape)

        walk.shapes.update((name, None if shape is None else scaled(shape)) for name, shape in self.shapes.items())
        walk.changed.update((key, scaled(shape)) for key, shape in self.changed.items())
        super().give(walk, scales)


def followed(run: Callable[[], Graph], sizes: Sizes, explain: Explain | None, fixed: bool) -> Reading:
    """What a PyTorch program does while the sizes that it asks for carry expressions.

    Args:
        run: runs the program.
        sizes: the shapes of its inputs.
        explain: what finds the shapes for which there is no rule; None: nothing does.
        fixed: whether loops over sizes run as often as they do in this run.
    """
    from flopwise.readers.torch.capture.values import HANDED_OUT
    from flopwise.readers.torch.lower.operators import lower

    program, guards = ProgramSizes(sizes, lower, explain, fixed), Guards(reason=asking_line)
    token = HANDED_OUT.set(program)
    try:
        with recording(guards), _watched(program, guards):
            graph = run()
    finally:
        HANDED_OUT.reset(token)
    for guard, why in program.guards.reasons.items():
        guards.reasons.setdefault(guard, why)
    return Reading(graph, ProgramFacts(program, guards))
