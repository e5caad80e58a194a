"""A TensorFlow Lite model, or those of an archive, opened as a program.

Bodies take what does not change in them from the graph around them.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise._limits import spend
from flopwise.errors import ModelError, damaged
from flopwise.formats.kit.lowering import Application, Lowered
from flopwise.formats.kit.nodes import Nodes, modules_of
from flopwise.formats.kit.program import Graph, Model, Node, TensorType, Value, Values, named
from flopwise.formats.kit.read import Dialect, Opened, in_one_line, opened_as
from flopwise.formats.kit.stored import kinds
from flopwise.formats.kit.tensors import CODES, INTEGERS_KEPT, RAW, Place, Stored, elements, refuse_impossible
from flopwise.formats.options import Options
from flopwise.formats.sources.flatbuffer import Extent
from flopwise.formats.sources.open import open_source, refuse_other_formats
from flopwise.formats.sources.source import Source
from flopwise.formats.tflite.decode import CUSTOM, IDENTIFIER, WHAT, Operator, Tensor, dense, read_model
from flopwise.formats.tflite.decode import Model as File
from flopwise.formats.tflite.table import BODIES, CONTROL_FLOW, lower, parts
from flopwise.formats.weights.storage import SourceStorage
from flopwise.graph.dtypes import BITS
from flopwise.graph.names import FreshNames, primed
from flopwise.operators.shape import Element

if TYPE_CHECKING:
    import zipfile

    from flopwise.formats.weights.storage import Archive

#: Subgraphs in subgraphs, at most.
_DEPTH = 32

#: Element types of what is no tensor of numbers.
_NO_NUMBERS = frozenset({"resource", "variant"})


class Maker:
    """The program of one model."""

    def __init__(self, model: File, source: Source, prefix: str = "") -> None:
        """
        Args:
            model: as the file has it.
            source: the file.
            prefix: what stands before all names.
        """
        self.model, self.source, self.prefix = model, source, prefix
        self.stored: dict[str, Stored] = {}
        self.states: list[Value] = []
        #: The stored tensors whose integers stand for real numbers.
        self.quantized: set[str] = set()
        #: Those with their scales and zero points.
        self.scales: set[str] = set()
        #: The names of the tensors of the main graph, in the order of the file.
        self.names: list[str] = []
        self._fresh = FreshNames(form=primed)
        self._nodes = Nodes()
        #: Stored tensors of the same bytes are one.
        self._same: dict[Any, str] = {}
        self._sizes: dict[int, int] = {}
        self._inside: list[int] = []

    def main(self) -> Graph:
        """The main graph, with the stored tensors of all."""
        self._operators(0)
        subgraph, self.names = self.model.subgraphs[0], self._names(0, {})
        inputs = [self._value(subgraph.tensors[at], self.names[at]) for at in subgraph.inputs if at >= 0]
        return self._graph(0, self.names, self.names, inputs)

    @property
    def offsets(self) -> dict[str, int]:
        """Where the file places tensors in the arena, by their names in the program.

        Its metadata hold whole numbers of 32 bits: a version, a subgraph, how many follow, and an offset for each
        tensor of the subgraph, -1 for one that the interpreter places (tflite-micro, docs/memory_management.md).
        """
        place = self.model.metadata.get("OfflineMemoryAllocation")
        count = 0 if place is None else place.end - place.start
        if place is None or count % 4 or not 3 <= count // 4 <= len(self.names) + 3:
            return {}
        _, subgraph, _, *offsets = struct.unpack(f"<{count // 4}i", self.source.read(place.start, count))
        names = zip(self.names if subgraph == 0 else (), offsets, strict=False)
        return {name: offset for name, offset in names if offset >= 0 and name not in self.stored}

    def _error(self, why: str) -> ModelError:
        return damaged(self.source.name, why, WHAT)

    def _operators(self, number: int) -> int:
        """The number of operators of a subgraph, with those of the subgraphs that they run.

        Raises:
            ModelError: there is no such subgraph, it runs itself, or they are run too often.
        """
        if number in self._sizes:
            spend(repeated_nodes=self._sizes[number])
        else:
            if not 0 <= number < len(self.model.subgraphs):
                raise self._error(f"subgraph {number} is named, but there are {len(self.model.subgraphs)}")
            if number in self._inside or len(self._inside) > _DEPTH:
                raise self._error(f"subgraph {number} runs itself, or subgraphs are nested too deep")
            self._inside.append(number)
            own = self.model.subgraphs[number].operators
            run = [body for one in own for body in _bodies(one).values()]
            self._sizes[number] = len(own) + sum(map(self._operators, run))
            self._inside.pop()
        return self._sizes[number]

    def _names(self, number: int, outside: Mapping[int, str]) -> list[str]:
        """The names of the tensors of a subgraph; stored ones and states are taken in."""
        subgraph, names = self.model.subgraphs[number], list[str]()
        computed = {*subgraph.inputs, *(place for one in subgraph.operators for place in one.outputs)}
        for place, tensor in enumerate(subgraph.tensors):
            name = outside.get(place) or f"{self.prefix}{tensor.name or f'tensor_{place}'}"
            key = (tensor.data, tensor.shape, tensor.dtype)
            held = (tensor.data is not None or 0 in tensor.shape) and not tensor.variable and place not in computed
            if held and key in self._same:
                name = self._same[key]
            elif place not in outside:
                name = self._fresh.fresh(name)
                if held:
                    self._same[key] = name
                    self._keep(name, tensor)
                elif tensor.variable:
                    self.states.append(self._value(tensor, name))
            names.append(name)
        return names

    def _keep(self, name: str, tensor: Tensor) -> None:
        """Take in a stored tensor with its scales and zero points."""
        dtype, data = "string" if tensor.dtype in _NO_NUMBERS else tensor.dtype, tensor.data
        scale = zero = ""
        if (quantization := tensor.quantization) is not None:
            self.quantized.add(name)
            dims = (quantization.number,) if quantization.number > 1 else ()
            scale = self._beside(f"{name}/scale", dims, "float32", quantization.scales)
            if quantization.shifted and len(quantization.zero_points) == quantization.number:
                zero = self._beside(f"{name}/zero point", dims, "int64", quantization.zeros)
        if tensor.sparsity is not None and data is not None:
            unpack = functools.partial(dense, f"{self.source.name}: sparse tensor {name!r}", tensor)
            self.stored[name] = Stored(name, tensor.shape, dtype, (Place(RAW, *data),), unpack=unpack)
            return
        places = () if data is None else (Place(RAW, *data),)
        payload = b""
        if BITS.get(dtype) and data is not None:
            refuse_impossible(self.source.name, name, CODES[dtype], tensor.shape, places)
            if math.prod(tensor.shape) <= INTEGERS_KEPT:
                payload = self.source.read(data.start, data.end - data.start)
        self.stored[name] = Stored(name, tensor.shape, dtype, places, payload=payload, scale=scale, zero_point=zero)

    def _beside(self, name: str, dims: tuple[int, ...], dtype: str, place: Extent) -> str:
        fresh = self._fresh.fresh(name)
        self.scales.add(fresh)
        self.stored[fresh] = Stored(fresh, dims, dtype, (Place(RAW, *place),))
        return fresh

    def _value(self, tensor: Tensor, name: str) -> Value:
        """A tensor whose type the file states."""
        signature = tensor.signature if len(tensor.signature) == len(tensor.shape) else tensor.shape
        if tensor.dtype in _NO_NUMBERS:
            return Value(name, TensorType(None, ()), {})
        dims = tuple([None if size == -1 else stated for stated, size in zip(tensor.shape, signature, strict=True)])
        return Value(name, TensorType(tensor.dtype, dims), {})

    def _graph(self, number: int, names: Sequence[str], taken: Sequence[str], inputs: list[Value]) -> Graph:
        """A subgraph whose operators take what ``taken`` names where others name ``names``."""
        subgraph = self.model.subgraphs[number]
        known = {-1, *subgraph.inputs, *(at for at, one in enumerate(subgraph.tensors) if names[at] in self.stored)}
        known.update(at for at, one in enumerate(subgraph.tensors) if one.variable)
        nodes, values, fresh = list[Node](), list[Value](), FreshNames(form=primed)
        for one in subgraph.operators:
            strange = tuple([at for at in one.inputs if at not in known])
            if strange and one.op != CUSTOM:
                name = subgraph.tensors[strange[0]].name
                raise self._error(f"{one.op} reads {name!r} before anything has made it")
            # Compilers hand their operators memory to work in, as tensors that nothing fills; it lives while they run.
            inner = tuple([-1 if at in strange else at for at in one.inputs])
            one = one._replace(inputs=inner, outputs=(*one.outputs, *strange)) if strange else one
            known.update(one.outputs)
            nodes.append(self._node(one, subgraph.tensors, names, taken, fresh))
            values += [self._value(subgraph.tensors[at], names[at]) for at in one.outputs if at >= 0]
        ends = [Value(names[at], None, {}) for at in subgraph.outputs if at >= 0]
        main = number == 0
        return Graph(
            subgraph.name,
            nodes,
            inputs,
            ends,
            self.stored if main else {},
            Values([], lambda data: values),
            states=self.states if main else [],
        )

    def _node(
        self,
        one: Operator,
        tensors: Sequence[Tensor],
        names: Sequence[str],
        taken: Sequence[str],
        fresh: FreshNames,
    ) -> Node:
        given = tuple([tensors[at] if at >= 0 else None for at in one.inputs])
        results = tuple([tensors[at] if at >= 0 else None for at in one.outputs])
        elements_of = self._elements_of([taken[at] if at >= 0 else "" for at in one.inputs])
        application = Application(one.op, one.options, given, results, elements_of)
        first = next((tensor for tensor in results if tensor is not None), None)
        name = first.name.partition(";")[0] if first is not None else ""
        name = fresh.fresh(self.prefix + name) if name else ""
        inputs = [taken[at] if at >= 0 else "" for at in one.inputs]
        outputs = [names[at] if at >= 0 else "" for at in one.outputs]
        dtypes = [None if tensor is None or tensor.dtype in _NO_NUMBERS else tensor.dtype for tensor in results]
        bodies = _bodies(one)
        if bodies:
            graphs = {part: self._body(body, part, one, taken, bodies) for part, body in bodies.items()}
            return self._nodes.node(one.op, name, Lowered(CONTROL_FLOW[one.op]), inputs, outputs, dtypes, (), graphs)
        lowered = lower(application, one.custom)
        return self._nodes.node(
            one.custom or one.op, name, lowered, inputs, outputs, dtypes, parts(application, lowered)
        )

    def _body(self, number: int, part: str, one: Operator, taken: Sequence[str], bodies: Mapping[str, int]) -> Graph:
        """The graph of a subgraph that an operator runs."""
        subgraph = self.model.subgraphs[number]
        given = one.inputs[1:] if part.endswith("_branch") else one.inputs
        inner = dict(zip(subgraph.inputs, [taken[at] if at >= 0 else "" for at in given], strict=False))
        if "cond" in bodies:  # a loop hands on what it is given where its body returns that
            body = self.model.subgraphs[bodies["body"]]
            same = [before == after for before, after in zip(body.inputs, body.outputs, strict=False)]
            kept = zip(subgraph.inputs, same, strict=False)
            inner = {at: inner[at] for at, stays in kept if stays and at in inner}
        names = self._names(number, {})
        within = [inner.get(at) or name for at, name in enumerate(names)]
        inputs = [self._value(subgraph.tensors[at], names[at]) for at in subgraph.inputs if at >= 0]
        return self._graph(number, names, within, inputs)

    def _elements_of(self, names: Sequence[str]) -> Callable[[int], tuple[Element, ...] | None]:
        def held(place: int) -> tuple[Element, ...] | None:
            stored = self.stored.get(names[place]) if place < len(names) else None
            return None if stored is None else elements(stored)

        return held


def _bodies(one: Operator) -> dict[str, int]:
    """The subgraphs that an operator runs, by what they are called in the house."""
    return {part: one.options[name] for part, name in BODIES.get(one.op, {}).items()}


def opened_tflite(
    model: object, options: Options | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """A TensorFlow Lite model, or all models of a ``.task`` archive, before any size is chosen.

    Args:
        model: a path, bytes or an open binary file.
        options: are asked for nothing.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source = open_source(model)
    try:
        with in_one_line(source.name):
            members = _members(source)
            graph, makers = _graph(source, members)
            offsets = {name: place for one in makers for name, place in one.offsets.items()}
    finally:
        source.close()
    quantized, scales = set[str](), set[str]()
    for one in makers:
        quantized, scales = quantized | one.quantized, scales | one.scales
    found, whole = kinds(graph, quantized, scales), Model(9, {"": 21, "tflite": 1}, {}, graph)
    dialect = Dialect("tflite", modules_of, states=False, nested=True, trusted=True, assume={"*": 1}, offsets=offsets)
    remarks = [f"the archive holds {len(members)} models; each is counted once"] if len(members) > 1 else []
    return opened_as(whole, source.name, source, dialect, [], remarks, kinds=found)


