"""The graph that onnxruntime saved, the values of a real run, and models of single nodes made of both."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import external_data_helper, helper, numpy_helper

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.engines import Options, Task, UnsupportedError, early_facts
from flopwise.analyses.timing.machine import digest, facts
from flopwise.analyses.timing.sampling import Clock
from flopwise.errors import ModelError, message
from flopwise.formats.sources.text import JsonObject
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


# onnxruntime on a CPU: the graph that it executes, and each of its nodes alone, fed with values of the real run.
#
# The executed graph is the one that onnxruntime saves after its optimisation (``optimized_model_filepath``); a node
# alone is a model of that node, run without optimisation. Small nodes run in copies, because an empty run costs 3 to 5
# microseconds; the results of all but the last copy are used by nobody, so they take turns in one buffer.


#: Nanoseconds that a benchmark should last: with one thread, and with several, which take their time to wake up.
LONG_ENOUGH, LONG_ENOUGH_FOR_THREADS = 20_000, 1_000_000

#: Copies of a node at most.
MOST_COPIES = 256

#: A streamed benchmark reads so many times the second cache of a core in weights.
BEYOND = 4

#: Weights smaller than this are never streamed.
LIGHT = 4096


class Runtime:
    """Sessions of one process, with the same options."""

    def __init__(self, options: Options) -> None:
        import onnxruntime

        self.ort = onnxruntime
        self.options = options
        if options.threads > 1:  # one pool for all sessions: idle threads of others would spin on the same cores
            onnxruntime.set_global_thread_pool_sizes(options.threads, 1)

    def session(
        self,
        model: str | bytes,
        level: str = "off",
        save: str | None = None,
        folder: str | None = None,
        threads: int = 1,
        without: Sequence[str] = (),
    ) -> onnxruntime.InferenceSession:
        """An engine session, without some of its optimisers; for a model in memory, external weights are in ``folder``.

        Several threads of its own do not spin between its runs, when other sessions have their turn.

        Raises:
            ModelError: the engine refuses the model.
        """
        settings = self.ort.SessionOptions()
        name = "ORT_DISABLE_ALL" if level == "off" else f"ORT_ENABLE_{level.upper()}"
        settings.graph_optimization_level = getattr(self.ort.GraphOptimizationLevel, name)
        settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
        if threads > 1:
            settings.add_session_config_entry("session.force_spinning_stop", "1")
        settings.use_per_session_threads = self.options.threads == 1
        settings.log_severity_level = 4
        if save is not None:
            settings.optimized_model_filepath = save
            settings.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
            settings.add_session_config_entry(
                "session.optimized_model_external_initializers_min_size_in_bytes", str(LIGHT)
            )
        if folder is not None:
            settings.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        try:
            return self.ort.InferenceSession(
                model, settings, providers=["CPUExecutionProvider"], disabled_optimizers=[*without]
            )
        except Exception as error:  # its exceptions have no common class
            raise ModelError(one_line(error)) from error

    def task(self, session: onnxruntime.InferenceSession, feeds: Arrays, copies: int = 1, null: str = "") -> Task:
        """A run of a session with inputs and results that are already in memory.

        Raises:
            UnsupportedError: the engine fails to run it.
        """
        binding = session.io_binding()
        try:
            for argument in session.get_inputs():
                binding.bind_ortvalue_input(argument.name, self.ort.OrtValue.ortvalue_from_numpy(feeds[argument.name]))
            results = session.run(None, {a.name: feeds[a.name] for a in session.get_inputs()})
            for argument, value in zip(session.get_outputs(), results, strict=True):
                if hasattr(value, "dtype") and value.dtype.kind not in "OUS":
                    binding.bind_ortvalue_output(argument.name, self.ort.OrtValue.ortvalue_from_numpy(value))
                else:
                    binding.bind_output(argument.name)
            run = session.run_with_iobinding
            run(binding)
        except Exception as error:
            raise UnsupportedError(one_line(error)) from error
        return Task(lambda: run(binding), copies, null)


class Onnxruntime:
    """A model as onnxruntime executes it."""

    def __init__(self, model: str, inputs: Mapping[str, Sequence[int]], options: Options, folder: str) -> None:
        self._runtime = Runtime(options)
        self._options = options
        self._model = model
        self.facts: JsonObject = {
            **early_facts("onnxruntime", options),
            "build": self._runtime.ort.get_build_info(),
        }
        saved = str(Path(folder) / "executed.onnx")
        try:
            self._first = self._runtime.session(model, options.level, saved)
        except ModelError as error:
            raise ModelError(f"{model}: onnxruntime refuses it: {error}") from error
        self._feeds = random_inputs(self._first.get_inputs(), inputs)
        self._graph = Graph(saved, self._feeds, self._runtime)
        self.executed: Sequence[Executed] = self._graph.executed()
        self.notes: Sequence[str] = self._graph.notes
        self.clock = thread_clock(options.threads)
        host = facts()
        l2 = next((c.nbytes // host.cores for c in host.caches if c.level == "l2"), 2 << 20)
        self._beyond = BEYOND * l2
        self._nulls: dict[str, Task] = {}

    def whole(self) -> Task:
        """The whole model, in a session of its own."""
        try:
            session, self._first = self._first or self._runtime.session(self._model, self._options.level), None
            return self._runtime.task(session, self._feeds)
        except (UnsupportedError, ModelError) as error:
            raise ModelError(f"{self._model}: onnxruntime fails to run it: {error}") from error

    def calibration(self) -> Task:
        """A product of two matrices of 384 x 384, by numpy."""
        import numpy as np

        one = np.random.default_rng(0).standard_normal((384, 384)).astype(np.float32)
        out = np.empty_like(one)
        return Task(lambda: np.matmul(one, one, out=out))

    def nulls(self) -> Mapping[str, Task]:
        """A session of Identity nodes for each number of inputs and results that a benchmark has."""
        return self._nulls

    def node(self, key: str, mode: str, calibrate: Callable[[Task], float]) -> Task | None:
        """A node alone, in as many copies as it needs to last long enough; streamed: each copy with its own weights.

        Raises:
            UnsupportedError: the engine does not run it alone.
        """
        node = self._graph.node_model(key)
        null = self._null(len(node.feeds), node.results)
        if mode == "streamed":
            if node.weight_bytes < LIGHT or node.weight_bytes <= node.result_bytes:
                return None
            copies = max(2, -(-self._beyond // node.weight_bytes))
            return self._task(node, min(copies, MOST_COPIES), null, own_weights=True)
        task = self._task(node, 1, null)
        long_enough = LONG_ENOUGH if self._options.threads == 1 else LONG_ENOUGH_FOR_THREADS
        empty = calibrate(self._nulls[null])
        alone = max(200.0, calibrate(task) - empty)
        copies = min(MOST_COPIES, round(long_enough / alone))
        return task if copies < 2 else self._task(node, copies, null)

    def _task(self, node: NodeModel, copies: int, null: str, own_weights: bool = False) -> Task:
        try:
            session = self._runtime.session(node.model(copies, own_weights))
        except ModelError as error:
            raise UnsupportedError(str(error)) from error
        return self._runtime.task(session, node.feeds, copies, null)

    def _null(self, inputs: int, results: int) -> str:
        name = f"{inputs} {results}"
        if name not in self._nulls:
            model, feeds = empty_model(inputs, results)
            self._nulls[name] = self._runtime.task(self._runtime.session(model), feeds)
        return name


def thread_clock(threads: int) -> Clock:
    """Wall time, the CPU time of this thread (of all threads where there are several), and involuntary switches."""
    cpu = time.thread_time_ns if threads == 1 else time.process_time_ns
    try:
        import resource
    except ImportError:  # not on Windows
        return Clock(time.perf_counter_ns, cpu)
    of_thread = getattr(resource, "RUSAGE_THREAD", None)
    if of_thread is None:  # not on macOS
        return Clock(time.perf_counter_ns, cpu)
    who = of_thread if threads == 1 else resource.RUSAGE_SELF
    return Clock(time.perf_counter_ns, cpu, lambda: resource.getrusage(who).ru_nivcsw)


def random_inputs(arguments: Sequence[onnxruntime.NodeArg], shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    """Data for a model's inputs: normal floats, small token numbers, ones for masks and lengths.

    Never zeros: pages that were never written to are one page of memory, which stays in the first cache.

    Raises:
        ModelError: an input is not a tensor, or its shape is not known.
    """
    import numpy as np

    random = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for argument in arguments:
        shape = shapes.get(argument.name, argument.shape)
        element = argument.type.removeprefix("tensor(").removesuffix(")")
        if not argument.type.startswith("tensor(") or any(not isinstance(d, int) for d in shape):
            raise ModelError(f"input {argument.name!r} of type {argument.type} and shape {shape}: give it with -i")
        kind = {"float": "float32", "double": "float64", "bool": "bool"}.get(element, element)
        if kind in ("float32", "float64", "float16"):
            value: Array = random.standard_normal(tuple(shape)).astype(kind)
        elif kind == "bfloat16":
            raise ModelError(f"input {argument.name!r}: bfloat16 inputs cannot be made for onnxruntime")
        elif kind == "bool" or "mask" in argument.name.lower():
            value = np.ones(shape, kind)
        elif kind == "string":
            raise ModelError(f"input {argument.name!r}: no data is made for strings")
        elif "position" in argument.name.lower():
            value = np.broadcast_to(np.arange(shape[-1] if shape else 1), shape).astype(kind)
        else:
            value = random.integers(0, 2 if "type" in argument.name.lower() else 100, shape).astype(kind)
        feeds[argument.name] = np.ascontiguousarray(value)
    return feeds


def open_program(model: str, inputs: Mapping[str, Sequence[int]], options: Options, folder: str) -> Onnxruntime:
    """The program of an ONNX file."""
    if not os.path.exists(model):
        raise ModelError(f"{model}: no such file")
    for left in Path(folder).iterdir():  # by a child that died
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return Onnxruntime(model, inputs, options, folder)
