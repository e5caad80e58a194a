"""The stored tensors of models with a graph: ONNX, Caffe, and graphs that were read already."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.readers import formats
from flopwise.readers.caffe.file import binary
from flopwise.readers.onnx.file import stored as onnx_stored
from flopwise.readers.onnx.file import weights
from flopwise.readers.onnx.file.skeleton import Place
from flopwise.readers.onnx.file.skeleton import Stored as OnnxStored
from flopwise.readers.source.source import Source
from flopwise.readers.weights import read
from flopwise.readers.weights.encoding import PLAIN, coding, length, numbers
from flopwise.readers.weights.storage import Coded, Loaded, Runs, Store, reading
from flopwise.readers.weights.tensor import NETWORK, Payload, Stored, in_memory, in_store
from flopwise.readers.weights.uses import Use, uses

#: Fields of TensorProto whose bytes are the elements as they are: float, raw and double data.
_PLAIN_FIELDS = {4: "float32", 10: "float64"}
_RAW = 9

#: Elements of a sparse tensor, zeros included, that are written out.
MOST_SPARSE = 1 << 28


def of_model(model: object, options: Mapping[str, Any]) -> Stored:
    """The stored tensors of an ONNX model or a Caffe net.

    Raises:
        ModelError: the model cannot be read.
    """
    if formats.is_caffe(model):
        from flopwise.readers.weights.caffe import of_caffe

        return of_caffe(model, options)
    from flopwise.readers.onnx.read import read_stored

    known = {key: options[key] for key in ("inputs", "dims", "batch_size", "trips") if options.get(key)}
    return of_graph(read_stored(model, **known))


def of_graph(graph: Graph) -> Stored:
    """The stored tensors of a graph, each with the operator that uses it first."""
    reader = _Reader(graph)
    found = [payload for name, load in graph.weights.items() if (payload := reader.payload(name, load))]
    if not found and graph.format == "caffe":
        raise InputError(f"{graph.source}: describes a net without its weights; give its .caffemodel")
    source = graph.source if isinstance(graph.source, str) else graph.name
    return Stored(
        formats.shown(source),
        graph.format,
        tuple(found),
        reader.notes(graph),
        closing=(reader.close,),
        telling=(reader.told,),
    )


class _Reader:
    """Payloads of one graph; the tensors that one source holds share it."""

    def __init__(self, graph: Graph) -> None:
        self.name = graph.source or graph.name
        self.uses = uses(graph)
        self.tensors: dict[str, Tensor] = {
            t.name: t for node in graph.nodes for t in (*node.known_inputs, *node.known_outputs)
        }
        self.stores: dict[object, Store] = {}
        self.telling: list[Callable[[], str]] = []
        self.texts: list[str] = []
        self.made: list[str] = []

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def told(self) -> str:
        """What came over the network by now; the files of a model count together."""
        telling = [store.source.told for store in self.stores.values()]
        return next((text for tell in (*telling, *self.telling) if (text := tell())), "")

    def notes(self, graph: Graph) -> tuple[str, ...]:
        told = [w for w in graph.warnings if NETWORK in w]
        if self.texts:
            told.append(f"{_many(self.texts)} strings and no numbers; left out")
        if self.made:
            told.append(f"{_many(self.made)} one value that ConstantOfShape repeats, and is not stored; left out")
        return tuple(told)

    def payload(self, name: str, load: Callable[[], Any]) -> Payload | None:
        """The payload behind a loader; None for one that is not stored, or holds strings."""
        use = self.uses.get(name, Use())
        tensor = self.tensors.get(name)
        known: dict[str, Any] = {"layer": use.layer, "op": use.op, "slot": use.slot}
        known |= {"zero_point": use.zero_point, "scale": use.scale}
        if isinstance(load, functools.partial) and load.func is onnx_stored._filled:
            self.made.append(name)
            return None
        if isinstance(load, functools.partial) and load.func is read.elements:
            self.telling[:] = [load.args[0].told]
            return load.args[0].payload(name)  # type: ignore[no-any-return]
        stored, reopen = _onnx(load)
        dtype = stored.dtype if stored else (tensor.dtype if tensor else None)
        if dtype == "string":
            self.texts.append(name)
            return None
        known["role"] = tensor.kind if tensor and tensor.kind in ("weight", "buffer", "constant") else "weight"
        if stored is not None:
            return self.onnx(name, stored, reopen, load, known)
        if isinstance(load, functools.partial) and load.func is binary.load:
            blob, opened = load.args
            shape = tensor.shape if tensor and tensor.shape is not None else blob.shape
            return in_store(name, tuple(map(int, shape)), _NUMPY[blob.dtype], self.store(opened), blob.runs, **known)
        return self.loaded(name, load, tensor, known)

    def loaded(self, name: str, load: Callable[[], Any], tensor: Tensor | None, known: dict[str, Any]) -> Payload:
        """A payload whose loader gives an array."""
        if tensor is not None and tensor.shape is not None and tensor.dtype in BITS:
            shape, dtype = tuple(map(int, tensor.shape)), str(tensor.dtype)
        else:
            array = load()
            shape, dtype = tuple(array.shape), str(array.dtype)
            dtype = dtype if dtype in BITS else str(numbers(array).dtype)
        return in_memory(name, _told(load, self.name, name), shape, dtype, **known)

    def onnx(
        self,
        name: str,
        stored: OnnxStored,
        reopen: weights.Reopen | None,
        load: Callable[[], Any],
        known: dict[str, Any],
    ) -> Payload:
        """A tensor of an ONNX model, by its bytes where these are the elements as they are."""
        shape, dtype = stored.dims, stored.dtype
        count = math.prod(shape)
        if stored.external and reopen is not None and not stored.sparse:
            beside = _Beside(self, stored, reopen, length(count, dtype))
            elements: Any = _Later(beside, dtype, count)
            return Payload(name, shape, dtype, length(count, dtype), elements=elements, **known)
        if reopen is not None and _as_they_are(stored.places, dtype):
            runs = tuple((place.start, place.end) for place in stored.places)
            return in_store(name, shape, dtype, self.store(reopen), runs, **known)
        nbytes = length(count, dtype)
        if stored.sparse:
            values, indices = stored.sparse
            nbytes = sum(length(math.prod(part.dims), part.dtype) for part in (values, indices))
            limit = 1 << 36
            if count > limit:
                raise ModelError(
                    f"tensor {name!r} is sparse and has {count:,} elements, too many to look at one by one"
                )
        held = Loaded(_told(load, self.name, name))
        return Payload(name, shape, dtype, nbytes, elements=held, **known)

    def store(self, reopen: Callable[[], Source]) -> Store:
        """The store behind what opens a source; opened once."""
        key = id(reopen)
        if key not in self.stores:
            self.stores[key] = Store(reopen())
        return self.stores[key]

    def beside(self, reopen: Callable[[], Source], location: str, what: str) -> Store:
        """The store of a file beside a model."""
        key = (id(reopen), location)
        if key not in self.stores:
            self.stores[key] = Store(self.store(reopen).source.beside(location, what))
        return self.stores[key]


class _Beside:
    """Opens the place of external data when somebody asks for the elements: the file need not be there before."""

    def __init__(self, reader: _Reader, stored: OnnxStored, reopen: Callable[[], Source], nbytes: int) -> None:
        self.reader = reader
        self.stored = stored
        self.reopen = reopen
        self.nbytes = nbytes

    def runs(self) -> Runs:
        stored = self.stored
        what = f"tensor {stored.name!r}"
        store = self.reader.beside(self.reopen, stored.external.get("location", ""), what)
        start, end = weights.external_range(stored, self.nbytes, store.size, self.reader.name)
        return Runs(store, ((start, end),))


class _Later(Loaded):
    """Elements whose place is looked up when somebody asks."""

    def __init__(self, place: _Beside, dtype: str, count: int) -> None:
        self.place = place
        self.dtype = dtype
        self.count = count

    def blocks(self, elements: int) -> Any:
        return self._coded().blocks(elements)

    def raw(self) -> Any:
        return self._coded().raw()

    def _coded(self) -> Coded:
        found = coding(self.dtype)
        assert found is not None
        return Coded(self.place.runs(), found, self.count)


def _onnx(load: Callable[[], Any]) -> tuple[OnnxStored | None, weights.Reopen | None]:
    """Where the tensor behind a loader lies; None for a loader of another kind."""
    if not isinstance(load, functools.partial):
        return None, None
    if load.func is weights.load:
        return load.args[0], load.args[2]
    return None, None


def _as_they_are(places: tuple[Place, ...], dtype: str) -> bool:
    """Whether the bytes of fields are the elements of a tensor."""
    if any(place.whole for place in places) or not places:
        return False
    if len(places) == 1 and places[0].number == _RAW:
        return True
    return all(_PLAIN_FIELDS.get(place.number) == dtype for place in places)


def _told(load: Callable[[], Any], model: str, name: str) -> Callable[[], Any]:
    """The loader, with its errors in one line."""

    def loaded() -> Any:
        with reading(f"{model}: tensor {name!r}"):
            return load()

    return loaded


def _many(names: list[str]) -> str:
    return f"{len(names)} tensors hold" if len(names) > 1 else f"tensor {names[0]!r} holds"


#: NumPy's names of stored types -> flopwise's.
_NUMPY = {stored: name for name, stored in PLAIN.items() if name not in ("bfloat16",)}
