"""Figures of this machine's CPU, measured: products by element type, reading by working set, the cost of an empty run.

A measured figure is the highest over all ways that are tried. It is a lower bound of what the machine can do, so it
never replaces a higher figure that follows from the kind of its cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from flopwise.analyses.timing.device import LEVELS, Peak
from flopwise.analyses.timing.machine import Environment, digest, environment

if TYPE_CHECKING:
    from flopwise.analyses.timing.engines.onnxruntime import Runtime

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
