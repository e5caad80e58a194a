"""Functions of onnx-tool 1.0.1: its table of a model, shapes of all tensors over a range of sizes, zeros in weights.

They take the same arguments and print the same text, and read no weight but for sparsity. Differences: layers come in
the order of execution, where onnx-tool's order changes from run to run; an operator that it does not know is counted
as nothing with a warning, where it stops; and ``exclude_ops`` holds for one call, where it holds for all that follow.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import flopwise
from flopwise._arguments import checked
from flopwise.api import places
from flopwise.conventions.onnx_tool import CONVENTION, UNLISTED, size
from flopwise.errors import InputError
from flopwise.graph import STORED, Graph
from flopwise.graph import Tensor as GraphTensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Array
from flopwise.operators.counts import Counts
from flopwise.operators.shape import Call, Types
from flopwise.operators.tables import ROWS
from flopwise.writers.atomic import write

if TYPE_CHECKING:
    from flopwise.rows import Row

__all__ = [
    "NODE_REGISTRY",
    "Model",
    "NoMacsOps",
    "Node",
    "ShapeEngine",
    "create_ndarray_f32",
    "create_ndarray_int64",
    "loadmodel",
    "model_profile",
    "model_shape_regress",
    "narray_calc_sparsity",
    "search_sparse_blocksize",
]

# Operators of a user's own: classes in a registry, which read and shape tensors.

T = TypeVar("T")


class Registry:
    """Classes of operators by name; that of the operator ``Crop`` is ``CropNode``."""

    def __init__(self) -> None:
        self._classes: dict[str, Any] = {}

    def register(self, obj: T | None = None) -> object:
        """The decorator that adds a class under its own name, or the class that is given, added."""

        def add(cls: T) -> T:
            self._classes[cls.__name__] = cls  # type: ignore[attr-defined] # a class has one
            return cls

        return add if obj is None else add(obj)

    def get(self, name: str) -> Any:
        """The class of that name; None where there is none."""
        return self._classes.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return iter(self._classes.items())


#: The classes that ``model_profile`` and ``Model`` ask for operators that have no row of their own here.
NODE_REGISTRY = Registry()


class Node:
    """An operator with its attributes as fields; the base class of those in the registry."""

    def __init__(self, n: Any) -> None:
        self.name, self.op_type, self.proto = n.name, n.op_type, n
        self.attr = dict(n.attribute)
        for name, value in self.attr.items():
            setattr(self, name, value)

    def add_default_value(self, attname: str, defaultvalue: object) -> None:
        """Set an attribute that the model leaves out."""
        if not hasattr(self, attname):
            setattr(self, attname, defaultvalue)

    def shape_infer(self, intensors: Sequence[Tensor], outtensors: Sequence[Tensor]) -> None:
        """Shape the outputs as the first input; classes with other shapes have a method of their own."""
        for tensor in outtensors:
            tensor.update_shape(intensors[0].get_shape())

    def profile(self, intensors: Sequence[Tensor], outtensors: Sequence[Tensor]) -> Sequence[float] | float:
        """The operations forward and backward; none unless a class says otherwise."""
        return [0, 0]


class Tensor:
    """A tensor as a class of the registry sees it."""

    def __init__(self, name: str, shape: Sequence[int] | None, dtype: object = None) -> None:
        self.name, self.dtype = name, dtype
        self._shape = None if shape is None else list(shape)

    @property
    def shape(self) -> list[int]:
        """Its shape."""
        return self.get_shape()

    def get_shape(self) -> list[int]:
        """Its shape.

        Raises:
            InputError: it is not known.
        """
        if self._shape is None:
            raise InputError(f"the shape of {self.name!r} is not known")
        return self._shape

    def update_shape(self, shape: Sequence[int]) -> None:
        """Set its shape."""
        self._shape = [int(extent) for extent in shape]

    def update_dtype(self, dtype: object) -> None:
        """Set its element type."""
        self.dtype = dtype


def _rules_of(graph: Graph) -> dict[str, flopwise.Operator]:
    """The registered operators of a model as rows of flopwise."""
    rows = {}
    for op in {node.op for node in graph.nodes}:
        cls = NODE_REGISTRY.get(f"{op.rpartition('::')[2]}Node")
        if cls is not None:
            rows[op] = flopwise.Operator(rule=_count(cls), shape=_shape(cls))
    return rows


def _instance(cls: Any, name: str, op: str, attributes: Any) -> Any:
    return cls(SimpleNamespace(name=name, op_type=op.rpartition("::")[2], attribute=dict(attributes)))


def _count(cls: object) -> Callable[[flopwise.Node], Counts]:
    """The count of a registered class: what it calls MACs."""

    def count(node: flopwise.Node) -> Counts:
        inputs, outputs = (
            [Tensor("", None) if t is None else Tensor(t.name, t.shape) for t in tensors]
            for tensors in (node.inputs, node.outputs)
        )
        macs = _instance(cls, node.name, node.op, node.attrs).profile(inputs, outputs)
        return Counts(mac=int(macs[0] if isinstance(macs, Sequence) else macs))

    return count


def _shape(cls: object) -> Callable[[Call], Types]:
    """The shape rule of a registered class."""

    def shape(call: Call) -> Types:
        inputs = [Tensor(f"input {i}", call.shape(i) if call.has(i) else None) for i in range(call.inputs)]
        results = [Tensor(f"output {i}", None) for i in range(call.outputs)]
        attributes = {name: call.attr(name) for name in getattr(call, "attributes", ())}
        _instance(cls, "", call.op, attributes).shape_infer(inputs, results)
        return [tuple(tensor.get_shape()) for tensor in results]

    return shape


# Models.

#: Operators that are left out of the table and the totals unless others are asked for.
NoMacsOps = frozenset(UNLISTED.split())

#: Sparsity has columns of its own where a weight has a larger share of zeros.
SPARSE = 0.4

#: Zeros are counted in weights of more elements, and of these types.
LARGE = 4096
TYPES = ("float16", "float32", "float64", "int32", "int8", "uint8")

#: A note says which weights are shared where these have more elements.
SHARED = 1024


@checked
def model_profile(
    m: object,
    dynamic_shapes: Mapping[str, object] | None = None,
    exclude_ops: Iterable[str] | None = None,
    hidden_ops: Iterable[str] | None = NoMacsOps,
    mcfg: Mapping[str, object] | None = None,
    save_profile: str | os.PathLike[str] | None = None,
    save_model: str | os.PathLike[str] | None = None,
    shape_only: bool = False,
    no_shape: bool = False,
) -> None:
    """Prints a line for each layer with its operations, bytes, parameters and shapes, and their sums.

    Args:
        m: an ONNX file or ModelProto.
        dynamic_shapes: name of an input -> an array of its shape; its elements count where shapes depend on them.
        exclude_ops: operators that are left out besides ``hidden_ops``.
        hidden_ops: operators that are left out; None for none.
        mcfg: onnx-tool's configuration, which changes nothing here.
        save_profile: a file to write the table to, as CSV if its name holds ".csv"; None prints it.
        save_model: a file to write the model with its shapes to.
        shape_only: whether it has no weights.
        no_shape: whether it has no new shapes; then the file is not written (``save_model`` copies the model).

    Raises:
        ModelError: the model cannot be read.
        InputError: an excluded operator does not exist, or a file is read or cannot be written.
    """
    places.check({"save_profile=": save_profile, "save_model=": save_model}, m)
    hidden = _hidden(hidden_ops, exclude_ops)
    model = Model(m, mcfg)
    model.graph.shape_infer(dynamic_shapes)
    model.graph.profile(hidden)
    model.graph.print_node_map(save_profile, exclude_ops=hidden)
    if save_model is not None and not no_shape:
        model.save_model(save_model, shape_only)


@checked
def create_ndarray_f32(shape: Sequence[int]) -> Array:
    """An array of ones of that shape in float32, for ``dynamic_shapes``."""
    import numpy

    return numpy.ones(shape, dtype=numpy.float32)


@checked
def create_ndarray_int64(shape: Sequence[int]) -> Array:
    """An array of zeros of that shape in int64, for ``dynamic_shapes``."""
    import numpy

    return numpy.zeros(shape, dtype=numpy.int64)


@checked
def loadmodel(f: object, mcfg: Mapping[str, object] | None = None) -> Model:
    """The model in a file; see ``Model``."""
    return Model(f, mcfg)


class Model:
    """An ONNX model whose ``graph`` has its shapes found, its layers counted and its table printed, one by one.

    Args:
        m: an ONNX file or ModelProto.
        mcfg: onnx-tool's configuration, which changes nothing here.
    """

    def __init__(self, m: object, mcfg: Mapping[str, object] | None = None) -> None:
        self.graph = ModelGraph(m)
        self.modelname = Path(m).stem if isinstance(m, str | os.PathLike) else ""
        self.valid = True

    def save_model(self, f: str | os.PathLike[str], shape_only: bool = False, no_shape: bool = False) -> None:
        """Write the model to a file with its shapes; ``shape_only`` leaves the weights out.

        Raises:
            InputError: the file is the model, or cannot be written; ``no_shape`` was asked for, which copies the model.
        """
        if no_shape:
            raise InputError("no_shape=True would copy the model: copy its file")
        self.graph.write(f, not shape_only)


class ModelGraph:
    """The graph of a ``Model``: ``shape_infer``, then ``profile``, then ``print_node_map``."""

    def __init__(self, m: object) -> None:
        self._source = m
        self._inputs: dict[str, Any] | None = None
        self._read: Graph | None = None
        self._rows: Sequence[Row] = ()
        #: Operations forward and backward, parameters and bytes, once ``profile`` was called.
        self.macs: list[float] = [0.0, 0.0]
        self.params = self.memory = 0

    def graph_reorder_nodes(self) -> None:
        """Change nothing: operators are in the order of execution."""

    def shape_infer(self, inputs: Mapping[str, object] | None = None) -> None:
        """Find all shapes, for inputs that are given as arrays or shapes.

        Raises:
            ModelError: the model cannot be read.
            InputError: an input is missing or does not fit.
        """
        self._inputs = dict(inputs) if inputs else None
        self._read = flopwise.read(self._source, self._inputs)
        rules = _rules_of(self._read)
        if rules:  # whose shapes others wait for
            self._read = flopwise.profile(self._source, self._inputs, rules=rules).graph

    def profile(self, exclude_ops: Iterable[str] | None = None) -> None:
        """Count all layers but those of some operators.

        Raises:
            ModelError: the model cannot be read.
            InputError: an input is missing or does not fit, or an excluded operator does not exist.
        """
        graph = self._graph()
        hidden = _hidden(exclude_ops, None)
        convention = replace(CONVENTION, unlisted=hidden, overrides={**_FREE, **CONVENTION.overrides})
        rows = flopwise.profile(graph, convention=convention, rules=_rules_of(graph) or None).rows
        for row in rows:
            if row.count is None:
                warnings.warn(f"{row.name}: {row.node.op} is not counted: {row.note}", stacklevel=2)
        self._rows = rows
        layers = _layers(graph, rows, {})
        self.macs = [float(sum(layer.macs for layer in layers)), 0.0]
        self.params, self.memory = (sum(getattr(layer, key) for layer in layers) for key in ("params", "memory"))

    def print_node_map(
        self, f: str | os.PathLike[str] | None = None, metric: str = "MACs", exclude_ops: Iterable[str] | None = None
    ) -> None:
        """Print the table of layers, or write it to a file, as CSV if its name holds ".csv".

        Raises:
            InputError: the file cannot be written.
        """
        graph = self._graph()
        if not self._rows:
            self.profile(exclude_ops)
        sparse = _sparse(graph)
        csv = f is not None and ".csv" in os.fspath(f)
        _warn_shared(graph)
        header, lines = _lines(graph, self._rows, sparse, csv)
        table = "\n".join(_table(header, lines))
        if f is None:
            print(table)
        else:
            text = "".join(",".join(cells) + "\n" for cells in [header, *lines]) if csv else table
            write(text.encode(), f)

    def write(self, f: str | os.PathLike[str], weights: bool) -> None:
        """Write the model to a file with its shapes."""
        flopwise.write_shapes(self._source, f, self._inputs, weights=weights)

    def _graph(self) -> Graph:
        if self._read is None:
            self.shape_infer()
        assert self._read is not None
        return self._read


_FREE = dict.fromkeys(NoMacsOps, lambda node, counts: Counts())


def _hidden(hidden: Iterable[str] | None, excluded: Iterable[str] | None) -> frozenset[str]:
    names = frozenset(excluded or ())
    standard = {op.rpartition("::")[2] for op in ROWS if "::" not in op or op.startswith("ai.onnx.")}
    unknown = sorted(names - standard)
    if unknown:
        raise InputError(f"Provided exclude op is not a valid onnx op: {unknown[0]}")
    return frozenset(hidden or ()) | names


class Zeros(NamedTuple):
    """The zeros of a weight: the block in which they come, the share of such blocks that are zero, and their own."""

    block: tuple[int, int] = (1, 1)
    blocks: float = 0.0
    ratio: float = 0.0


_NONE = Zeros()


def _sparse(graph: Graph) -> dict[str, Zeros]:
    """The zeros of each large weight by its name; none where no weight has many."""
    zeros_of: dict[str, Zeros] = {}
    for name, tensor in graph.weights.items():
        if tensor.numel > LARGE and len(tensor.shape) in (2, 4) and not tensor.repeated and tensor.dtype in TYPES:
            array = tensor.array()
            ratio = narray_calc_sparsity(array)
            zeros_of[name] = Zeros(ratio=ratio)
            if ratio > SPARSE:
                zeros_of[name] = Zeros(*search_sparse_blocksize(array, ratio), ratio)
    return zeros_of if any(zeros.ratio > SPARSE for zeros in zeros_of.values()) else {}


def _warn_shared(graph: Graph) -> None:
    """Print which layers share weights, where these are large."""
    users: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        for tensor in node.known_inputs:
            if tensor.name in graph.weights and node.op != "Constant":
                users.setdefault(tensor.name, []).append(node.name)
                sizes[tensor.name] = size(tensor)
    shared = {name: nodes for name, nodes in users.items() if len(nodes) > 1}
    if sum(sizes[name] for name in shared) <= SHARED:
        return
    print("\n" + "*" * 64 + "\nPlease note that Weight Tensors Sharing is detected:")
    for name, nodes in shared.items():
        print(f"Tensor:{name} \nShared by: ")
        print("".join(f"            {node}\n" for node in nodes))
    print("*" * 64)


@dataclass
class _Layer:
    """A line of the table before its numbers are written."""

    row: Row
    macs: int
    memory: int = 0
    params: int = 0
    zeros: Zeros = _NONE


def _layers(graph: Graph, rows: Sequence[Row], sparse: Mapping[str, Zeros]) -> list[_Layer]:
    """The layers, each with the weights that it is the first to use."""
    layers, used = [], set()
    for row in rows:
        layer = _Layer(row, row.count or 0)
        for tensor in row.node.known_inputs:
            if tensor.kind in STORED and tensor.name in graph.weights and not graph.weights[tensor.name].repeated:
                if tensor.name not in used:
                    layer.params += size(tensor)
                    layer.memory += _bytes(tensor)
                used.add(tensor.name)
                layer.zeros = max(layer.zeros, sparse.get(tensor.name, layer.zeros), key=lambda zeros: zeros.ratio)
        outputs = [tensor for tensor in row.node.known_outputs if tensor.resolved]
        if row.node.op == "Dropout":  # the tool takes the mask for booleans in all versions
            outputs[1:] = [replace(mask, dtype="bool") for mask in outputs[1:]]
        layer.memory += sum(map(_bytes, outputs))
        layers.append(layer)
    return layers


def _bytes(tensor: GraphTensor) -> int:
    return size(tensor) * max(BITS.get(tensor.dtype or "float32", 32) // 8, 1)


def _lines(
    graph: Graph, rows: Sequence[Row], sparse: Mapping[str, Zeros], csv: bool
) -> tuple[list[str], list[list[str]]]:
    """The titles, and the cells of each line with the totals last."""
    layers = _layers(graph, rows, sparse)
    macs, memory, params = (sum(getattr(layer, key) for layer in layers) for key in ("macs", "memory", "params"))
    number = "{}" if csv else "{:,}"
    lines = []
    for layer in layers:
        line = [layer.row.name, layer.row.node.op.rpartition("::")[2]]
        if sparse:
            block, blocks, ratio = layer.zeros
            line += ["x".join(map(str, block)), f"{blocks:.2%}", f"{ratio:.2%}"]
        for value, total in ((layer.macs, macs), (layer.memory, memory), (layer.params, params)):
            line += [number.format(value), f"{value / (total + 1e-18):.2%}"]
        node = layer.row.node
        line += [_text(node.inputs[0] if node.inputs else None), _text(node.outputs[0] if node.outputs else None)]
        lines.append(line)
    between = ["_"] * 3 if sparse else []
    sums = [cell for total in (macs, memory, params) for cell in (number.format(total), "100%")]
    header = ["Name", "Type", *(["Sparse Pattern", "Sparse Block Ratio", "Sparse Ratio"] if sparse else [])]
    header += ["Forward_MACs", "FPercent", "Memory", "MPercent", "Params", "PPercent", "InShape", "OutShape"]
    return header, [*lines, ["Total", "_", *between, *sums, "_", "_"]]


def _text(tensor: GraphTensor | None) -> str:
    return "x".join(map(str, tensor.shape)) if tensor is not None and tensor.shape else "0"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The table as tabulate prints it: numbers right, text left, titles at least two wider than their text."""
    columns = list(zip(*lines, strict=True))
    right = [all(cell.replace(",", "").lstrip("-").isdigit() for cell in column) for column in columns]
    widths = [max(len(title) + 2, *map(len, column)) for title, column in zip(header, columns, strict=True)]

    def laid(cells: Sequence[str]) -> str:
        placed = zip(cells, widths, right, strict=True)
        return "  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in placed).rstrip()

    return [laid(header), "  ".join("-" * width for width in widths), *map(laid, lines)]


