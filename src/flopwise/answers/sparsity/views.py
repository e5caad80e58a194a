"""A stored weight seen as matrices: rows are outputs, columns are what an output sums over (the reduction).

The elements of a tensor come in the order of storage, a unit (one index of the first axis) after the other. A view
says how units become lines of a matrix without the matrix ever being whole in memory, and a zero point which elements
are zero: 0, or the zero point of a quantised tensor. Elements that are packed, several to a byte, are unpacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy

from flopwise.graph import Graph, Node, StoredTensor, Tensor
from flopwise.graph.stored import Array
from flopwise.operators.inputs import Weight
from flopwise.operators.operator import Operator
from flopwise.operators.tables import row

if TYPE_CHECKING:
    from flopwise.graph.stored import Stored


@dataclass(frozen=True, slots=True)
class View:
    """The matrices of a stored tensor, in the order of its elements."""

    #: How many matrices there are (experts, directions), one after the other.
    matrices: int
    #: Units of a matrix, and elements of a unit.
    units: int
    unit: int
    #: Of a unit: the extent of the tensor's second axis, and the elements behind each of its indices.
    second: int
    #: Whether units run along the reduction; else along the outputs.
    flipped: bool = False
    #: How the elements of a unit lie: "line", one line of the matrix as it is; "turned", one line with the kernel
    #: positions before the channels; "split", as many lines as there are kernel positions.
    layout: str = "line"
    #: Equal parts of the units of a matrix that have inputs of their own (groups of a convolution).
    sections: int = 1

    @property
    def inner(self) -> int:
        """Elements behind an index of the second axis."""
        return self.unit // self.second if self.second else 0

    @property
    def lines_of_unit(self) -> int:
        """Lines of the matrix that a unit makes."""
        return self.inner if self.layout == "split" else 1

    @property
    def width(self) -> int:
        """Elements of a line."""
        return self.second if self.layout == "split" else self.unit

    @property
    def lines(self) -> int:
        """Lines of a matrix."""
        return self.units * self.lines_of_unit

    @property
    def rows(self) -> int:
        """Outputs of a matrix."""
        return self.width if self.flipped else self.lines

    @property
    def columns(self) -> int:
        """Extent of the reduction of a matrix."""
        return self.lines if self.flipped else self.width

    def arrange(self, band: Array) -> Array:
        """Elements of some units, one after the other -> their lines: (lines, width)."""
        if self.layout == "line":
            return band.reshape(-1, self.unit)
        turned = band.reshape(-1, self.second, self.inner).transpose(0, 2, 1)
        lines: Array = turned.reshape(-1, self.width)
        return lines


def as_stored(shape: tuple[int, ...], order: str = "stored", groups: int = 1) -> View:
    """The first axis is the output, all others are the reduction: Conv (M, C/g·kh·kw), a linear layer (out, in).

    A vector is one row.
    """
    if len(shape) < 2:
        return View(1, math.prod(shape), 1, 1, flipped=True)
    unit = math.prod(shape[1:])
    turned = order == "channels-last" and unit != shape[1]
    return View(1, shape[0], unit, shape[1], layout="turned" if turned else "line", sections=groups)


def stacked(shape: tuple[int, ...]) -> View:
    """The last two axes are output and reduction, those before them count matrices: experts, directions (D, 4H, I)."""
    return View(math.prod(shape[:-2]), shape[-2], shape[-1], shape[-1])


def transposed(shape: tuple[int, ...]) -> View:
    """The last two axes are reduction and output, those before them count matrices: MatMul (K, N)."""
    return View(math.prod(shape[:-2]), shape[-2], shape[-1], shape[-1], flipped=True)


def conv_transpose(shape: tuple[int, ...], groups: int = 1) -> View:
    """ConvTranspose (C, M/g, kh, kw): for each group a matrix (M/g, C/g·kh·kw), in the order of storage."""
    unit = math.prod(shape[1:])
    layout = "split" if unit != shape[1] else "line"
    return View(groups, shape[0] // groups, unit, shape[1], flipped=True, layout=layout)


@dataclass(frozen=True, slots=True)
class ZeroPoint:
    """Stored values that stand for zero: one for the tensor, or one for each index or block of an axis."""

    values: Any
    axis: int = 0
    #: Neighbours along the axis that share a value; 0: as many as the shapes say.
    block: int = 0

    @property
    def one(self) -> int | None:
        """The value if it is the same everywhere."""
        flat = numpy.asarray(self.values).reshape(-1)
        return int(flat[0]) if flat.size and bool((flat == flat[0]).all()) else None

    def fits(self, shape: tuple[int, ...]) -> bool:
        """True where there is a value for each element of a tensor."""
        values = numpy.asarray(self.values)
        if values.size == 1 or (values.size and self.one is not None):
            return True
        if values.ndim == 0 or not -len(shape) <= self.axis < len(shape):
            return False
        axis = self.axis % len(shape)
        if values.ndim == 1:
            return bool(values.size == shape[axis])
        if values.ndim != len(shape) or not values.size:
            return False
        others = all(v == s for i, (v, s) in enumerate(zip(values.shape, shape, strict=True)) if i != axis)
        return others and self._neighbours(shape, axis) * values.shape[axis] >= shape[axis]

    def _neighbours(self, shape: tuple[int, ...], axis: int) -> int:
        return self.block or -(-shape[axis] // numpy.asarray(self.values).shape[axis])

    def values_between(self, shape: tuple[int, ...], start: int, stop: int) -> object:
        """The values for the elements from ``start`` to ``stop`` in the order of storage."""
        values = numpy.asarray(self.values)
        axis = self.axis % len(shape)
        inner = math.prod(shape[axis + 1 :])
        places = numpy.arange(start, stop) // inner
        if values.ndim == 1:
            return values[places % shape[axis]]
        along = (places % shape[axis]) // self._neighbours(shape, axis)
        outer = places // shape[axis]
        behind = numpy.arange(start, stop) % inner
        return values.reshape(-1)[(outer * values.shape[axis] + along) * inner + behind]


#: Zero is the value 0.
PLAIN = ZeroPoint(0)


def zero_flags(elements: Array, bits: bool, zero: ZeroPoint, shape: tuple[int, ...], start: int) -> Array:
    """1 (uint8) for each element that is zero; −0.0 is, NaN is not.

    Args:
        elements: some of a tensor's elements in the order of storage.
        bits: whether they are 16-bit floats of which the bits are given (uint16).
        zero: what stands for zero.
        shape: the tensor's.
        start: place of the first of the elements.
    """
    if bits:
        flags: Array = ((elements & numpy.uint16(0x7FFF)) == 0).view(numpy.uint8)
        return flags
    value = zero.one
    if value is None:
        flags = elements == zero.values_between(shape, start, start + elements.size)
    elif elements.dtype == bool:
        flags = ~elements
    else:
        flags = elements == value
    return numpy.ascontiguousarray(flags).view(numpy.uint8)


@dataclass(frozen=True, slots=True)
class Bits:
    """The packing of a weight of N × K elements: rows of whole blocks, of which the last may reach beyond K.

    The first element of a byte is in its lowest bits, and each block has a zero point:
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
    """

    n: int
    k: int
    bits: int
    block: int

    @classmethod
    def from_node(cls, node: Node, shape: tuple[int, ...]) -> Bits | None:
        """The packing of a node's weight; None where the shape is another, or elements cross bytes."""
        try:
            n, k, block = (int(node.attrs[name]) for name in ("N", "K", "block_size"))
            bits = int(node.attrs.get("bits", 4))
        except (KeyError, TypeError, ValueError):
            return None
        if min(n, k, block) < 1 or bits not in (1, 2, 4, 8) or block * bits % 8:
            return None
        layout = cls(n, k, bits, block)
        return layout if shape in ((n, layout.blocks, block * bits // 8), (n, layout.row)) else None

    @property
    def blocks(self) -> int:
        """Blocks in a row."""
        return -(-self.k // self.block)

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.blocks * self.block * self.bits // 8

    def unpacked(self, packed: Array) -> Array:
        """Bytes -> elements: (...) uint8 -> (..., elements of all bytes)."""
        if self.bits == 8:
            return packed
        shifts = numpy.arange(0, 8, self.bits, dtype=numpy.uint8)
        parts = (packed[..., None] >> shifts) & numpy.uint8((1 << self.bits) - 1)
        elements: Array = parts.reshape(*packed.shape[:-1], -1)
        return elements

    def zero_point(self, points: StoredTensor | None) -> ZeroPoint | None:
        """The zero points; the middle of the range where none are given, None where they are not integers."""
        if points is None:
            return ZeroPoint(1 << (self.bits - 1))
        values = points.array()
        if values.dtype != numpy.uint8 or values.size != self.n * -(-self.blocks * self.bits // 8):
            return None
        each = self.unpacked(values.reshape(self.n, -1))[:, : self.blocks]
        return ZeroPoint(each.astype(numpy.int64), 1, self.block)


class Unpacked:
    """The elements of a packed weight, N × K, as if each had been stored by itself."""

    def __init__(self, stored: Stored, packing: Bits) -> None:
        self.stored, self.packing = stored, packing
        self.name, self.shape, self.dtype = stored.name, (packing.n, packing.k), f"uint{packing.bits}"

    def blocks(self, elements: int = 1 << 18) -> Iterator[Array]:
        """Some rows at a time."""
        row, k = self.packing.row, self.packing.k
        pending = numpy.empty(0, numpy.uint8)
        for piece in self.stored.blocks(max(elements * self.packing.bits // 8, row)):
            pending = numpy.concatenate([pending, piece]) if pending.size else piece
            rows_ready = pending.size // row
            if rows_ready:
                rows = self.packing.unpacked(pending[: rows_ready * row].reshape(rows_ready, row))
                yield numpy.ascontiguousarray(rows[:, :k]).reshape(-1)
                pending = pending[rows_ready * row :]
        if pending.size:
            yield pending

    def raw(self) -> Array | None:
        """None: the elements do not lie in the file as they are."""
        return None


# The weights of operators: their inputs, their orientation, and their zero points.
#
# Only operators that use each element of a weight in equally many of their multiply-accumulates: then the share of
# elements that can be skipped is the share of multiply-accumulates that can.


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
