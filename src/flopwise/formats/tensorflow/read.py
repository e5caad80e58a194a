"""A TensorFlow graph, with the functions that it runs, opened as a program."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.errors import ModelError, damaged
from flopwise.formats.kit.lowering import Application, Lowered
from flopwise.formats.kit.nodes import Nodes, modules_of
from flopwise.formats.kit.program import Graph, Model, TensorType, Value, named
from flopwise.formats.kit.program import Node as Operation
from flopwise.formats.kit.read import Dialect, Opened, in_one_line, opened_as
from flopwise.formats.kit.tensors import RAW, Place, Stored, elements, packed
from flopwise.formats.options import Options
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.tensorflow.checkpoint import Checkpoint, checkpoint_of, unnumbered
from flopwise.formats.tensorflow.file import Constant, File, Function, Node, read_file
from flopwise.formats.tensorflow.inline import FLOWS as FUNCTIONS
from flopwise.formats.tensorflow.inline import Flat, Inliner, attribute, known_result
from flopwise.formats.tensorflow.table import lower
from flopwise.graph import Kind
from flopwise.graph.dtypes import BITS
from flopwise.graph.names import FreshNames, primed
from flopwise.operators.shape import Element

#: Operators that are inputs and variables, not work.
INPUTS, VARIABLES = ("Placeholder", "_Arg"), ("VarHandleOp", "VariableV2", "Variable")

#: The dimension of inputs that is the batch, where the file leaves it open.
BATCH = "batch"

_BOOLEAN = frozenset(
    {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
     "Any", "All", "IsNan", "IsInf"}
)  # fmt: skip

#: Calls around everything, which say nothing of a layer.
_CALLS = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")

#: Attributes that say the element type of results, the first that a node has.
_TYPES = ("dtype", "DstT", "out_type", "output_type", "Tparams", "element_dtype", "Tidx", "T")

#: Results of one node, functions in functions, and elements of a constant that are looked at, at most.
_RESULTS, _DEPTH, _FEW = 10_000, 16, 8192


_NO_CHECKPOINT = "the elements of its variables are not beside it (variables/variables.index)"


class _Typed(NamedTuple):
    dtype: str | None
    shape: tuple[int, ...] = ()


class _Options(dict[str, Any]):
    """The attributes of a node; one that the file leaves out, as it does with defaults, is 0."""

    def __missing__(self, name: str) -> int:
        return 0


class Maker:
    """The program of one file."""

    def __init__(
        self, source: Source, name: str, file: File, checkpoint: Checkpoint | str, inputs: Mapping[str, str]
    ) -> None:
        """
        Args:
            source: the file.
            name: what to call it in a message.
            file: what it holds.
            checkpoint: the elements of its variables, or why they cannot be read; "" where there is none.
            inputs: tensors that are inputs, "node:index", with the names that users know.
        """
        self.source, self.name, self.file, self.checkpoint, self.inputs = source, name, file, checkpoint, inputs
        self.stored: dict[str, Stored] = {}
        self.kinds: dict[str, Kind] = {}
        self._inliner = Inliner(file, name)
        self._nodes, self._fresh = Nodes(), FreshNames(form=primed)
        self._variables: dict[str, str] = {}
        self._depth = 0

    @functools.cached_property
    def frozen(self) -> bool:
        """True where the file has no variables, so that its weights are constants."""
        bodies = [self.file.nodes, *(body.nodes for body in self.file.functions.values())]
        return not any(node.op in VARIABLES for nodes in bodies for node in nodes)

    def main(self, ends: Sequence[str]) -> Graph:
        """The main graph, with the stored tensors of all; its results are these, or what nothing reads."""
        flat = self._inliner.main(ends)
        if any(node.op in ("Enter", "NextIteration") for node in self.file.nodes):
            raise ModelError(
                "has loops of TensorFlow 1 (Enter, NextIteration), which are not followed; give the SavedModel, or "
                "freeze with lower_control_flow=False"
            )
        results = [flat.found(end if ":" in end else f"{end}:0") for end in ends] or _unread(flat)
        return self._graph(flat, results, "", {}, self.inputs)

    def _graph(
        self, flat: Flat, results: Sequence[str], above: str, outside: Mapping[str, str], inputs: Mapping[str, str]
    ) -> Graph:
        """Nodes as a graph.

        Args:
            flat: the nodes.
            results: of the graph, "node:index".
            above: what the names of its stored tensors begin with.
            outside: its inputs that are the same in all runs, with the names that they have outside.
            inputs: names of inputs.
        """
        used: dict[str, int] = {}
        for key in (*(key for node in flat.nodes for key in node.inputs), *results):
            name, _, place = key.rpartition(":")
            if not place.isdecimal():
                raise ModelError(f"{self.name}: {key[:80]!r} is read, which is the name of no tensor")
            used[name] = max(used.get(name, 0), int(place))
        scope = _Scope(self, above, dict(outside))
        own_inputs = {f"{node.name}:0" for node in flat.nodes if node.op in INPUTS}
        for key, name in inputs.items():
            if key in own_inputs:
                scope.add(key, name)
        starts, nodes = list[Value](), list[Operation]()
        for node in flat.nodes:
            key = f"{node.name}:0"
            if node.op in INPUTS:
                own = scope.own.get(key) or scope.add(key, node.name)
                starts.append(Value(own, _type(node), {}))
            elif node.op in VARIABLES:
                scope.names[key] = self._variable(node, scope)
            elif node.op == "Const":
                scope.names[key] = self._constant(node, scope)
            elif node.op not in ("NoOp", "Assert"):
                nodes.append(self._node(node, used.get(node.name, 0) + 1, scope))
        ends = [Value(scope.own.get(key) or scope.name(key), None, {}) for key in results]
        return Graph(above, nodes, starts, ends, {} if above else self.stored)

    def _variable(self, node: Node, scope: _Scope) -> str:
        sizes = attribute(node, "shape", ())
        if any(size < 0 for size in sizes):
            raise ModelError(f"{self.name}: variable {node.name[:80]!r} has an open size")
        dtype, name = attribute(node, "dtype", "float32"), attribute(node, "shared_name", "") or node.name
        known = self._variables.get(name)
        if known is None:
            known = self._variables[name] = self._fresh.fresh(name)
            floating = dtype.startswith(("float", "bfloat"))
            trained = self.file.trained.get(name, self.file.trained.get(unnumbered(name), True))
            self.kinds[known] = ("weight" if trained else "buffer") if floating else "constant"
            self.stored[known] = self._beside(known, name, dtype, sizes)
        return known

    def _beside(self, known: str, name: str, dtype: str, sizes: tuple[int, ...]) -> Stored:
        """A variable, whose elements lie in the checkpoint."""
        one = None if isinstance(self.checkpoint, str) else self.checkpoint.find(name)
        if isinstance(self.checkpoint, str) or not one or (one.dtype, one.shape) != (dtype, sizes):
            why = self.checkpoint if isinstance(self.checkpoint, str) else ""
            return Stored(known, sizes, dtype, unpack=functools.partial(_missing, why or _NO_CHECKPOINT))
        location = os.path.relpath(self.checkpoint.files[one.shard], self.checkpoint.folder).replace(os.sep, "/")
        place = {"location": location, "offset": str(one.start), "length": str(one.end - one.start)}
        return Stored(known, sizes, dtype, (), place)

    def _constant(self, node: Node, scope: _Scope) -> str:
        one = node.attrs.get("value")
        if not isinstance(one, Constant):
            raise ModelError(f"{self.name}: constant {node.name[:80]!r} has no value")
        name = self._fresh.fresh(f"{scope.above}{_CALLS.sub('', node.name)}")
        trained = one.dtype.startswith(("float", "bfloat")) and math.prod(one.shape) > 1
        self.kinds[name] = "weight" if trained and self.frozen else "constant"
        places = (Place(RAW, *one.place),) if one.place else ()
        payload = self._payload(one)
        unpack = None
        if not places and payload and BITS.get(one.dtype):
            unpack = functools.partial(_written_out, one.dtype, one.shape, payload)
        self.stored[name] = Stored(name, one.shape, one.dtype or "string", places, payload=payload, unpack=unpack)
        return name

    def _payload(self, constant: Constant) -> bytes:
        """The elements of a small constant as raw data, however they are written; b"" where they are not at hand."""
        count = math.prod(constant.shape)
        if count > _FEW or not BITS.get(constant.dtype):
            return b""
        if constant.place is not None:
            start, end = constant.place
            return self.source.read(start, end - start) if (end - start) * 8 == count * BITS[constant.dtype] else b""
        values = constant.elements or (0,)
        if len(values) > count:
            return b""
        return packed(constant.dtype, (*values, *([values[-1]] * (count - len(values)))))

    def _node(self, node: Node, results: int, scope: _Scope) -> Operation:
        """An operator, with the functions that it runs."""
        name = _CALLS.sub("", node.name)
        taken = [scope.name(key) for key in node.inputs]
        node_name = scope.node_names.fresh(name) if name else ""
        bodies = self._bodies(node, taken, f"{scope.above}{node_name}/")
        if node.op in ("Split", "SplitV", "Unpack"):
            results = max(results, min(attribute(node, "num_split", 0) or attribute(node, "num", 0), _RESULTS))
        elif bodies:
            results = max(results, *(len(bodies[part].outputs) for part in bodies if part != "cond"))
        elif node.op == "TopKV2":
            results = 2
        elif results > _RESULTS:
            raise ModelError(f"{self.name}: result {results - 1:,} of node {node.name[:80]!r} is read")
        dtypes = [_dtype(node, place) for place in range(results)]
        keys = [f"{node.name}:{place}" for place in range(results)]
        outputs = [scope.add(key, f"{name}:{place}" if place else name) for place, key in enumerate(keys)]
        if bodies:
            lowered = Lowered("If" if "then_branch" in bodies else "Loop")
            return self._nodes.node(node.op, node_name, lowered, taken, outputs, dtypes, (), bodies)
        inputs = tuple([self._typed(one) for one in taken])
        given = Application(
            node.op, _Options(node.attrs), inputs, (_Typed(dtypes[0]),), lambda at: self._held(taken[at])
        )
        try:
            lowered = lower(given)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:100]
            what = f"attributes of node {node.name[:80]!r} make no sense: {why}"
            raise damaged(self.name, what, "TensorFlow graph") from None
        return self._nodes.node(node.op, node_name, lowered, taken, outputs, dtypes)

    def _typed(self, name: str) -> _Typed:
        stored = self.stored.get(name)
        return _Typed(None) if stored is None else _Typed(stored.dtype, stored.dims)

    def _held(self, name: str) -> tuple[Element, ...] | None:
        stored = self.stored.get(name)
        return None if stored is None else elements(stored)

    def _bodies(self, node: Node, taken: Sequence[str], above: str) -> dict[str, Graph]:
        """The graphs of the functions that a node of control flow runs."""
        if node.op not in FUNCTIONS:
            return {}
        self._depth += 1
        if self._depth > _DEPTH:
            raise ModelError(f"{self.name}: functions run each other without end")
        parts: dict[str, tuple[Flat, list[str], list[str]]] = {}
        for name, part in FUNCTIONS[node.op]:
            function = node.attrs.get(name)
            if not isinstance(function, Function):
                raise ModelError(f"{self.name}: node {node.name[:80]!r} names no function {name!r}")
            flat, body = self._inliner.body(function.name)
            starts = [f"{argument}:0" for argument in body.arguments]
            known = dict(zip(body.arguments, starts, strict=True))
            parts[part] = flat, starts, [flat.found(known_result(body, end, "", known)) for end in body.outputs]
        if "body" in parts:  # a loop hands on what it is given where its body returns that
            _, starts, ends = parts["body"]
            same = [start == end for start, end in zip(starts, ends, strict=False)]
            given = [name if stays else "" for name, stays in zip(taken, same, strict=False)]
        else:
            given = list(taken[1:])
        graphs = {}
        for part, (flat, starts, ends) in parts.items():
            outside = {start: name for start, name in zip(starts, given, strict=False) if name}
            graphs[part] = self._graph(flat, ends, f"{above}{part}/", outside, {})
        self._depth -= 1
        return graphs


class _Scope:
    """The names of the tensors of one graph, by "node:index"."""

    def __init__(self, maker: Maker, above: str, outside: dict[str, str]) -> None:
        """
        Args:
            maker: of the program.
            above: what the names of its stored tensors begin with.
            outside: its inputs that are the same in all runs, with the names that they have outside.
        """
        self.above, self.names, self.own = above, outside, dict[str, str]()
        self._maker = maker
        self._fresh = FreshNames((*outside.values(), *maker.stored), primed) if above else maker._fresh
        self.node_names = FreshNames(form=primed)

    def add(self, key: str, name: str) -> str:
        """Name a tensor of the graph itself."""
        self.own[key] = own = self._fresh.fresh(name)
        if self.above:
            self._maker._fresh.add(own)
        self.names.setdefault(key, own)
        return own

    def name(self, key: str) -> str:
        """The name of a tensor that an operator takes.

        Raises:
            ModelError: there is no such tensor.
        """
        if key not in self.names:
            raise ModelError(f"{self._maker.name}: {key[:80]!r} is read, and nothing makes it")
        return self.names[key]


def _type(node: Node) -> TensorType:
    """The type of an input; its first size is the batch where it is open."""
    dtype, shape = attribute(node, "dtype", "float32"), node.attrs.get("shape")
    if shape is None:
        return TensorType(dtype, None)
    return TensorType(
        dtype, tuple([None if size == -1 and at else BATCH if size == -1 else size for at, size in enumerate(shape)])
    )


def _missing(why: str, storage: object) -> Any:
    raise ModelError(why)


def _written_out(dtype: str, shape: tuple[int, ...], payload: bytes, storage: object) -> Any:
    """The elements of a constant that are written one by one, or once for all."""
    import numpy

    from flopwise.formats.weights.tensor import encoding

    one = encoding(dtype)
    assert one is not None
    return one.decode(numpy.frombuffer(payload, numpy.uint8)).reshape(shape)


def _unread(flat: Flat) -> list[str]:
    """The results of nodes that nothing reads."""
    read = {key.rpartition(":")[0] for node in flat.nodes for key in node.inputs}
    quiet = (*INPUTS, *VARIABLES, "Const", "NoOp", "Assert")
    return [f"{node.name}:0" for node in flat.nodes if node.op not in quiet and node.name not in read]


def _dtype(node: Node, place: int) -> str | None:
    """The element type of a result; None where the node does not say, or it is no tensor of numbers."""
    dtype = _stated_dtype(node, place)
    return None if dtype in ("resource", "variant") else dtype


def _stated_dtype(node: Node, place: int) -> str | None:
    if node.op in _BOOLEAN:
        return "bool"
    if node.op in FUNCTIONS:
        types: list[str] = attribute(node, "T", []) or attribute(node, "Tout", [])
        return types[place] if place < len(types) else None
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


_DIALECT = Dialect("tensorflow", modules_of, states=False, nested=True, assume={BATCH: 1})


def opened_tensorflow(
    model: str | os.PathLike[str], options: Options | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """A frozen graph (``.pb``), or the signature for serving of a SavedModel, before any size is chosen.

    Args:
        model: a path of a ``.pb`` file, or a directory with a ``saved_model.pb``.
        options: are asked for nothing.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the file cannot be read.
    """
    progress("reading the model")
    path = os.fspath(model)
    saved = os.path.isdir(path)
    with in_one_line(path):
        source = open_source(os.path.join(path, "saved_model.pb") if saved else path)
        try:
            return _opened(source, path, saved or os.path.basename(path) == "saved_model.pb")
        finally:
            source.close()


def _opened(source: Source, path: str, saved: bool) -> Opened:
    file = read_file(source, saved)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    checkpoint = _checkpoint(folder) if file.signatures else ""
    signature = _signature(file)
    inputs = {key: name for name, key in signature[0].items()} if signature else {}
    maker = Maker(source, path, file, checkpoint, inputs)
    graph = named(maker.main(list(signature[1].values()) if signature else []))
    warnings = (
        [f"elements of variables cannot be read: {checkpoint}"] if checkpoint and isinstance(checkpoint, str) else []
    )
    if maker.frozen and "weight" in maker.kinds.values():
        warnings.append("a frozen graph does not say which of its constants are statistics: all count as parameters")
    opsets = {"": 21, "tflite": 1, "tensorflow": 1}
    return opened_as(Model(9, opsets, {}, graph), path, source, _DIALECT, warnings, [], kinds=maker.kinds)


def _checkpoint(folder: str) -> Checkpoint | str:
    """The checkpoint beside a graph, or why its elements cannot be read: what a network costs does not need them."""
    try:
        return checkpoint_of(folder) or ""
    except ModelError as error:
        return str(error)


def _signature(file: File) -> tuple[dict[str, str], dict[str, str]] | None:
    """The signature that is counted: that for serving, else the first with results that are tensors."""
    usable = {name: sides for name, sides in file.signatures.items() if sides[1] and not name.startswith("__")}
    return usable.get("serving_default") or next(iter(usable.values()), None)