def _graph(source: Source, members: Mapping[str, tuple[int, int]]) -> tuple[Graph, list[Maker]]:
    """The models of a file as one graph, and what made the program of each."""
    whole, makers, values = Graph(_stem(source.name)), list[Maker](), list[Value]()
    for name, (start, size) in members.items():
        maker = Maker(read_model(source, start, size), source, f"{_stem(name)}/" if len(members) > 1 else "")
        graph = named(maker.main())
        for side in ("nodes", "inputs", "outputs", "states"):
            getattr(whole, side).extend(getattr(graph, side))
        whole.initializers.update(graph.initializers)
        values += graph.values
        makers.append(maker)
    return replace(whole, values=Values([], lambda data: values)), makers


def _members(source: Source) -> dict[str, tuple[int, int]]:
    """Where the models of a file lie, by name: first byte and size.

    Raises:
        ModelError: there is none, or one is compressed.
    """
    import zipfile

    from flopwise.formats.weights.storage import Archive, Reading

    head = source.read(0, min(source.size, 64))
    if head[4:8] == IDENTIFIER:
        return {"": (0, source.size)}
    if not head.startswith(b"PK\x03\x04") and not zipfile.is_zipfile(Reading(source)):  # some begin with other bytes
        refuse_other_formats(source)
        raise ModelError(f"{source.name}: not a TensorFlow Lite model (no 'TFL3' at byte 4)")
    try:
        archive = Archive(SourceStorage.from_source(source))
        names = [name for name, info in archive.members.items() if _is_model(archive, name, info)]
    except zipfile.BadZipFile as error:
        raise ModelError(f"{source.name}: truncated or damaged archive ({error})") from error
    if not names:
        listed = ", ".join(list(archive.members)[:5]) or "nothing"
        raise ModelError(f"{source.name}: an archive without a TensorFlow Lite model; it holds {listed}")
    return {name: (archive.place(name), archive.members[name].file_size) for name in names}


def _is_model(archive: Archive, name: str, info: zipfile.ZipInfo) -> bool:
    if info.file_size < 8 or info.is_dir():
        return False
    if name.lower().endswith((".tflite", ".lite")):
        archive.span(name, 0, 8)  # refuses one that is compressed
        return True
    return bool(info.compress_type == 0 and bytes(archive.read(name, 0, 8))[4:8] == IDENTIFIER)


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]
