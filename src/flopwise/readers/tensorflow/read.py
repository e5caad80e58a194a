"""A TensorFlow graph -> Graph: decoded by place, calls inlined, shapes by the one engine."""

from __future__ import annotations

import functools
import math
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Layout, StoredTensor, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.readers.inputs import InputSpec, input_specs
from flopwise.readers.limits import refuse_huge, refuse_unknown_loops
from flopwise.readers.options import TfliteOptions
from flopwise.readers.source.location import naming
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.source.wire import Window
from flopwise.readers.tensorflow.checkpoint import Checkpoint, checkpoint_of, opened, unnumbered
from flopwise.readers.tensorflow.file import Constant, Decoder, File, Function, Node
from flopwise.readers.tensorflow.inline import FLOWS as FUNCTIONS
from flopwise.readers.tensorflow.inline import Flat, Inliner, attribute, known_result
from flopwise.readers.tensorflow.lower import lower
from flopwise.readers.tflite import program as lite_program
from flopwise.readers.tflite.build import Builder
from flopwise.readers.tflite.file import model as lite
from flopwise.readers.tflite.flows import FLOWS
from flopwise.readers.tflite.lower.lowered import Lowered
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import in_storage
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.scope import Scope

_NOWHERE = lite.Extent(0, 0)

#: Operators that are inputs, variables and constants, not work.
_INPUTS, _VARIABLES = ("Placeholder", "_Arg"), ("VarHandleOp", "VariableV2", "Variable")

_BOOLEAN = frozenset(
    {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
     "Any", "All", "IsNan", "IsInf"}
)  # fmt: skip

#: Passes in which settings are learned from others.
_ROUNDS = 6

#: Calls around everything, which say nothing of a layer.
_CALLS = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")

#: Attributes that say the element type of results, the first that a node has.
_TYPES = ("dtype", "DstT", "out_type", "output_type", "Tparams", "element_dtype", "Tidx", "T")


