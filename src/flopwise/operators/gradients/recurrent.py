"""Gradients of recurrent layers, of stacks of them, and of single cells.

They go back through every time step and direction, from the gates that the forward pass kept. Each step has one product
for each of its operands. The product that leads to the step before is left out at the first step when the initial state
asks for no gradient. Between the layers of a stack the gradient of the results is always made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.gradient import Keeps, Wrt
from flopwise.operators.onnx.linear import activation_costs

#: What the derivative of one activation costs, times the gradient of its result, by its name in lower case.
DERIVATIVES: dict[str, Counts] = {
    **dict.fromkeys(("relu", "thresholdedrelu"), Counts(cmp=1)),
    **dict.fromkeys(("tanh", "sigmoid"), Counts(mul=2, add=1)),
    "affine": Counts(mul=1),
    "leakyrelu": Counts(cmp=1, mul=1),
    "scaledtanh": Counts(mul=4, add=1),
    "hardsigmoid": Counts(cmp=2, bit=1, mul=1),
    "elu": Counts(cmp=1, exp=1, mul=2),
    "softsign": Counts(bit=1, add=1, mul=1, div=1),
    "softplus": Counts(exp=1, add=1, mul=1, div=1),
}


def lstm(node: Node, wrt: Wrt) -> Counts:
    """T × B × directions × H times: 4 I mac for dX, 4 I mac for dW, 4 H mac for dR, 4 H mac for dh (not at step 1
    unless initial_h asks for it), 2 add + 6 mul (dh, dc and the gates), 3 f' + g' + h'; dB: 8 add; peepholes: 3 (mul +
    add) for their way back into the cell, and for dP. input_forget: the forget gate is 1 add in place of a gate. Two
    directions: numel(X) add for dX.
    """
    gates = 3 if node.attrs.get("input_forget", 0) else 4
    once = Counts(add=2, mul=6)
    if gates == 3:
        once += Counts(add=1, mul=-1)
    if node.has_input(7):
        once += Counts(mul=1, add=1) * ((gates - 1) * (1 + int(7 in wrt)))
    counts = Counts()
    for f, g, h in activation_costs(node, ("Sigmoid", "Tanh", "Tanh"), DERIVATIVES):
        counts += (once + f * (gates - 1) + g + h) * _units(node)
    return counts + _products(node, wrt, gates)


def gru(node: Node, wrt: Wrt) -> Counts:
    """T × B × directions × H times: 3 I mac for dX, 3 I mac for dW, 3 H mac for dR, 3 H mac for dh (not at step 1
    unless initial_h asks for it), 4 add + 5 mul (dh, blend and reset), 2 f' + g'; dB: 6 add; linear_before_reset = 0: 1
    add more, and H mac for dh at step 1 too. Two directions: numel(X) add for dX.
    """
    once = Counts(add=4, mul=5)
    if not node.attrs.get("linear_before_reset", 0):
        once += Counts(add=1)
    counts = Counts()
    for f, g in activation_costs(node, ("Sigmoid", "Tanh"), DERIVATIVES):
        counts += (once + f * 2 + g) * _units(node)
    first = node.input(0).numel // max(extent(node, node.input(0), -1), 1) // max(_steps(node), 1)
    if 5 not in wrt and not node.attrs.get("linear_before_reset", 0):
        counts += Counts(mac=first * extent(node, node.input(2), -1) ** 2 * _directions(node))
    return counts + _products(node, wrt, 3)


def rnn(node: Node, wrt: Wrt) -> Counts:
    """T × B × directions × H times: I mac for dX, I mac for dW, H mac for dR, H mac for dh (not at step 1 unless
    initial_h asks for it), 1 add (dh), f'; dB: 2 add. Two directions: numel(X) add for dX.
    """
    counts = Counts()
    for (f,) in activation_costs(node, ("Tanh",), DERIVATIVES):
        counts += (Counts(add=1) + f) * _units(node)
    return counts + _products(node, wrt, 1)


def _units(node: Node) -> int:
    """Steps × samples × hidden units of one direction."""
    x = node.input(0)
    return extent(node, x, 0) * extent(node, x, 1) * extent(node, node.input(2), -1)


def _steps(node: Node) -> int:
    return extent(node, node.input(0), 1 if node.attrs.get("layout", 0) else 0)


def _directions(node: Node) -> int:
    return 2 if node.attrs.get("direction", "forward") == "bidirectional" else 1


def _products(node: Node, wrt: Wrt, gates: int) -> Counts:
    """The products and sums of all gates, steps and directions."""
    x, hidden = node.input(0), extent(node, node.input(2), -1)
    steps = _steps(node)
    samples = extent(node, x, 0 if node.attrs.get("layout", 0) else 1)
    directions = _directions(node)
    row = samples * hidden * gates * directions
    back = steps if 5 in wrt else max(steps - 1, 0)
    mac = row * (steps * extent(node, x, -1) * len(wrt & {0, 1}) + hidden * (back + steps * int(2 in wrt)))
    add = 2 * row * steps if 3 in wrt else 0
    if 0 in wrt and directions == 2:
        add += x.numel
    return Counts(mac=mac, add=add)


def _keeps(per_unit: int) -> Keeps:
    """X and Y are kept, and ``per_unit`` numbers for each unit and step."""

    def keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
        yield node.input(0)
        if node.outputs and node.outputs[0] is not None:
            yield node.outputs[0]
        bits = BITS.get(node.input(0).dtype or "float32", 32)
        yield per_unit * _units(node) * _directions(node) * bits // 8

    return keeps


lstm_keeps = _keeps(6)
gru_keeps = _keeps(4)
rnn_keeps = _keeps(0)


class Kind(NamedTuple):
    """A kind of recurrent layer."""

    gates: int
    #: Pointwise work of one unit and step on the way back.
    unit: Counts
    states: int
    #: Numbers kept for one unit and step.
    kept: int
    #: How many of them are not kept for the last step.
    last: int
    #: Numbers kept for one unit of a single cell.
    cell: int


_S, _T, _R = DERIVATIVES["sigmoid"], DERIVATIVES["tanh"], DERIVATIVES["relu"]

KINDS: Mapping[str, Kind] = {
    "lstm": Kind(4, Counts(add=2, mul=6) + _S * 3 + _T * 2, 2, 7, 2, 6),
    "gru": Kind(3, Counts(add=4, mul=5) + _S * 2 + _T, 1, 7, 1, 4),
    "rnn_tanh": Kind(1, Counts(add=1) + _T, 1, 1, 0, 0),
    "rnn_relu": Kind(1, Counts(add=1) + _R, 1, 1, 0, 0),
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
    each, left_over = divmod(len(node.inputs) - 1 - kind.states, layers * directions)
    if left_over or each - 2 - biases not in (0, 1):
        raise ShapeError(f"{node.op} {node.name!r}: {len(node.inputs)} inputs do not make {layers} layers")
    for index in range(layers * directions):
        yield _Layer(index // directions, index % directions, 1 + index * each, biases, each > 2 + biases)


def stack(node: Node, wrt: Wrt) -> Counts:
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
    asks = bool(wrt & set(range(len(node.inputs) - kind.states, len(node.inputs))))
    counts = Counts()
    for layer in _layers(node, kind):
        inputs, recurrence = node.input(layer.first), node.input(layer.first + 1)
        rows = extent(node, inputs, 0)
        hidden, own = rows // kind.gates, extent(node, inputs, 1)
        into = layer.number > 0 or 0 in wrt
        back = positions if asks else positions - samples
        products = positions * (own * (int(into) + int(layer.first in wrt)))
        through = extent(node, recurrence, 1)
        counts += Counts(mac=rows * (products + through * (back + positions * int(layer.first + 1 in wrt))))
        counts += Counts(add=rows * positions * sum(layer.first + 2 + b in wrt for b in range(layer.biases)))
        counts += kind.unit * (positions * hidden)
        if layer.projected:
            counts += Counts(mac=positions * hidden * through * (1 + int(layer.first + 2 + layer.biases in wrt)))
        if into and layer.direction == 1:
            counts += Counts(add=positions * own)
    if node.attrs.get("dropout") and layers > 1:
        counts += Counts(mul=(layers - 1) * positions * extent(node, node.output(), -1))
    return counts


def stack_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X (a copy where its steps do not lie in a row), the states, and for each unit and step, but the last result, the
    gates, what is made of them, and the state; between layers the result. An LSTM of float32 on CPUs keeps instead what
    oneDNN lays down, and the results of each layer.
    """
    kind, source = _kind(node), node.input(0)
    width = BITS.get(source.dtype or "float32", 32) // 8
    positions = source.numel // max(extent(node, source, -1), 1)
    states = [t for t in node.inputs[len(node.inputs) - kind.states :] if t is not None]
    samples = extent(node, states[0], -2) if states and len(states[0].dims) > 2 else 1
    yield source.numel * width if node.attrs.get("batch_first") and 1 < samples < positions else source
    yield from states
    directions, layers = node.attrs["directions"], list(_layers(node, kind))
    between = (node.attrs["layers"] - 1) * positions * extent(node, node.output(), -1) * width
    by_onednn = kind is KINDS["lstm"] and source.dtype == "float32" and not node.attrs["packed"]
    if by_onednn and not any(layer.projected for layer in layers):
        if directions == 1:
            yield node.output()
        else:
            yield between
        for layer in layers:
            units = extent(node, node.input(layer.first), 0) // kind.gates
            own = 0 if directions == 1 and layer is layers[-1] else positions * units
            yield (own + 2 * samples * units) * width
            inputs = extent(node, node.input(layer.first), 1)
            yield _workspace(positions // samples if samples else 0, samples, inputs, units)
        return
    units = sum(extent(node, node.input(layer.first), 0) // kind.gates for layer in layers)
    yield (positions * kind.kept - samples * kind.last) * units * width + between


def _workspace(steps: int, samples: int, inputs: int, units: int) -> int:
    """Bytes of what oneDNN keeps of one LSTM layer of float32 in one direction, as torch 2.13 is built for x86: gates,
    states and their gradients, each on pages of its own.
    """
    wide, gates = _row(max(inputs, units)), _row(4 * units)
    states = 2 * (steps + 1) * samples
    sizes = (steps * samples * gates, *(states * units,) * 2, *(states * wide,) * 3, steps * samples * _row(units))
    return sum(-(-4 * size // _PAGE) * _PAGE for size in sizes)


_PAGE = 4096


def _row(elements: int) -> int:
    """Elements of a row of floats in oneDNN: whole cache lines, and one more where rows would meet in the cache."""
    aligned = -(-elements // 16) * 16
    return aligned + 16 if aligned % 256 == 0 else aligned


def cell(node: Node, wrt: Wrt) -> Counts:
    """one step of a layer: rows × I mac for dX and for dW, rows × H mac for dh and for dR, rows add for each bias, rows
    = B × gates × H, and the pointwise work of the units.
    """
    kind, source = _kind(node), node.input(0)
    inputs, recurrence = node.input(1), node.input(2)
    samples = source.numel // max(extent(node, source, -1), 1)
    rows = samples * extent(node, inputs, 0)
    mac = extent(node, inputs, 1) * len(wrt & {0, 1}) + extent(node, recurrence, 1) * len(wrt & {2, 5})
    return Counts(mac=rows * mac, add=rows * len(wrt & {3, 4})) + kind.unit * (rows // kind.gates)


def cell_keeps(node: Node, wrt: Wrt) -> Sequence[Tensor | int]:
    """X, the states and the gates of each unit are kept."""
    kind, source = _kind(node), node.input(0)
    bits = BITS.get(source.dtype or "float32", 32)
    units = source.numel // max(extent(node, source, -1), 1) * extent(node, node.input(2), 1)
    return [source, *(t for t in node.inputs[5:] if t is not None), units * kind.cell * bits // 8]
