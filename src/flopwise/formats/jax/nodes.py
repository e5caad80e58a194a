"""Nodes of a program whose operations are JAX's primitives: names, modules around them, and bodies of control flow.

A jaxpr becomes a graph by these, and so does a StableHLO module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flopwise.errors import counted
from flopwise.formats.inputs import dtype_of
from flopwise.formats.jax.table import Equation, Lowered, extent_of, lower
from flopwise.graph import STORED, Body, Kind, Module, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.folding import WRITES
from flopwise.operators.size import UnresolvedError
from flopwise.sizes.turns import Carried, Counting

#: Steps of a name stack that stand for what JAX does, not for a module. Those of equinox have the class alone.
_STEPS = frozenset({"checkpoint", "rematted_computation", "remat", "eqx"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation stands: the modules and the control flow around it, and the devices of its mesh."""

    stack: tuple[str, ...] = ()
    within: tuple[Body, ...] = ()
    mesh: Mapping[str, int] = field(default_factory=dict)

    def inside(self, names: Sequence[str]) -> Place:
        """The place in the steps that a program names, without JAX's own."""
        steps: list[str] = []
        for name in names:
            module, _, method = name.partition(".")  # flax names methods other than __call__ so
            if module and module not in _STEPS and not (steps and steps[-1] == f"{module}."):
                steps.append(f"{module}." if method else module)
            elif steps and steps[-1] == f"{module}.":
                steps[-1] = module
        if not steps:
            return self
        path = (*self.stack, *(step.rstrip(".") for step in steps))
        last = len(path) - 1 - path[::-1].index(path[0])  # what is computed again has its whole path once more
        return replace(self, stack=path[last:])


class Inner(NamedTuple):
    """A program that an operation runs."""

    #: What it takes: tensors that have shapes and types, and no names yet.
    takes: Sequence[Tensor]
    #: Adds its nodes; from what it takes to its results.
    run: Callable[[Sequence[Tensor], Place], list[Tensor]]


class Operation(NamedTuple):
    """An operation where it stands."""

    #: JAX's name.
    primitive: str
    params: Mapping[str, Any]
    taken: Sequence[Tensor]
    #: Shapes and types of its results.
    results: Sequence[object]
    place: Place
    #: What the file calls it.
    origin: str


class Trips(NamedTuple):
    """Trips of a loop; None where they are unknown."""

    number: int | None
    #: Whether it may end before.
    bound: bool = False


def tensor_of(name: str, aval: object, kind: Kind = "activation") -> Tensor:
    """The tensor of an abstract value."""
    inner = getattr(aval, "inner_aval", aval)  # of a reference
    dtype, shape = str(getattr(inner, "dtype", "float32")), getattr(inner, "shape", ())
    if dtype.startswith("key<"):  # the key of random numbers: two words, or four
        return Tensor(name, (*map(extent_of, shape), 2 if "fry" in dtype else 4), "uint32", kind)
    known = dtype_of("bool" if dtype == "float0" else dtype)
    return Tensor(name, tuple(map(extent_of, shape)), known if known in BITS else None, kind)


