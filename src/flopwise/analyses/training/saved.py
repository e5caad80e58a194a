"""Storages that the forward pass keeps for the backward pass. A tensor counts once, and so do all views of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators import views
from flopwise.operators.gradients.movement import dropped
from flopwise.operators.tables import row

#: What a program calls to get elements in a row: they are copied when they are not.
_ORDERED = frozenset({"aten.reshape", "aten.flatten", "aten.contiguous", ""})

#: Operators of a program that give a new tensor although their name in ONNX would pass the old one on.
_COPIES = frozenset({"aten.clone", "aten.tensor", "aten.narrow_copy", "aten.view_copy", "aten.squeeze_copy"})

#: Operators of a program that write into their first input without a name that says so.
_IN_PLACE = frozenset({"aten.setitem"})


class _Place(NamedTuple):
    """The storage of a tensor's elements, and their order in it."""

    base: Tensor
    #: Whether they lie in a row, in order.
    ordered: bool


class Storages:
    """The storages of a graph's tensors, and which of them have been claimed."""

    def __init__(self, graph: Graph) -> None:
        self._places: dict[str, _Place] = {}
        self._claimed: set[str] = set()
        self._program = graph.program.recorded
        #: Matrices that lie in order but for being transposed, which products take as they are.
        self._flipped: set[str] = set()
        #: Of a program: the tensors by name, so that each can say whose storage it reads.
        self._named: dict[str, Tensor] = {}
        if self._program:
            self._named.update((t.name, t) for n in graph.nodes for t in (*n.known_inputs, *n.known_outputs))
        for node in graph.nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        """Note which storages the results of a node share with its first input."""
        if not node.has_input(0):
            return
        place = self._place(node.input(0))
        if self._program and node.input(0).contiguous and _flips(node):
            self._flipped.update(t.name for t in node.known_outputs)
        if self._program and _writes(node):
            self._places.update((t.name, place) for t in node.known_outputs[:1])
        elif self._shares(node, place):
            ordered = place.ordered and ("strided" not in row(node.op).effects or _same_order(node))
            self._places.update((t.name, _Place(place.base, ordered)) for t in node.known_outputs)

    def _shares(self, node: Node, place: _Place) -> bool:
        """True where a node gives its first input, which lies at a place, under another name or shape."""
        if self._program and node.origin in _COPIES:
            return False
        if node.op == "Cast" and node.known_outputs and node.known_outputs[0].dtype == node.input(0).dtype:
            return True
        orders = node.op in ("Reshape", "Flatten", "Identity") and (not self._program or node.origin in _ORDERED)
        return _reads_first(node) and (place.ordered or not orders)

    def _place(self, tensor: Tensor) -> _Place:
        owner = self._named.get(tensor.storage) if tensor.storage else None
        if owner is not None:
            return _Place(owner, tensor.contiguous)
        return self._places.get(tensor.name) or _Place(tensor, True)

    def claim(self, node: Node, things: Iterable[Tensor | int]) -> int | None:
        """Bytes that a node is the first to keep, stored tensors left out; None when unknown."""
        total = 0
        overwritten = self._overwritten(node)
        for thing in things:
            if isinstance(thing, int):
                total += thing
                continue
            if thing.sized and (thing.name == overwritten or self._gathered(node, thing)):
                total += thing.nbytes
                continue
            base = self._place(thing).base
            if base.kind in STORED or base.name in self._claimed:
                continue
            if not base.sized:
                return None
            self._claimed.add(base.name)
            total += base.nbytes
        return total

    def claim_recorded(self, storages: Iterable[tuple[str, int]]) -> int:
        """Bytes of the storages that a node of a program is the first to keep, as autograd itself named them.

        Args:
            storages: the name of the tensor that has it, "" for one that only the node knows, and its bytes.
        """
        total = 0
        for name, size in storages:
            owner = self._named.get(name)
            if name and (name in self._claimed or (owner is not None and owner.kind in STORED)):
                continue
            if name:
                self._claimed.add(name)
            total += size
        return total

    def _overwritten(self, node: Node) -> str:
        """The input that a node overwrites, so that it has to be copied to be kept; "" where there is none."""
        gradient = row(node.op).gradient
        keeps_result = gradient is not None and gradient.from_result  # which overwrites the input
        overwrites = self._program and _writes(node) and node.has_input(0) and not keeps_result
        return node.input(0).name if overwrites else ""

    def _gathered(self, node: Node, tensor: Tensor) -> bool:
        """True where a batched product of a program copies an operand, so that its matrices lie in a row."""
        if not self._program or node.op != "MatMul" or len(node.known_inputs) < 2:
            return False
        batches = [[d for d in t.dims[:-2] if d != 1] for t in node.known_inputs if t.shape is not None]
        several = all(batches) and len([d for d in tensor.dims[:-2] if d != 1]) > 1
        return several and not tensor.contiguous and tensor.name not in self._flipped


def _flips(node: Node) -> bool:
    """True where an operator of a program swaps the last two axes and no others."""
    rank = len(node.input(0).shape or ())
    if node.op != "Transpose" or rank < 2:
        return False
    name = node.origin.rpartition(".")[2].rstrip("_")
    if name in ("mT", "mH", "adjoint", "t"):
        return True
    plain = [v for v in node.arguments.values() if not isinstance(v, Tensor)]
    if len(plain) == 1 and isinstance(plain[0], list | tuple):
        plain = list(plain[0])
    axes = [v % rank for v in plain if isinstance(v, int)]
    if name in ("transpose", "swapaxes", "swapdims"):
        return set(axes) == {rank - 2, rank - 1}
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def _reads_first(node: Node) -> bool:
    """True where the result of an operator reads the storage of its first input."""
    operator = row(node.op)
    if node.op == "Dropout" and dropped(node):
        return False
    return operator.view in (views.always, views.at_inference) or "strided" in operator.effects


def _writes(node: Node) -> bool:
    """True where an operator of a program writes into its first input."""
    return (node.origin.endswith("_") and not node.origin.endswith("__")) or node.origin in _IN_PLACE


def _same_order(node: Node) -> bool:
    """True where a view leaves the elements in a row: it moves axes of extent 1 only, or cuts the first axis."""
    before, after = node.input(0), node.output()
    if before.shape is None or after.shape is None:
        return False
    if node.op == "Transpose":
        longer = [d for d in before.shape if d != 1]  # of one no order of axes changes the elements' order
        return longer == [d for d in after.shape if d != 1] and len(longer) <= 1
    if node.op == "Expand":
        return before.numel == after.numel
    if len(before.shape) != len(after.shape):
        return False
    changed = [axis for axis, (n, m) in enumerate(zip(before.shape, after.shape, strict=True)) if n != m]
    return all(all(d == 1 for d in before.shape[:axis]) for axis in changed)
