"""Weights: statistics and histograms against the numpy calls that give the same, on one file with the same threads.

Run it as ``python benchmarks/weights_speed.py``; ``--size 1.3`` for files of so many GB, ``--threads`` for other than
all cores. It prints ratios, because seconds do not repeat from machine to machine: how many times faster flopwise is
than numpy's min, max, mean, std and histogram ("x calls"), how much faster than on one thread, and what share of the
speed of ``numpy.sum`` the statistics without a histogram reach ("x sum"), for each set of loops; and the memory that a
run takes beside the mapping of the file.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import flopwise
from flopwise.analyses.weights import engine, portable

#: Elements that are made at once.
PART = 1 << 22


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=0.25, help="size of each file in GB")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3, help="the best of so many")
    given = parser.parse_args()
    routes: list[ModuleType] = [portable]
    try:
        started = time.perf_counter()
        from flopwise.analyses.weights import compiled

        compiled.scan(np.zeros(1, np.float32))
        print(f"{compiled.NAME}: {time.perf_counter() - started:.1f} s to import, and to compile or load one loop")
        routes.append(compiled)
    except ImportError:
        print("numba is not installed: pip install 'flopwise[fast]'")
    print(f"{given.size} GB, {given.threads} threads of {os.cpu_count()} cores, best of {given.runs}\n")
    print("type      loops           GB/s  x calls  1 thread  GB/s without histogram  x sum  anonymous memory")
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", "float16"):
            path = os.path.join(folder, f"{dtype}.npy")
            made(path, dtype, int(given.size * 1e9) // np.dtype(dtype).itemsize)
            array = np.load(path, mmap_mode="r")
            calls = best(partial(numpy_calls, array, given.threads), 1)
            total = best(partial(shared, np.sum, array, given.threads), given.runs)
            for route in routes:
                report(path, array.nbytes, route, given.threads, given.runs, calls, total)
            os.unlink(path)


def report(path: str, nbytes: int, route: ModuleType, threads: int, runs: int, calls: float, total: float) -> None:
    """One line of the table."""
    before, engine.loops = engine.loops, lambda elements: route
    try:
        run = partial(flopwise.weights, path, by="tensor")
        run(threads=threads)  # loops are compiled, and the file is in the cache
        memory = Memory()
        with memory:
            full = best(partial(run, threads=threads), runs)
        single = best(partial(run, threads=1), 1)
        plain = best(partial(run, threads=threads, histogram=False), runs)
    finally:
        engine.loops = before
    print(
        f"{os.path.basename(path)[:-4]:8}  {route.NAME:14}  {nbytes / full / 1e9:4.1f}  {calls / full:7.1f}  "
        f"{single / full:7.2f}x  {nbytes / plain / 1e9:22.1f}  {total / plain:5.2f}  {memory.peak / 1e6:13.0f} MB"
    )


def made(path: str, dtype: str, elements: int) -> None:
    """Write random numbers, a part at a time."""
    rng = np.random.default_rng(0)
    array = np.lib.format.open_memmap(path, "w+", dtype, (elements,))
    for start in range(0, elements, PART):
        array[start : start + PART] = rng.standard_normal(min(PART, elements - start), dtype=np.float32) * 0.02
    array.flush()


def numpy_calls(array: Any, threads: int) -> None:
    """What a user would write: five calls, float64 where a sum needs it, a slice for each thread."""
    for call in (
        np.min,
        np.max,
        partial(np.mean, dtype=np.float64),
        partial(np.std, dtype=np.float64),
        partial(np.histogram, bins=100, range=(-0.15, 0.15)),
    ):
        shared(call, array, threads)


def shared(call: Callable[..., Any], array: Any, threads: int) -> None:
    """The call on a slice of the array in each thread."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(call, np.array_split(array, threads)))


def best(work: Callable[[], object], runs: int) -> float:
    """The least seconds of so many runs."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


class Memory:
    """The peak of the anonymous memory in bytes, above that at the start; 0 where the system does not say."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._start = self._now()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, self._now() - self._start)

    def _now(self) -> int:
        try:
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
        except (OSError, StopIteration):
            return 0


if __name__ == "__main__":
    main()
