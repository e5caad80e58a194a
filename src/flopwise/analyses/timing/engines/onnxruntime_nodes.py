"""The graph that onnxruntime saved, the values of a real run, and models of single nodes made of both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import external_data_helper, helper, numpy_helper

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.engines import UnsupportedError
from flopwise.analyses.timing.environment import digest
from flopwise.errors import ModelError, message
from flopwise.operators.tables import row
from flopwise.operators.views import always

if TYPE_CHECKING:
    import onnxruntime

#: A value of a run; sequences and maps are lists and dictionaries, and are left out.
Array: TypeAlias = npt.NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]

#: Results that one run hands out; more of them would keep too much of a large model in memory at once.
AT_ONCE = 64

#: Bytes of results that are kept from the run in which they were seen; the others are made again when needed.
KEPT = 1 << 29

#: Integer weights up to so many elements decide what a node does, so they are part of its key.
SMALL = 64

#: Least normal numbers: smaller ones are slow on most CPUs.
_NORMAL = {"float32": np.finfo(np.float32).tiny, "float64": np.finfo(np.float64).tiny}


class Runs(Protocol):
    """Makes engine sessions."""

    def session(
        self, model: str | bytes, level: str = "off", save: str | None = None, folder: str | None = None
    ) -> onnxruntime.InferenceSession:
        """An engine session; what it executes is written to ``save``, and external weights are in ``folder``."""


class NodeModel:
    """A node of the graph with the values that it takes."""

    def __init__(
        self,
        node: onnx.NodeProto,
        feeds: Arrays,
        weights: Mapping[str, onnx.TensorProto],
        opsets: Sequence[onnx.OperatorSetIdProto],
        result_bytes: int,
    ) -> None:
        self._node, self._weights, self._opsets = node, weights, opsets
        self.feeds = feeds
        self.result_bytes = result_bytes
        self.weight_bytes = sum(_nbytes(t) for t in weights.values())
        self.results = sum(bool(name) for name in node.output)

    def model(self, copies: int = 1, own_weights: bool = False) -> bytes:
        """A model of so many copies of the node, which all take the same inputs; the last one's results come out."""
        nodes, stored = [], [] if own_weights else list(self._weights.values())
        for copy in range(copies):
            node = onnx.NodeProto()
            node.CopyFrom(self._node)
            node.name = f"{self._node.name or self._node.op_type}_{copy}"
            for place, name in enumerate(self._node.output):
                node.output[place] = f"{name}/{copy}" if name else ""
            if own_weights:
                for place, name in enumerate(self._node.input):
                    if name in self._weights:
                        node.input[place] = f"{name}/{copy}"
                for name, tensor in self._weights.items():
                    own = onnx.TensorProto()
                    own.CopyFrom(tensor)
                    own.name = f"{name}/{copy}"
                    stored.append(own)
            nodes.append(node)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in self.feeds.items()
        ]
        outputs = [onnx.ValueInfoProto(name=f"{name}/{copies - 1}") for name in self._node.output if name]
        graph = helper.make_graph(nodes, "node", inputs, outputs, stored)
        content: bytes = helper.make_model(graph, opset_imports=self._opsets, ir_version=10).SerializeToString()
        return content


