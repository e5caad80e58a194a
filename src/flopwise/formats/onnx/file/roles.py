"""The kind of each stored tensor of an ONNX model: a trained weight, a buffer beside the weights, or a constant.

The file does not say, so the use decides: the operators that take the tensor and the place among their inputs. Where a
PyTorch exporter left a note, the note decides.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence

from flopwise.formats.onnx.file.model import Node, Operation
from flopwise.graph import Kind
from flopwise.graph.dtypes import is_float
from flopwise.operators.inputs import Input, Role, scale
from flopwise.operators.operator import Operator
from flopwise.operators.tables import find, row

#: What an operator carries of its first input where its result is the same stored data in another form.
_SAME_DATA = frozenset({"same", "moved", "broadcast"})

_SCALES: frozenset[Role] = frozenset({"scale", "zero point"})

#: Inputs that hold statistics or quantisation parameters: not trained, but stored beside the weights.
_BUFFERS: frozenset[Role] = _SCALES | {"statistic"}

#: Inputs where a tensor made by ConstantOfShape is a weight whose values the file does not keep.
_WEIGHTS: frozenset[Role] = frozenset({"weight", "statistic"})

#: Integer types in which quantised weights are stored; wider integers count, index or steer shapes.
_QUANTISED = frozenset({"int8", "uint8", "uint6", "int4", "uint4", "uint3", "int2", "uint2", "uint1"})

#: One use of a tensor: what the operator takes it for.
Use = Input

#: How a scale is used.
_SCALES_ALONE: tuple[Use, ...] = (scale(),)


def uses(nodes: Sequence[Node], stored: Iterable[str], operations: Collection[Operation]) -> dict[str, tuple[Use, ...]]:
    """Who takes each stored tensor; operators that only change its form are looked through.

    Args:
        nodes: the operators in execution order.
        stored: the names of the stored tensors; constants in the graph are added to them.
        operations: the distinct operations of the operators.

    What multiplies a scale that is found anew in each inference is a scale as well: dynamic quantisation writes the
    requantisation of a MatMulInteger as Cast and Mul.
    """
    kinds = {(operation.domain, operation.op) for operation in operations}
    rows = {kind: row_of(*kind) for kind in kinds}
    by_place = {kind: _UsesByPlace(rows[kind]) for kind in kinds}
    own_uses = {operation: by_place[operation.domain, operation.op] for operation in operations}
    same = {operation for operation in operations if rows[operation.domain, operation.op].carries in _SAME_DATA}
    constants = operations_of(operations, "Constant", "ConstantOfShape")
    scales = _found_scales(nodes, operations_of(operations, "DynamicQuantizeLinear"))
    names, takers = _takers(nodes, stored, constants, same)
    taken: dict[str, tuple[Use, ...]] = {}
    for node in reversed(takers):
        operation, _, inputs, outputs, _ = node
        own, moves = own_uses[operation], operation in same and outputs
        rescales = scales and operation.op == "Mul" and not scales.isdisjoint(inputs)
        for place, name in enumerate(inputs):
            if name not in names:
                continue
            if rescales and name not in scales:
                use = _SCALES_ALONE
            elif moves and place == 0:
                use = taken.get(outputs[0], ())
            else:
                use = own[place]
            before = taken.setdefault(name, use)
            if before is not use:
                taken[name] = _together(before, use)
    return taken


class _UsesByPlace(dict[int, tuple[Use, ...]]):
    """The use that an operator makes of each of its inputs, by place: most tensors have one, and many the same."""

    def __init__(self, row: Operator) -> None:
        super().__init__()
        self._inputs = row.inputs

    def __missing__(self, place: int) -> tuple[Use, ...]:
        self[place] = use = (self._inputs.input(place),)
        return use


def _found_scales(nodes: Iterable[Node], quantising: set[Operation]) -> set[str]:
    """The names of the scales that operators find in each inference."""
    if not quantising:
        return set()
    return {name for node in nodes if node.operation in quantising for name in node.outputs[1:2] if name}


def _takers(
    nodes: Iterable[Node], stored: Iterable[str], constants: Container[Operation], same: Container[Operation]
) -> tuple[set[str], list[Node]]:
    """The names of stored tensors and of their other forms, and the operators that take them."""
    names, takers = set(stored), []
    for node in nodes:
        operation, _, inputs, outputs, _ = node
        if operation in constants:
            names.update(outputs[:1])
        if not names.isdisjoint(inputs):
            takers.append(node)
            if operation in same and outputs and inputs[0] in names:
                names.add(outputs[0])
    names.discard("")  # what is left out
    return names, takers


def _together(some: tuple[Use, ...], others: tuple[Use, ...]) -> tuple[Use, ...]:
    """Uses, each once: else they would grow with each link of a chain that changes the form."""
    return (*some, *(use for use in others if not any(use is one for one in some)))


def operations_of(operations: Iterable[Operation], *names: str) -> set[Operation]:
    """Those of operators of these names."""
    return {operation for operation in operations if operation.op in names}


def row_of(domain: str, op: str) -> Operator:
    """The row of an operator; for an unknown domain, that of the operator of the same name."""
    name = f"{domain}::{op}" if domain else op
    return find(name) or row(op)


def _all(uses: Iterable[Use], *roles: Role) -> bool:
    listed = list(uses)
    return bool(listed) and all(use.role in roles for use in listed)


def _biases(uses: Iterable[Use]) -> bool:
    """True if all uses, one at least, are biases that are stored in 32 bits beside 8-bit weights."""
    listed = list(uses)
    return bool(listed) and all(use.wide_bias for use in listed)


def kind_of(dtype: str | None, rank: int, taken: Iterable[Use], noted: Kind | None = None) -> Kind:
    """The kind of a stored tensor: "weight", "buffer" or "constant".

    Args:
        dtype: element type.
        rank: number of dims.
        taken: its uses.
        noted: what its exporter says that it is.
    """
    taken = list(taken)
    whole = dtype in _QUANTISED or (dtype == "int32" and _biases(taken))
    if not (is_float(dtype) or whole or (dtype or "").startswith("complex")):
        return "buffer" if dtype == "int32" and _all(taken, *_BUFFERS) else "constant"
    if noted is not None:
        return noted
    if _all(taken, *_BUFFERS):
        return "buffer"
    if rank == 0 or _all(taken, "setting"):
        return "constant"
    return "weight"


def kind_of_filled(dtype: str | None, rank: int, taken: Iterable[Use]) -> Kind | None:
    """The kind of a ConstantOfShape's result: a weight or buffer if it is used as one, else None."""
    taken = list(taken)
    if not is_float(dtype) or rank == 0 or not _all(taken, *_WEIGHTS):
        return None
    return "buffer" if _all(taken, *_BUFFERS) else "weight"


def kind_of_constant(dtype: str | None, rank: int, elements: int, taken: Iterable[Use]) -> Kind:
    """The kind of a Constant's result: exporters write settings and single numbers there, but weights as well."""
    taken = list(taken)
    if (elements <= 1 and not _all(taken, *_SCALES)) or _all(taken, "state"):
        return "constant"
    return kind_of(dtype, rank, taken)
