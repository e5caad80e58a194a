"""The arena of the micro interpreter: by hand, and no two buffers at one place at one time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("tflite")

from tests.tflite_models import Net, convolution, loop

import flopwise
from flopwise.storage.micro import ALIGNMENT, micro_arena


def _chain(sizes: list[int], offsets: list[int] | None = None) -> bytes:
    """RESHAPEs and EXPs over vectors of so many bytes, one after the other."""
    net = Net()
    g = net.main
    tensors = [g.tensor((1, size), "int8", name=f"t{size}") for size in sizes]
    for one, other in itertools.pairwise(tensors):
        g.add("TILE", [one, g.tensor((2,), "int32", [1, 1])], [other])
    g.inputs, g.outputs = tensors[:1], tensors[-1:]
    if offsets is not None:
        rest = [-1] * (len(g.tensors) - len(offsets))
        net.metadata["OfflineMemoryAllocation"] = np.int32([1, 0, len(g.tensors), *offsets, *rest]).tobytes()
    return net.bytes()


def test_the_largest_lies_first_and_the_others_fill_gaps() -> None:
    arena = micro_arena(flopwise.read(_chain([32, 640, 64, 320])))
    assert arena is not None
    # t640 at 0; t320 is never there with it: 0; t64 beside both: behind 640; t32 beside t640 alone: behind it
    assert {b.name: b.offset for b in arena.buffers} == {"t640": 0, "t320": 0, "t64": 640, "t32": 640}
    assert arena.size == 704


def test_what_the_file_places_lies_there() -> None:
    arena = micro_arena(flopwise.read(_chain([32, 640, 64, 320], [1024, -1, -1, -1])))
    assert arena is not None
    assert arena.offline == 1
    assert arena.size == 1024 + 32


@pytest.mark.parametrize("model", [convolution().bytes(), convolution("int8").bytes(), loop(5)])
def test_no_two_buffers_lie_at_one_place_at_one_time(model: bytes) -> None:
    graph = flopwise.read(model)
    arena = micro_arena(graph)
    assert arena is not None
    for one, other in itertools.combinations(arena.buffers, 2):
        together = one.first <= other.last and other.first <= one.last
        apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
        assert apart or not together
    assert all(b.offset % ALIGNMENT == 0 for b in arena.buffers)
    assert {t.name for t in (*graph.inputs, *graph.outputs)} <= {b.name for b in arena.buffers}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_micro_interpreter_takes_as_much(dtype: str, capfd: pytest.CaptureFixture[str]) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    model = convolution(dtype).bytes()
    arena = micro_arena(flopwise.read(model))
    assert arena is not None
    runtime.Interpreter.from_bytes(model).print_allocations()
    assert f"Arena allocation head {arena.size} bytes" in "".join(capfd.readouterr())


def test_the_arena_stands_in_the_report() -> None:
    memory = flopwise.memory(convolution("int8").bytes())
    assert memory.to_dict()["totals"]["micro_arena_bytes"] == 192 + 64  # the image and the convolution's result