def read_tensorflow(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: TfliteOptions = TfliteOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a frozen graph (``.pb``) or of a SavedModel's signature for serving.

    Args:
        model: a path of a ``.pb`` file, or a directory with a ``saved_model.pb``.
        inputs: shapes of inputs by name.
        dims: its dimensions have no names; any that is given is refused.
        batch_size: first dimension of all inputs whose first dimension is open.
        progress: called with the name of each step.
        options: how often loops run.

    Raises:
        ModelError: the file cannot be read.
        InputError: a shape is missing or does not fit.
    """
    progress("reading the model")
    path = os.fspath(model)  # type: ignore[call-overload] # a path, as was asked
    saved = os.path.isdir(path)
    source = open_source(os.path.join(path, "saved_model.pb") if saved else path)
    try:
        with naming(path):
            file = _decoded(source, saved or os.path.basename(path) == "saved_model.pb")
            progress("resolving shapes")
            checkpoint = checkpoint_of(path if saved else os.path.dirname(path)) if file.signatures else None
            return _Reading(path, source, file, dict(options.trips or {}), checkpoint).graph(inputs, batch_size)
    finally:
        source.close()


def _decoded(source: Source, saved: bool) -> File:
    file, decoder = File(), Decoder(Window(source))
    try:
        if saved:
            decoder.saved_model(file)
        else:
            decoder.graph(decoder.window.fields(0, source.size), file)
    except (struct.error, RecursionError, ValueError) as error:
        raise ModelError(f"truncated or damaged TensorFlow graph ({' '.join(str(error).split())[:100]})") from error
    if not file.nodes:
        raise ModelError("not a TensorFlow graph (no nodes)")
    return file


class _Pass(lite_program.LayoutPass):
    """As there, where the file does not state the types of all results."""

    def _typed(self, fact: Fact, dtype: str | None) -> Fact:
        return fact if dtype is None else super()._typed(fact, dtype)


class _Builder(Builder):
    """As there, with stored tensors of each name."""

    def __init__(self, storage: SourceStorage, kinds: Mapping[int, str], checkpoint: Checkpoint | None) -> None:
        super().__init__(storage)
        self._kinds, self._made, self._checkpoint = kinds, dict[int, Tensor](), checkpoint
        self._files: dict[int, SourceStorage] = {}

    def stored(self, name: str, tensor: lite.Tensor, kind: Any) -> Tensor:
        known = self._made.get(id(tensor))
        if known is None:
            kind = self._kinds.get(id(tensor), kind)
            fresh = self.names.fresh(name)
            known = self._made[id(tensor)] = Tensor(fresh, tensor.shape, tensor.dtype, kind)
            self.weights[fresh] = self._elements(fresh, tensor, kind)
        return known

    def _elements(self, name: str, tensor: lite.Tensor, kind: str) -> StoredTensor:
        place, bits = tensor.data, BITS.get(tensor.dtype)
        variable = None if self._checkpoint is None else self._checkpoint.find(tensor.name)
        if variable is not None and (variable.dtype, variable.shape) == (tensor.dtype, tensor.shape):
            runs = ((variable.start, variable.end),)
            return in_storage(name, tensor.shape, tensor.dtype, self._file(variable.shard), runs, role=kind)
        if place is None or place == _NOWHERE or not bits:
            return StoredTensor(name, tensor.shape, tensor.dtype, 0, role=kind)
        if (place.end - place.start) * 8 != math.prod(tensor.shape) * bits:
            return StoredTensor(name, tensor.shape, tensor.dtype, 0, role=kind)
        return in_storage(name, tensor.shape, tensor.dtype, self.storage, (place,), role=kind)

    def _file(self, number: int) -> SourceStorage:
        """A data file of the checkpoint."""
        assert self._checkpoint is not None
        if number >= len(self._checkpoint.files):
            raise ModelError(f"the index of the checkpoint names the data file {number}, which there is not")
        file = self._checkpoint.files[number]
        opening = functools.partial(opened, file, self._checkpoint.folder)
        return self._files.setdefault(number, SourceStorage(opening))


@dataclass
class _Reading:
    """One file on its way to a graph."""

    path: str
    source: Source
    file: File
    trips: dict[str, int]
    checkpoint: Checkpoint | None = None
    constants: dict[str, Constant] = field(default_factory=dict)
    #: Kinds of stored tensors, by the identity of what the program has of them.
    kinds: dict[int, str] = field(default_factory=dict)
    variables: dict[str, lite.Tensor] = field(default_factory=dict)
    #: Elements that followed from others in an earlier pass, by the tensors of the main graph.
    followed: dict[str, Constant] = field(default_factory=dict)
    #: Shapes that the file states of inputs.
    stated: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    number: int = 0
    depth: int = 0

    def graph(self, inputs: Any, batch_size: int | None) -> Graph:
        """The graph at some sizes."""
        inliner = Inliner(self.file, self.path)
        signature = self.signature()
        ends = list(signature[1].values()) if signature else []
        flat = inliner.main(ends)
        if any(node.op in ("Enter", "NextIteration") for node in self.file.nodes):
            raise ModelError(
                "has loops of TensorFlow 1 (Enter, NextIteration), which are not followed; give the SavedModel, or "
                "freeze with lower_control_flow=False"
            )
        outputs = [flat.found(end if ":" in end else f"{end}:0") for end in ends] or _unread(flat)
        facts = Facts()
        for _ in range(_ROUNDS):
            main = self.program(flat, inliner, outputs, top=True)
            scope, one = self.sizes(main, facts, signature, inputs, batch_size)
            if not self.follow(main, scope):
                break
        for key in main.tensors:
            refuse_huge(key, scope.tensors[key].extents)
        main = finished(main, scope)
        builder = _Builder(SourceStorage(self.source.later()), self.kinds, self.checkpoint)
        tensor_of = builder.main(main, scope)
        refuse_unknown_loops(self.trips, one.met)
        sides = [[tensor_of(name.name) for name in side] for side in (main.inputs, main.outputs)]
        return Graph(
            name=os.path.splitext(os.path.basename(self.path.rstrip("/\\")))[0],
            format="tensorflow",
            source=self.path,
            inputs=tuple([tensor for tensor in sides[0] if tensor is not None]),
            outputs=tuple([tensor for tensor in sides[1] if tensor is not None]),
            nodes=tuple(builder.nodes),
            weights=builder.weights,
            warnings=tuple(dict.fromkeys([*scope.warnings, *self.notes()])),
        )

    def sizes(
        self,
        main: lite_program.Graph,
        facts: Facts,
        signature: tuple[dict[str, str], dict[str, str]] | None,
        inputs: Any,
        batch_size: int | None,
    ) -> tuple[Scope, _Pass]:
        """The facts about all tensors, and the pass that found them."""
        names = {start.name.rpartition(":")[0]: start.name for start in main.inputs}
        if signature:
            names = {name: text for name, text in signature[0].items() if text in names.values()} or names
        scope, one = Scope(), _Pass({}, self.elements, self.trips, facts, FLOWS)
        specs = {spec.name: spec for spec in input_specs(inputs, list(names))}
        for name, key in names.items():
            shape = self.input(name, self.stated.get(key), specs.get(name), batch_size)
            scope.tensors[key] = facts.tensor(main.tensors[key].dtype, shape)
        for start in main.inputs:
            scope.tensors.setdefault(start.name, facts.tensor(main.tensors[start.name].dtype, None))
        for key, stored in main.initializers.items():
            scope.tensors[key] = one.constant(stored)
        one.run(main, scope, None)
        return scope, one

    def follow(self, main: lite_program.Graph, scope: Scope) -> bool:
        """Learn the elements of settings of operators that could not be lowered without; True if there are new ones."""
        before = len(self.followed)
        for node in main.nodes:
            if node.lowered.op.startswith("tensorflow::"):
                for key in node.given:
                    fact = scope.tensors.get(key)
                    values = None if fact is None else fact.elements
                    if values is not None and fact is not None and all(type(value) is int for value in values):
                        self.followed[key] = Constant("int32", fact.extents or (), None, tuple(values))
        return len(self.followed) > before

    @functools.cached_property
    def frozen(self) -> bool:
        """True where the file has no variables, so that its weights are constants."""
        bodies = [self.file.nodes, *(body.nodes for body in self.file.functions.values())]
        return not any(node.op in _VARIABLES for nodes in bodies for node in nodes)

    def notes(self) -> list[str]:
        if not self.frozen or not any(kind == "weight" for kind in self.kinds.values()):
            return []
        return ["a frozen graph does not say which of its constants are statistics: all count as parameters"]

    def signature(self) -> tuple[dict[str, str], dict[str, str]] | None:
        """The signature that is counted: that for serving, else the first with results that are tensors."""
        usable = {name: sides for name, sides in self.file.signatures.items() if sides[1] and not name.startswith("__")}
        return usable.get("serving_default") or next(iter(usable.values()), None)

    def input(
        self, name: str, stated: tuple[int, ...] | None, spec: InputSpec | None, batch_size: int | None
    ) -> tuple[int, ...]:
        """The shape of an input: as the user chose it, else as the file has it; a first size that is open is 1."""
        if spec is not None:
            if not all(isinstance(size, int) for size in spec.shape):
                raise InputError(f"dimensions of TensorFlow graphs are numbers; the shape of {name!r} has symbols")
            shape = [int(size) for size in spec.shape]
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

    def elements(self, stored: lite_program.Stored) -> tuple[Any, ...] | None:
        constant = self.constants.get(stored.name)
        return None if constant is None else constant.elements

    def program(self, flat: Flat, inliner: Inliner, outputs: Sequence[str], top: bool = False) -> lite_program.Graph:
        """Nodes as the program that the engine of sizes takes."""
        self.number += 1
        constants = dict(self.followed) if top else {}
        used: dict[str, int] = {}
        for key in (*(key for node in flat.nodes for key in node.inputs), *outputs):
            name, _, place = key.rpartition(":")
            if not place.isdecimal():
                raise ModelError(f"{self.path}: {key[:80]!r} is read, which is the name of no tensor")
            used[name] = max(used.get(name, 0), int(place))
        tensors: dict[str, lite.Tensor] = {}
        stored: dict[str, lite_program.Stored] = {}
        starts: list[lite_program.Name] = []
        nodes: list[lite_program.Node] = []
        for node in flat.nodes:
            key = f"{node.name}:0"
            if node.op in _INPUTS:
                tensors[key] = _tensor(node.name, attribute(node, "dtype", "float32"))
                starts.append(lite_program.Name(key))
                self.stated[key] = node.attrs.get("shape")
            elif node.op in _VARIABLES:
                self.take_variable(node, key, tensors, stored)
            elif node.op == "Const":
                constants[key] = self.take_constant(node, key, tensors, stored)
            elif node.op not in ("NoOp", "Assert"):
                nodes.append(self.node(node, used.get(node.name, 0) + 1, inliner, tensors, constants))
        for key in (*(key for node in nodes for key in node.given), *outputs):
            if key not in tensors:
                raise ModelError(f"{self.path}: {key[:80]!r} is read, and nothing makes it")
        ends = tuple([lite_program.Name(key) for key in outputs])
        return lite_program.Graph(0, tuple(nodes), tuple(starts), ends, stored, tensors, len(nodes))

    def take_variable(
        self, node: Node, key: str, tensors: dict[str, lite.Tensor], stored: dict[str, lite_program.Stored]
    ) -> None:
        sizes = attribute(node, "shape", ())
        if any(size < 0 for size in sizes):
            raise ModelError(f"{self.path}: variable {node.name[:80]!r} has an open size")
        dtype, name = attribute(node, "dtype", "float32"), attribute(node, "shared_name", "") or node.name
        known = self.variables.setdefault(name, _tensor(name, dtype, sizes))
        tensors[key] = known
        stored[key] = lite_program.Stored(f"{key}@{self.number}", dtype, sizes, _NOWHERE)
        trained = self.file.trained.get(name, self.file.trained.get(unnumbered(name), True))
        floating = dtype.startswith(("float", "bfloat"))
        self.kinds[id(known)] = ("weight" if trained else "buffer") if floating else "constant"

    def take_constant(
        self, node: Node, key: str, tensors: dict[str, lite.Tensor], stored: dict[str, lite_program.Stored]
    ) -> Constant:
        constant = node.attrs.get("value")
        if not isinstance(constant, Constant):
            raise ModelError(f"{self.path}: constant {node.name[:80]!r} has no value")
        extent = lite.Extent(*constant.place) if constant.place else _NOWHERE
        tensors[key] = known = _tensor(node.name, constant.dtype, constant.shape, extent)
        name = f"{key}@{self.number}"
        stored[key] = lite_program.Stored(name, constant.dtype, constant.shape, extent)
        self.constants[name] = constant = constant._replace(elements=self._few(constant))
        trained = constant.dtype.startswith(("float", "bfloat")) and math.prod(constant.shape) > 1
        self.kinds[id(known)] = "weight" if trained and self.frozen else "constant"
        return constant

    def _few(self, constant: Constant) -> tuple[Any, ...] | None:
        """The elements of a small constant, however they are written."""
        count = math.prod(constant.shape)
        if count > 8192:
            return None
        if constant.place is not None:
            stored = lite_program.Stored("", constant.dtype, constant.shape, lite.Extent(*constant.place))
            form = lite_program.KINDS.get(constant.dtype)
            nbytes = constant.place[1] - constant.place[0]
            if form is None or struct.calcsize(f"<{count}{form}") != nbytes:
                return None
            return struct.unpack(f"<{count}{form}", self.source.read(stored.data.start, nbytes))
        values = constant.elements or ((0,) if count and constant.dtype in lite_program.KINDS else ())
        if not values or len(values) > count:
            return () if not count else None
        values = (*values, *([values[-1]] * (count - len(values))))
        return tuple(map(bool, values)) if constant.dtype == "bool" else values

    def node(
        self,
        node: Node,
        results: int,
        inliner: Inliner,
        tensors: dict[str, lite.Tensor],
        constants: Mapping[str, Constant],
    ) -> lite_program.Node:
        """An operator, with the functions that it runs."""
        bodies = self.bodies(node, inliner)
        if node.op in ("Split", "SplitV", "Unpack"):
            results = max(results, min(attribute(node, "num_split", 0) or attribute(node, "num", 0), 10_000))
        elif bodies:
            results = max(
                results,
                len(next(iter(bodies.values())).outputs),
                len(bodies["body"].outputs) if "body" in bodies else 0,
            )
        elif node.op == "TopKV2":
            results = 2
        elif results > 10_000:
            raise ModelError(f"{self.path}: result {results - 1:,} of node {node.name[:80]!r} is read")
        lowered = self.lowered(node, bodies, constants)
        name = _CALLS.sub("", node.name)
        outputs = tuple([f"{node.name}:{place}" for place in range(results)])
        dtypes = tuple([_dtype(node, place) for place in range(results)])
        for place, (key, dtype) in enumerate(zip(outputs, dtypes, strict=True)):
            tensors[key] = _tensor(name if place == 0 else f"{name}:{place}", dtype or "float32")
        taken = node.inputs
        if lowered.inputs is not None and not lowered.as_in_file:
            taken = tuple([taken[place] if place < len(taken) else "" for place in lowered.inputs])
        domain, _, op = lowered.op.rpartition("::")
        operator = lite.Operator(node.op, "", (), (), {})
        return lite_program.Node(
            object(), op, "" if bodies else domain, name, taken, outputs,
            lite_program.Attributes({**lowered.attrs, **bodies}), 0, operator, lowered, dtypes, node.inputs,
        )  # fmt: skip

    def lowered(
        self, node: Node, bodies: Mapping[str, lite_program.Graph], constants: Mapping[str, Constant]
    ) -> Lowered:
        if bodies:
            return Lowered("If" if "then_branch" in bodies else "Loop")
        return lower(node, lambda place: constants.get(node.inputs[place]) if place < len(node.inputs) else None)

    def bodies(self, node: Node, inliner: Inliner) -> dict[str, lite_program.Graph]:
        """The functions that a node of control flow runs."""
        if node.op not in FUNCTIONS:
            return {}
        self.depth += 1
        if self.depth > 16:
            raise ModelError(f"{self.path}: functions run each other without end")
        graphs = {}
        for name, part in FUNCTIONS[node.op]:
            function = node.attrs.get(name)
            if not isinstance(function, Function):
                raise ModelError(f"{self.path}: node {node.name[:80]!r} names no function {name!r}")
            flat, body = inliner.body(function.name)
            known = {argument: f"{argument}:0" for argument in body.arguments}
            ends = [flat.found(known_result(body, output, "", known)) for output in body.outputs]
            graphs[part] = self.program(flat, inliner, ends)
        self.depth -= 1
        return graphs


def finished(graph: lite_program.Graph, scope: Scope) -> lite_program.Graph:
    """The program with what only shapes say: kernels and groups of convolutions, orders of axes of stacked factors."""
    nodes = tuple([_finished(node, graph, scope) for node in graph.nodes])
    return replace(graph, nodes=nodes)


def _finished(node: lite_program.Node, graph: lite_program.Graph, scope: Scope) -> lite_program.Node:
    shapes = [scope.tensors[key].extents if key in scope.tensors else None for key in node.given]
    lowered = node.lowered
    if lowered.op in ("Conv", "ConvTranspose") and lowered.inputs is not None:
        x, w = (shapes[place] if place < len(shapes) else None for place in lowered.inputs)
        return _with_groups(node, x, w) if x and w and len(x) == len(w) else node
    if lowered.op == "MatMul" and lowered.as_in_file:
        ranks = [len(shape) if shape is not None else 0 for shape in shapes]
        orders = [
            (*range(rank - 2), rank - 1, rank - 2) if lowered.attrs.get(name) and rank > 1 else None
            for rank, name in zip(ranks, ("adj_x", "adj_y"), strict=False)
        ]
        return node._replace(lowered=lowered._replace(attrs={}, layout=_layout(orders)))
    return node


def _with_groups(node: lite_program.Node, x: tuple[int, ...], w: tuple[int, ...]) -> lite_program.Node:
    """A convolution of which the shapes are known; unknown where each channel has several results of its own."""
    lowered = node.lowered
    attrs = {**lowered.attrs, "kernel_shape": list(w[:-2])}
    channels = x[-1] if attrs.pop("channels_last", 1) else x[1]
    if attrs.pop("depthwise", 0):
        if w[-1] != 1:
            op = node.operator.op
            return node._replace(op=op, domain="tensorflow", lowered=Lowered(f"tensorflow::{op}"))
        attrs["group"] = w[-2]
    elif lowered.op == "Conv":
        attrs["group"] = max(channels // w[-2], 1) if w[-2] else 1
    return node._replace(lowered=lowered._replace(attrs=attrs))


def _layout(orders: list[tuple[int, ...] | None]) -> Layout | None:
    return Layout(tuple(orders)) if any(orders) else None


def _unread(flat: Flat) -> list[str]:
    """The results of nodes that nothing reads."""
    read = {key for node in flat.nodes for key in node.inputs}
    quiet = (*_INPUTS, *_VARIABLES, "Const", "NoOp", "Assert")
    names = [f"{node.name}:0" for node in flat.nodes if node.op not in quiet and f"{node.name}:0" not in read]
    ends = {name.rpartition(":")[0] for name in (key for key in read)}
    return [name for name in names if name.rpartition(":")[0] not in ends]


def _dtype(node: Node, place: int) -> str | None:
    """The element type of a result; None where the node does not say."""
    if node.op in _BOOLEAN:
        return "bool"
    if node.op in FUNCTIONS:
        types: list[str] = attribute(node, "T", []) or attribute(node, "Tout", [])
        return types[place] if place < len(types) and types[place] not in ("resource", "variant") else None
    if node.op == "TopKV2" and place == 1:
        return "int32"
    if node.op == "Where":
        return "int64"
    if node.op in ("Shape", "Size", "Rank"):
        return str(node.attrs.get("out_type") or "int32")
    if node.op in ("ArgMax", "ArgMin"):
        return str(node.attrs.get("output_type") or "int64")
    return next(
        (node.attrs[name] for name in _TYPES if isinstance(node.attrs.get(name), str) and node.attrs[name]), None
    )


def _tensor(name: str, dtype: str, shape: tuple[int, ...] = (), data: lite.Extent | None = None) -> lite.Tensor:
    return lite.Tensor(name, shape, shape, dtype, data, None, False, None)


def _text(shape: Sequence[int]) -> str:
    return "x".join("?" if size == -1 else str(size) for size in shape)
