"""A jaxpr as nodes: calls in place of what they call, and the bodies of control flow after their operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from flopwise.formats.jax.nodes import Inner, Nodes, Operation, Place, tensor_of
from flopwise.formats.jax.table import extent_of
from flopwise.graph import Tensor

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

    Atom: TypeAlias = "Var | Literal"

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


class Walk(Nodes):
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
            kinds: as in ``Nodes``, and so are the next three.
            trips: how often loops run.
            changing: whether the program trains.
            per_device: whether what many devices run counts once.
            stored: the tensor of an array that the program holds.
        """
        super().__init__(kinds, trips, changing, per_device)
        self.stored = stored

    def run(self, jaxpr: Jaxpr, consts: Iterable[Any], arguments: Sequence[Tensor], place: Place) -> list[Tensor]:
        """The results of a program for some tensors; its nodes are added."""
        tensors: dict[Any, Tensor] = dict(zip(jaxpr.invars, arguments, strict=True))
        tensors.update((var, self.stored(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))

        def read(atom: Atom) -> Tensor:
            """The tensor of a variable; that of a literal has its value for a name."""
            if not hasattr(atom, "val"):
                return tensors[atom]
            return tensor_of(str(numpy.asarray(atom.val).item()), atom.aval, "constant")

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [read(atom) for atom in eqn.invars], place)
            tensors.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: JaxprEqn, taken: list[Tensor], place: Place) -> list[Tensor]:
        name, params = eqn.primitive.name, eqn.params
        stack = getattr(eqn.source_info.name_stack, "stack", ())
        place = place.inside([n for part in stack if type(part).__name__ == "Scope" for n in part.name.split("/")])
        called = params.get(CALLS.get(name, ""))
        if _is_program(called):
            inner = self._inner(called)
            if len(inner.takes) == len(taken):
                return inner.run(taken, place)
        operation = Operation(name, params, taken, [var.aval for var in eqn.outvars], place, f"lax.{name}")
        adding = _CONTROL.get(name)
        return self.add(operation) if adding is None else adding(self, operation)

    def _inner(self, program: Any) -> Inner:
        jaxpr, consts = _opened(program)
        takes = [tensor_of("", var.aval) for var in jaxpr.invars]
        return Inner(takes, lambda arguments, place: self.run(jaxpr, consts, arguments, place))

    def _scan(self, operation: Operation) -> list[Tensor]:
        params = operation.params
        return self.scan(operation, extent_of(params["length"]), params["num_consts"], self._inner(params["jaxpr"]))

    def _while(self, operation: Operation) -> list[Tensor]:
        params = operation.params
        condition, body = self._inner(params["cond_jaxpr"]), self._inner(params["body_jaxpr"])
        return self.loop(operation, params["cond_nconsts"], params["body_nconsts"], condition, body)

    def _cond(self, operation: Operation) -> list[Tensor]:
        return self.choice(operation, [self._inner(branch) for branch in operation.params["branches"]])

    def _shard_map(self, operation: Operation) -> list[Tensor]:
        params = operation.params
        sizes = {str(axis): int(size) for axis, size in params["mesh"].shape.items()}
        manual = {str(axis) for axis in params.get("manual_axes", params.get("newly_manual_axes", sizes))}
        sizes = {axis: size for axis, size in sizes.items() if axis in manual}
        return self.devices(operation, sizes, self._inner(params["jaxpr"]))

    def _reduce(self, operation: Operation) -> list[Tensor]:
        return self.reduction(operation, self._inner(operation.params["jaxpr"]))

    def _linear_solve(self, operation: Operation) -> list[Tensor]:
        """A solution of linear equations by a function of the program's own."""
        lengths, taken = operation.params["const_lengths"], operation.taken
        before = lengths.matvec + lengths.vecmat
        constants = taken[before : before + lengths.solve]
        solve = self._inner(operation.params["jaxprs"].solve)
        return solve.run([*constants, *taken[sum(lengths) :]], operation.place)


#: Primitives that run programs of their own -> what makes nodes of them.
_CONTROL: Mapping[str, Callable[[Any, Operation], list[Tensor]]] = {
    "scan": Walk._scan,
    "while": Walk._while,
    "cond": Walk._cond,
    "shard_map": Walk._shard_map,
    "reduce": Walk._reduce,
    "reduce_window": Walk._reduce,
    "custom_linear_solve": Walk._linear_solve,
}

#: Every primitive that is looked into.
OPENED: frozenset[str] = frozenset({*CALLS, *_CONTROL})


def _is_program(value: object) -> bool:
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
