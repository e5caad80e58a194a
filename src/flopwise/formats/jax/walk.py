"""A jaxpr as nodes: calls in place of what they call, and the bodies of control flow after their operator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy

from flopwise.errors import counted
from flopwise.formats.jax.jaxpr import Atom, Closed, Jaxpr, JaxprEqn, Literal, is_literal
from flopwise.formats.jax.lower.lowered import Equation, Lowered, extent_of
from flopwise.formats.jax.lower.table import lower
from flopwise.formats.jax.lower.trips import Trips, trips_of
from flopwise.graph import STORED, Body, Kind, Module, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.folding import WRITES
from flopwise.readers.inputs import dtype_of

#: Primitives that call another program -> the parameter that holds it. Its operators stand in place of the call.
CALLS: Mapping[str, str] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",  # its name before JAX 0.7
    "closed_call": "call_jaxpr",
    "call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",  # its name before JAX 0.8
    "custom_jvp_call": "call_jaxpr",
    "custom_jvp_call_jaxpr": "fun_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "custom_partitioning": "call",
    "composite": "jaxpr",
    "linear_call": "callee",
    "jaxpr_call": "jaxpr",
    "eval_jaxpr": "jaxpr",
    "custom_lin": "bwd",
}

#: Steps of a name stack that stand for what JAX does, not for a module. Those of equinox have the class alone.
_STEPS = frozenset({"checkpoint", "rematted_computation", "remat", "eqx"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where an equation stands: the modules and the control flow around it, and the devices of its mesh."""

    stack: tuple[str, ...] = ()
    within: tuple[Body, ...] = ()
    mesh: Mapping[str, int] = field(default_factory=dict)


def tensor_of(name: str, aval: object, kind: Kind = "activation") -> Tensor:
    """The tensor of an abstract value."""
    inner = getattr(aval, "inner_aval", aval)  # of a reference
    dtype, shape = str(getattr(inner, "dtype", "float32")), getattr(inner, "shape", ())
    if dtype.startswith("key<"):  # the key of random numbers: two words, or four
        return Tensor(name, (*map(extent_of, shape), 2 if "fry" in dtype else 4), "uint32", kind)
    known = dtype_of("bool" if dtype == "float0" else dtype)
    return Tensor(name, tuple(map(extent_of, shape)), known if known in BITS else None, kind)


