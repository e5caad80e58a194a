"""An ExecuTorch program -> Graph: kernels as the operators of PyTorch that they run, what backends compiled as unknown.

Source: exir/emit/_emitter.py of ExecuTorch 1.5, which writes the instructions.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flopwise.errors import ModelError, counted
from flopwise.formats.executorch.file import Items, Jump, Kernel, Members, Method, Move, Value, read_program
from flopwise.formats.limits import refuse_huge, refuse_unknown_loops
from flopwise.formats.options import ExecutorchOptions
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.torch.lower.node import Lowered, tensors
from flopwise.formats.torch.lower.operators import LOWERINGS, Call, lower
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import in_storage
from flopwise.graph import Body, Graph, Invocation, Kind, Node, StoredTensor, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.graph import NOT_RECORDED
from flopwise.graph.names import FreshNames
from flopwise.operators.tables import row

#: Regions in each other at most.
_DEEPEST = 64

#: Kernels that ExecuTorch has for operators of PyTorch's.
_SAME: Mapping[str, str] = {
    "dim_order_ops._to_dim_order_copy": "aten._to_copy",
    "dim_order_ops._clone_dim_order": "aten.clone",
    "dim_order_ops._empty_dim_order": "aten.empty",
    "executorch_prim.et_view": "aten.view",
    "executorch_prim.et_copy_index": "aten.copy",
}


def read_executorch(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: ExecutorchOptions = ExecutorchOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a program's method ``forward``, or of its first one.

    Args:
        model: a path, a URL, bytes or a stream.
        inputs: its sizes are fixed; any that are given are refused.
        dims: as ``inputs``.
        batch_size: as ``inputs``.
        progress: called with the name of each step.
        options: how often loops run, where the program does not say.

    Raises:
        ModelError: the file is damaged, or jumps in a way that is not followed.
    """
    progress("reading the program")
    source = open_source(model)
    try:
        with naming(source.name):
            methods = read_program(source)
            method = next((one for one in methods if one.name == "forward"), methods[0])
            others = [one.name for one in methods if one is not method]
            return Reading(source, method, dict(options.trips or {})).graph(others)
    finally:
        source.close()


