"""Events of a Kineto trace that say where time went, in one form for all versions, and the operators' operations."""

from __future__ import annotations

import ast
import functools
import inspect
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from flopwise.errors import FlopwiseError
from flopwise.formats.torch.lower.node import Lowered
from flopwise.formats.torch.lower.operators import LOWERINGS, lower
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import FLOPS
from flopwise.operators.shapes.calls import RULES, Of
from flopwise.operators.size import UnresolvedError, is_certain
from flopwise.operators.tables import count, row
from flopwise.sizes.run import WRONG
from flopwise.sizes.site import shapes_of
from flopwise.storage.traffic import traffic

#: What begins the names of the profiler's marks of steps; "#" and the number of the step follow.
MARK = "ProfilerStep"


class _Mark(NamedTuple):
    number: int
    start: int
    end: int


class Selection:
    """The steps that are kept: those whose numbers are multiples of a power of two."""

    def __init__(self) -> None:
        #: One of so many steps is kept.
        self.stride = 1
        self._marks: list[_Mark] = []
        self._starts, self._ends = array("q"), array("q")

    def add(self, name: str, start: int, end: int) -> None:
        """Record the mark of a step."""
        number = name.rpartition("#")[2]
        if number.isdecimal():
            self._marks.append(_Mark(int(number), start, end))

    def keeps(self, name: str) -> bool:
        """True for a step that is kept, by the name of its mark."""
        return self.stride == 1 or self._is_kept(int(name.rpartition("#")[2]))

    def coarsen(self) -> bool:
        """Keep half as many steps; False where fewer than three would be left."""
        self.stride *= 2
        if len({mark.number for mark in self._marks if self._is_kept(mark.number)}) < 3:
            self.stride //= 2
            return False
        return True

    def bound(self) -> None:
        """Find the spans of time in which only steps that are not kept are open."""
        kept, dropped = 0, 0
        begin: int | None = None
        self._starts, self._ends = array("q"), array("q")
        for instant, change, keeps in sorted(
            (instant, change, self._is_kept(mark.number))
            for mark in self._marks
            for instant, change in ((mark.start, 1), (mark.end, -1))
        ):
            kept, dropped = kept + keeps * change, dropped + (not keeps) * change
            if dropped and not kept and begin is None:
                begin = instant
            elif begin is not None and (kept or not dropped):
                self._starts.append(begin)
                self._ends.append(instant)
                begin = None

    def dropped(self, start: int, end: int) -> int:
        """The position of the span of dropped steps that an event lies in; -1 for one to keep."""
        place = bisect_right(self._starts, start) - 1
        return place if place >= 0 and end <= self._ends[place] else -1

    def _is_kept(self, number: int) -> bool:
        return number % self.stride == 0