class Nodes:
    """The nodes of a program."""

    def __init__(self, kinds: Mapping[str, str], trips: Mapping[str, int], changing: bool, per_device: bool) -> None:
        """
        Args:
            kinds: path of a module -> its class.
            trips: how often loops run, by the name of their node.
            changing: whether the program trains, so that what depends on weights alone runs each time.
            per_device: whether what many devices run counts once.
        """
        self.kinds, self.trips, self.changing, self.per_device = kinds, trips, changing, per_device
        self.nodes: list[Node] = []
        #: Names of loops whose trips are unknown, or at most as many as counted; sizes of meshes.
        self.open_loops: list[str] = []
        self.bounded_loops: list[str] = []
        self.meshes: list[Mapping[str, int]] = []
        self._names: Counter[str] = Counter()
        self._settled: set[str] = set()

    def add(self, operation: Operation, lowered: Lowered | None = None) -> list[Tensor]:
        """Add a node; its results. ``lowered`` is given where the table does not say what the operation is."""
        primitive, params, taken, results, place, origin = operation
        path = ".".join(place.stack)
        name = self._fresh(f"{path}.{primitive}" if path else primitive)
        several = len(results) > 1
        outputs = tuple([tensor_of(f"{name}.{i}" if several else name, aval) for i, aval in enumerate(results)])
        if lowered is None:
            lowered = lower(Equation(primitive, params, tuple(taken), outputs, place.mesh))
        attrs = dict(lowered.attrs)
        if self.changing and taken and all(t.kind in STORED or t.name in self._settled for t in taken):
            self._settled.update(t.name for t in outputs)
            if any(t.kind == "weight" or t.name in self._settled for t in taken):
                attrs[WRITES] = True
        modules = tuple(self._module(place.stack, depth) for depth in range(1, len(place.stack) + 1))
        self.nodes.append(Node(lowered.op, name, lowered.inputs, outputs, attrs, modules, origin, 0, place.within))
        return list(outputs)

    def notes(self) -> list[str]:
        """Notes on loops and devices that the figures depend on."""
        notes = []
        if self.open_loops:
            notes.append(
                f"the trips of {', '.join(map(repr, self.open_loops))} depend on the data; "
                f"--trip {self.open_loops[0]}=N (trips=) says them"
            )
        if self.bounded_loops:
            notes.append(f"loops that may end before: {', '.join(self.bounded_loops)}; their trips are a bound")
        for sizes in self.meshes:
            axes = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
            which = "of one of them" if self.per_device else "of all of them (--per-device: of one)"
            number = math.prod(sizes.values())
            notes.append(f"shard_map over {counted(number, 'device')} ({axes}): figures in it are {which}")
        return notes

    def _module(self, stack: tuple[str, ...], depth: int) -> Module:
        path = ".".join(stack[:depth])
        return Module(path, self.kinds.get(path, ""))

    def _fresh(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}:{self._names[name]}"

    def _body(
        self,
        inner: Inner,
        part: str,
        arguments: Sequence[Tensor | None],
        place: Place,
        trips: int | None,
        branch: bool = False,
    ) -> _Run:
        """Run a body of the node that was added last at its place; what is not handed over is its own."""
        owner = next(n for n in range(len(self.nodes) - 1, -1, -1) if self.nodes[n].within == place.within)
        name, start = self.nodes[owner].name, len(self.nodes)
        own = [
            tensor or replace(template, name=f"{name}/{part}/{i}")
            for i, (tensor, template) in enumerate(zip(arguments, inner.takes, strict=True))
        ]
        body = Body(owner, part, trips, branch)
        return _Run(own, inner.run(own, replace(place, within=(*place.within, body))), start, len(self.nodes))

    def scan(self, operation: Operation, length: int, constant: int, inner: Inner) -> list[Tensor]:
        """A scan: its constants are those outside, what is carried and scanned is its own."""
        taken = operation.taken
        results = self.add(operation, Lowered("Scan", tuple(taken), {"length": length}))
        handed = [*taken[:constant], *[None] * (len(taken) - constant)]
        self._body(inner, "body", handed, operation.place, length)
        return results

    def loop(self, operation: Operation, outer: int, inner: int, condition: Inner, body: Inner) -> list[Tensor]:
        """A while loop: its condition runs once more than its body.

        Args:
            operation: it takes what its condition takes from outside, then what its body does, then what is carried.
            outer: tensors that the condition takes from outside.
            inner: those that the body does.
            condition: the condition.
            body: what it runs.
        """
        taken, place = operation.taken, operation.place
        results = self.add(operation, Lowered("Loop", tuple(taken)))
        name, carried = self.nodes[-1].name, taken[outer + inner :]
        given = Trips(self.trips[name]) if name in self.trips else None
        opened, bounded = len(self.open_loops), len(self.bounded_loops)
        own = [None] * len(carried)
        tests = self._body(condition, "condition", [*taken[:outer], *own], place, None)
        steps = self._body(body, "body", [*taken[outer : outer + inner], *own], place, None)
        trips = given or _trips_of(self.nodes, tests, steps, outer, inner, carried)
        number = trips.number
        if number is None:
            self.open_loops.insert(opened, name)
            return results
        if trips.bound:
            self.bounded_loops.insert(bounded, f"{name} ({number:,})")
        depth = len(place.within)
        for run, times in ((tests, number + 1), (steps, number)):
            for at in range(run.start, run.end):
                node = self.nodes[at]
                around = node.within[depth]._replace(trips=times, bound=trips.bound)
                self.nodes[at] = replace(node, within=(*node.within[:depth], around, *node.within[depth + 1 :]))
        return results

    def choice(self, operation: Operation, branches: Sequence[Inner]) -> list[Tensor]:
        """A choice between branches by what the operation takes first; one that is known beforehand runs alone."""
        taken, place = operation.taken, operation.place
        which = integer(taken[0])
        if which is not None:
            return branches[min(max(which, 0), len(branches) - 1)].run(taken[1:], place)
        results = self.add(operation, Lowered("If", tuple(taken)))
        parts = ["else_branch", "then_branch"] if len(branches) == 2 else [f"branch[{i}]" for i in range(len(branches))]
        for part, branch in zip(parts, branches, strict=True):
            self._body(branch, part, taken[1:], place, 1, branch=True)
        return results

    def devices(self, operation: Operation, sizes: Mapping[str, int], inner: Inner) -> list[Tensor]:
        """A program that each device of a mesh of these sizes runs on its own part."""
        if sizes not in self.meshes:
            self.meshes.append(sizes)
        number, taken, place = math.prod(sizes.values()), operation.taken, operation.place
        results = self.add(operation, Lowered("lax::shard_map", tuple(taken), {"devices": number}))
        whole = [t if t.shape == part.shape else None for t, part in zip(taken, inner.takes, strict=True)]
        place = replace(place, mesh={**place.mesh, **sizes})
        self._body(inner, "device", whole, place, 1 if self.per_device else number)
        return results

    def reduction(self, operation: Operation, inner: Inner) -> list[Tensor]:
        """A reduction by a function of the program's own, which runs for each element, or each place of each window."""
        results = self.add(operation, Lowered(f"lax::{operation.primitive}", tuple(operation.taken)))
        times = operation.taken[0].numel
        if "window_dimensions" in operation.params:
            times = results[0].numel * math.prod(map(extent_of, operation.params["window_dimensions"]))
        self._body(inner, "body", [None] * len(inner.takes), operation.place, times)
        return results


