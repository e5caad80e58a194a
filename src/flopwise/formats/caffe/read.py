"""A Caffe net -> Graph: each layer becomes the operator that it is, shapes resolved, weights never read."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

from flopwise._limits import within_unpacking
from flopwise.errors import InputError, ModelError, message
from flopwise.formats.caffe.decode import Blob, Caffemodel, read_caffemodel
from flopwise.formats.caffe.message import LONGEST, Message, parse
from flopwise.formats.caffe.net import Layer, Net, State, network
from flopwise.formats.caffe.place import Lowered
from flopwise.formats.caffe.table import lower
from flopwise.formats.inputs import InputSpec, input_specs
from flopwise.formats.options import CaffeOptions, Sizes
from flopwise.formats.sources.location import ending_of, naming
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.graphs import stored_in_graph
from flopwise.formats.weights.hdf5 import Dataset, Hdf5
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import StoredTensors, in_memory, in_storage
from flopwise.graph import Graph, Kind, Node, Shape, StoredTensor, Tensor
from flopwise.graph.names import FreshNames, primed

# The stored blobs of a Caffe net as stored tensors: with their layers alone, or under the names of a net's graph.
#
# Weights in HDF5 (.caffemodel.h5) lie in groups ``data/<layer>/<index>``; only shapes are read. Source: BVLC Caffe,
# src/caffe/net.cpp (ToHDF5).

#: NumPy's names of the element types of blobs -> flopwise's.
DTYPES = {"<f4": "float32", "<f8": "float64", "<f2": "float16"}

#: First bytes of an HDF5 file.
SIGNATURE = b"\x89HDF\r\n"


def read_h5(source: Source) -> Caffemodel:
    """The shapes of the blobs of each layer; such a file has neither types nor connections.

    Raises:
        ModelError: h5py is not installed, or the file is damaged or no such file.
    """
    if find_spec("h5py") is None:
        raise ModelError(f"{source.name}: reading HDF5 needs h5py; pip install 'flopwise[h5]'")
    file = Hdf5(source.later())
    try:
        content = file.content()
    except ModelError as error:
        why = message(error).removeprefix(f"{source.name}: ")
        raise ModelError(f"{source.name}: not Caffe weights, or damaged ({why})") from None
    for link in content.links:
        if link == "data" or link.startswith("data/"):
            raise ModelError(f"{source.name}: /{link} is a link to another place; links are not followed")
    inner = [group.removeprefix("data/") for group in content.groups if group.startswith("data/")]
    around = {group.rpartition("/")[0] for group in inner}  # of a layer whose name has a slash
    layers: dict[str, dict[int, Blob]] = {group: {} for group in inner if group not in around}
    for dataset in content.datasets:
        _, _, inside = dataset.place.partition("data/")
        layer, _, number = inside.rpartition("/")
        if dataset.place != f"data/{inside}" or not number.isdecimal():
            raise ModelError(f"{source.name}: not Caffe weights, or damaged (it holds {dataset.place!r})")
        layers.setdefault(layer, {})[int(number)] = _blob(file, dataset, source.name)
    if "data" not in content.groups:
        raise ModelError(f"{source.name}: not Caffe weights, or damaged (it has no group 'data')")
    blobs = {layer: tuple([members[key] for key in sorted(members)]) for layer, members in layers.items()}
    return Caffemodel(Message([]), blobs, {}, hdf5=True)


def _blob(file: Hdf5, dataset: Dataset, path: str) -> Blob:
    """A blob by its place in the file; without one where it is compressed or in pieces.

    Raises:
        ModelError: its elements are those of other files, are no floating-point numbers, or take much more memory than
            they take in the file.
    """
    what = f"{path}: /{dataset.place}"
    if dataset.elsewhere:
        raise ModelError(f"{what} has its elements in other files; they are not read")
    if dataset.code[1:2] != "f" or dataset.shape is None:
        raise ModelError(f"{what} does not hold floating-point numbers")
    if dataset.offset is None or dataset.code not in DTYPES:
        within_unpacking(dataset.stored, dataset.nbytes, what)
        return Blob(dataset.shape, (), dataset.code, functools.partial(file.elements, dataset))
    return Blob(dataset.shape, ((dataset.offset, dataset.offset + dataset.nbytes),), dataset.code)


#: Types of layers whose blobs are statistics.
STATISTICS = frozenset({"BatchNorm"})


def read_stored(source: Source) -> Caffemodel:
    """The content of a file with weights, whichever of its two forms it has.

    Raises:
        ModelError: it is damaged, or is no such file.
    """
    is_hdf5 = source.read(0, min(source.size, len(SIGNATURE))) == SIGNATURE
    return read_h5(source) if is_hdf5 else read_caffemodel(source)


def stored_in_caffe(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, options: CaffeOptions
) -> StoredTensors:
    """The stored tensors of a net, or of a file with weights alone; arguments and errors as for ``read_caffe``."""
    name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    if ending_of(name).endswith((".caffemodel", ".caffemodel.h5")):
        return open_caffemodel(name)
    return stored_in_graph(read_caffe(model, inputs, dims, batch_size, options=options))


def open_caffemodel(model: str) -> StoredTensors:
    """The stored blobs of a .caffemodel or .caffemodel.h5.

    Raises:
        ModelError: the file cannot be read, or holds no layers.
    """
    source = open_source(model)
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    stored = read_stored(source)
    if not stored.blobs and not stored.net.names():
        raise ModelError(f"{source.name}: holds no layers; not a .caffemodel")
    storage = SourceStorage.from_source(source)
    layers = [*stored.net.messages("layer"), *stored.net.messages("layers")]
    kinds = {layer.text("name", ""): layer.text("type", "") for layer in layers}
    tensors = []
    for layer, blobs in stored.blobs.items():
        kind = kinds.get(layer, "")
        role = "buffer" if kind in STATISTICS else "weight"
        for slot, blob in enumerate(blobs):
            if blob.runs or stored.hdf5:
                facts = {"layer": layer, "op": kind, "slot": slot, "role": role}
                tensors.append(stored_blob(f"{layer}/{slot}", blob.shape, blob, storage, **facts))
    return StoredTensors.from_file(storage, "caffe", tensors)


def stored_blob(name: str, shape: tuple[int, ...], blob: Blob, storage: SourceStorage, **facts: object) -> StoredTensor:
    """A blob as a stored tensor.

    Args:
        name: what to call it.
        shape: its shape where it is used; the stored one may have leading ones.
        blob: where its elements lie, or what reads them.
        storage: the file.
        facts: further fields of ``StoredTensor``.

    Raises:
        ModelError: the file does not hold the elements that the shape says.
    """
    dtype = DTYPES.get(blob.dtype, "float32")
    if blob.runs:
        return in_storage(name, shape, dtype, storage, blob.runs, **facts)
    assert blob.load is not None
    return in_memory(name, functools.partial(_shaped, blob.load, shape), shape, dtype, **facts)


def _shaped(load: Callable[[], Any], shape: tuple[int, ...]) -> object:
    return load().reshape(shape)


def read_caffe(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: CaffeOptions = CaffeOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a Caffe net in one state.

    Args:
        model: a path, bytes or an open binary file: a net or solver as text, or a net with its weights (.caffemodel).
        inputs: shapes of inputs by blob name, where the file leaves them open, or other shapes than the file's.
        dims: Caffe nets have no symbolic dimensions; any that is given is refused.
        batch_size: first dimension of all inputs.
        progress: called with the name of each step before it starts.
        options: the state of the net, and the weights to check it against.

    Raises:
        ModelError: the net cannot be read.
        InputError: a shape is missing or does not fit.
    """
    progress("reading the net")
    net = open_net(model, options)
    progress("resolving shapes")
    with naming(net.source):
        return net.graph(net.shapes(inputs), batch_size)


