"""The weights of operators: their inputs, their orientation, and their zero points.

Only operators that use each element of a weight in equally many of their multiply-accumulates: then the share of
elements that can be skipped is the share of multiply-accumulates that can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, cast

from flopwise.analyses.sparsity.views import (
    PLAIN,
    Bits,
    View,
    ZeroPoint,
    as_stored,
    conv_transpose,
    stacked,
    transposed,
)
from flopwise.graph import Graph, Node, Tensor
from flopwise.operators.inputs import Weight
from flopwise.operators.operator import Operator
from flopwise.operators.tables import row

Shape: TypeAlias = "tuple[int, ...]"
#: The operator, the weight's shape, and the order of the reduction -> how the weight is seen.
Viewer = Callable[[Node, Shape, str], View]

#: Operators between a stored weight and the operator that takes it, at most.
DEEPEST = 64


class Place(NamedTuple):
    """An input that may be a weight."""

    slot: int
    view: Viewer
    #: The input with the zero point, and the axis of the weight that it runs along; None: zero is 0.
    zero_point: int | None = None
    axis: int = 0
    #: Whether the view says which axis is that of the outputs; an equation may have it anywhere.
    oriented: bool = True


def _view(weight: Weight, node: Node, shape: Shape, order: str) -> View:
    """The view of a weight of a layout: a factor of a matrix product, or the kernel of a convolution."""
    if weight.layout in ("conv", "conv transpose"):
        groups = int(node.attrs.get("group", 1))
        groups = groups if groups > 0 and shape and shape[0] % groups == 0 else 1
        if weight.layout == "conv":
            return as_stored(shape, order, groups)
        return as_stored(shape) if len(shape) < 2 else conv_transpose(shape, groups)
    if len(shape) < 2 or weight.layout == "equation":
        return as_stored(shape)
    turned = bool(weight.transposed and node.attrs.get(weight.transposed, 0)) and weight.layout in ("left", "right")
    return transposed(shape) if turned != (weight.layout == "right") else stacked(shape)


def places(node: Node) -> tuple[Place, ...]:
    """The inputs of an operator that may be weights."""
    roles = list(row(node.op).inputs.places(len(node.inputs)))
    zeros = {one.of: (place, one.axis) for place, one in roles if one.role == "zero point" and one.of >= 0}
    result = []
    for place, one in roles:
        if one.weight is None or one.packed or (one.weight.layout == "matrices" and not _is_matrix(node, place)):
            continue
        zero_point, axis = zeros.get(place, (None, 0))
        result.append(Place(place, partial(_view, one.weight), zero_point, axis, one.weight.layout != "equation"))
    return tuple(result)


def _is_matrix(node: Node, place: int) -> bool:
    tensor = node.inputs[place]
    return tensor is not None and tensor.kind == "weight" and tensor.shape is not None and len(tensor.shape) == 2


def multiplies_weights(op: str) -> bool:
    """True where an operator may multiply with stored weights, each element of which it uses equally often."""
    inputs = row(op).inputs
    return any(one.weight is not None for one in (*inputs.first, *inputs.repeated))


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A stored tensor in its place in an operator."""

    node: Node
    tensor: Tensor
    view: View
    #: None when it is unknown what stands for zero; then ``reason`` says why.
    zero: ZeroPoint | None
    reason: str = ""
    assumed: str = ""
    #: How the elements are packed, where the operator unpacks them itself.
    packing: Bits | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """Finds the stored tensors behind the inputs of operators, through what only changes their form."""

    graph: Graph
    #: Name of a tensor -> the operator that makes it.
    makers: Mapping[str, Node]

    @classmethod
    def from_graph(cls, graph: Graph) -> Uses:
        """The uses in a graph."""
        return cls(graph, {t.name: node for node in graph.nodes for t in node.known_outputs})

    def weights(self, node: Node, order: str) -> Iterator[Use]:
        """The stored tensors that an operator multiplies with, in the order of its inputs."""
        if (weight := row(node.op).inputs.input(1).weight) is not None and weight.layout == "packed":
            yield from self._packed(node)
        for place in places(node):
            if node.has_input(place.slot):
                use = self._use(node, place, order)
                if use is not None:
                    yield use

    def _packed(self, node: Node) -> Iterator[Use]:
        """The packed weight of an operator, where its packing is one that is known."""
        tensor = node.input(1) if node.has_input(1) else None
        if tensor is None or tensor.name not in self.graph.weights or not concrete(tensor):
            return
        packing = Bits.from_node(node, cast("Shape", tensor.shape))
        if packing is None:
            return
        points = node.input(3).name if node.has_input(3) else None
        zero, reason = None, f"unknown: its zero points {points!r} are not stored as integers"
        if points is None or points in self.graph.weights:
            zero = packing.zero_point(None if points is None else self.graph.weights[points])
        view = as_stored((packing.n, packing.k))
        yield Use(node, tensor, view, zero, "" if zero is not None else reason, packing=packing)

    def _use(self, node: Node, place: Place, order: str) -> Use | None:
        """The stored tensor behind an input, through operators that only change its form; None where there is none."""
        tensor, makers = self._behind(node.input(place.slot), _passes)
        if tensor.name not in self.graph.weights or not concrete(tensor):
            return None
        zero, reason = self._zero(node, place, makers)
        view, assumed = self._seen(node, place, cast("Shape", tensor.shape), order, _axes(makers))
        return Use(node, tensor, view, zero, reason, assumed)

    def _behind(self, tensor: Tensor, passes: Callable[[Operator], bool]) -> tuple[Tensor, list[Node]]:
        """The stored tensor behind operators that pass it on, else the first input; and they, the last first."""
        makers: list[Node] = []
        while tensor.name not in self.graph.weights and len(makers) < DEEPEST:
            maker = self.makers.get(tensor.name)
            if maker is None or not maker.has_input(0) or not passes(row(maker.op)):
                break
            makers.append(maker)
            tensor = maker.input(0)
        return tensor, makers

    def _zero(self, node: Node, place: Place, makers: Sequence[Node]) -> tuple[ZeroPoint | None, str]:
        """The zero point of a stored tensor by the operators that it passes, the last first; None and the reason."""
        zero, reason = (PLAIN, "") if place.zero_point is None else self._zero_point(node, place.zero_point, place.axis)
        for maker in makers:
            operator = row(maker.op)
            if "dequantizes" in operator.effects:
                axis = int(maker.attrs.get("axis", 1))
                zero, reason = self._zero_point(maker, 2, axis, int(maker.attrs.get("block_size", 0)))
            elif "quantizes" in operator.effects:  # the stored elements are not quantised yet
                zero, reason = PLAIN, ""
            elif operator.carries == "moved" and zero is not None and zero.one is None:
                zero, reason = None, "unknown: its zero points run along an axis that is moved"
        return zero, reason

    def _seen(self, node: Node, place: Place, shape: Shape, order: str, perm: Shape | None) -> tuple[View, str]:
        """The view of a stored tensor, and what is assumed about it."""
        if not place.oriented or perm is None or (perm and not _swaps(perm, len(shape))):
            return as_stored(shape, order), ASSUMED if len(shape) > 1 else ""
        if not perm:
            return place.view(node, shape, order), ""
        view = place.view(node, (*shape[:-2], shape[-1], shape[-2]), order)
        if view.inner != 1:
            return as_stored(shape, order), ASSUMED
        return (stacked(shape) if view.flipped else transposed(shape)), ""

    def _zero_point(self, node: Node, index: int, axis: int, block: int = 0) -> tuple[ZeroPoint | None, str]:
        """The zero point that an input gives; None and the reason where it is not stored."""
        if not node.has_input(index):
            return PLAIN, ""
        tensor, _ = self._behind(node.input(index), lambda operator: operator.carries == "same")
        if tensor.name in self.graph.weights:
            return ZeroPoint(self.graph.weights[tensor.name].array().astype("int64"), axis, block), ""
        return None, f"unknown: its zero point {tensor.name!r} is not stored"


