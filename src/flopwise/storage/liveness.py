"""When each activation lives, and how many bytes are alive at once."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from typing import NamedTuple

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.folding import Folding, fold
from flopwise.operators.own import with_rows_of_graph
from flopwise.storage.traffic import in_place_in_caffe, may_overwrite, shared


class Buffer(NamedTuple):
    """A piece of storage: the tensors that share it, and the steps in which it is alive."""

    #: The tensor it was made for.
    name: str
    nbytes: int
    #: First and last step in which it is alive; both count.
    first: int
    last: int
    #: All tensors that use it, in the order in which they came to be.
    tensors: tuple[Tensor, ...]
    #: Position in ``Graph.nodes`` of the operator that makes it; None for an input of the model.
    maker: int | None
    #: Position of the operator that uses it last; None when nobody does.
    user: int | None
    #: Whether it is alive after the last step, because it holds an output of the model.
    kept: bool = False


@dataclass(frozen=True, eq=False)
class Liveness:
    """The storage that is alive at each step of an inference.

    Step 0 is the start, when the inputs of the model are there. Each operator that runs is one step; one with bodies
    (If, Loop, Scan) is a second step after them.
    """

    graph: Graph
    #: Position in ``Graph.nodes`` of the operator at each step; None at the start.
    steps: tuple[int | None, ...]
    buffers: tuple[Buffer, ...]
    #: Names of the tensors whose bytes are unknown: where there are any, there are no buffers.
    missing: tuple[str, ...] = ()

    @functools.cached_property
    def alive(self) -> tuple[int, ...]:
        """Bytes alive at each step; () when a size is missing."""
        if self.missing:
            return ()
        change = [0] * (len(self.steps) + 1)
        for buffer in self.buffers:
            change[buffer.first] += buffer.nbytes
            change[buffer.last + 1] -= buffer.nbytes
        alive, now = [], 0
        for step in range(len(self.steps)):
            now += change[step]
            alive.append(now)
        return tuple(alive)

    @property
    def peak(self) -> int | None:
        """Bytes alive at once, at most; None when a size is missing."""
        return None if self.missing else max(self.alive)

    @property
    def peak_step(self) -> int | None:
        """The first step at which the peak is reached; None when a size is missing."""
        return None if self.missing else self.alive.index(max(self.alive))

    def alive_at(self, step: int) -> tuple[Buffer, ...]:
        """The buffers that are alive at a step, the largest first."""
        alive = [b for b in self.buffers if b.first <= step <= b.last]
        return tuple(sorted(alive, key=lambda b: -b.nbytes))


def peak_activation_bytes(graph: Graph) -> int | None:
    """Largest sum of bytes of live activations over the execution order; None when one has no shape, or holds strings.

    See ``liveness``.
    """
    return liveness(graph).peak


def live_bytes(graph: Graph) -> list[int]:
    """Bytes of activations alive at each step of an inference; [] when one has no shape, or holds strings."""
    return list(liveness(graph).alive)


@with_rows_of_graph
def liveness(graph: Graph, inplace: bool = False) -> Liveness:
    """When each activation lives.

    A tensor lives from the operator that makes it to its last use; the model's inputs live from the start, its outputs
    to the end. A view shares its input's storage. Stored tensors, and what is made of them alone, are no activations.
    While a body of control flow runs, what lives in it comes on top of what lives around it. What a module of a program
    is called with lives until it returns, because the program refers to it as long.

    Args:
        graph: the model.
        inplace: whether an element-wise operator overwrites an input of the same shape that nobody needs any more, is
            no input of the model and is not an output. What the format itself says to be in place always is.
    """
    folding = fold(graph)
    results = (t for i, n in enumerate(graph.nodes) if i not in folding.positions for t in n.known_outputs)
    missing = [t.name for t in (*graph.inputs, *results) if not t.sized or not isinstance(t.nbytes, int)]
    if missing:
        return Liveness(graph, (None,), (), tuple(dict.fromkeys(missing)))
    timeline = _Timeline(graph, folding)
    walk = _Walk(graph, folding, timeline)
    walk.run({})
    if inplace:
        overwritten = walk.overwritten()
        walk = _Walk(graph, folding, timeline)
        walk.run(overwritten)
    return Liveness(graph, timeline.steps, walk.buffers())


class _Timeline:
    """Steps, and which step opens and closes each operator."""

    def __init__(self, graph: Graph, folding: Folding) -> None:
        steps: list[int | None] = [None]
        self.opens: dict[int, int] = {}
        self.closes: dict[int, int] = {}
        pending: list[int] = []  # operators whose bodies are running, outermost first

        def close(depth: int) -> None:
            while len(pending) > depth:
                owner = pending.pop()
                if owner in self.opens:
                    steps.append(owner)
                self.closes[owner] = len(steps) - 1

        for position, node in enumerate(graph.nodes):
            if pending or node.within:
                around = [body.owner for body in node.within]
                close(sum(takewhile(bool, map(eq, pending, around))))  # as many as both have in common
                pending += around[len(pending) :]
            if position not in folding.positions:
                self.opens[position] = self.closes[position] = len(steps)
                steps.append(position)
        close(0)
        self.steps = tuple(steps)

    def born(self, position: int, node: Node) -> int:
        """The step at which an operator's results are made: a branch passes its own on, loops collect theirs."""
        return self.closes[position] if node.op == "If" else self.opens[position]


