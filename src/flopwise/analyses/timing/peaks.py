"""Figures of this machine's CPU, measured: products by element type, reading by working set, the cost of an empty run.

A measured figure is the highest over all ways that are tried. It is a lower bound of what the machine can do, so it
never replaces a higher figure that follows from the kind of its cores.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.timing.device import LEVELS, Peak
from flopwise.analyses.timing.engines import Options, UnsupportedError
from flopwise.analyses.timing.engines.onnxruntime import Runtime, random_inputs
from flopwise.analyses.timing.machine import Environment, digest, environment
from flopwise.analyses.timing.quantities import Product, product_of
from flopwise.analyses.timing.sampling import Clock, Sampler
from flopwise.errors import InputError, ModelError
from flopwise.graph import STORED

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
if TYPE_CHECKING:
    from flopwise.analyses.timing.engines.onnxruntime import Runtime

# Models that run here in turns, so that a busy minute hurts all alike: the least time of each.


#: Seconds of rounds, unless the caller says otherwise, and rounds at least.
TURNS_SECONDS, FEWEST = 2.0, 6


class Way(NamedTuple):
    """A model, and how it is run."""

    #: Path of an ONNX file, or its bytes, whose external weights are in ``folder``.
    model: str | bytes
    #: Shapes of its inputs by name.
    shapes: Mapping[str, Sequence[int]]
    options: Options = Options()
    folder: str | None = None
    #: Optimisers of onnxruntime, by name, that are left out at the level.
    without: tuple[str, ...] = ()


def in_turns(ways: Sequence[Way], seconds: float = TURNS_SECONDS) -> list[float]:
    """The least nanoseconds of each way: processor time of the thread; wall time where a way has several threads.

    Args:
        ways: what runs.
        seconds: of rounds at most; a few are finished in any case.

    Raises:
        ModelError: onnxruntime refuses a model, or fails to run it.
    """
    runtime, tasks = Runtime(Options()), {}
    for number, way in enumerate(ways):
        options = way.options
        session = runtime.session(
            way.model, options.level, folder=way.folder, threads=options.threads, without=way.without
        )
        try:
            tasks[str(number)] = runtime.task(session, random_inputs(session.get_inputs(), way.shapes)).run
        except UnsupportedError as error:
            raise ModelError(f"onnxruntime fails to run it: {error}") from error
    alone = all(way.options.threads == 1 for way in ways)
    warm, begin = dict.fromkeys(tasks, 1), time.monotonic()
    sampler = Sampler(tasks, Clock(time.thread_time_ns if alone else time.perf_counter_ns), warm=warm)
    while sampler.rounds < FEWEST or (time.monotonic() - begin < seconds and not sampler.settled):
        sampler.round()
    return [float(sampler.samples[name].best or 0) for name in tasks]


# Products in int8, whose factors onnxruntime quantises while it runs: in a model, and alone.


#: The operators whose stored factors become integers.
OPS = ("MatMul", "Gemm")

#: Seconds in which the product of one size runs in both types.
QUANTIZED_SECONDS = 0.5


def quantized(path: str, output: str) -> str:
    """The path of the model with products of int8, whose factors onnxruntime quantises while it runs.

    Raises:
        InputError: onnxruntime's quantisation fails.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from flopwise.analyses.timing.engines.onnxruntime import one_line

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(path, output, op_types_to_quantize=[*OPS], weight_type=QuantType.QInt8)
    except Exception as error:  # whatever it meets in the model
        raise InputError(f"onnxruntime cannot quantise it: {one_line(error)}") from error
    finally:
        logging.disable(before)
    return output


def saved_ns(counted: Profile, options: Options) -> float:
    """Nanoseconds that the products by weights save in int8: one of each size runs here alone, in both types.

    Args:
        counted: the model.
        options: level and threads.

    Raises:
        InputError: onnxruntime's quantisation fails.
        ModelError: onnxruntime fails to run a product.
    """
    sizes: Counter[Product] = Counter()
    for row in counted.rows:
        node = row.node
        if node.op in OPS and node.input(1).kind in STORED and node.input(0).dtype == "float32":
            product = product_of(node)
            if product is not None and product.batch == 1:
                sizes[product] += 1
    saved = 0.0
    for product, number in sizes.items():
        with tempfile.TemporaryDirectory(prefix="flopwise-") as folder:
            path = str(Path(folder) / "product.onnx")
            Path(path).write_bytes(_model(product))
            ways = [Way(each, {}, options) for each in (path, quantized(path, str(Path(folder) / "int8.onnx")))]
            own, other = in_turns(ways, QUANTIZED_SECONDS)
        saved += number * (own - other)
    return saved


def _model(product: Product) -> bytes:
    """A product by a stored matrix as a model."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((product.depth, product.columns), np.float32)
    names = (("x", product.depth), ("y", product.columns))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [product.rows, width]) for name, width in names]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph([node], "product", [ends[0]], [ends[1]], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


#: Seconds that each way of one figure may take.
SECONDS = 0.4

#: Edges of the matrices that are multiplied.
EDGES = (192, 384, 768)

#: Bytes of working sets that are read; where a cache holds the last, one of twice the cache comes on top.
SETS = (16 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20)


def machine_id() -> str:
    """The identity of this machine: a digest of its CPU's facts."""
    return digest(environment({}).facts["machine"])


