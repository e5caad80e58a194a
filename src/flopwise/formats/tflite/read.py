"""A TensorFlow Lite model -> Graph: shapes of the file, or worked out for other sizes; weights never read."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.open import open_source, refuse_other_formats
from flopwise.formats.sources.source import Source
from flopwise.formats.tflite.build import LiteBuilder
from flopwise.formats.tflite.decode import IDENTIFIER, Model, read_model
from flopwise.formats.tflite.program import Programs
from flopwise.formats.weights.storage import SourceStorage
from flopwise.graph import STORED, Graph, Node, StoredTensor, Tensor
from flopwise.readers.inputs import InputSpec, input_specs
from flopwise.readers.limits import refuse_huge, refuse_unknown_loops
from flopwise.readers.options import TfliteOptions
from flopwise.readers.subgraphs.flows import FLOWS
from flopwise.readers.subgraphs.program import Graph as Subgraph
from flopwise.readers.subgraphs.program import LayoutPass
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.scope import Scope

if TYPE_CHECKING:
    import zipfile

    from flopwise.formats.weights.storage import Archive


class Opened(NamedTuple):
    """A model of a file, or of an archive, before any size is chosen."""

    #: What its names begin with: the member of an archive that holds several.
    prefix: str
    model: Model
    program: Subgraph
    programs: Programs


def read_tflite(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: TfliteOptions = TfliteOptions(),  # noqa: B008 - it cannot be changed
    passes: Callable[[type[LayoutPass]], type[LayoutPass]] = lambda kind: kind,
) -> Graph:
    """The graph of a TensorFlow Lite model, or of all models of a ``.task`` archive.

    Args:
        model: a path, bytes or an open binary file.
        inputs: other shapes of inputs than the file's, by name.
        dims: its dimensions have no names; any that is given is refused.
        batch_size: first dimension of all inputs.
        progress: called with the name of each step before it starts.
        options: how often loops run.
        passes: makes of the class of the pass over a graph another one, for sizes of another kind.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape does not fit, or there is no such loop.
    """
    progress("reading the model")
    source = open_source(model)
    try:
        with naming(source.name):
            opened = _opened(source)
            progress("resolving shapes")
            return _graph(source, opened, inputs, batch_size, dict(options.trips or {}), passes(LayoutPass))
    finally:
        source.close()


def inputs_of(model: object) -> list[tuple[str, str, tuple[int | None, ...]]]:
    """Name, element type and shape of the inputs, as the file states them; None for an extent that it leaves open.

    Raises:
        ModelError: the model cannot be read.
    """
    source = open_source(model)
    try:
        with naming(source.name):
            return [
                (shown, tensor.dtype, tuple([None if n == -1 else n for n in tensor.signature]))
                for one in _opened(source)
                for shown, name in _input_names(one).items()
                for tensor in (one.program.tensors[name],)
            ]
    finally:
        source.close()


def _opened(source: Source) -> list[Opened]:
    """The models of a file: one, or those of an archive.

    Raises:
        ModelError: there is none, or one cannot be read.
    """
    head = source.read(0, min(source.size, 64))
    if head[4:8] == IDENTIFIER:
        return [_one(source, "", 0, source.size)]
    if not head.startswith(b"PK\x03\x04") and not _ends_as_archive(source):
        refuse_other_formats(source)
        raise ModelError(f"{source.name}: not a TensorFlow Lite model (no 'TFL3' at byte 4)")
    members = _members(source)
    several = len(members) > 1
    return [_one(source, f"{_stem(name)}/" if several else "", start, size) for name, (start, size) in members.items()]


def _ends_as_archive(source: Source) -> bool:
    """True for an archive with bytes before its first member, which some tools write to align members."""
    import zipfile

    from flopwise.formats.weights.storage import Reading

    return zipfile.is_zipfile(Reading(source))


def _one(source: Source, prefix: str, start: int, size: int) -> Opened:
    model = read_model(source, start, size)
    programs = Programs(model, source)
    return Opened(prefix, model, programs.graph(0), programs)


def _members(source: Source) -> dict[str, tuple[int, int]]:
    """Where the models of an archive lie: name -> first byte and size.

    Raises:
        ModelError: there is none, or one is compressed.
    """
    import zipfile

    from flopwise.formats.weights.storage import Archive

    storage = SourceStorage.from_source(source)
    try:
        archive = Archive(storage)
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


def _graph(
    source: Source,
    opened: list[Opened],
    inputs: object,
    batch_size: int | None,
    trips: dict[str, int],
    kind: type[LayoutPass],
) -> Graph:
    specs = _specs(opened, inputs)
    ends: tuple[list[Tensor], list[Tensor]] = [], []
    nodes: list[Node] = []
    weights: dict[str, StoredTensor] = {}
    warnings: list[str] = []
    met: dict[str, int | None] = {}
    offsets: dict[str, int] = {}
    for one in opened:
        scope, changed, own = _sizes(one, specs, batch_size, trips, kind)
        met |= own
        builder = LiteBuilder(SourceStorage(source.later()), one.prefix)
        tensor = builder.main(one.program, scope)
        moved = [_moved(node, len(nodes)) for node in builder.nodes] if nodes else builder.nodes
        nodes += moved
        weights |= builder.weights
        offsets |= {
            found.name: offset
            for name, offset in _offline(one, source).items()
            if (found := tensor(name)) is not None and found.kind not in STORED
        }
        warnings += [*scope.warnings, *([] if changed else _left_open(one))]
        for side, names in zip(ends, (one.program.inputs, one.program.outputs), strict=True):
            side += [found for name in names if (found := tensor(name.name)) is not None]
    refuse_unknown_loops(trips, met)
    if len(opened) > 1:
        warnings.append(f"the archive holds {len(opened)} models; each is counted once")
    return Graph(
        name=_stem(source.name),
        format="tflite",
        source=source.name,
        inputs=tuple(ends[0]),
        outputs=tuple(ends[1]),
        nodes=tuple(nodes),
        weights=weights,
        warnings=tuple(dict.fromkeys(warnings)),
        offsets=offsets,
    )


def _offline(one: Opened, source: Source) -> dict[str, int]:
    """Where the file places tensors in the arena, by their names in the program.

    Its metadata hold whole numbers of 32 bits: a version, a subgraph, how many follow, and an offset for each tensor of
    the subgraph, -1 for one that the interpreter places (tflite-micro, docs/memory_management.md).
    """
    place = one.model.metadata.get("OfflineMemoryAllocation")
    if place is None or place.end - place.start < 12 or (place.end - place.start) % 4:
        return {}
    count = (place.end - place.start) // 4
    if count > len(one.program.tensors) + 3:
        return {}
    _, subgraph, _, *offsets = struct.unpack(f"<{count}i", source.read(place.start, 4 * count))
    names = zip(one.program.tensors, offsets, strict=False)
    return {name: offset for name, offset in names if offset >= 0} if subgraph == 0 else {}


def _moved(node: Node, by: int) -> Node:
    """A node behind others: the owners of the bodies around it are so many places further on."""
    if not node.within:
        return node
    return replace(node, within=tuple([body._replace(owner=body.owner + by) for body in node.within]))


def _input_names(one: Opened) -> dict[str, str]:
    """The inputs of a model: what users call them -> their names in the program."""
    tensors = one.program.tensors
    return {one.prefix + (tensors[i.name].name or i.name): i.name for i in one.program.inputs}


def _specs(opened: list[Opened], inputs: object) -> dict[str, InputSpec]:
    names = [name for one in opened for name in _input_names(one)]
    return {spec.name: spec for spec in input_specs(inputs, names)}


def _sizes(
    one: Opened,
    specs: Mapping[str, InputSpec],
    batch_size: int | None,
    trips: dict[str, int],
    kind: type[LayoutPass],
) -> tuple[Scope, bool, dict[str, int | None]]:
    """The facts about all tensors, whether the user has chosen sizes, and the trips of the loops by name."""
    facts, scope, graph = Facts(), Scope(), one.program
    changed = False
    for shown, name in _input_names(one).items():
        tensor = graph.tensors[name]
        fact = _input(shown, tensor.shape, tensor.dtype, specs.get(shown), batch_size, facts)
        symbolic = any(type(extent) is not int for extent in fact.extents or ())
        changed = changed or symbolic or fact.shape != tensor.shape
        scope.tensors[name] = fact
    one_pass = kind({}, one.programs.elements, trips, facts, FLOWS)
    for name, stored in graph.initializers.items():
        scope.tensors[name] = one_pass.constant(stored)
    stated = {name: facts.tensor(tensor.dtype, tensor.shape) for name, tensor in graph.tensors.items()}
    for name, tensor in graph.tensors.items():
        if name not in scope.tensors and tensor.variable:
            scope.tensors[name] = stated[name]
    runs = any(node.attributes.values.get("body") or "then_branch" in node.attributes.values for node in graph.nodes)
    open_sizes = any(tensor.dynamic for tensor in graph.tensors.values())
    if changed or runs or open_sizes:
        declared = {} if changed else {name: fact for name, fact in stated.items() if not graph.tensors[name].dynamic}
        one_pass.run(graph, scope, declared)
    else:
        scope.tensors.update({name: fact for name, fact in stated.items() if name not in scope.tensors})
    if changed and (fault := next(iter(scope.impossible(graph)), "")):
        raise InputError(f"the input shapes are impossible: {fault}")
    _refuse_huge(graph, scope)
    return scope, changed, one_pass.met


def _input(
    name: str, shape: tuple[int, ...], dtype: str, spec: InputSpec | None, batch_size: int | None, facts: Facts
) -> Fact:
    """The fact about an input at the size that the user chose."""
    chosen: tuple[int, ...] = shape
    if spec is not None:
        if not all(isinstance(extent, int) for extent in spec.shape):
            raise InputError(f"dimensions of TensorFlow Lite models are numbers; the shape of {name!r} has symbols")
        chosen = cast("tuple[int, ...]", tuple(spec.shape))
        if shape and len(chosen) != len(shape):
            raise InputError(f"input {name!r} has {len(shape)} dimensions, not {len(chosen)}")
    if batch_size is not None and chosen:
        if spec is not None and chosen[0] not in (1, batch_size):
            raise InputError(f"input {name!r} is given with the batch {chosen[0]}, not {batch_size}")
        chosen = (batch_size, *chosen[1:])
    return facts.tensor(dtype, chosen)


def _left_open(one: Opened) -> list[str]:
    """The note on inputs of which the file leaves a size open."""
    tensors = one.program.tensors
    names = [repr(tensors[i.name].name) for i in one.program.inputs if tensors[i.name].dynamic]
    if not names:
        return []
    return [f"sizes of {', '.join(names[:3])} are open in the file, and counted as 1 there; choose them with -i or -b"]


def _refuse_huge(graph: Subgraph, scope: Scope) -> None:
    for name, tensor in graph.tensors.items():
        refuse_huge(tensor.name, scope.tensors[name].extents)