@dataclass(slots=True, eq=False)
class _Piece:
    """A buffer in the making."""

    tensors: list[Tensor]
    first: int
    last: int
    maker: int | None
    #: How deep in control flow it was made.
    depth: int
    user: int | None = None
    kept: bool = False


class _Walk:
    """One pass over the operators that gives each tensor its storage."""

    def __init__(self, graph: Graph, folding: Folding, timeline: _Timeline) -> None:
        self.graph = graph
        self.folding = folding
        self.timeline = timeline
        self.pieces: list[_Piece] = []
        self.storage: dict[str, _Piece] = {}
        #: (position of an operator, index of its output or input) -> the storage.
        self.results: dict[tuple[int, int], _Piece] = {}
        self.taken: dict[tuple[int, int], _Piece] = {}

    def run(self, overwritten: dict[int, int]) -> None:
        """Walk over the operators.

        Args:
            overwritten: position of an operator -> the input that its first result overwrites.
        """
        graph, timeline = self.graph, self.timeline
        for tensor in graph.inputs:
            if tensor.name not in self.storage:
                self._new(tensor, 0, 0, None, 0)
        for position, node in enumerate(graph.nodes):
            for index, input_ in enumerate(node.inputs):
                if input_ is not None and input_.name in self.storage:
                    piece = self.storage[input_.name]
                    self.taken[position, index] = piece
                    self._use(piece, position, node)
            if position not in timeline.opens:
                continue
            born, views = timeline.born(position, node), self._shared(node)
            if position in overwritten:
                views = {0: overwritten[position]}
            for index, result in enumerate(node.outputs):
                if result is None:
                    continue
                source = self.taken.get((position, views[index])) if index in views else None
                if source is None:
                    self._new(result, born, timeline.closes[position], position, len(node.within))
                else:
                    source.tensors.append(result)
                    self.storage[result.name] = source
                self.results[position, index] = self.storage[result.name]
        self._hold_arguments()
        for tensor in graph.outputs:
            if tensor.name in self.storage and tensor.kind not in STORED:
                self.storage[tensor.name].kept = True
                self.storage[tensor.name].last = len(timeline.steps) - 1

    def _new(self, tensor: Tensor, first: int, last: int, maker: int | None, depth: int) -> None:
        piece = _Piece([tensor], first, last, maker, depth)
        self.pieces.append(piece)
        self.storage[tensor.name] = piece

    def _shared(self, node: Node) -> dict[int, int]:
        """Place of a result -> the input whose storage it shares; a Caffe layer may write into its bottom."""
        if self.graph.caffe and node.inputs and in_place_in_caffe(node):
            return {0: 0}
        return shared(node)

    def _hold_arguments(self) -> None:
        """Keep what a module of a program was called with until it returns: its caller still refers to it."""
        opens, ends = self.timeline.opens, self.timeline.closes
        for call in self.graph.program.calls:
            last = next((ends[p] for p in range(call.last - 1, call.first - 1, -1) if p in opens), 0)
            for tensor in call.inputs:
                if tensor.name in self.storage:
                    piece = self.storage[tensor.name]
                    piece.last = max(piece.last, last)

    def _use(self, piece: _Piece, position: int, node: Node) -> None:
        """Keep a piece alive for an operator; what is used in a body that may run again, until the body is done."""
        if position not in self.timeline.opens:  # folded: it asks for a shape
            return
        if len(node.within) > piece.depth:
            position = node.within[piece.depth].owner
        piece.last = max(piece.last, self.timeline.closes[position])
        piece.user = position

    def overwritten(self) -> dict[int, int]:
        """Position of an operator -> the input whose storage its result may take."""
        places = {}
        for position, node in enumerate(self.graph.nodes):
            if position in self.timeline.opens and (position, 0) in self.results and 0 not in self._shared(node):
                free = (index for index in may_overwrite(node) if self._free(position, node, index))
                index = next(free, None)
                if index is not None:
                    places[position] = index
        return places

    def _free(self, position: int, node: Node, index: int) -> bool:
        """True where this operator is the last that needs the storage of an input."""
        piece, result = self.taken.get((position, index)), node.output()
        if piece is None or piece.kept or piece.maker is None or piece.depth != len(node.within):
            return False
        beside = [t for i, t in enumerate(node.inputs) if t is not None and self.taken.get((position, i)) is piece]
        return (
            piece.last == self.timeline.closes[position]
            and piece.tensors[0].nbytes == result.nbytes
            and all(t.shape == result.shape for t in beside)
        )

    def buffers(self) -> tuple[Buffer, ...]:
        """The pieces of storage, in the order in which they come to be."""
        return tuple(
            Buffer(
                name=piece.tensors[0].name,
                nbytes=piece.tensors[0].nbytes,
                first=piece.first,
                last=piece.last,
                tensors=tuple(piece.tensors),
                maker=piece.maker,
                user=piece.user,
                kept=piece.kept,
            )
            for piece in self.pieces
        )
