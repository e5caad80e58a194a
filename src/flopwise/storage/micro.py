"""The arena of TensorFlow Lite's micro interpreter: each activation at the place where its greedy planner puts it.

tflite-micro, tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc and micro_allocation_info.cc: every tensor
that is not stored has a buffer of its own, from the operator that makes it to the last that reads it, views and what
is made of weights alone too; the largest comes first and takes the lowest gap that it fits in. What a file places
itself (offline plans in its metadata) lies there before. Not in it: the interpreter's own records and the scratch
buffers of kernels, which follow from neither operators nor shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flopwise.graph import STORED, Graph, Tensor

#: Buffers begin at multiples of so many bytes.
ALIGNMENT = 16


class MicroBuffer(NamedTuple):
    """One buffer of the arena."""

    name: str
    nbytes: int
    #: First and last operator during which it is there; both count.
    first: int
    last: int
    offset: int


class MicroArena(NamedTuple):
    """The arena, its buffers in the order in which they are placed."""

    buffers: tuple[MicroBuffer, ...]
    #: Bytes of it all.
    size: int
    #: How many of the buffers the file has placed itself.
    offline: int


def micro_arena(graph: Graph) -> MicroArena | None:
    """The arena of a TensorFlow Lite model; None for other models, and where a size is missing."""
    if graph.format != "tflite":
        return None
    lives = _lives(graph)
    if any(not tensor.sized for tensor, _, _ in lives.values()):
        return None
    placed: list[MicroBuffer] = []
    waiting = [(name, _aligned(t.nbytes), first, last) for name, (t, first, last) in lives.items()]
    for name, nbytes, first, last in waiting:
        if name in graph.offsets:
            placed.append(MicroBuffer(name, nbytes, first, last, graph.offsets[name]))
    offline = len(placed)
    for name, nbytes, first, last in sorted(waiting, key=lambda one: -one[1]):
        if name not in graph.offsets:
            beside = [b for b in placed if b.first <= last and b.last >= first]
            placed.append(MicroBuffer(name, nbytes, first, last, _lowest_gap(beside, nbytes)))
    return MicroArena(tuple(placed), max((b.offset + b.nbytes for b in placed), default=0), offline)


def _lives(graph: Graph) -> dict[str, tuple[Tensor, int, int]]:
    """The tensors that are not stored, with the first and the last operator during which each is there."""
    lives = {t.name: (t, 0, 0) for t in graph.inputs}
    step = 0
    for node in graph.nodes:
        if node.fused:  # its result takes the place of what it is handed
            before, after = node.input(0).name, node.output()
            _, first, last = lives.pop(before, (after, step, step))
            lives[after.name] = (after, first, last)
            continue
        step += 1
        around = [t for body in node.within for t in graph.nodes[body.owner].known_inputs]
        for tensor in (*node.known_inputs, *around):
            if tensor.name in lives:
                known, first, _ = lives[tensor.name]
                lives[tensor.name] = (known, first, step)
        for tensor in node.known_outputs:
            lives.setdefault(tensor.name, (tensor, step, step))
    for tensor in graph.outputs:
        if tensor.name in lives:
            known, first, _ = lives[tensor.name]
            lives[tensor.name] = (known, first, step)
    return {name: life for name, life in lives.items() if life[0].kind not in STORED and life[0].kind != "state"}


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _lowest_gap(beside: Iterable[MicroBuffer], nbytes: int) -> int:
    """The lowest offset with so many bytes free beside buffers that are there at the same time."""
    free = 0
    for buffer in sorted(beside, key=lambda b: b.offset):
        if buffer.offset - free >= nbytes:
            break
        free = max(free, buffer.offset + buffer.nbytes)
    return free