@dataclass
class Reading:
    """One method on its way to a graph."""

    source: Source
    method: Method
    trips: dict[str, int]
    nodes: list[Node] = field(default_factory=list)
    weights: dict[str, StoredTensor] = field(default_factory=dict)
    #: Number of a value -> the tensor that it is now; whole numbers that are computed on the way.
    tensors: dict[int, Tensor] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    #: Where a tensor is planned -> the one that was last written there.
    written: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    names: FreshNames = field(default_factory=lambda: FreshNames(form=lambda name, number: f"{name}:{number + 1}"))
    open_loops: list[str] = field(default_factory=list)
    delegated: dict[str, int] = field(default_factory=dict)
    #: Members of lists that operators may take still.
    room: int = 2_000_000

    def graph(self, others: Sequence[str]) -> Graph:
        """The graph; ``others`` are the methods that are left out."""
        inputs = self.starts()
        self.loops = {
            one.target: place
            for place, one in enumerate(self.method.instructions)
            if isinstance(one, Jump) and one.target <= place
        }
        self.run(0, len(self.method.instructions), (), 0)
        refuse_unknown_loops(self.trips, [node.name for node in self.nodes if node.op == "Loop"])
        outputs = [tensor for n in self.method.outputs if (tensor := self.made(n)) is not None]
        return Graph(
            name=os.path.splitext(os.path.basename(self.source.name))[0],
            format="executorch",
            source=self.source.name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            nodes=tuple(self.nodes),
            weights=self.weights,
            warnings=tuple(self.notes(others)),
        )

    def starts(self) -> list[Tensor]:
        """The tensors of the inputs; those of stored values are made as well."""
        kinds, values = self.kinds(), self.method.values
        inputs = []
        for place, number in enumerate(self.method.inputs):
            if isinstance(value := values[number], Value) and not value.stored:
                self.tensors[number] = self.stored(f"input{place}", value, "input")
                inputs.append(self.tensors[number])
        stored = [(n, value) for n, value in enumerate(values) if isinstance(value, Value) and value.stored]
        for place, (number, value) in enumerate(stored):
            self.tensors[number] = self.stored(value.name or f"constant{place}", value, kinds[number])
        return inputs

    def made(self, place: int) -> Tensor | None:
        """The tensor that a value is, or looks at; None where nothing has made it, or it is no tensor."""
        value = self.method.values[place]
        return (self.tensors.get(place) or self.viewed(value)) if isinstance(value, Value) else None

    def notes(self, others: Sequence[str]) -> Iterator[str]:
        for backend, number in self.delegated.items():
            yield (
                f"{counted(number, 'part')} compiled for {backend}: the program has no operators of it; give the "
                "module, or the ETRecord that was saved with the program"
            )
        if others:
            yield f"other methods are not counted: {', '.join(others[:8])}"
        if any(isinstance(value, Value) and value.dynamic for value in self.method.values):
            yield "sizes that the inputs decide are the largest that the program plans for"
        if self.open_loops:
            names = ", ".join(map(repr, self.open_loops))
            yield f"the trips of {names} depend on the data; --trip {self.open_loops[0]}=N (trips=) says them"

    def kinds(self) -> dict[int, Kind]:
        """The role of each stored tensor, by the operators that take it."""
        kinds: dict[int, Kind] = {}
        values = self.method.values
        for number, value in enumerate(values):
            if isinstance(value, Value) and value.stored:
                floating = value.dtype.startswith(("float", "bfloat")) and len(value.shape) > 0
                kinds[number] = "weight" if floating or value.dtype in ("int8", "uint8") else "constant"
                if value.mutable:
                    kinds[number] = "buffer"
        known = {
            n: Tensor(str(n), value.shape, value.dtype) for n, value in enumerate(values) if isinstance(value, Value)
        }
        for one in self.method.instructions:
            if isinstance(one, Kernel) and not one.delegated:
                lowered, _ = self.lowered(one, *self.split(one), known)
                roles = row(lowered.op).inputs
                names = [tensor.name if tensor is not None else "" for tensor in lowered.inputs]
                statistics = [name for place, name in enumerate(names) if roles.input(place).role == "statistic"]
                kinds.update((int(name), "buffer") for name in statistics if name.isdecimal() and int(name) in kinds)
        return kinds

    def stored(self, name: str, value: Value, kind: Kind) -> Tensor:
        """The tensor of an input, or of a value whose elements are stored."""
        name = self.names.fresh(name)
        refuse_huge(name, value.shape)
        if kind != "input":
            nbytes = math.prod(value.shape) * BITS[value.dtype] + 7 >> 3
            place = value.place
            self.weights[name] = StoredTensor(name, value.shape, value.dtype, 0, role=kind)
            if place is not None:
                if place.start + nbytes > place.end:
                    raise ModelError(f"tensor {name!r} takes {nbytes} bytes, and there are {place.end - place.start}")
                storage, run = SourceStorage(self.source.later()), (place.start, place.start + nbytes)
                self.weights[name] = in_storage(name, value.shape, value.dtype, storage, (run,), role=kind)
        tensor = Tensor(name, value.shape, value.dtype, kind, value.dynamic)
        if value.address is not None:
            self.written[value.address] = tensor
        return tensor

    def run(self, start: int, end: int, within: tuple[Body, ...], depth: int) -> None:
        """Add the operators of instructions one after the other, and regions of them as bodies."""
        if depth > _DEEPEST:
            raise ModelError(f"jumps go into each other deeper than {_DEEPEST}")
        instructions, place = self.method.instructions, start
        while place < end:
            one = instructions[place]
            back = self.loops.get(place)
            if (
                back is not None
                and start <= place <= back < end
                and not (within and within[-1].part == f"body@{place}")
            ):
                self.loop(place, back, within, depth)
                place = back + 1
            elif isinstance(one, Jump) and place < one.target:
                place = self.branches(place, min(one.target, end), end, within, depth)
            else:
                if isinstance(one, Kernel):
                    self.kernel(one, within)
                elif isinstance(one, Move) and one.source in self.tensors:
                    self.tensors[one.target] = self.tensors[one.source]
                place += 1

    def branches(self, place: int, other: int, end: int, within: tuple[Body, ...], depth: int) -> int:
        """A choice, and where what follows it begins."""
        instructions = self.method.instructions
        jump, last = instructions[place], instructions[other - 1]
        assert isinstance(jump, Jump)
        if jump.target > end:
            return place + 1  # the way out of a loop
        skips = isinstance(last, Jump) and self.method.values[last.condition] is False and other <= last.target <= end
        after = last.target if isinstance(last, Jump) and skips else other
        condition = self.tensors.get(jump.condition)
        node = self.add(Lowered("If", tensors(condition)), "cond", (), "cond", within)
        parts = [("then_branch", place + 1, other - skips), ("else_branch", other, after)]
        before, results = dict(self.tensors), dict(self.tensors)
        for part, first, last_place in parts:
            self.tensors = dict(before)
            if first < last_place:
                self.run(first, last_place, (*within, Body(node, part, 1, True)), depth + 1)
            results.update({n: t for n, t in self.tensors.items() if before.get(n) is not t})
        self.tensors = results
        return after

    def loop(self, place: int, back: int, within: tuple[Body, ...], depth: int) -> None:
        """A loop, whose trips a comparison of its counter with a number says."""
        taken = [self.tensors[n] for one in self.method.instructions[place:back] if isinstance(one, Kernel)
                 for n in one.args if n in self.tensors]  # fmt: skip
        node = self.add(Lowered("Loop", tuple(dict.fromkeys(taken))), "loop", (), "loop", within)
        name = self.nodes[node].name
        trips = self.trips.get(name, self.counted(place, back))
        if trips is None:
            self.open_loops.append(name)
        del self.loops[place]
        self.run(place, back, (*within, Body(node, "body", trips)), depth + 1)

    def counted(self, place: int, back: int) -> int | None:
        """The trips of a loop that adds one to a counter and ends where it equals a number; None for any other."""
        jump = self.method.instructions[back]
        kernels = [one for one in self.method.instructions[place:back] if isinstance(one, Kernel)]
        assert isinstance(jump, Jump)
        for one in kernels:
            if one.name == "executorch_prim::eq.Scalar" and len(one.args) == 3 and one.args[2] == jump.condition:
                counter, limit = one.args[:2]
                steps = [k for k in kernels if k.args[-1:] == (counter,) and k.name == "executorch_prim::add.Scalar"]
                start, end = self.number(counter), self.number(limit)
                if len(steps) == 1 and start is not None and end is not None and self.number(steps[0].args[1]) == 1:
                    return max(end - start, 0)
        return None

    def number(self, place: int) -> int | None:
        """A whole number among the values, or one that was computed on the way; None for anything else."""
        value = self.numbers.get(place, self.method.values[place])
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def split(self, kernel: Kernel) -> tuple[list[int], list[int]]:
        """The arguments and the results of a kernel, by their numbers.

        The results stand last, once more or as a list, behind the tensors into which they are written.
        """
        if not kernel.args:
            return [], []
        *given, last = kernel.args
        results = self.method.values[last]
        outputs = list(results.values) if isinstance(results, Members) else [last]
        into = self.method.values[given[-1]] if given and given[-1] >= 0 else None
        if given[-len(outputs) :] == outputs:
            given = given[: -len(outputs)]
        elif isinstance(into, Members) and list(into.values) == outputs:  # a list that is written into
            given = given[:-1]
        return given, outputs

    def argument(self, place: int, known: Mapping[int, Tensor]) -> Any:
        """An argument as PyTorch takes it."""
        if place < 0:
            return None
        value = self.method.values[place]
        if isinstance(value, Value):
            return known.get(place) or self.viewed(value) or self.state(place, value)
        if isinstance(value, (Items, Members)):
            self.room -= len(value.values)
            if self.room < 0:
                raise ModelError("its operators take the same lists over and over")
            members = [n if n >= 0 and not isinstance(self.method.values[n], (Items, Members)) else -1
                       for n in value.values]  # fmt: skip
            return [self.argument(n, known) for n in members]
        return self.numbers.get(place, value)

    def state(self, place: int, value: Value) -> Tensor:
        """The tensor that a program keeps from one run to the next and begins with zeros: nothing makes it."""
        self.tensors[place] = self.stored(f"state{place}", value, "buffer")
        return self.tensors[place]

    def viewed(self, value: Value) -> Tensor | None:
        """The tensor that a value looks at, which no instruction makes; None where there is none of its size."""
        tensor = self.written.get(value.address) if value.address is not None else None
        if tensor is None or tensor.dtype != value.dtype or math.prod(tensor.dims) != math.prod(value.shape):
            return None
        return replace(tensor, shape=value.shape)

    def lowered(
        self, kernel: Kernel, given: list[int], outputs: list[int], known: Mapping[int, Tensor]
    ) -> tuple[Lowered, Call]:
        """The operator that a kernel runs."""
        space, _, name = kernel.name.partition("::")
        base = name.partition(".")[0]
        name = _SAME.get(f"{space}.{base}", f"{space}.{base}")
        args = tuple([self.argument(place, known) for place in given])
        if name.endswith("no_stats") or kernel.name.endswith("no_stats_out"):
            args = (*args[:3], None, None, *args[3:])  # statistics of the batch alone
        for count in range(len(args), max(len(args) - 3, 0) - 1, -1):  # settings that only ExecuTorch has stand last
            positional, keywords = _bound(name, args[:count])
            lowered, call = lower(name, positional, keywords, ())
            if call.lowering is not None and all(one is None or isinstance(one, Tensor) for one in lowered.inputs):
                return lowered, call
        return lower(name, args, {}, ())

    def kernel(self, kernel: Kernel, within: tuple[Body, ...]) -> None:
        """Add the operator that a kernel runs; numbers are computed at once."""
        if kernel.delegated:
            self.delegate(kernel, within)
            return
        given, outputs = self.split(kernel)
        if kernel.name.startswith("executorch_prim::et_copy_index") and len(kernel.args) > 1:
            whole, *given = kernel.args[:2]  # a part that is copied into its place
            value, outputs = self.method.values[whole], []
            if isinstance(value, Value) and self.made(whole) is None:
                self.tensors[whole] = Tensor(f"stack{whole}", value.shape, value.dtype, bound=value.dynamic)
        elif not any(isinstance(self.method.values[n], Value) for n in outputs if n >= 0):
            self.compute(kernel.name, given, outputs)
            return
        lowered, call = self.lowered(kernel, given, outputs, self.tensors)
        base = kernel.name.partition("::")[2].partition(".")[0]
        sizes = [math.prod(v.shape) if isinstance(v := self.method.values[n], Value) else 1 for n in outputs]
        if sizes and sizes[0]:  # statistics that an inference does not make have no elements
            outputs = [number for number, size in zip(outputs, sizes, strict=True) if size]
        invocation = Invocation(arguments=call.named)
        self.add(lowered, base, outputs, kernel.name, within, invocation)

    def compute(self, name: str, given: list[int], outputs: list[int]) -> None:
        """Follow a size, if it is one of a tensor whose sizes are fixed."""
        if name == "aten::sym_size.int" and len(given) == 2 and len(outputs) == 1:
            tensor, axis = self.tensors.get(given[0]), self.number(given[1])
            if (
                tensor is not None
                and not tensor.bound
                and axis is not None
                and -len(tensor.dims) <= axis < len(tensor.dims)
            ):
                self.numbers[outputs[0]] = int(tensor.dims[axis])

    def delegate(self, kernel: Kernel, within: tuple[Body, ...]) -> None:
        """Add what a backend has compiled; values that nothing has made are its results."""
        self.delegated[kernel.name] = self.delegated.get(kernel.name, 0) + 1
        places = [n for n in kernel.args if n >= 0 and isinstance(self.method.values[n], Value)]
        taken = tuple([tensor for n in places if (tensor := self.made(n)) is not None])
        lowered = Lowered(f"executorch::{kernel.name}", taken)
        made = [n for n in places if self.made(n) is None]
        self.add(lowered, kernel.name, made, f"delegate {kernel.name}", within)

    def add(
        self,
        lowered: Lowered,
        name: str,
        outputs: Sequence[int],
        origin: str,
        within: tuple[Body, ...],
        invocation: Invocation = NOT_RECORDED,
    ) -> int:
        """Add a node; its position."""
        name = self.names.fresh(name.strip("_"))
        results: list[Tensor] = []
        values = [self.method.values[n] for n in outputs if n >= 0]
        for number, value in zip([n for n in outputs if n >= 0], values, strict=True):
            if isinstance(value, Value):
                text = name if len(values) == 1 else f"{name}.{len(results)}"
                refuse_huge(text, value.shape)
                self.tensors[number] = Tensor(text, value.shape, value.dtype, "activation", value.dynamic)
                results.append(self.tensors[number])
                if value.address is not None:
                    self.written[value.address] = self.tensors[number]
        facts = (lowered.attrs, (), origin, 0, within, invocation)
        self.nodes.append(Node(lowered.op, name, lowered.inputs, tuple(results), *facts))
        return len(self.nodes) - 1


def _bound(name: str, args: tuple[object, ...]) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Arguments by position, and those after them that a lowering takes by name alone, in the order of the schema."""
    positional, named = _parameters(name)
    return args[:positional], dict(zip(named, args[positional:], strict=False)) if positional is not None else {}


@functools.cache
def _parameters(name: str) -> tuple[int | None, tuple[str, ...]]:
    """How many arguments a lowering takes by position (None: all), and the names of the others."""
    space, _, base = name.partition(".")
    key = base if space == "aten" else name
    lowering = LOWERINGS.get(key) or LOWERINGS.get(key.removesuffix("_copy"))
    parameters = () if lowering is None else tuple(inspect.signature(lowering).parameters.values())
    if lowering is None or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None, ()
    positional = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return positional, tuple([p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