class Numbers:
    """A set of whole numbers, as bits in pages: the driver numbers its calls in a row."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, number: int) -> None:
        """Record a number."""
        page = self._pages.get(number >> 12)
        if page is None:
            page = self._pages[number >> 12] = bytearray(512)
        page[number >> 3 & 511] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        page = self._pages.get(number >> 12)
        return page is not None and bool(page[number >> 3 & 511] >> (number & 7) & 1)


# The events of a Kineto trace that say where time went, in one form whatever the version that wrote them.


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


# The operations of one operator of a trace, from the shapes that the profiler wrote beside it.


#: Element types as C++ names them -> ours.
DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8e4m3fn",
    "c10::Float8_e5m2": "float8e5m2",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}

#: Operators whose attributes beside the tensors change nothing that is counted, so that old traces, which have no
#: values, are enough.
_BY_TENSORS = frozenset(("Gemm", "MatMul"))

#: Operators that compute products, and whose recorded arguments may be too few to count them.
_PRODUCTS = frozenset(("conv1d", "conv2d", "conv3d", "convolution", "mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn"))

#: Arguments of an operator that compiled code calls with the place of its result behind them.
_BEFORE_RESULT = {"mm": 2, "bmm": 2, "addmm": 5, "baddbmm": 5}

#: Fused kernels of whole attentions and encoder layers, whose weights are their matrices.
ENCODERS = frozenset(("_native_multi_head_attention", "_transformer_encoder_layer_fwd"))


class Work(NamedTuple):
    """The work of one call of an operator; None where the record does not say it."""

    #: The operator in ONNX's vocabulary; "" where its arguments are not known.
    op: str = ""
    macs: int | None = None
    flops: int | None = None
    #: Read and written.
    bytes: int | None = None
    #: Whether it computes products, however many.
    product: bool = False


@functools.lru_cache(maxsize=1 << 14)
def work_of(name: str, arguments: Arguments) -> Work:
    """The operations of a call.

    Args:
        name: the operator with its namespace ("aten::conv2d").
        arguments: as they were recorded.
    """
    space, _, bare = name.rpartition("::")
    base = bare.rstrip("_")
    if base in ENCODERS:
        macs = _encoder(arguments)
        return Work(base, macs, product=macs is not None)
    args = _arguments(arguments)[: _BEFORE_RESULT.get(base)]
    try:
        given, named = _bound(LOWERINGS.get(base), args)
        lowered, _ = lower(f"{space}.{bare}", tuple(given), named, ())
        node = Node(
            lowered.op, name, lowered.inputs, _outputs(base, args, lowered), lowered.attrs, origin=f"aten.{bare}"
        )
        counts = count(node)
        moved = traffic(node)
    except (*WRONG, FlopwiseError, UnresolvedError):  # such as of a grouped convolution, whose groups are not recorded
        return Work(product=base in _PRODUCTS)
    product = counts is not None and counts.mac > 0
    if not arguments.values and lowered.attrs and lowered.op not in _BY_TENSORS:  # strides and axes are not known
        return Work(lowered.op, product=product)
    total = None if moved.read is None or moved.written is None else moved.read + moved.written
    if total is not None and not is_certain(total):
        total = None  # not every size was recorded
    if counts is None:
        return Work(lowered.op, bytes=total)
    return Work(lowered.op, counts.mac, counts.dot(FLOPS), total, product)


def _encoder(arguments: Arguments) -> int | None:
    """Multiply-adds of a fused attention or encoder layer on B sequences of N elements that are E wide.

    B N × the elements of its matrices + 2 B N² E, the scores and the sums that they weigh.
    """
    tensors = [shape for shape in arguments.tensors if shape]
    if not tensors or len(tensors[0]) != 3:
        return None
    batch, length, width = tensors[0]
    matrices = sum(shape[0] * shape[1] for shape in tensors if len(shape) == 2)
    return batch * length * matrices + 2 * batch * length * length * width


def _arguments(arguments: Arguments) -> tuple[object, ...]:
    """The arguments as tensors, numbers and lists of them; without values, up to the last tensor."""
    args = [_argument(arguments, place, shape) for place, shape in enumerate(arguments.shapes)]
    while args and not arguments.values and args[-1] is None:
        args.pop()
    return tuple(args)


def _bound(function: Callable[..., object] | None, args: Sequence[object]) -> tuple[Sequence[object], dict[str, Any]]:
    """Arguments in the order of an operator's schema as a function takes them: the last ones perhaps by name."""
    if function is None:
        return args, {}
    positions, names = _parameters(function)
    return args[:positions], dict(zip(names, args[positions:] if positions is not None else (), strict=False))


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[int | None, tuple[str, ...]]:
    """The number of arguments that a function takes by position (None: all), and the names of the others."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None, ()
    by_name = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters), by_name


def _argument(arguments: Arguments, place: int, shape: Any) -> object:
    kind = arguments.types[place] if place < len(arguments.types) else ""
    text = arguments.values[place] if place < len(arguments.values) else ""
    dtype = DTYPES.get(kind, "float32")
    if shape and isinstance(shape[0], tuple):
        return [Tensor(f"#{place}.{number}", each, dtype) for number, each in enumerate(shape)]
    if shape or kind in DTYPES:
        return Tensor(f"#{place}", shape, dtype)
    try:
        return ast.literal_eval(text) if text else None
    except (SyntaxError, ValueError):
        return text


def _outputs(base: str, args: tuple[Any, ...], lowered: Lowered) -> tuple[Tensor, ...]:
    """The first result, by the rule for the call, else by that for the operator.

    Raises:
        UnresolvedError: there is no such rule.
    """
    tensors = [t for t in lowered.inputs if t is not None]
    rule = RULES.get(base)
    if rule is not None:
        given, named = _bound(rule, [_taken(value) for value in args])
        made: Sequence[Any] = rule(*given, **named)
    else:
        shape = row(lowered.op).shape
        if shape is None:
            raise UnresolvedError
        inputs = [None if t is None else t.dims for t in lowered.inputs]
        made = shapes_of(shape, lowered.op, lowered.attrs, inputs, 1)
    if not made or made[0] is None:
        raise UnresolvedError
    return (Tensor("", tuple(made[0]), tensors[0].dtype if tensors else "float32"),)


def _taken(value: object) -> object:
    """An argument as the rules for calls take it."""
    if isinstance(value, list):
        return [_taken(each) for each in value]
    return Of(value.dims, value.dtype == "bool") if isinstance(value, Tensor) else value
