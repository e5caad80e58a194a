"""A jaxpr as nodes: calls in place of what they call, and the bodies of control flow after their operator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, SupportsIndex, TypeGuard

import numpy

from flopwise.errors import counted
from flopwise.formats.jax.table import Equation, Lowered, extent_of, lower
from flopwise.graph import STORED, Body, Kind, Module, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.folding import WRITES
from flopwise.readers.inputs import dtype_of

# The parts of a jaxpr that are read; JAX's own have them, and so do the programs that a StableHLO module becomes.


class Atom(Protocol):
    """A variable or a literal."""

    @property
    def aval(self) -> object: ...


class Literal(Atom, Protocol):
    """A number that stands in the program."""

    @property
    def val(self) -> object: ...


class JaxprEqn(Protocol):
    """A primitive applied to atoms."""

    @property
    def primitive(self) -> Any: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def invars(self) -> Sequence[Atom]: ...
    @property
    def outvars(self) -> Sequence[Atom]: ...
    @property
    def source_info(self) -> Any: ...


class Jaxpr(Protocol):
    """Equations in order, between the variables that they take and the atoms that they give back."""

    @property
    def invars(self) -> Sequence[Atom]: ...
    @property
    def constvars(self) -> Sequence[Atom]: ...
    @property
    def eqns(self) -> Sequence[JaxprEqn]: ...
    @property
    def outvars(self) -> Sequence[Atom]: ...


class Closed(Protocol):
    """A program with its constants."""

    @property
    def jaxpr(self) -> Jaxpr: ...
    @property
    def consts(self) -> Sequence[Any]: ...


def is_literal(atom: Atom) -> TypeGuard[Literal]:
    return hasattr(atom, "val")


# Trips of a while loop whose condition counts steps.

#: Comparison -> the same with its sides exchanged.
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}


class Trips(NamedTuple):
    """Trips of a loop; None where they are unknown."""

    number: int | None
    #: Whether it may end before.
    bound: bool = False


def trips_of(params: Mapping[str, Any], operands: Sequence[int | None]) -> Trips:
    """The trips of a while loop.

    A condition that compares what the body steps by a constant with a constant says them. Where other conditions must
    hold as well, they are a bound.

    Args:
        params: those of its equation.
        operands: the integers among what it takes; None for what is not known.
    """
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    outer, inner = params["cond_nconsts"], params["body_nconsts"]
    made = {out: eqn for eqn in condition.eqns for out in eqn.outvars}
    loop = _Loop(condition, body, outer, inner, operands)
    parts = list(_conjuncts(condition.outvars[0], made))
    steps = [trips for part in parts if (trips := loop.trips(None if is_literal(part) else made.get(part))) is not None]
    if not steps:
        return Trips(None)
    return Trips(min(steps), bound=len(steps) < len(parts))


def _conjuncts(atom: Atom, made: Mapping[Atom, JaxprEqn]) -> list[Atom]:
    """The conditions that must hold together."""
    eqn = None if is_literal(atom) else made.get(atom)
    if eqn is not None and eqn.primitive.name == "and":
        return [part for side in eqn.invars for part in _conjuncts(side, made)]
    if eqn is not None and eqn.primitive.name == "convert_element_type":
        return _conjuncts(eqn.invars[0], made)
    return [atom]


class _Loop(NamedTuple):
    """A while loop: what its condition and its body take, and the integers outside that are known."""

    condition: Jaxpr
    body: Jaxpr
    outer: int
    inner: int
    operands: Sequence[int | None]

    def trips(self, comparison: JaxprEqn | None) -> int | None:
        """The trips that a comparison allows; None where it does not say."""
        if comparison is None or comparison.primitive.name not in _MIRRORED:
            return None
        kind = comparison.primitive.name
        left, right = comparison.invars
        for counter, limit, relation in ((left, right, kind), (right, left, _MIRRORED[kind])):
            place, end = self.carried(counter), self.constant(limit)
            if place is None or end is None:
                continue
            start, step = self.operands[self.outer + self.inner + place], self.step(place)
            if start is None or not step:
                continue
            distance = end - start
            if relation == "ne" and distance % step == 0 and distance // step >= 0:
                return distance // step
            if relation == "ne" or (relation in ("lt", "le")) != (step > 0):
                continue
            size, reach = abs(step), distance if step > 0 else -distance
            return max(0, reach // size + 1 if relation in ("le", "ge") else -(-reach // size))
        return None

    def carried(self, atom: Atom) -> int | None:
        """The place among what is carried from trip to trip; None for anything else."""
        places = [place for place, var in enumerate(self.condition.invars[self.outer :]) if var is atom]
        return places[0] if places else None

    def constant(self, atom: Atom) -> int | None:
        """An integer that does not change from trip to trip."""
        if is_literal(atom):
            return integer(atom.val)
        outside = [place for place, var in enumerate(self.condition.invars[: self.outer]) if var is atom]
        if outside:
            return self.operands[outside[0]]
        place = self.carried(atom)
        if place is not None and self.body.outvars[place] is self.body.invars[self.inner + place]:
            return self.operands[self.outer + self.inner + place]
        return None

    def step(self, place: int) -> int | None:
        """The number that a trip adds to an integer that is carried."""
        result, before = self.body.outvars[place], self.body.invars[self.inner + place]
        eqn = next((eqn for eqn in self.body.eqns if any(out is result for out in eqn.outvars)), None)
        if eqn is None or eqn.primitive.name not in ("add", "sub"):
            return None
        left, right = eqn.invars
        if left is before and is_literal(right):
            step = integer(right.val)
            return step if step is None or eqn.primitive.name == "add" else -step
        if right is before and is_literal(left) and eqn.primitive.name == "add":
            return integer(left.val)
        return None


def integer(value: object) -> int | None:
    """The integer that a constant without axes is; None for anything else."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, bool) or getattr(value, "shape", ()) != () or (dtype is not None and dtype.kind not in "iu"):
        return None
    try:
        return value.__index__() if isinstance(value, SupportsIndex) else None
    except (TypeError, ValueError):
        return None


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