def open_net(model: object, options: CaffeOptions) -> OpenNet:
    """A Caffe net in one state, as ``read_caffe`` takes it; its graph can be had at several sizes.

    Raises:
        ModelError: the net cannot be read.
    """
    source = open_source(model)
    try:
        with naming(source.name):
            state = State(options.phase, tuple(options.stages), options.level)
            net, stored, storage = _net(source, model, state, options.weights)
            return OpenNet(net, source.name, stored, storage)
    finally:
        source.close()


class OpenNet(NamedTuple):
    """A net whose layers are known and whose shapes are not."""

    net: Net
    #: The file's name.
    source: str
    stored: Caffemodel | None
    storage: SourceStorage | None

    @property
    def inputs(self) -> tuple[tuple[str, Shape | None], ...]:
        """The blobs that come from outside, with the shapes that the file gives; None where it gives none."""
        inputs: list[tuple[str, Shape | None]] = []
        for layer in self.net.layers:
            if layer.bottoms:
                continue
            try:
                (lowered,) = lower(layer, (), {})
                shapes: Sequence[Shape | None] = () if lowered.weights else lowered.outputs
            except InputError:
                shapes = (None,) * len(layer.tops)
            inputs += zip(layer.tops, shapes, strict=False)
        return tuple(inputs)

    def shapes(self, inputs: object) -> dict[str, Shape]:
        """The shapes that the user gives, by blob name.

        Raises:
            InputError: there is no such blob, or a shape has symbols.
        """
        shapes: dict[str, Shape] = {}
        for spec in self.specs(inputs):
            if not all(isinstance(d, int) for d in spec.shape):
                raise InputError(f"dimensions of Caffe nets are numbers; the shape of {spec.name!r} has symbols")
            shapes[spec.name] = tuple(int(d) for d in spec.shape)
        return shapes

    def specs(self, inputs: object) -> list[InputSpec]:
        """The user's shapes and types of blobs.

        Raises:
            InputError: there is no such blob.
        """
        layers = self.net.layers
        sources = [top for layer in layers if not layer.bottoms for top in layer.tops]
        every = list(dict.fromkeys([*sources, *(top for layer in layers for top in layer.tops)]))
        try:
            return input_specs(inputs, sources)
        except InputError:
            return input_specs(inputs, every)  # the tops of layers that are unknown may be given too

    def graph(
        self,
        shapes: Mapping[str, Shape],
        batch_size: int | None = None,
        reached: Callable[[str], None] = lambda layer: None,
    ) -> Graph:
        """The graph at sizes of blobs.

        Args:
            shapes: by blob name.
            batch_size: first dimension of all inputs.
            reached: called with each layer before its shapes are worked out.

        Raises:
            ModelError: the layers' parameters make no sense at these sizes.
            InputError: a shape is missing or does not fit.
        """
        return _Builder(self, reached).graph(dict(shapes), batch_size)


