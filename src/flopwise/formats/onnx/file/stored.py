"""The stored tensors of an ONNX model: what each is for, what an exporter noted about it, and where it is."""

from __future__ import annotations

import functools
import math
import re
from collections import ChainMap
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flopwise.errors import ModelError
from flopwise.formats.onnx.file import roles
from flopwise.formats.onnx.file.literal import elements
from flopwise.formats.onnx.file.model import Attributes, Graph, Node
from flopwise.formats.onnx.file.skeleton import TAG, Stored
from flopwise.graph import Kind, StoredTensor
from flopwise.graph.dtypes import BITS
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
            from flopwise.formats.onnx.file.elements import stored_tensor

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
    uses = roles.uses(nodes, initializers, operations)
    noted = bool(notes.kinds or notes.origins)
    kinds: dict[object, Kind] = {}  # models of 100,000 tensors have a handful of cases
    for key, tensor in initializers.items():
        taken, by_exporter = uses.get(key, ()), notes.kind(key, initializers) if noted else None
        like = (tensor.dtype, len(tensor.dims), by_exporter, id(taken))
        kind = kinds.get(like)
        if kind is None:
            kind = kinds[like] = roles.kind_of(tensor.dtype, len(tensor.dims), taken, by_exporter)
        stored.kinds[key] = kind
    makers = roles.operations_of(operations, "Constant", "ConstantOfShape")
    constants = [node for node in own if node.operation in makers and node.outputs] if makers else []
    names = {*initializers, *(n.outputs[0] for n in constants if n.op == "Constant")} if constants else set()
    for node in constants:
        key = node.outputs[0]
        if node.domain or not key:
            continue
        fact, taken = shapes.of(key), uses.get(key, ())
        if node.op == "Constant":
            shape = fact.extents or ()
            case = (fact.dtype, fact.extents, id(taken))
            kind = kinds.get(case)
            if kind is None:
                kind = kinds[case] = roles.kind_of_constant(fact.dtype, len(shape), math.prod(shape), taken)
            stored.kinds[key] = kind
            _add_constant(stored, node, kind, fact.dtype or "float32", storage)
        else:
            _add_filled(stored, node, fact, taken, names)
    return stored


def _add_filled(stored: StoredTensors, node: Node, fact: Fact, taken: tuple[roles.Use, ...], names: set[str]) -> None:
    """Take in what a ConstantOfShape makes if the file states its shape; in that of an activation it is work space."""
    shape, key = fact.extents, node.outputs[0]
    if node.inputs and node.inputs[0] in names and shape is not None:
        kind = roles.kind_of_filled(fact.dtype, len(shape), taken)
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
