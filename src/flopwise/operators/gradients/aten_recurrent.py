"""Gradients of ATen's recurrent operators: stacks of layers, and single cells.

A layer costs what the operator of ONNX costs; the product that leads to the step before is left out at the first step
when the initial state asks for no gradient. Between layers the gradient of the results is always made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.gradient import Wanted
from flopwise.operators.gradients.recurrent import DERIVATIVES


class Kind(NamedTuple):
    """A kind of recurrent layer."""

    gates: int
    #: Pointwise work of one unit and step on the way back.
    unit: Counts
    states: int
    #: Numbers kept for one unit and step.
    kept: int


_S, _T, _R = DERIVATIVES["sigmoid"], DERIVATIVES["tanh"], DERIVATIVES["relu"]

KINDS: Mapping[str, Kind] = {
    "lstm": Kind(4, Counts(add=2, mul=6) + _S * 3 + _T * 2, 2, 6),
    "gru": Kind(3, Counts(add=4, mul=5) + _S * 2 + _T, 1, 4),
    "rnn_tanh": Kind(1, Counts(add=1) + _T, 1, 0),
    "rnn_relu": Kind(1, Counts(add=1) + _R, 1, 0),
}


def _kind(node: Node) -> Kind:
    return KINDS[node.op.removeprefix("aten::").removesuffix("_cell")]


class _Layer(NamedTuple):
    """One layer and direction: the places of its weights among the node's inputs."""

    number: int
    direction: int
    first: int
    biases: int
    projected: bool


def _layers(node: Node, kind: Kind) -> Iterator[_Layer]:
    """The layers in the order in which their weights stand.

    Raises:
        ShapeError: the number of weights does not fit.
    """
    layers, directions = node.attrs["layers"], node.attrs["directions"]
    biases = 2 if node.attrs["biases"] else 0
    each, rest = divmod(len(node.inputs) - 1 - kind.states, layers * directions)
    if rest or each - 2 - biases not in (0, 1):
        raise ShapeError(f"{node.op} {node.name!r}: {len(node.inputs)} inputs do not make {layers} layers")
    for index in range(layers * directions):
        yield _Layer(index // directions, index % directions, 1 + index * each, biases, each > 2 + biases)


def stack(node: Node, wanted: Wanted) -> Counts:
    """for each layer and direction the counts of ONNX's LSTM, GRU (linear_before_reset = 1) or RNN; a projection
    (T × B × H × P): 1 mac each for its weight and for its input; two directions: numel add for the gradient of a
    layer's input; dropout between layers: numel mul.
    """
    kind, source = _kind(node), node.input(0)
    layers = node.attrs["layers"]
    state = next((t for t in node.outputs[1:2] if t is not None), None)
    width = extent(node, source, -1)
    positions = source.numel // width if width else 0
    samples = extent(node, state, -2) if state is not None and len(state.dims) > 2 else 1
    asks = bool(wanted & set(range(len(node.inputs) - kind.states, len(node.inputs))))
    counts = Counts()
    for layer in _layers(node, kind):
        inputs, recurrence = node.input(layer.first), node.input(layer.first + 1)
        rows = extent(node, inputs, 0)
        hidden, own = rows // kind.gates, extent(node, inputs, 1)
        into = layer.number > 0 or 0 in wanted
        back = positions if asks else positions - samples
        products = positions * (own * (int(into) + int(layer.first in wanted)))
        through = extent(node, recurrence, 1)
        counts += Counts(mac=rows * (products + through * (back + positions * int(layer.first + 1 in wanted))))
        counts += Counts(add=rows * positions * sum(layer.first + 2 + b in wanted for b in range(layer.biases)))
        counts += kind.unit * (positions * hidden)
        if layer.projected:
            counts += Counts(mac=positions * hidden * through * (1 + int(layer.first + 2 + layer.biases in wanted)))
        if into and layer.direction == 1:
            counts += Counts(add=positions * own)
    if node.attrs.get("dropout") and layers > 1:
        counts += Counts(mul=(layers - 1) * positions * extent(node, node.output(), -1))
    return counts


def stack_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """X and Y are kept, and for each layer the gates of each unit and step, and the results between layers."""
    kind, source = _kind(node), node.input(0)
    yield source
    yield node.output()
    bits = BITS.get(source.dtype or "float32", 32)
    positions = source.numel // max(extent(node, source, -1), 1)
    units = sum(extent(node, node.input(layer.first), 0) // kind.gates for layer in _layers(node, kind))
    between = (node.attrs["layers"] - 1) * extent(node, node.output(), -1)
    yield positions * (units * kind.kept + between) * bits // 8


def cell(node: Node, wanted: Wanted) -> Counts:
    """one step of a layer: rows × I mac for dX and for dW, rows × H mac for dh and for dR, rows add for each bias, rows
    = B × gates × H, and the pointwise work of the units.
    """
    kind, source = _kind(node), node.input(0)
    inputs, recurrence = node.input(1), node.input(2)
    samples = source.numel // max(extent(node, source, -1), 1)
    rows = samples * extent(node, inputs, 0)
    mac = extent(node, inputs, 1) * len(wanted & {0, 1}) + extent(node, recurrence, 1) * len(wanted & {2, 5})
    return Counts(mac=rows * mac, add=rows * len(wanted & {3, 4})) + kind.unit * (rows // kind.gates)


def cell_keeps(node: Node, wanted: Wanted) -> Sequence[Tensor | int]:
    """X, the states and the gates of each unit are kept."""
    kind, source = _kind(node), node.input(0)
    bits = BITS.get(source.dtype or "float32", 32)
    units = source.numel // max(extent(node, source, -1), 1) * extent(node, node.input(2), 1)
    return [source, *(t for t in node.inputs[5:] if t is not None), units * kind.kept * bits // 8]
