"""The nodes of a TensorFlow graph as the program that the engine of sizes takes."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.errors import ModelError
from flopwise.formats.sources.source import Source
from flopwise.formats.tensorflow.checkpoint import unnumbered
from flopwise.formats.tensorflow.file import Constant, File, Function, Node
from flopwise.formats.tensorflow.inline import FLOWS as FUNCTIONS
from flopwise.formats.tensorflow.inline import Flat, Inliner, attribute, known_result
from flopwise.formats.tensorflow.lower import lower
from flopwise.graph import Kind, Layout
from flopwise.operators.shape import Element
from flopwise.readers.subgraphs.lowered import Lowered
from flopwise.readers.subgraphs.program import KINDS, NOWHERE, Attributes, Graph, Name, Stored
from flopwise.readers.subgraphs.program import Node as Operation
from flopwise.readers.subgraphs.tensors import Extent, Operator, Tensor
from flopwise.sizes.scope import Scope

#: Operators that are inputs and variables, not work.
INPUTS, VARIABLES = ("Placeholder", "_Arg"), ("VarHandleOp", "VariableV2", "Variable")

_BOOLEAN = frozenset(
    {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
     "Any", "All", "IsNan", "IsInf"}
)  # fmt: skip

#: Calls around everything, which say nothing of a layer.
_CALLS = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")

#: Attributes that say the element type of results, the first that a node has.
_TYPES = ("dtype", "DstT", "out_type", "output_type", "Tparams", "element_dtype", "Tidx", "T")


@dataclass
class Programs:
    """The main graph of a file and the bodies that it runs, as often as they are asked for."""

    path: str
    source: Source
    file: File
    constants: dict[str, Constant] = field(default_factory=dict)
    #: Kinds of stored tensors, by the identity of what the program has of them.
    kinds: dict[int, Kind] = field(default_factory=dict)
    variables: dict[str, Tensor] = field(default_factory=dict)
    #: Elements that followed from others in an earlier pass, by the tensors of the main graph.
    followed: dict[str, Constant] = field(default_factory=dict)
    #: Shapes that the file states of inputs.
    stated: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    number: int = 0
    depth: int = 0

    @functools.cached_property
    def frozen(self) -> bool:
        """True where the file has no variables, so that its weights are constants."""
        bodies = [self.file.nodes, *(body.nodes for body in self.file.functions.values())]
        return not any(node.op in VARIABLES for nodes in bodies for node in nodes)

    def elements(self, stored: Stored) -> tuple[Element, ...] | None:
        constant = self.constants.get(stored.name)
        return None if constant is None else constant.elements

    def program(self, flat: Flat, inliner: Inliner, outputs: Sequence[str], top: bool = False) -> Graph:
        """Nodes as the program that the engine of sizes takes."""
        self.number += 1
        constants = dict(self.followed) if top else {}
        used: dict[str, int] = {}
        for key in (*(key for node in flat.nodes for key in node.inputs), *outputs):
            name, _, place = key.rpartition(":")
            if not place.isdecimal():
                raise ModelError(f"{self.path}: {key[:80]!r} is read, which is the name of no tensor")
            used[name] = max(used.get(name, 0), int(place))
        tensors: dict[str, Tensor] = {}
        stored: dict[str, Stored] = {}
        starts: list[Name] = []
        nodes: list[Operation] = []
        for node in flat.nodes:
            key = f"{node.name}:0"
            if node.op in INPUTS:
                tensors[key] = _tensor(node.name, attribute(node, "dtype", "float32"))
                starts.append(Name(key))
                shape = node.attrs.get("shape")
                self.stated[key] = shape if isinstance(shape, tuple) else None
            elif node.op in VARIABLES:
                self.take_variable(node, key, tensors, stored)
            elif node.op == "Const":
                constants[key] = self.take_constant(node, key, tensors, stored)
            elif node.op not in ("NoOp", "Assert"):
                nodes.append(self.node(node, used.get(node.name, 0) + 1, inliner, tensors, constants))
        for key in (*(key for node in nodes for key in node.given), *outputs):
            if key not in tensors:
                raise ModelError(f"{self.path}: {key[:80]!r} is read, and nothing makes it")
        ends = tuple([Name(key) for key in outputs])
        return Graph(0, tuple(nodes), tuple(starts), ends, stored, tensors, len(nodes))

    def take_variable(self, node: Node, key: str, tensors: dict[str, Tensor], stored: dict[str, Stored]) -> None:
        sizes = attribute(node, "shape", ())
        if any(size < 0 for size in sizes):
            raise ModelError(f"{self.path}: variable {node.name[:80]!r} has an open size")
        dtype, name = attribute(node, "dtype", "float32"), attribute(node, "shared_name", "") or node.name
        known = self.variables.setdefault(name, _tensor(name, dtype, sizes))
        tensors[key] = known
        stored[key] = Stored(f"{key}@{self.number}", dtype, sizes, NOWHERE)
        trained = self.file.trained.get(name, self.file.trained.get(unnumbered(name), True))
        floating = dtype.startswith(("float", "bfloat"))
        self.kinds[id(known)] = ("weight" if trained else "buffer") if floating else "constant"

    def take_constant(self, node: Node, key: str, tensors: dict[str, Tensor], stored: dict[str, Stored]) -> Constant:
        constant = node.attrs.get("value")
        if not isinstance(constant, Constant):
            raise ModelError(f"{self.path}: constant {node.name[:80]!r} has no value")
        extent = Extent(*constant.place) if constant.place else NOWHERE
        tensors[key] = known = _tensor(node.name, constant.dtype, constant.shape, extent)
        name = f"{key}@{self.number}"
        stored[key] = Stored(name, constant.dtype, constant.shape, extent)
        self.constants[name] = constant = constant._replace(elements=self._few(constant))
        trained = constant.dtype.startswith(("float", "bfloat")) and math.prod(constant.shape) > 1
        self.kinds[id(known)] = "weight" if trained and self.frozen else "constant"
        return constant

    def _few(self, constant: Constant) -> tuple[Element, ...] | None:
        """The elements of a small constant, however they are written."""
        count = math.prod(constant.shape)
        if count > 8192:
            return None
        if constant.place is not None:
            stored = Stored("", constant.dtype, constant.shape, Extent(*constant.place))
            form = KINDS.get(constant.dtype)
            nbytes = constant.place[1] - constant.place[0]
            if form is None or struct.calcsize(f"<{count}{form}") != nbytes:
                return None
            return struct.unpack(f"<{count}{form}", self.source.read(stored.data.start, nbytes))
        values = constant.elements or ((0,) if count and constant.dtype in KINDS else ())
        if not values or len(values) > count:
            return () if not count else None
        values = (*values, *([values[-1]] * (count - len(values))))
        return tuple(map(bool, values)) if constant.dtype == "bool" else values

    def node(
        self,
        node: Node,
        results: int,
        inliner: Inliner,
        tensors: dict[str, Tensor],
        constants: Mapping[str, Constant],
    ) -> Operation:
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
        operator = Operator(node.op, "", (), (), {})
        return Operation(
            object(), op, "" if bodies else domain, name, taken, outputs,
            Attributes({**lowered.attrs, **bodies}), 0, operator, lowered, dtypes, node.inputs,
        )  # fmt: skip

    def lowered(self, node: Node, bodies: Mapping[str, Graph], constants: Mapping[str, Constant]) -> Lowered:
        if bodies:
            return Lowered("If" if "then_branch" in bodies else "Loop")
        return lower(node, lambda place: constants.get(node.inputs[place]) if place < len(node.inputs) else None)

    def bodies(self, node: Node, inliner: Inliner) -> dict[str, Graph]:
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


def finished(node: Operation, scope: Scope) -> Lowered:
    """The operator of the house with what only shapes say: kernels and groups of convolutions, orders of axes."""
    lowered = node.lowered
    shapes = [scope.tensors[key].extents if key in scope.tensors else None for key in node.given]
    if lowered.op in ("Conv", "ConvTranspose") and lowered.inputs is not None:
        x, w = (shapes[place] if place < len(shapes) else None for place in lowered.inputs)
        return _with_groups(lowered, x, w) if x and w and len(x) == len(w) else lowered
    if lowered.op == "MatMul" and lowered.as_in_file:
        ranks = [len(shape) if shape is not None else 0 for shape in shapes]
        orders = [
            (*range(rank - 2), rank - 1, rank - 2) if lowered.attrs.get(name) and rank > 1 else None
            for rank, name in zip(ranks, ("adj_x", "adj_y"), strict=False)
        ]
        return lowered._replace(attrs={}, layout=_layout(orders))
    if lowered.op == "Add" and lowered.attrs.get("bias") and shapes[0]:
        last = (0, *range(2, len(shapes[0])), 1)
        return lowered._replace(attrs={}, layout=Layout((last,), (last,)))
    return lowered


def _with_groups(lowered: Lowered, x: tuple[int, ...], w: tuple[int, ...]) -> Lowered:
    """A convolution of which the shapes are known."""
    attrs = {**lowered.attrs, "kernel_shape": list(w[:-2])}
    channels = x[-1] if attrs.pop("channels_last", 1) else x[1]
    if attrs.pop("depthwise", 0):  # the outputs of a channel lie side by side
        return lowered._replace(attrs={**attrs, "group": w[-2]}, views={1: (*w[:-2], 1, w[-2] * w[-1])})
    if lowered.op == "Conv":
        attrs["group"] = max(channels // w[-2], 1) if w[-2] else 1
    return lowered._replace(attrs=attrs)


def _layout(orders: list[tuple[int, ...] | None]) -> Layout | None:
    return Layout(tuple(orders)) if any(orders) else None


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


def _tensor(name: str, dtype: str, shape: tuple[int, ...] = (), data: Extent | None = None) -> Tensor:
    return Tensor(name, shape, shape, dtype, data, None, False, None)