class _Run(NamedTuple):
    """A body as it was run: what it took, what it gives back, and the places of its nodes."""

    taken: list[Tensor]
    results: list[Tensor]
    start: int
    end: int


def integer(tensor: Tensor | None) -> int | None:
    """The integer that a literal is, which is its name; None for any other tensor."""
    try:
        return int(tensor.name) if tensor is not None and tensor.kind == "constant" and not tensor.shape else None
    except ValueError:
        return None


def _trips_of(
    nodes: Sequence[Node], tests: _Run, steps: _Run, outer: int, inner: int, operands: Sequence[Tensor]
) -> Trips:
    """The trips of a while loop, as its condition and its body count them.

    Args:
        nodes: those of the program.
        tests: the condition.
        steps: the body.
        outer: tensors that the condition takes from outside.
        inner: those that the body does.
        operands: what the loop carries, as it begins.
    """
    own = [node for run in (tests, steps) for node in nodes[run.start : run.end]]
    tensors = {t.name: t for t in (*tests.results, *(t for node in own for t in node.known_inputs))}
    carried = {}
    for start, test, before, after in zip(
        operands, tests.taken[outer:], steps.taken[inner:], steps.results, strict=True
    ):
        carried[test.name] = carried[before.name] = Carried(integer(start), before.name, after.name)
    makers = {
        t.name: (n.op, ["" if one is None else one.name for one in n.inputs]) for n in own for t in n.known_outputs
    }
    try:
        number, bound = Counting(makers, carried, lambda name: integer(tensors.get(name))).ends(tests.results[0].name)
    except (UnresolvedError, LookupError):
        return Trips(None)
    return Trips(number, number is not None and bound)
