"""The stored tensors of an ONNX model: what each is for, what an exporter noted about it, and where it is."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.graph import Kind, StoredTensor
from flopwise.readers.onnx.build import roles
from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import TAG, Stored
from flopwise.readers.onnx.listing import Listed
from flopwise.readers.onnx.types import Shapes

if TYPE_CHECKING:
    from flopwise.readers.weights.storage import SourceStorage

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
        """What a tensor is according to the exporter; None when the exporter does not say.

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


def notes(graph: onnx.GraphProto) -> Notes:
    """The exporter's notes on a graph whose values still have theirs."""
    signature = next((str(e.value) for e in graph.metadata_props if e.key == SIGNATURE), "")
    kinds = {name: kind for kind, name in _SIGNED.findall(signature)}
    origins: dict[str, tuple[str, ...]] = {}
    for name, key, value in _entries(graph.value_info):
        if key == KIND:
            kinds[name] = value
        elif key == FOLDED_FROM:
            origins[name] = tuple(_QUOTED.findall(value))
    return Notes(kinds, origins, bool(signature))


def _entries(values: Iterable[onnx.ValueInfoProto]) -> Iterable[tuple[str, str, str]]:
    return ((v.name, e.key, str(e.value)) for v in values for e in v.metadata_props)


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
        self._tensors: dict[str, StoredTensor | Entry | Stored] = {}
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
            from flopwise.readers.onnx.file.elements import stored_tensor

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
    """What is known about the tensors of a model that are not made anew in each inference."""

    #: Name -> what the tensor is; activations are left out.
    kinds: dict[str, Kind]
    #: The tensors with elements.
    weights: dict[str, StoredTensor | Entry | Stored]
    #: Name -> the first name of the same stored tensor (a function's constant appears wherever the function is called).
    first: dict[str, str]
    #: Mark of a tensor in an attribute -> the first name of its value.
    marks: dict[str, str]


def stored_tensors(
    own: Sequence[Listed],
    nodes: Sequence[Listed],
    shapes: Shapes,
    initializers: Mapping[str, Stored],
    inner: Mapping[str, Stored],
    name: str,
    storage: SourceStorage | None,
    notes: Notes,
) -> StoredTensors:
    """Kinds and elements of the initialisers of a graph, and of the constants that its nodes hold.

    Args:
        own: its nodes in execution order.
        nodes: the nodes that may use its tensors: its own, and those in its bodies.
        shapes: its shapes.
        initializers: where its initialisers lie.
        inner: where the tensors in attributes lie.
        name: the model, for messages.
        storage: its file; None where it is in memory.
        notes: what an exporter wrote about tensors.
    """
    stored = StoredTensors({}, {}, {}, {})
    uses = roles.uses(nodes, initializers)
    noted = bool(notes.kinds or notes.origins)
    kinds: dict[object, Kind] = {}  # models of 100,000 tensors have a handful of cases
    for key, tensor in initializers.items():
        taken, by_exporter = uses.get(key, ()), notes.kind(key, initializers) if noted else None
        like = (tensor.dtype, len(tensor.dims), by_exporter, *map(id, taken))
        kind = kinds.get(like)
        if kind is None:
            kind = kinds[like] = roles.kind_of(tensor.dtype, len(tensor.dims), taken, by_exporter)
        stored.kinds[key] = kind
        stored.weights[key] = tensor
    constants = [n for n in own if n.op in ("Constant", "ConstantOfShape") and n.outputs]
    names = {*initializers, *(n.outputs[0] for n in constants if n.op == "Constant")} if constants else set()
    held: dict[tuple[bytes, ...], tuple[str, Stored | onnx.AttributeProto | None]] = {}
    for node in constants:
        op, inputs, key = node.op, node.inputs, node.outputs[0]
        if node.domain or not key:
            continue
        dtype, shape, taken = shapes.dtype(key), shapes.shape(key), uses.get(key, ())
        if op == "ConstantOfShape":
            # Zeros in the shape of an activation are work space; a shape that the file states is that of a weight.
            stated = bool(inputs) and inputs[0] in names
            if stated and shape is not None and (filled := roles.kind_of_filled(dtype, len(shape), taken)):
                stored.kinds[key] = filled
                stored.weights[key] = _repeated(key, shape, dtype, filled, node.attributes)
            continue
        case = (dtype, shape, *map(id, taken))
        kind = kinds.get(case)
        if kind is None:
            kind = kinds[case] = roles.kind_of_constant(dtype, len(shape or ()), math.prod(shape or ()), taken)
        stored.kinds[key] = kind
        if node.attributes not in held:
            held[node.attributes] = _held(node, inner, name)
        mark, place = held[node.attributes]
        first = stored.marks.setdefault(mark, key) if mark.startswith(TAG) else key
        if first != key:
            stored.first[key] = first
        elif isinstance(place, Stored):
            stored.weights[key] = key, place, kind, storage if mark in inner else None
        elif place is not None:
            stored.weights[key] = _listed(key, place, kind)
    return stored


def _held(node: Listed, inner: Mapping[str, Stored], name: str) -> tuple[str, Stored | onnx.AttributeProto | None]:
    """The name of the message in which a Constant's tensor lies, and its place, or the attribute that lists numbers."""
    for attribute in map(onnx.AttributeProto.FromString, node.attributes):
        form = attribute.type
        if form == onnx.AttributeProto.TENSOR:
            tensor: Any = attribute.t
            mark = str(tensor.name)
        elif form == onnx.AttributeProto.SPARSE_TENSOR:
            tensor = attribute.sparse_tensor
            mark = str(tensor.values.name)
        elif form in (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS):
            return "", attribute
        else:
            continue
        return mark, inner.get(mark) or stored_in_memory(tensor, node.outputs[0], name)
    return "", None


def _listed(key: str, attribute: onnx.AttributeProto, kind: Kind) -> StoredTensor:
    """A tensor that is written as a list of numbers."""
    from flopwise.readers.weights.tensor import in_memory

    if attribute.type == onnx.AttributeProto.FLOATS:
        shape, dtype = (len(attribute.floats),), "float32"
    else:
        shape, dtype = (len(attribute.ints),), "int64"
    values = numpy.array(attribute.floats or attribute.ints, dtype)
    return in_memory(key, functools.partial(numpy.array, values), shape, dtype, role=kind)


def _repeated(key: str, shape: tuple[int, ...], dtype: str | None, kind: Kind, held: Sequence[bytes]) -> StoredTensor:
    """What a ConstantOfShape makes: one value everywhere, 0 if none is given."""
    from flopwise.readers.weights.encoding import RepeatedElements

    tensor = onnx.AttributeProto.FromString(held[0]).t if held else None
    elements = RepeatedElements(functools.partial(_value, key, tensor), shape)
    return StoredTensor(key, shape, dtype or "float32", 0, role=kind, repeated=True, elements=elements)


def _value(key: str, tensor: onnx.TensorProto | None) -> Any:
    """The value that a ConstantOfShape repeats, as an array of one element."""
    from flopwise.readers.weights.encoding import numbers

    try:
        one = numpy.zeros(1, numpy.float32) if tensor is None else numpy_helper.to_array(tensor)
        return numbers(one.ravel()[:1])
    except (IndexError, TypeError, ValueError) as error:
        raise ModelError(f"tensor {key!r} cannot be made ({error})") from error