@dataclass
class ShapeEngine:
    """The shape of every tensor of a model for sizes of its variables, as ``model_shape_regress`` returns it."""

    model: Any
    input_desc: Mapping[str, Sequence[int | str]]
    #: Variable -> its size.
    variables: dict[str, int]
    _shapes: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def update_variable(self, key: str, val: int) -> None:
        """Set the size of a variable."""
        self.variables[key] = val

    def update_variables(self) -> None:
        """Find the shapes of all tensors for the sizes that are set."""
        graph = flopwise.read(self.model, self.generate_input())
        tensors = [*graph.inputs, *(t for node in graph.nodes for t in node.known_outputs)]
        self._shapes = {t.name: tuple(int(d) for d in t.dims) for t in tensors if t.shape is not None}

    def get_tensorshape(self, tname: str) -> list[int]:
        """The shape of a tensor for the sizes of the last ``update_variables``.

        Raises:
            InputError: there is no such tensor.
        """
        if not self._shapes:
            self.update_variables()
        if tname not in self._shapes:
            raise InputError(f"no tensor {tname!r} with a known shape")
        return list(self._shapes[tname])

    def generate_input(self) -> dict[str, Any]:
        """The shape of each input for the sizes that are set."""
        return {
            name: tuple(dim if isinstance(dim, int) else self.variables[dim] for dim in shape)
            for name, shape in self.input_desc.items()
        }


