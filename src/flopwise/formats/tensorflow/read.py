"""A TensorFlow graph -> Graph: decoded by place, calls inlined, shapes by the one engine."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from flopwise.errors import InputError, ModelError
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.open import open_source
from flopwise.formats.tensorflow.checkpoint import Checkpoint, checkpoint_of, opened
from flopwise.formats.tensorflow.file import Constant, read_file
from flopwise.formats.tensorflow.inline import Flat, Inliner
from flopwise.formats.tensorflow.program import INPUTS, VARIABLES, Programs, finished
from flopwise.formats.weights.graphs import stored_in_graph
from flopwise.formats.weights.storage import SourceStorage
from flopwise.formats.weights.tensor import StoredTensors, in_storage
from flopwise.graph import Graph, Kind, StoredTensor, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.readers.inputs import InputSpec, input_specs
from flopwise.readers.limits import refuse_huge, refuse_unknown_loops
from flopwise.readers.options import TfliteOptions
from flopwise.readers.subgraphs import tensors as stored_tensors
from flopwise.readers.subgraphs.build import Builder
from flopwise.readers.subgraphs.flows import FLOWS
from flopwise.readers.subgraphs.lowered import Lowered
from flopwise.readers.subgraphs.program import Graph as Subgraph
from flopwise.readers.subgraphs.program import LayoutPass
from flopwise.readers.subgraphs.program import Node as Operation
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.scope import Scope

#: Passes in which settings are learned from others.
_ROUNDS = 6


def read_tensorflow(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: TfliteOptions = TfliteOptions(),  # noqa: B008 - it cannot be changed
    passes: Callable[[type[LayoutPass]], type[LayoutPass]] = lambda kind: kind,
) -> Graph:
    """The graph of a frozen graph (``.pb``) or of a SavedModel's signature for serving.

    Args:
        model: a path of a ``.pb`` file, or a directory with a ``saved_model.pb``.
        inputs: shapes of inputs by name.
        dims: its dimensions have no names; any that is given is refused.
        batch_size: first dimension of all inputs whose first dimension is open.
        progress: called with the name of each step.
        options: how often loops run.
        passes: makes of the class of the pass over a graph another one, for sizes of another kind.

    Raises:
        ModelError: the file cannot be read.
        InputError: a shape is missing or does not fit.
    """
    path = os.fspath(model)  # type: ignore[call-overload] # a path, as was asked
    graph, missing = _read(path, inputs, batch_size, progress, options, passes(_Pass))
    if missing:
        return replace(graph, warnings=(*graph.warnings, f"elements of variables cannot be read: {missing}"))
    return graph


def stored_in_tensorflow(
    model: str | os.PathLike[str], inputs: object, batch_size: int | None, options: TfliteOptions
) -> StoredTensors:
    """The stored tensors of a graph; no element is read yet.

    Raises:
        ModelError: the file cannot be read, or the elements of its variables cannot.
    """
    graph, missing = _read(os.fspath(model), inputs, batch_size, lambda step: None, options, _Pass)
    if any(tensor.role in ("weight", "buffer") and not tensor.nbytes for tensor in graph.weights.values()):
        why = "the elements of its variables are not beside it (variables/variables.index)"
        raise ModelError(missing or f"{graph.source}: {why}")
    return stored_in_graph(graph)


def inputs_of(model: str | os.PathLike[str]) -> list[tuple[str, str, tuple[int | None, ...]]]:
    """Name, element type and shape of the inputs, as the file states them; None for an extent that it leaves open.

    Raises:
        ModelError: the file cannot be read.
    """
    path = os.fspath(model)
    with _programs(path) as programs:
        return _Reading(programs, {}, None, _Pass).inputs()


def _read(
    path: str,
    inputs: object,
    batch_size: int | None,
    progress: Callable[[str], None],
    options: TfliteOptions,
    kind: type[LayoutPass],
) -> tuple[Graph, str]:
    """The graph, and why the elements of its variables cannot be read; "" where they can, or there are none."""
    progress("reading the model")
    with _programs(path) as programs:
        progress("resolving shapes")
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        checkpoint, missing = _checkpoint(folder) if programs.file.signatures else (None, "")
        reading = _Reading(programs, dict(options.trips or {}), checkpoint, kind)
        return reading.graph(inputs, batch_size), missing


@contextlib.contextmanager
def _programs(path: str) -> Iterator[Programs]:
    """The programs of a file, which is open in the block; errors name it."""
    saved = os.path.isdir(path)
    source = open_source(os.path.join(path, "saved_model.pb") if saved else path)
    try:
        with naming(path):
            yield Programs(path, source, read_file(source, saved or os.path.basename(path) == "saved_model.pb"))
    finally:
        source.close()


def _checkpoint(folder: str) -> tuple[Checkpoint | None, str]:
    """The checkpoint beside a graph, or why its elements cannot be read: what a network costs does not need them."""
    try:
        return checkpoint_of(folder), ""
    except ModelError as error:
        return None, str(error)


class _Pass(LayoutPass):
    """As there, where the file does not state the types of all results."""

    def _typed(self, fact: Fact, dtype: str | None) -> Fact:
        return fact if dtype is None else super()._typed(fact, dtype)


class _Builder(Builder):
    """As there, with stored tensors of each name."""

    def __init__(self, storage: SourceStorage, kinds: Mapping[int, Kind], checkpoint: Checkpoint | None) -> None:
        super().__init__(storage)
        self._kinds, self._made, self._checkpoint = kinds, dict[int, Tensor](), checkpoint
        self._files: dict[int, SourceStorage] = {}

    def stored(self, name: str, tensor: stored_tensors.Tensor, kind: Kind) -> Tensor:
        known = self._made.get(id(tensor))
        if known is None:
            kind = self._kinds.get(id(tensor), kind)
            fresh = self.names.fresh(name)
            known = self._made[id(tensor)] = Tensor(fresh, tensor.shape, tensor.dtype, kind)
            self.weights[fresh] = self._elements(fresh, tensor, kind)
        return known

    def lowered(self, node: Operation, scope: Scope) -> Lowered:
        return finished(node, scope)

    def _elements(self, name: str, tensor: stored_tensors.Tensor, kind: str) -> StoredTensor:
        """A stored tensor; one without bytes where the file and the checkpoint do not hold what its shape says."""
        place, storage = tensor.data, self.storage
        variable = self._checkpoint and self._checkpoint.find(tensor.name)
        if variable and (variable.dtype, variable.shape) == (tensor.dtype, tensor.shape):
            place, storage = stored_tensors.Extent(variable.start, variable.end), self._file(variable.shard)
        bits = BITS.get(tensor.dtype)
        if place is None or not bits or (place.end - place.start) * 8 != math.prod(tensor.shape) * bits:
            return StoredTensor(name, tensor.shape, tensor.dtype, 0, role=kind)
        return in_storage(name, tensor.shape, tensor.dtype, storage, (place,), role=kind)

    def _file(self, number: int) -> SourceStorage:
        """A data file of the checkpoint."""
        assert self._checkpoint is not None
        opening = functools.partial(opened, self._checkpoint.files[number], self._checkpoint.folder)
        return self._files.setdefault(number, SourceStorage(opening))


@dataclass
class _Reading:
    """One file on its way to a graph."""

    programs: Programs
    trips: dict[str, int]
    checkpoint: Checkpoint | None
    kind: type[LayoutPass]

    def nodes(self) -> tuple[Flat, Inliner, list[str]]:
        """The nodes of the main graph with calls inlined, and the names of its results."""
        file = self.programs.file
        inliner, signature = Inliner(file, self.programs.path), self.signature()
        ends = list(signature[1].values()) if signature else []
        flat = inliner.main(ends)
        if any(node.op in ("Enter", "NextIteration") for node in file.nodes):
            raise ModelError(
                "has loops of TensorFlow 1 (Enter, NextIteration), which are not followed; give the SavedModel, or "
                "freeze with lower_control_flow=False"
            )
        return flat, inliner, [flat.found(end if ":" in end else f"{end}:0") for end in ends] or _unread(flat)

    def inputs(self) -> list[tuple[str, str, tuple[int | None, ...]]]:
        """The inputs as the file states them."""
        main, stated = self.programs.program(*self.nodes(), top=True), self.programs.stated
        shapes = {name: (stated.get(key), main.tensors[key].dtype) for name, key in self.names(main).items()}
        return [
            (name, dtype, tuple([None if size == -1 else size for size in shape or ()]))
            for name, (shape, dtype) in shapes.items()
        ]

    def graph(self, inputs: object, batch_size: int | None) -> Graph:
        """The graph at some sizes."""
        programs, path = self.programs, self.programs.path
        flat, inliner, outputs = self.nodes()
        facts = Facts()
        for _ in range(_ROUNDS):
            main = programs.program(flat, inliner, outputs, top=True)
            scope, one = self.sizes(main, facts, inputs, batch_size)
            if not self.follow(main, scope):
                break
        if (inputs is not None or batch_size is not None) and (fault := next(iter(scope.impossible(main)), "")):
            raise InputError(f"the input shapes are impossible: {fault}")
        for key in main.tensors:
            refuse_huge(key, scope.tensors[key].extents)
        builder = _Builder(SourceStorage(programs.source.later()), programs.kinds, self.checkpoint)
        tensor_of = builder.main(main, scope)
        refuse_unknown_loops(self.trips, one.met)
        sides = [[tensor_of(name.name) for name in side] for side in (main.inputs, main.outputs)]
        return Graph(
            name=os.path.splitext(os.path.basename(path.rstrip("/\\")))[0],
            format="tensorflow",
            source=path,
            inputs=tuple([tensor for tensor in sides[0] if tensor is not None]),
            outputs=tuple([tensor for tensor in sides[1] if tensor is not None]),
            nodes=tuple(builder.nodes),
            weights=builder.weights,
            warnings=tuple(dict.fromkeys([*scope.warnings, *self.notes()])),
        )

    def sizes(
        self,
        main: Subgraph,
        facts: Facts,
        inputs: object,
        batch_size: int | None,
    ) -> tuple[Scope, LayoutPass]:
        """The facts about all tensors, and the pass that found them."""
        names = self.names(main)
        scope, one = Scope(), self.kind({}, self.programs.elements, self.trips, facts, FLOWS)
        specs = {spec.name: spec for spec in input_specs(inputs, list(names))}
        for name, key in names.items():
            shape = self.input(name, self.programs.stated.get(key), specs.get(name), batch_size)
            scope.tensors[key] = facts.tensor(main.tensors[key].dtype, shape)
        for start in main.inputs:
            scope.tensors.setdefault(start.name, facts.tensor(main.tensors[start.name].dtype, None))
        for key, stored in main.initializers.items():
            scope.tensors[key] = one.constant(stored)
        one.run(main, scope, None)
        return scope, one

    def names(self, main: Subgraph) -> dict[str, str]:
        """The inputs by the names that users know, with their names in the program."""
        names = {start.name.rpartition(":")[0]: start.name for start in main.inputs}
        signature = self.signature()
        if not signature:
            return names
        return {name: text for name, text in signature[0].items() if text in names.values()} or names

    def follow(self, main: Subgraph, scope: Scope) -> bool:
        """Learn the elements of settings of operators that could not be lowered without; True if there are new ones."""
        followed = self.programs.followed
        before = len(followed)
        for node in main.nodes:
            if node.lowered.op.startswith("tensorflow::"):
                for key in node.given:
                    fact = scope.tensors.get(key)
                    values = None if fact is None else fact.elements
                    if values is not None and fact is not None and all(type(value) is int for value in values):
                        followed[key] = Constant("int32", fact.extents or (), None, tuple(values))
        return len(followed) > before

    def notes(self) -> list[str]:
        if not self.programs.frozen or "weight" not in self.programs.kinds.values():
            return []
        return ["a frozen graph does not say which of its constants are statistics: all count as parameters"]

    def signature(self) -> tuple[dict[str, str], dict[str, str]] | None:
        """The signature that is counted: that for serving, else the first with results that are tensors."""
        usable = {
            name: sides
            for name, sides in self.programs.file.signatures.items()
            if sides[1] and not name.startswith("__")
        }
        return usable.get("serving_default") or next(iter(usable.values()), None)

    def input(
        self, name: str, stated: tuple[int, ...] | None, spec: InputSpec | None, batch_size: int | None
    ) -> tuple[int, ...]:
        """The shape of an input: as the user chose it, else as the file has it; a first size that is open is 1."""
        if spec is not None:
            if not all(isinstance(size, int) for size in spec.shape):
                raise InputError(f"dimensions of TensorFlow graphs are numbers; the shape of {name!r} has symbols")
            shape = cast("list[int]", [*spec.shape])
            if stated is not None and (
                len(stated) != len(shape) or any(own not in (-1, size) for own, size in zip(stated, shape, strict=True))
            ):
                raise InputError(f"input {name!r} is {_text(stated)} (?: any size), not {_text(shape)}")
            return tuple(shape)
        if stated is None:
            raise InputError(f"the shape of input {name!r} is open; give -i {name}:SHAPE")
        shape = list(stated)
        if shape and shape[0] == -1:
            shape[0] = 1 if batch_size is None else batch_size
        elif batch_size is not None and shape and shape[0] != batch_size:
            raise InputError(f"the batch of input {name!r} is fixed at {shape[0]}")
        if -1 in shape:
            raise InputError(f"sizes of input {name!r} are open ({_text(stated)}); give -i {name}:SHAPE")
        return tuple(shape)


def _unread(flat: Flat) -> list[str]:
    """The results of nodes that nothing reads."""
    read = {key for node in flat.nodes for key in node.inputs}
    quiet = (*INPUTS, *VARIABLES, "Const", "NoOp", "Assert")
    names = [f"{node.name}:0" for node in flat.nodes if node.op not in quiet and f"{node.name}:0" not in read]
    ends = {name.rpartition(":")[0] for name in (key for key in read)}
    return [name for name in names if name.rpartition(":")[0] not in ends]


def _text(shape: Sequence[int]) -> str:
    return "x".join("?" if size == -1 else str(size) for size in shape)