def _net(
    source: Source, model: object, state: State, weights: object
) -> tuple[Net, Caffemodel | None, SourceStorage | None]:
    """The net, the weights that belong to it, and the file that holds them."""
    if source.size == 0:
        raise ModelError("the file is empty")
    if not _is_text(source):
        stored = read_stored(source)
        if not stored.net.names():
            raise ModelError("holds weights alone; give the net (.prototxt), with this file beside it or as --weights")
        return network(stored.net, state, stored.shapes, saved=True), stored, SourceStorage(source.later())
    message, note = _text(source, model)
    beside = _beside(model) if weights is None else weights
    if beside is None:
        net = network(message, state)
        return net._replace(warnings=(*note, *net.warnings)), None, None
    other = open_source(beside)
    try:
        stored = read_stored(other)
        net = network(message, state, stored.shapes)
        names = {layer.name for layer in net.layers}
        extra = [name for name, blobs in stored.blobs.items() if blobs and name not in names]
        if extra:
            more = f" and {len(extra) - 5} more" if len(extra) > 5 else ""
            note.append(f"{other.name} holds weights of layers that are not in the net: {', '.join(extra[:5])}{more}")
        return net._replace(warnings=(*note, *net.warnings)), stored, SourceStorage(other.later())
    finally:
        other.close()


