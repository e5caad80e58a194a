"""Stored tensors of a program: what each is for, and its elements."""

from __future__ import annotations

import functools
import math
import re
from collections import ChainMap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flopwise.errors import ModelError
from flopwise.formats.kit.program import Attributes, Graph, Node, Operation
from flopwise.formats.kit.tensors import TAG, Stored, elements
from flopwise.graph import Kind, StoredTensor
from flopwise.graph.dtypes import BITS, is_float
from flopwise.operators.inputs import Input, Role, scale
from flopwise.operators.operator import Operator
from flopwise.operators.tables import find, row
from flopwise.sizes.facts import Fact
from flopwise.sizes.scope import Scope

if TYPE_CHECKING:
    from flopwise.formats.weights.storage import SourceStorage

#: On a value: whether it is a parameter, a buffer, a constant or an input.
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"

#: On a value: the tensors from which the exporter computed it.
FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"

#: On the graph: the kinds of all tensors of the module, those included that the file no longer holds.
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"

_KINDS: dict[str, Kind] = {"PARAMETER": "weight", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}
_QUOTED = re.compile(r"'([^']+)'")
_SIGNED = re.compile(r"^\w+: (\w+) target='([^']+)'", re.MULTILINE)


class Notes(NamedTuple):
    """The exporter's notes; empty for a model that another program made."""

    #: Name of a tensor of the module -> PARAMETER, BUFFER or CONSTANT_TENSOR.
    kinds: Mapping[str, str]
    #: Name of a tensor computed at export -> the tensors it was computed from.
    origins: Mapping[str, tuple[str, ...]]
    #: Whether ``kinds`` is complete.
    signed: bool
    #: Kinds that a format knows better than the uses of its tensors say.
    fixed: Mapping[str, Kind] = {}

    def kind(self, name: str, stored: Container[str]) -> Kind | None:
        """The kind of a tensor according to the exporter; None where the exporter does not say.

        What was computed from a parameter that the file still holds is a copy in another form, and counts there; from
        one that the file no longer holds, it is that parameter now; from anything else, it is a constant table.

        Args:
            name: a stored tensor.
            stored: the names of all stored tensors.
        """
        if name in self.origins:
            parameters = [o for o in self.origins[name] if self._is_parameter(o)]
            return "weight" if parameters and not any(o in stored for o in parameters) else "constant"
        return _KINDS.get(self.kinds.get(name, ""))

    def _is_parameter(self, name: str) -> bool:
        """Without the signature, a dotted name is taken for a parameter's: what the exporter names has no dots."""
        return self.kinds.get(name) == "PARAMETER" or (not self.signed and name not in self.kinds and "." in name)


def notes(graph: Graph) -> Notes:
    """The exporter's notes on a graph."""
    signature = graph.metadata.get(SIGNATURE, "")
    kinds = {name: kind for kind, name in _SIGNED.findall(signature)}
    origins: dict[str, tuple[str, ...]] = {}
    for value in graph.values:
        if value.metadata:
            if KIND in value.metadata:
                kinds[value.name] = value.metadata[KIND]
            if FOLDED_FROM in value.metadata:
                origins[value.name] = tuple(_QUOTED.findall(value.metadata[FOLDED_FROM]))
    return Notes(kinds, origins, bool(signature))


#: A tensor's name, where it lies, what it is for, and the file that it lies in, None where it is in memory.
Entry: TypeAlias = "tuple[str, Stored, Kind, SourceStorage | None]"