class Graph:
    """The executed graph and the values of one run."""

    def __init__(self, path: str, feeds: Arrays, runtime: Runs) -> None:
        self._path, self._feeds, self._runtime = path, feeds, runtime
        self._proto = onnx.load(path, load_external_data=False)
        self._stored = {t.name: t for t in self._proto.graph.initializer}
        self._opsets = list(self._proto.opset_import)
        self._values: dict[str, Array] = dict(feeds)
        self._seen: dict[str, tuple[str, tuple[int, ...]]] = {
            name: (str(value.dtype), tuple(value.shape)) for name, value in feeds.items()
        }
        self._odd: dict[str, None] = {}
        nbytes = 0
        names = [n for node in self._proto.graph.node for n in node.output if n]
        for name, value in run_all(self._proto, path, names, feeds, runtime):
            if not hasattr(value, "dtype"):
                continue
            self._seen[name] = (str(value.dtype), tuple(value.shape))
            if denormal_share(value) > 0:
                self._odd[name] = None
            if nbytes + value.nbytes <= KEPT:
                self._values[name] = value
                nbytes += value.nbytes
        self._first: dict[str, onnx.NodeProto] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Weights and results with denormal numbers, which can be a hundred times slower."""
        names = [n for n, t in self._stored.items() if t.data_type in (1, 11) and denormal_share(self._array(t)) > 0]
        names += list(self._odd)
        if not names:
            return ()
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return (f"denormal numbers, which most CPUs compute slowly, in {', '.join(names[:3])}{more}",)

    def executed(self) -> tuple[Executed, ...]:
        """The nodes in the order in which they run."""
        makers = {n: place for place, node in enumerate(self._proto.graph.node) for n in node.output if n}
        executed = []
        for place, node in enumerate(self._proto.graph.node):
            key = self._key(node)
            self._first.setdefault(key, node)
            needs = tuple(sorted({makers[n] for n in needed_names(node) if n in makers}))
            op = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            alias = row(op).view is always
            name = node.name or f"{node.op_type}_{place}"
            executed.append(Executed(name, op, key, alias, needs=needs))
        return tuple(executed)

    def node_model(self, key: str) -> NodeModel:
        """The first node of a key, with its values.

        Raises:
            UnsupportedError: one of its inputs is not a tensor.
        """
        node = self._first[key]
        feeds, weights = {}, {}
        for name in needed_names(node):
            if name in self._stored:
                weights[name] = self._loaded(self._stored[name])
            elif name in self._seen:
                feeds[name] = self._value(name)
            else:
                raise UnsupportedError(f"{name} is not a tensor")
        sizes = [self._seen[n] for n in node.output if n in self._seen]
        output_bytes = sum(int(np.prod(shape)) * _itemsize(dtype) for dtype, shape in sizes)
        return NodeModel(node, feeds, weights, self._opsets, output_bytes)

    def _key(self, node: onnx.NodeProto) -> str:
        """The digest of a node without its name: operator, attributes and operands."""
        versions = {o.domain or "ai.onnx": o.version for o in self._opsets}
        outer = [name for name in needed_names(node) if name not in node.input]
        return digest(
            {
                "op": node.op_type,
                "domain": node.domain,
                "opset": versions.get(node.domain or "ai.onnx", 0),
                "attributes": {a.name: _attribute(a) for a in node.attribute},
                "inputs": [self._operand(name) for name in (*node.input, *outer)],
                "outputs": [self._operand(name) for name in node.output],
            }
        )

    def _operand(self, name: str) -> dict[str, object]:
        """An input or output as far as it matters for time: of a small integer weight the digest of its elements."""
        if not name:
            return {"kind": "absent", "dtype": "", "shape": (), "value": None}
        if name in self._stored:
            tensor = self._stored[name]
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            small = kind.kind in "iub" and int(np.prod(tensor.dims)) <= SMALL
            value = hashlib.sha256(self._array(tensor).tobytes()).hexdigest() if small else None
            return {"kind": "weight", "dtype": str(kind), "shape": tuple(tensor.dims), "value": value}
        dtype, shape = self._seen.get(name, ("?", ()))
        return {"kind": "activation", "dtype": dtype, "shape": shape, "value": None}

    def _value(self, name: str) -> Array:
        if name not in self._values:
            return dict(run_all(self._proto, self._path, [name], self._feeds, self._runtime))[name]
        return self._values[name]

    def _loaded(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """A stored tensor with its elements in it."""
        if not external_data_helper.uses_external_data(tensor):
            return tensor
        whole = onnx.TensorProto()
        whole.CopyFrom(tensor)
        external_data_helper.load_external_data_for_tensor(whole, str(Path(self._path).parent))
        whole.data_location = onnx.TensorProto.DEFAULT
        del whole.external_data[:]
        return whole

    def _array(self, tensor: onnx.TensorProto) -> Array:
        return numpy_helper.to_array(self._loaded(tensor))


def empty_model(inputs: int, results: int) -> tuple[bytes, dict[str, Array]]:
    """A model of Identity nodes with so many inputs and results, and its data."""
    feeds: dict[str, Array] = {f"x{i}": np.ones(1, np.float32) for i in range(max(1, inputs))}
    nodes = [helper.make_node("Identity", [f"x{i % len(feeds)}"], [f"y{i}"]) for i in range(max(1, results))]
    infos = [helper.make_tensor_value_info(name, 1, (1,)) for name in feeds]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(max(1, results))]
    graph = helper.make_graph(nodes, "empty", infos, outputs)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), feeds


def run_all(
    proto: onnx.ModelProto, path: str, names: Sequence[str], feeds: Arrays, runtime: Runs
) -> Iterator[tuple[str, Array]]:
    """The values of tensors inside a model, a few at a time; what the engine does not hand out is left out."""
    outputs = {o.name for o in proto.graph.output}
    present = {*feeds, *(t.name for t in proto.graph.initializer)}
    inputs = [i for i in proto.graph.input if i.name in present]  # a folded tensor leaves its input behind
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        del copy.graph.input[:]
        copy.graph.input.extend(inputs)
        copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in part if n not in outputs)
        try:
            session = runtime.session(copy.SerializeToString(), folder=str(Path(path).resolve().parent))
            values = session.run(list(part), dict(feeds))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"onnxruntime fails to run the model: {one_line(error)}") from error
        yield from zip(part, values, strict=True)


def one_line(error: Exception) -> str:
    """An engine's message in one line."""
    return message(error)[:300]


def denormal_share(value: Array) -> float:
    """The share of elements that are denormal numbers."""
    least = _NORMAL.get(str(value.dtype))
    if least is None or value.size == 0:
        return 0.0
    magnitude = np.abs(value)
    return float(np.count_nonzero((magnitude > 0) & (magnitude < least)) / value.size)


def needed_names(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node takes, those of the graphs in its attributes included, each once."""
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
            names.update(dict.fromkeys(_outer_names(graph)))
    return list(names)


def _outer_names(graph: onnx.GraphProto) -> list[str]:
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    outer: dict[str, None] = {}
    for node in graph.node:
        outer.update(dict.fromkeys(name for name in needed_names(node) if name not in own))
        own.update(node.output)
    outer.update(dict.fromkeys(o.name for o in graph.output if o.name not in own))
    return list(outer)


def _attribute(attribute: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    repeated = not isinstance(value, bytes | int | float) and not hasattr(value, "SerializeToString")
    return list(map(_canonical, value)) if repeated else _canonical(value)


def _canonical(value: object) -> object:
    """A number as it is, a text, and the digest of a tensor, a graph or a type."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "SerializeToString"):
        return hashlib.sha256(value.SerializeToString(deterministic=True)).hexdigest()
    return value


def _nbytes(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims)) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _itemsize(dtype: str) -> int:
    try:
        return int(np.dtype(dtype).itemsize)
    except TypeError:
        return 2