def _is_text(source: Source) -> bool:
    """True where a file begins as text does: with no control characters but those between lines."""
    head = source.read(0, min(source.size, 256))
    return not any(byte < 32 and byte not in b"\t\n\r\f\v" for byte in head)


def _beside(model: object) -> str | None:
    """A file with weights of the same name beside a net."""
    if not isinstance(model, (str, os.PathLike)):
        return None
    stem = os.path.splitext(str(os.fspath(model)))[0]
    return next((stem + e for e in (".caffemodel", ".caffemodel.h5") if os.path.isfile(stem + e)), None)


def _text(source: Source, model: object) -> tuple[Message, list[str]]:
    """The net that a text holds, or that the solver in it names; what the user should know.

    Raises:
        ModelError: the file is too large, or the solver's net is not in its folder.
    """
    message = _parsed(source)
    if message.has("layer") or message.has("layers"):
        return message, []
    if message.has("net_param"):
        return message.merged("net_param"), []
    name = _net_of(message)
    if name is None:
        return message, []
    folder = os.path.dirname(str(os.fspath(model))) if isinstance(model, (str, os.PathLike)) else None
    path = None if folder is None else os.path.join(folder, os.path.basename(name))
    if path is None or not os.path.isfile(path):
        raise ModelError(f"is a solver for the net {name!r}, which is not in its folder; give that file instead")
    other = open_source(path)
    try:
        return _parsed(other), [f"{source.name} is a solver; its net is {path}"]
    finally:
        other.close()


def net_of_solver(source: Source) -> str | None:
    """The name of the file in its folder that a solver reads its net from; None where the text is a net itself.

    Raises:
        ModelError: it is neither.
    """
    name = _net_of(_parsed(source))
    return None if name is None else os.path.basename(name)


def _net_of(message: Message) -> str | None:
    return next((message.text(key, "") for key in ("net", "test_net", "train_net") if message.has(key)), None)


def _parsed(source: Source) -> Message:
    if source.size > LONGEST:
        raise ModelError(f"{source.name}: {source.size >> 20} MB of text are too much for the description of a network")
    return parse(source.read(0, source.size), source.name)


