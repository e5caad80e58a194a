"""onnxruntime on a CPU: the graph that it executes, and each of its nodes alone, fed with values of the real run.

The executed graph is the one that onnxruntime saves after its optimisation (``optimized_model_filepath``); a node alone
is a model of that node, run without optimisation. Small nodes run in copies, because an empty run costs 3 to 5
microseconds; the results of all but the last copy are used by nobody, so they take turns in one buffer.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.engines import Options, Task, UnsupportedError, early_facts
from flopwise.analyses.timing.engines.onnxruntime_nodes import Array, Arrays, Graph, NodeModel, empty_model, one_line
from flopwise.analyses.timing.machine import facts
from flopwise.analyses.timing.sampling import Clock
from flopwise.errors import ModelError
from flopwise.formats.sources.text import JsonObject

if TYPE_CHECKING:
    import onnxruntime

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