class Weights(Mapping[str, StoredTensor]):
    """The stored tensors of a model by name; most are made when somebody asks for them."""

    def __init__(self, model: str) -> None:
        """
        Args:
            model: its name, for messages.
        """
        self._model = model
        self._tensors: ChainMap[str, StoredTensor | Entry | Stored] = ChainMap()
        self._kinds: Mapping[str, Kind] = {}
        self._storage: SourceStorage | None = None

    def add(self, stored: StoredTensors, prefix: str, storage: SourceStorage | None) -> None:
        """Take in the tensors of a graph under their names with a prefix; the main graph has none and comes first."""
        if not prefix:
            self._tensors = stored.weights
            self._kinds, self._storage = stored.kinds, storage
            return
        for name, place in stored.weights.items():
            entry = (name, place, stored.kinds[name], storage) if isinstance(place, Stored) else place
            self._tensors[prefix + name] = entry

    def __getitem__(self, name: str) -> StoredTensor:
        tensor = self._tensors[name]
        if not isinstance(tensor, StoredTensor):
            from flopwise.formats.kit.elements import stored_tensor

            entry = (name, tensor, self._kinds[name], self._storage) if isinstance(tensor, Stored) else tensor
            key, place, kind, storage = entry
            place = place if place.name == key else replace(place, name=key)
            tensor = self._tensors[name] = stored_tensor(key, place, kind, self._model, storage)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class StoredTensors(NamedTuple):
    """The tensors of a model that are not computed anew in each inference: kinds, elements, names."""

    #: Name -> what the tensor is; activations are left out.
    kinds: dict[str, Kind]
    #: The tensors with elements; what is set stands before the initialisers, which are as many as the model has.
    weights: ChainMap[str, StoredTensor | Entry | Stored]
    #: Name -> the first name of the same stored tensor (a function's constant appears wherever the function is called).
    first: dict[str, str]
    #: Mark of a tensor in an attribute -> the first name of its value.
    marks: dict[str, str]


def stored_tensors(
    own: Sequence[Node],
    nodes: Sequence[Node],
    shapes: Scope,
    initializers: Mapping[str, Stored],
    storage: SourceStorage | None,
    notes: Notes,
) -> StoredTensors:
    """Kinds and elements of the initialisers of a graph, and of the constants that its nodes hold.

    Args:
        own: its nodes in execution order.
        nodes: the nodes that may use its tensors: its own, and those in its bodies.
        shapes: its shapes.
        initializers: where its initialisers lie.
        storage: its file; None where it is in memory.
        notes: what an exporter wrote about tensors.
    """
    stored = StoredTensors({}, ChainMap({}, initializers), {}, {})  # type: ignore[arg-type] # which are not written to
    operations = {node.operation for node in nodes}
    users = uses(nodes, initializers, operations)
    noted = bool(notes.kinds or notes.origins)
    kinds: dict[object, Kind] = {}  # models of 100,000 tensors have a handful of cases
    for key, tensor in initializers.items():
        if key in notes.fixed:
            stored.kinds[key] = notes.fixed[key]
            continue
        taken, by_exporter = users.get(key, ()), notes.kind(key, initializers) if noted else None
        like = (tensor.dtype, len(tensor.dims), by_exporter, id(taken))
        kind = kinds.get(like)
        if kind is None:
            kind = kinds[like] = kind_of(tensor.dtype, len(tensor.dims), taken, by_exporter)
        stored.kinds[key] = kind
    makers = operations_of(operations, "Constant", "ConstantOfShape")
    constants = [node for node in own if node.operation in makers and node.outputs] if makers else []
    names = {*initializers, *(n.outputs[0] for n in constants if n.op == "Constant")} if constants else set()
    for node in constants:
        key = node.outputs[0]
        if node.domain or not key:
            continue
        fact, taken = shapes.of(key), users.get(key, ())
        if node.op == "Constant":
            shape = fact.extents or ()
            case = (fact.dtype, fact.extents, id(taken))
            kind = kinds.get(case)
            if kind is None:
                kind = kinds[case] = kind_of_constant(fact.dtype, len(shape), math.prod(shape), taken)
            stored.kinds[key] = kind
            _add_constant(stored, node, kind, fact.dtype or "float32", storage)
        else:
            _add_filled(stored, node, fact, taken, names)
    return stored


def _add_filled(stored: StoredTensors, node: Node, fact: Fact, taken: tuple[Use, ...], names: set[str]) -> None:
    """Take in what a ConstantOfShape makes if the file states its shape; in that of an activation it is work space."""
    shape, key = fact.extents, node.outputs[0]
    if node.inputs and node.inputs[0] in names and shape is not None:
        kind = kind_of_filled(fact.dtype, len(shape), taken)
        if kind is not None:
            stored.kinds[key] = kind
            stored.weights[key] = _repeated(key, shape, fact.dtype or "float32", kind, node.attributes)