@checked
def model_shape_regress(
    m: object, input_desc: Mapping[str, Sequence[int | str]], input_range: Mapping[str, tuple[int, int]]
) -> tuple[ShapeEngine, Graph]:
    """The shapes of a model's tensors as functions of variables, and the graph at their greatest sizes.

    onnx-tool fits lines through three sizes; here the shapes are inferred for the sizes that are asked for.

    Args:
        m: an ONNX file or ModelProto.
        input_desc: name of an input -> its shape, with names of variables ({"x": [1, 3, "h", "w"]}).
        input_range: variable -> its least and greatest size.

    Raises:
        ModelError: the model cannot be read.
        InputError: a variable has no range, or the model does not take a size.
    """
    named = {dim for shape in input_desc.values() for dim in shape if isinstance(dim, str)}
    if missing := sorted(named - input_range.keys()):
        raise InputError(f"the variable {missing[0]!r} has no range in input_range")
    engine = ShapeEngine(m, input_desc, {key: int(bounds[1]) for key, bounds in input_range.items()})
    return engine, flopwise.read(m, engine.generate_input())


@checked
def narray_calc_sparsity(arr: Array) -> float:
    """The share of zeros of an array of rank 2 or 4; 0 for others, and for types that onnx-tool does not take.

    The zero of uint8 is 128.
    """
    import numpy

    taken = (numpy.float16, numpy.float32, numpy.float64, numpy.int32, numpy.int8, numpy.uint8)
    if arr.ndim not in (2, 4) or arr.dtype not in taken or not arr.size:
        return 0
    return float(numpy.count_nonzero(arr == (128 if arr.dtype == numpy.uint8 else 0)) / arr.size)


