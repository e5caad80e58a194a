"""How fast the zeros of weights are found, beside onnx-tool's search for blocks, and in how much memory.

    python benchmarks/sparsity_speed.py [--size 4096] [--threads N] [--file-mb 1300]

For square matrices of several shares of zeros, the best of five: onnx-tool 1.0.1's search, ours of the same matrix,
ours with four blocks and two patterns besides, and numpy's sum of the same matrix. Figures are ratios of times in one
run. A matrix marked T is seen transposed. Up to 40 % of zeros onnx-tool only counts them; ours has looked for blocks by
then, because it reads once. Then a file of weights (.npy, as many MB as asked for; 0: none) is read whole in a process
of its own, whose peak resident memory is measured beyond the mapping and beyond what the imports take (Linux).
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import onnx_tool.tensor

from flopwise.answers.sparsity.asking import sparsity_query
from flopwise.answers.sparsity.measuring import Weight, measure
from flopwise.answers.sparsity.views import ZeroPoint, as_stored, transposed

TIMES = 5
BLOCKS, PATTERNS = "4x1,1x4,16x1,4x4", "2:4,1:4"


class Array:
    """A stored tensor that is an array in memory."""

    name = "w"

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = str(array.dtype)

    def blocks(self, elements: int = 1 << 18) -> Iterator[Any]:
        """The elements in order."""
        flat = self.array.reshape(-1)
        for start in range(0, flat.size, elements):
            yield flat[start : start + elements]

    def raw(self) -> Any:
        """All elements."""
        return self.array.reshape(-1)


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(TIMES):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def matrix(size: int, share: float, block: tuple[int, int]) -> Any:
    """Random numbers with a share of zero blocks."""
    random = numpy.random.default_rng(0)
    grid = random.random((size // block[0], size // block[1])) < share
    values = random.standard_normal((size, size), dtype=numpy.float32)
    values[grid.repeat(block[0], 0).repeat(block[1], 1)] = 0
    return values


def compare(size: int, threads: int | None) -> None:
    """One line for each kind of matrix."""
    print(f"{size} x {size} float32; how many times faster than onnx-tool, and how many times as long as numpy.sum")
    print(
        f"{'zeros':>16} {'onnx-tool s':>12} {'ours s':>8} {'faster':>8} {'/ sum':>7} {'+ blocks, N:M':>14} {'/ sum':>7}"
    )
    for share, block in ((0.0, (1, 1)), (0.3, (1, 1)), (0.5, (1, 1)), (0.9, (1, 1)), (0.8, (1, 4)), (0.8, (16, 16))):
        values = matrix(size, share, block)
        tensor = onnx_tool.tensor.Tensor("w")
        tensor.type, tensor.numpy, tensor.shape = onnx_tool.tensor.STATIC_TENSOR, values, list(values.shape)
        theirs, whole = best(tensor.sparsity_search), best(values.sum)
        for view in (as_stored, transposed):
            weights = [Weight(Array(values), view(values.shape), ZeroPoint(0))]
            ours = best(functools.partial(measure, weights, sparsity_query(), threads))
            more = best(functools.partial(measure, weights, sparsity_query(BLOCKS, PATTERNS), threads))
            name = f"{share:.0%} in {block[0]}x{block[1]}" + ("" if view is as_stored else " T")
            print(
                f"{name:>16} {theirs:12.3f} {ours:8.3f} {theirs / ours:8.1f} {ours / whole:7.1f} "
                f"{more:14.3f} {more / whole:7.1f}"
            )


READ = """
import sys, flopwise, flopwise.answers.sparsity.sparsity, numpy
def status(key):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key)) // 1024
import time
flopwise.sparsity(sys.argv[1] + ".small.npy")
open("/proc/self/clear_refs", "w").write("5")
before = status("RssAnon")
start = time.perf_counter()
import threading
most, done = [0], threading.Event()
def watch():
    while not done.wait(0.005):
        most[0] = max(most[0], status("RssAnon"))
threading.Thread(target=watch, daemon=True).start()
found = flopwise.sparsity(sys.argv[1], blocks="4x1,1x4,16x1,4x4", patterns="2:4,1:4")
seconds = time.perf_counter() - start
done.set()
print(f"{seconds:.2f} s, {most[0] - before} MB beyond the mapping, {100 * found.ratio:.1f} % zeros")
"""


def stream(megabytes: int) -> None:
    """Time and memory of a file that is read once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.npy"
        rows = megabytes * 250_000 // 8192
        numpy.save(f"{path}.small.npy", numpy.zeros((64, 64), numpy.float32))
        target = numpy.lib.format.open_memmap(path, "w+", numpy.float32, (rows, 8192))
        part = matrix(2048, 0.5, (1, 1)).reshape(-1, 8192)
        for start in range(0, rows, len(part)):
            target[start : start + len(part)] = part[: rows - start]
        target.flush()
        del target
        for name in ("first reading", "again"):
            done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False)
            print(f"{megabytes} MB of float32, {name}: {done.stdout.strip() or done.stderr}")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--file-mb", type=int, default=1300)
    given = parser.parse_args()
    compare(given.size, given.threads)
    if given.file_mb:
        stream(given.file_mb)


if __name__ == "__main__":
    main()