class Walk:
    """The nodes of a program, equation by equation."""

    def __init__(
        self,
        kinds: Mapping[str, str],
        trips: Mapping[str, int],
        changing: bool,
        per_device: bool,
        stored: Callable[[Any], Tensor],
    ) -> None:
        """
        Args:
            kinds: path of a module -> its class.
            trips: how often loops run, by the name of their node.
            changing: whether the program trains, so that what depends on weights alone runs each time.
            per_device: whether what many devices run counts once.
            stored: the tensor of an array that the program holds.
        """
        self.kinds, self.trips, self.changing, self.per_device, self.stored = kinds, trips, changing, per_device, stored
        self.nodes: list[Node] = []
        #: Names of loops whose trips are unknown, or at most as many as counted; sizes of meshes.
        self.open_loops: list[str] = []
        self.bounded_loops: list[str] = []
        self.meshes: list[Mapping[str, int]] = []
        self._names: Counter[str] = Counter()
        self._settled: set[str] = set()
        self._positions: dict[str, int] = {}

    def run(self, jaxpr: Jaxpr, consts: Iterable[Any], arguments: Sequence[Tensor], place: Place) -> list[Tensor]:
        """The results of a program for some tensors; its nodes are added."""
        tensors: dict[Atom, Tensor] = dict(zip(jaxpr.invars, arguments, strict=True))
        tensors.update((var, self.stored(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))

        def read(atom: Atom) -> Tensor:
            return _literal(atom) if is_literal(atom) else tensors[atom]

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [read(atom) for atom in eqn.invars], _inside(place, eqn))
            tensors.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        name, params = eqn.primitive.name, eqn.params
        called = params.get(CALLS.get(name, ""))
        if _is_program(called):
            jaxpr, consts = _opened(called)
            if len(jaxpr.invars) == len(taken):
                return self.run(jaxpr, consts, taken, place)
        if name in _CONTROL:
            return _CONTROL[name](self, eqn, taken, place)
        return list(self._node(eqn, taken, place).known_outputs)

    def _node(self, eqn: JaxprEqn, taken: Sequence[Tensor], place: Place, lowered: Lowered | None = None) -> Node:
        """A node for an equation, added; ``lowered`` where the table does not say what it is."""
        primitive = eqn.primitive.name
        path = ".".join(place.stack)
        name = self._fresh(f"{path}.{primitive}" if path else primitive)
        several = len(eqn.outvars) > 1
        outputs = tuple(tensor_of(f"{name}.{i}" if several else name, var.aval) for i, var in enumerate(eqn.outvars))
        if lowered is None:
            lowered = lower(Equation(primitive, eqn.params, tuple(taken), outputs, place.mesh))
        attrs = dict(lowered.attrs)
        if self.changing and taken and all(t.kind in STORED or t.name in self._settled for t in taken):
            self._settled.update(t.name for t in outputs)
            if any(t.kind == "weight" or t.name in self._settled for t in taken):
                attrs[WRITES] = True
        origin = getattr(eqn, "origin", "") or f"lax.{primitive}"
        modules = tuple(self._module(place.stack, depth) for depth in range(1, len(place.stack) + 1))
        node = Node(lowered.op, name, lowered.inputs, outputs, attrs, modules, origin, 0, place.within)
        self._positions[name] = len(self.nodes)
        self.nodes.append(node)
        return node

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
        program: Closed | Jaxpr,
        node: Node,
        part: str,
        arguments: Sequence[Tensor | None],
        place: Place,
        trips: Trips,
        branch: bool = False,
    ) -> list[Tensor]:
        """Run a body of a node; where no tensor is handed over, the body has one of its own."""
        body = Body(self._positions[node.name], part, trips.number, branch, trips.bound)
        jaxpr, consts = _opened(program)
        own = [
            tensor or tensor_of(f"{node.name}/{part}/{i}", var.aval)
            for i, (tensor, var) in enumerate(zip(arguments, jaxpr.invars, strict=True))
        ]
        return self.run(jaxpr, consts, own, replace(place, within=(*place.within, body)))

    def scan(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A scan: its constants are those outside, what is carried and scanned is its own."""
        length = extent_of(eqn.params["length"])
        node = self._node(eqn, taken, place, Lowered("Scan", tuple(taken), {"length": length}))
        constant = eqn.params["num_consts"]
        handed = [*taken[:constant], *[None] * (len(taken) - constant)]
        self._body(eqn.params["jaxpr"], node, "body", handed, place, Trips(length))
        return list(node.known_outputs)

    def while_(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A while loop: its condition runs once more than its body."""
        node = self._node(eqn, taken, place, Lowered("Loop", tuple(taken)))
        params = eqn.params
        trips = trips_of(params, [_integer(tensor) for tensor in taken])
        if node.name in self.trips:
            trips = Trips(self.trips[node.name])
        if trips.number is None:
            self.open_loops.append(node.name)
        elif trips.bound:
            self.bounded_loops.append(f"{node.name} ({trips.number:,})")
        outer, inner = params["cond_nconsts"], params["body_nconsts"]
        carried = [None] * (len(taken) - outer - inner)
        tests = Trips(None if trips.number is None else trips.number + 1, trips.bound)
        self._body(params["cond_jaxpr"], node, "condition", [*taken[:outer], *carried], place, tests)
        self._body(params["body_jaxpr"], node, "body", [*taken[outer : outer + inner], *carried], place, trips)
        return list(node.known_outputs)

    def cond(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A choice between branches; one that is known beforehand runs alone."""
        branches = eqn.params["branches"]
        which = _integer(taken[0])
        if which is not None:
            jaxpr, consts = _opened(branches[min(max(which, 0), len(branches) - 1)])
            return self.run(jaxpr, consts, taken[1:], place)
        node = self._node(eqn, taken, place, Lowered("If", tuple(taken)))
        parts = ["else_branch", "then_branch"] if len(branches) == 2 else [f"branch[{i}]" for i in range(len(branches))]
        for part, branch in zip(parts, branches, strict=True):
            self._body(branch, node, part, taken[1:], place, Trips(1), branch=True)
        return list(node.known_outputs)

    def shard_map(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A program that each device of a mesh runs on its own part."""
        sizes = {str(axis): int(size) for axis, size in eqn.params["mesh"].shape.items()}
        manual = {str(axis) for axis in eqn.params.get("manual_axes", eqn.params.get("newly_manual_axes", sizes))}
        sizes = {axis: size for axis, size in sizes.items() if axis in manual}
        if sizes not in self.meshes:
            self.meshes.append(sizes)
        devices = math.prod(sizes.values())
        node = self._node(eqn, taken, place, Lowered("lax::shard_map", tuple(taken), {"devices": devices}))
        parts = [tensor_of("", var.aval).shape for var in _opened(eqn.params["jaxpr"])[0].invars]
        whole = [tensor if tensor.shape == part else None for tensor, part in zip(taken, parts, strict=True)]
        place = replace(place, mesh={**place.mesh, **sizes})
        self._body(eqn.params["jaxpr"], node, "device", whole, place, Trips(1 if self.per_device else devices))
        return list(node.known_outputs)

    def reduce(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A reduction by a function of the program's own, which runs for each element, or each place of each window."""
        node = self._node(eqn, taken, place, Lowered(f"lax::{eqn.primitive.name}", tuple(taken)))
        times = taken[0].numel
        if "window_dimensions" in eqn.params:
            times = node.output().numel * math.prod(map(extent_of, eqn.params["window_dimensions"]))
        own = [None] * len(_opened(eqn.params["jaxpr"])[0].invars)
        self._body(eqn.params["jaxpr"], node, "body", own, place, Trips(times))
        return list(node.known_outputs)

    def linear_solve(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        """A solution of linear equations by a function of the program's own."""
        lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        before = lengths.matvec + lengths.vecmat
        sides = taken[sum(lengths) :]
        jaxpr, consts = _opened(programs.solve)
        return self.run(jaxpr, consts, [*taken[before : before + lengths.solve], *sides], place)


#: Primitives that run programs of their own -> what makes nodes of them.
_CONTROL: Mapping[str, Callable[[Walk, JaxprEqn, list[Tensor], Place], list[Tensor]]] = {
    "scan": Walk.scan,
    "while": Walk.while_,
    "cond": Walk.cond,
    "shard_map": Walk.shard_map,
    "reduce": Walk.reduce,
    "reduce_window": Walk.reduce,
    "custom_linear_solve": Walk.linear_solve,
}

#: Every primitive that is looked into.
OPENED: frozenset[str] = frozenset({*CALLS, *_CONTROL})


def _is_program(value: object) -> TypeGuard[Closed | Jaxpr]:
    return hasattr(getattr(value, "jaxpr", value), "eqns")


def _opened(program: Any) -> tuple[Jaxpr, Sequence[Any]]:
    """A program without its constants, and these."""
    return (program.jaxpr, program.consts) if hasattr(program, "jaxpr") else (program, ())


def is_backward(program: Jaxpr) -> bool:
    """True where a program computes gradients, which change with each step."""
    for eqn in program.eqns:
        if any(getattr(part, "name", "") == "transpose" for part in getattr(eqn.source_info.name_stack, "stack", ())):
            return True
        for value in eqn.params.values():
            parts = value if isinstance(value, tuple) else (value,)
            if any(is_backward(_opened(part)[0]) for part in parts if _is_program(part)):
                return True
    return False


def _inside(place: Place, eqn: JaxprEqn) -> Place:
    """The place of an equation: the names that the program gave to the steps around it, without JAX's own."""
    stack = getattr(eqn.source_info.name_stack, "stack", ())
    names = [name for part in stack if type(part).__name__ == "Scope" for name in part.name.split("/")]
    steps: list[str] = []
    for name in names:
        module, _, method = name.partition(".")  # flax names methods other than __call__ so
        if module and module not in _STEPS and not (steps and steps[-1] == f"{module}."):
            steps.append(f"{module}." if method else module)
        elif steps and steps[-1] == f"{module}.":
            steps[-1] = module
    path = (*place.stack, *(step.rstrip(".") for step in steps))
    if not steps:
        return place
    last = len(path) - 1 - path[::-1].index(path[0])  # what is computed again has its whole path once more
    return replace(place, stack=path[last:])


def _literal(atom: Literal) -> Tensor:
    """The tensor of a literal, which has its value for a name."""
    return tensor_of(str(numpy.asarray(atom.val).item()), atom.aval, "constant")


def _integer(tensor: Tensor) -> int | None:
    """The integer that a literal is, which is its name; None for any other tensor."""
    try:
        return int(tensor.name) if tensor.kind == "constant" and not tensor.shape else None
    except ValueError:
        return None
