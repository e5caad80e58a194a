"""The events of a Kineto trace that say where time went, in one form whatever the version that wrote them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from flopwise.analyses.traces.kineto.selection import MARK, Numbers, Selection

#: A shape as the profiler saw it; None where it says none.
Extents: TypeAlias = "tuple[int, ...] | None"

#: Events that are held; of more, those of every second, fourth ... step.
HELD = 100_000

#: What begins the names of ranges that ``flopwise.annotate`` makes; the path of a module follows.
LABEL = "flopwise::"


class Arguments(NamedTuple):
    """The arguments of an operator as the profiler wrote them, equal ones once."""

    #: Shape of each, None for what is no tensor; a list of tensors is a tuple of shapes.
    shapes: tuple[Any, ...] = ()
    #: The values of numbers and lists of numbers as text, "" for tensors.
    values: tuple[str, ...] = ()
    #: Element types as C++ names them ("float", "c10::BFloat16"), "Scalar", "TensorList" ...
    types: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[Extents, ...]:
        """The shapes of the tensors, those of lists in a row; a tensor without axes looks like a number."""
        flat: list[Extents] = []
        for shape in self.shapes:
            if shape and isinstance(shape[0], tuple):
                flat.extend(each for each in shape if each)
            elif shape:
                flat.append(shape)
        return tuple(flat)


@dataclass(slots=True, eq=False)
class Operator:
    """A call of an operator, or an annotation around some."""

    name: str
    thread: str
    start: int
    end: int
    arguments: Arguments
    #: Number of the node of the backward pass that it makes, or of the next one if it makes none.
    sequence: int | None
    annotation: bool
    #: The operator or the annotation around it.
    outer: Operator | None = None
    #: The operator around it, or itself, that time is given to; None for what stands around such operators.
    unit: Operator | None = None
    #: What an annotation around it says that it is part of ("optimiser"), or a label that flopwise wrote.
    context: str = ""
    label: str = ""
    #: Whether it is part of a backward pass that was compiled.
    gradient: bool = False

    @property
    def base(self) -> str:
        """Its name without namespace and without the underscore of its in-place form."""
        return self.name.rpartition("::")[2].rstrip("_")


class Kind(NamedTuple):
    """The facts that calls of one operator with the same arguments share."""

    name: str
    arguments: Arguments
    annotation: bool


class Calls:
    """The operators and annotations of one thread as columns of integers: a trace may have millions of them."""

    __slots__ = ("ends", "kinds", "sequences", "starts")

    def __init__(self) -> None:
        #: Nanoseconds.
        self.starts, self.ends = array("q"), array("q")
        #: Positions in ``Records.kinds``.
        self.kinds = array("i")
        #: As ``Operator.sequence``; -1 for None.
        self.sequences = array("q")

    def add(self, start: int, end: int, kind: int, sequence: int) -> None:
        """Record a call."""
        self.starts.append(start)
        self.ends.append(end)
        self.kinds.append(kind)
        self.sequences.append(sequence)

    def sort(self) -> None:
        """Bring them into the order of their start, those that end last first."""
        starts, ends = self.starts, self.ends
        if all(a < b or (a == b and c >= d) for a, b, c, d in zip(starts, starts[1:], ends, ends[1:], strict=False)):
            return
        self.take(sorted(range(len(starts)), key=lambda place: (starts[place], -ends[place])))

    def take(self, places: Iterable[int]) -> None:
        """Keep the calls at these positions, in this order."""
        order = array("q", places)
        for column in self.__slots__:
            values = getattr(self, column)
            setattr(self, column, array(values.typecode, map(values.__getitem__, order)))


class Launch(NamedTuple):
    """A call of the driver that started work of a device."""

    name: str
    thread: str
    start: int
    #: Name of the kernel that it starts; "" where the file does not say it.
    kernel: str = ""


class Kernel(NamedTuple):
    """Work of a device: a kernel, or a copy."""

    name: str
    #: Device and stream.
    lane: str
    start: int
    end: int
    #: Number of the call that started it; None where the file has none.
    correlation: int | None
    copy: bool


@dataclass(slots=True)
class Records:
    """The events of a trace."""

    name: str
    #: The operators and annotations by thread, and what there is of them.
    calls: dict[str, Calls] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    #: Names of the devices that the kernels ran on.
    devices: tuple[str, ...] = ()
    #: Bytes of the memory of the first of them.
    memory_bytes: int = 0
    #: Whether operators have the shapes of their inputs.
    shaped: bool = False
    #: The steps that are kept.
    steps: Selection = field(default_factory=Selection)
    #: Events that are held, and how many may be before those of some steps are dropped.
    held: int = 0
    limit: int = field(default_factory=lambda: HELD)
    #: Calls of the driver that were dropped, and how many of the others were there before the last were.
    _dropped: Numbers = field(default_factory=Numbers)
    _old: int = 0

    def add_kernel(self, kernel: Kernel) -> None:
        """Record a kernel, unless the call that started it was dropped."""
        if kernel.correlation is None or kernel.correlation not in self._dropped:
            self.kernels.append(kernel)
            self.held += 1

    def bound(self) -> None:
        """Drop events of steps if more are held than the limit."""
        if self.held > self.limit:
            self.fold()

    def close(self) -> None:
        """Drop events of steps if more are held than shall be when all are there."""
        if self.held > HELD:
            self.fold()

    def fold(self) -> None:
        """Drop events of steps until half of the limit is left, or three steps."""
        while True:
            self.steps.bound()
            self._drop_calls()
            self._drop_kernels()
            # Each kernel with its call: those whose kernels are not known yet count when they are.
            self.held = sum(len(calls.kinds) for calls in self.calls.values()) + 2 * len(self.kernels)
            if self.held <= HELD // 2 or not self.steps.coarsen():
                break
        self.limit = max(HELD, 2 * self.held)
        self._old = len(self.launches)

    def _drop_calls(self) -> None:
        marks = {n for n, kind in enumerate(self.kinds) if kind.annotation and kind.name.startswith(MARK)}
        dropped = self.steps.dropped
        for calls in self.calls.values():
            columns = enumerate(zip(calls.starts, calls.ends, calls.kinds, strict=True))
            calls.take(n for n, (start, end, kind) in columns if kind in marks or dropped(start, end) < 0)

    def _drop_kernels(self) -> None:
        """Drop kernels and the calls that started them, but for the last kernel of each step: the next begins there.

        A call whose kernel is not known yet stays until the next time, as the two are near each other in a file.
        """
        kept: list[Kernel] = []
        last: dict[int, Kernel] = {}
        for kernel in self.kernels:
            launch = None if kernel.correlation is None else self.launches.get(kernel.correlation)
            start = kernel.start if launch is None else launch.start
            step = -1 if launch is None and kernel.correlation is not None else self.steps.dropped(start, start)
            if step < 0:
                kept.append(kernel)
            elif step not in last or kernel.end > last[step].end:
                last[step] = kernel
        self.kernels = [*kept, *last.values()]
        started = {kernel.correlation for kernel in self.kernels}
        for correlation, launch in list(islice(self.launches.items(), self._old)):
            if correlation not in started and self.steps.dropped(launch.start, launch.start) >= 0:
                self._dropped.add(correlation)
                del self.launches[correlation]
                self._old -= 1