#: What is said where the operator does not tell outputs from the reduction.
ASSUMED = "rows are assumed to be the first axis"


def _passes(operator: Operator) -> bool:
    """True where the stored tensor behind an operator is still a weight."""
    return operator.carries in ("same", "moved") or not operator.effects.isdisjoint(("dequantizes", "quantizes"))


def _axes(makers: Sequence[Node]) -> Shape | None:
    """The order in which operators, the last first, leave the axes; () as they are, None where they reshape."""
    perm: Shape = ()
    for maker in makers:
        if maker.op == "Transpose":
            rank = len(maker.output().dims) if maker.output().shape is not None else 0
            turned = tuple(int(p) for p in maker.attrs.get("perm", range(rank)[::-1]))
            if perm and len(perm) != len(turned):
                return None
            perm = tuple(turned[p] for p in perm) if perm else turned
        elif row(maker.op).carries == "moved":
            return None
    return () if perm == tuple(range(len(perm))) else perm


def concrete(tensor: Tensor) -> bool:
    """True where the shape of a tensor is known, and in numbers."""
    return tensor.shape is not None and all(isinstance(d, int) for d in tensor.shape)


def _swaps(perm: Shape, rank: int) -> bool:
    """True where a permutation swaps the last two axes and nothing else."""
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)