def is_here(environment: Environment, machine: str) -> bool:
    """True for an environment of this machine."""
    return digest(environment.facts.get("machine")) == machine


def reached(rates: Mapping[str, tuple[float, str]], cores: int | None) -> list[Peak]:
    """The rates of the fastest stored benchmarks, as figures: no peak is below what a layer has reached.

    Args:
        rates: element type -> FLOP/s with one thread, and the operator.
        cores: of this machine.
    """
    return [_of_all("vector", dtype, rate, cores, f"{op}, a stored benchmark") for dtype, (rate, op) in rates.items()]


def measured_peaks(report: Callable[[str], None] = lambda step: None, seconds: float = SECONDS) -> Iterator[Peak]:
    """Figures of this machine, each the highest of those that numpy and onnxruntime reach."""
    from flopwise.analyses.timing.machine import this_cpu

    cpu = this_cpu()
    report("measuring products")
    rates: dict[str, list[tuple[float, str]]] = {}
    for dtype, rate, how in (*_numpy_products(seconds), *_engine_products(seconds)):
        rates.setdefault(dtype, []).append((rate, how))
    for dtype, ways in rates.items():
        rate, how = max(ways)
        yield _of_all("vector", dtype, rate, cpu.cores, f"{how}, the fastest of {len(ways)} ways")
    report("measuring memory")
    reads: dict[str, float] = {}
    largest = max((cache.nbytes for cache in cpu.caches), default=0)
    for nbytes in (*SETS, *([2 * largest] if largest >= SETS[-1] else [])):
        level = cpu.level_of(nbytes) if cpu.caches else "dram"
        reads[level] = max(reads.get(level, 0.0), _read_rate(nbytes, seconds))
    for level in LEVELS:
        if level in reads:
            yield _of_all(level, None, reads[level], cpu.cores, "numpy dot product")
    empty = _empty_run()
    if empty is not None:
        yield Peak("launch", None, empty, "s", "measured", "an empty session of onnxruntime")


def _of_all(what: str, dtype: str | None, rate: float, cores: int | None, how: str) -> Peak:
    """A rate that one core reached, as a figure of all: no program gets more than so many times that of one."""
    count = cores or 1
    text = f"{how}, one core x {count}" if count > 1 else how
    return Peak(what, dtype, count * rate, "FLOP/s" if dtype else "B/s", "measured", text, core=rate)


def _best(run: Callable[[], object], seconds: float) -> float:
    """Least seconds of one run."""
    run()
    end, least = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
    return least


def _numpy_products(seconds: float) -> Iterator[tuple[str, float, str]]:
    import numpy as np

    random = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        for edge in EDGES:
            one = random.standard_normal((edge, edge)).astype(dtype)
            out = np.empty_like(one)
            least = _best(lambda one=one, out=out: np.matmul(one, one, out=out), seconds / 4)  # type: ignore[misc]
            yield dtype, 2 * edge**3 / least, f"numpy product of {edge} x {edge}"


def _engine_products(seconds: float) -> Iterator[tuple[str, float, str]]:
    """onnxruntime's own products; nothing where it is not installed."""
    runtime = _runtime()
    if runtime is None:
        return
    import numpy as np
    from onnx import TensorProto, helper

    random = np.random.default_rng(0)
    cases = (("float32", "MatMul", TensorProto.FLOAT), ("int8", "MatMulInteger", TensorProto.INT8))
    for dtype, op, element in cases:
        for edge in EDGES:
            value = (10 * random.standard_normal((edge, edge))).astype(dtype)
            weight = helper.make_tensor("w", element, value.shape, value.tobytes(), raw=True)
            taken = value.astype("uint8") if op == "MatMulInteger" else value
            kind = helper.np_dtype_to_tensor_dtype(taken.dtype)
            graph = helper.make_graph(
                [helper.make_node(op, ["x", "w"], ["y"])],
                "product",
                [helper.make_tensor_value_info("x", kind, value.shape)],
                [helper.make_tensor_value_info("y", TensorProto.INT32 if op != "MatMul" else element, value.shape)],
                [weight],
            )
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
            task = runtime.task(runtime.session(model.SerializeToString()), {"x": taken})
            yield dtype, 2 * edge**3 / _best(task.run, seconds / 4), f"onnxruntime {op} of {edge} x {edge}"


def _runtime() -> Runtime | None:
    """onnxruntime with one thread; None where it is not installed."""
    try:
        from flopwise.analyses.timing.engines import Options
        from flopwise.analyses.timing.engines.onnxruntime import Runtime

        return Runtime(Options())
    except ImportError:
        return None


def _read_rate(nbytes: int, seconds: float) -> float:
    """Bytes per second of reading a working set again and again."""
    import numpy as np

    values = np.ones(nbytes // 4, np.float32)
    times = max(1, (1 << 20) // nbytes)

    def read() -> None:
        for _ in range(times):
            np.dot(values, values)

    return times * nbytes / _best(read, seconds / 2)


def _empty_run() -> float | None:
    """Seconds of an empty session; None where onnxruntime is not installed."""
    runtime = _runtime()
    if runtime is None:
        return None
    from flopwise.analyses.timing.engines.onnxruntime import empty_model

    model, feeds = empty_model(1, 1)
    return _best(runtime.task(runtime.session(model), feeds).run, 0.05)