class _Builder:
    """Nodes and tensors of a net, layer by layer."""

    def __init__(self, opened: OpenNet, reached: Callable[[str], None]) -> None:
        self.reached = reached
        self.opened = opened
        self.warnings = list(opened.net.warnings)
        self.blobs: dict[str, Tensor] = {}
        self.inputs: list[Tensor] = []
        self.nodes: list[Node] = []
        self.names = FreshNames(form=primed)
        self.taken: set[str] = set()
        self.owners: dict[str, Tensor] = {}
        self.weights: dict[str, Tensor] = {}
        self.tensors: dict[str, StoredTensor] = {}

    def graph(self, shapes: dict[str, Shape], batch_size: int | None) -> Graph:
        """The whole net."""
        for layer in self.opened.net.layers:
            self.reached(f"{layer.type} {layer.name!r}")
            self.layer(layer, shapes, batch_size)
        if batch_size is not None and not any(t.shape for t in self.inputs):
            raise InputError("no input has a first dimension that could be the batch; give the shapes with -i")
        return Graph(
            name=self.opened.net.name or os.path.splitext(os.path.basename(self.opened.source))[0],
            format="caffe",
            source=self.opened.source,
            inputs=tuple(self.inputs),
            outputs=tuple(t for t in self.blobs.values() if t.kind == "activation" and t.name not in self.taken),
            nodes=tuple(self.nodes),
            weights=self.tensors,
            warnings=tuple(self.warnings),
            caffe=True,
        )

    def layer(self, layer: Layer, shapes: dict[str, Shape], batch_size: int | None) -> None:
        """One layer; what brings data from outside becomes inputs."""
        bottoms = [self.blobs[name] for name in layer.bottoms]
        lowered = lower(layer, [t.shape for t in bottoms], shapes)
        for one in lowered:
            if one.note and one.note not in self.warnings:
                self.warnings.append(one.note)
        if not layer.bottoms and not lowered[0].weights:
            for top, shape in zip(layer.tops, lowered[0].outputs, strict=True):
                self.inputs.append(
                    self.define(top, Tensor(top, self.batched(top, shape, shapes, batch_size), "float32", "input"))
                )
            return
        for one in lowered:
            self.node(layer, one, bottoms)

    def batched(self, top: str, shape: Shape | None, shapes: dict[str, Shape], batch_size: int | None) -> Shape | None:
        """The shape of an input with the batch that the user wants."""
        if batch_size is None or not shape:
            return shape
        if top in shapes and shapes[top][0] not in (1, batch_size):
            raise InputError(f"input {top!r} is given with the batch {shapes[top][0]}, not {batch_size}")
        return (batch_size, *shape[1:])

    def node(self, layer: Layer, one: Lowered, bottoms: Sequence[Tensor]) -> None:
        """One operator: it reads blobs, then stored ones, and makes new versions of the layer's tops."""
        read = [bottoms[i] for i in one.reads] if one.reads is not None else list(bottoms)
        self.taken.update(t.name for t in read)
        if one.inputs is not None:
            read = [replace(t, shape=shape) for t, shape in zip(read, one.inputs, strict=False)]
        stored = [self.weight(layer, place, *weight) for place, weight in enumerate(one.weights)]
        tops = [layer.tops[i] for i in one.writes] if one.writes is not None else list(layer.tops)
        outputs = []
        for top, shape in zip(tops, one.outputs, strict=True):
            name = self.names.fresh(top if self.names.is_free(top) else f"{top}@{layer.name}")
            outputs.append(self.define(top, Tensor(name, shape, "float32", bound=one.bound and shape is not None)))
        self.nodes.append(
            Node(one.op, layer.name, (*read, *stored), tuple(outputs), dict(one.attrs), origin=layer.type)
        )

    def define(self, top: str, tensor: Tensor) -> Tensor:
        self.blobs[top] = tensor
        self.names.add(tensor.name)
        return tensor

    def weight(self, layer: Layer, place: int, role: str, shape: Shape, kind: Kind) -> Tensor:
        """A stored blob; one that is shared by name is that of the first layer with the name.

        Raises:
            ModelError: the layers that share it need different sizes.
        """
        key = f"{layer.name}/{role}"
        shared = layer.shared[place] if place < len(layer.shared) else ""
        if key in self.weights and not shared:
            return self.weights[key]
        tensor = Tensor(key, shape, "float32", kind)
        if shared:
            owner = self.owners.setdefault(shared, tensor)
            if owner.numel != tensor.numel:
                raise ModelError(f"{layer}: shares {shared!r} of shape {owner.shape}, but needs shape {shape}")
            tensor = owner
        blobs = self.opened.stored.blobs.get(layer.name, ()) if self.opened.stored else ()
        if place < len(blobs) and self.opened.storage is not None and tensor.name not in self.tensors:
            blob = blobs[place]
            fits = shape if math.prod(shape) == math.prod(blob.shape) else None
            if blob.runs or (self.opened.stored and self.opened.stored.hdf5):
                self.tensors[tensor.name] = stored_blob(tensor.name, fits or blob.shape, blob, self.opened.storage)
        self.weights[key] = tensor
        return tensor