@checked
def search_sparse_blocksize(arr: Array, ratio: float, deltar_thres: float = 0.1) -> tuple[tuple[int, int], float]:
    """The largest block in which the zeros of an array come, along its first two axes, and the share of zero blocks.

    Args:
        arr: an array of rank 2 or 4; of any other the block is (1, 1).
        ratio: its share of zeros (``narray_calc_sparsity``).
        deltar_thres: a block is taken while the share of zero blocks is above ``ratio`` less this.

    Source: onnx-tool 1.0.1, ``onnx_tool/tensor.py``. Of rank 4 the axis is chosen by the larger share, so that blocks
    along the first axis may be told as blocks along the second; ``flopwise.sparsity`` says which it is.
    """
    if arr.ndim not in (2, 4):
        return (1, 1), ratio
    first, second = arr.shape[:2]
    zeros = (arr == (128 if arr.dtype == "uint8" else 0)).reshape(first, second, -1)

    def share(rows: int, columns: int) -> float:
        """The share of blocks that are zero; nothing where they do not fit."""
        if first % rows or second % columns:
            return -math.inf
        parts = zeros.reshape(first // rows, rows, second // columns, columns, -1)
        return float(parts.all(axis=(1, 3)).mean())

    least, length = ratio - deltar_thres, 1
    alive, shares, last = [True, True], [ratio, ratio], ratio
    while True:
        now = [share(1, 2 * length) if alive[1] else -math.inf, share(2 * length, 1) if alive[0] else -math.inf]
        longer = [now[1] > least, now[0] > least]
        if not any(longer):
            break
        for axis in (1, 0):
            if longer[axis]:
                shares[axis] = last = now[1 - axis]
        length, alive = 2 * length, longer
    if all(alive) and (arr.ndim == 2 or length > 1) and (square := share(length, length)) > least:
        return (length, length), square
    if arr.ndim == 2:
        return (length if alive[0] else 1, length if alive[1] else 1), last
    return ((length, 1), shares[0]) if shares[0] > shares[1] else ((1, length), shares[1])