def _add_constant(stored: StoredTensors, node: Node, kind: Kind, dtype: str, storage: SourceStorage | None) -> None:
    """Take in what a Constant holds; what has a mark is taken in once."""
    key, held = node.outputs[0], _held(node.attributes)
    mark = held.mark if isinstance(held, Stored) else ""
    first = stored.marks.setdefault(mark, key) if mark.startswith(TAG) else key
    if first != key:
        stored.first[key] = first
    elif isinstance(held, Stored):
        stored.weights[key] = key, held, kind, storage if held.places or held.external or held.sparse else None
    elif held is not None:
        stored.weights[key] = _listed(key, held, kind, dtype)


def _held(attributes: Attributes) -> Stored | Sequence[float] | None:
    """The value of a Constant: a tensor, or a list of numbers; None for any other value."""
    for name in ("value", "sparse_value", "value_floats", "value_ints"):
        held: Stored | Sequence[float] | None = attributes.get(name)
        if isinstance(held, Stored | list | tuple):
            return held
    return None


def _listed(key: str, values: Sequence[float], kind: Kind, dtype: str) -> StoredTensor:
    """A tensor that is written as a list of numbers."""
    from flopwise.formats.weights.tensor import ArrayElements

    held = ArrayElements(functools.partial(_array, values, dtype))
    nbytes = len(values) * BITS[dtype] // 8
    return StoredTensor(key, (len(values),), dtype, nbytes, role=kind, elements=held)


def _array(values: Sequence[float], dtype: str) -> object:
    import numpy

    return numpy.array(values, dtype)


def _repeated(key: str, shape: tuple[int, ...], dtype: str, kind: Kind, held: Attributes) -> StoredTensor:
    """The result of a ConstantOfShape: one value everywhere, 0 if none is given."""
    from flopwise.formats.weights.tensor import RepeatedElements

    repeated = RepeatedElements(functools.partial(_value, key, held.get("value"), dtype), shape)
    return StoredTensor(key, shape, dtype, 0, role=kind, repeated=True, elements=repeated)


def _value(key: str, stored: Stored | None, dtype: str) -> Any:
    """The value that a ConstantOfShape repeats, as an array of one element."""
    import numpy

    from flopwise.formats.weights.tensor import numbers

    try:
        values = (0,) if stored is None else elements(stored) or ()
        return numbers(numpy.array(values[:1], "float32" if dtype == "bfloat16" else dtype).reshape(1))
    except (IndexError, TypeError, ValueError) as error:
        raise ModelError(f"tensor {key!r} cannot be made ({error})") from error


# The kind of each: a trained weight, a buffer beside the weights, or a constant.

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


# The same for a format whose files say nothing of training.


def kinds(graph: Graph, quantized: Collection[str], scales: Collection[str] = ()) -> dict[str, Kind]:
    """Kinds of the stored tensors of a program by name.

    Args:
        graph: its main graph, which has all stored tensors.
        quantized: those whose integers stand for real numbers.
        scales: those with their scales and zero points.
    """
    nodes = list(_with_bodies(graph))
    takers = [node for node in nodes if not node.bodies()]
    carried = {name for node in nodes if node.bodies() for name in node.inputs}
    taken = uses(takers, graph.initializers, {taker.operation for taker in takers})
    products = _weights_of_products(takers)
    found: dict[str, Kind] = {}
    for name, stored in graph.initializers.items():
        floating = stored.dtype.startswith(("float", "bfloat", "complex"))
        if (not floating and name not in quantized) or name in scales:
            found[name] = "constant"
        elif name not in products and ((name in carried and name not in taken) or math.prod(stored.dims) <= 1):
            found[name] = "constant"  # where a loop starts, or a factor or an epsilon
        else:
            found[name] = kind_of(stored.dtype if floating else "float32", len(stored.dims) or 1, taken.get(name, ()))
    return found


def _with_bodies(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies():
            yield from _with_bodies(body)


def _weights_of_products(takers: Collection[Node]) -> set[str]:
    """The names of what products take as their weights and biases."""
    names: set[str] = set()
    for taker in takers:
        roles = row_of(taker.domain, taker.op).inputs
        if roles.has_factors:
            names.update(name for place, name in enumerate(taker.inputs) if roles.input(place).role == "weight")
    return names
