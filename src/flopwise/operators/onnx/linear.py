"""Products and convolutions, recurrent layers, and transforms of signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flopwise.errors import ModelError, ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import gradient, shape
from flopwise.operators.complex import Complex
from flopwise.operators.counts import SIGMOID, SILU, Counts
from flopwise.operators.einsum import einsum
from flopwise.operators.extents import extent, product
from flopwise.operators.fourier import fourier, half_spectrum, lines
from flopwise.operators.inputs import DATA, FACTOR, STATE, WEIGHT, factor, inputs
from flopwise.operators.operator import Operator, Rule, by, each_input

# Operators that contract: convolutions, matrix products, determinants. Each term of a dot product is one mac.


def conv(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; padding is not subtracted.

    W is (M, C/group, *kernel), so groups and dilations are already in its shape.

    https://onnx.ai/onnx/operators/onnx__Conv.html
    """
    outputs = node.output().numel
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def conv_transpose(node: Node) -> Counts:
    """numel(X) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; cropped positions are not subtracted.

    W is (C, M/group, *kernel): each input element is multiplied into that many outputs, whatever the stride.

    https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """
    work = node.input(0).numel * product(node.input(1).dims[1:])
    return Counts(mac=work, add=node.output().numel if node.has_input(2) else 0)


def deform_conv(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; S × C × 2ʳ × (1 mul + 1 add) to sample X, S ×
    C mul when a mask is given, S = numel(offset) / (r × offset_group) sampling positions, r spatial axes. Each offset
    takes 1 add and 1 cmp (the place and its cell) and 2 add (weights), each position with its own offsets 2ʳ × (r − 1)
    mul.

    A sampled element is the linear average of its 2ʳ neighbours, made once for all output channels; a neighbour beyond
    the edge is processed like any other.

    https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    x, offset = node.input(0), node.input(2)
    axes = len(x.dims) - 2
    if axes < 1:
        raise ShapeError(f"{node.op} {node.name!r}: {x.name!r} of shape {x.dims} has no spatial axes")
    groups = node.attrs.get("offset_group", 1)
    kernel = product(node.input(1).dims[2:])
    own = extent(node, offset, 0) * groups * kernel * product(offset.dims[2:])
    sampled = extent(node, x, 0) * extent(node, x, 1) * kernel * product(offset.dims[2:])
    averages = sampled * 2**axes
    counts = Counts(add=averages, mul=averages + own * 2**axes * (axes - 1) + (sampled if node.has_input(4) else 0))
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(3) else 0)
    return counts + Counts(add=3, cmp=1) * offset.numel + work


def causal_conv_with_state(node: Node) -> Counts:
    """numel(Y) × k mac, k = W.shape[-1], and numel(Y) add when bias is given; activation silu or swish: numel(Y) × (1
    bit + 1 exp + 1 add + 1 div + 1 mul).

    https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
    """
    outputs = node.output().numel
    counts = Counts(mac=outputs * extent(node, node.input(1), -1), add=outputs if node.has_input(2) else 0)
    if node.attrs.get("activation", "none") != "none":
        counts += SILU * outputs
    return counts


def gemm(node: Node) -> Counts:
    """M × N × K mac; alpha ≠ 1: M × N mul; when C is given: M × N add, and beta ≠ 1: numel(C) mul.

    https://onnx.ai/onnx/operators/onnx__Gemm.html
    """
    outputs = node.output().numel
    inner = extent(node, node.input(0), -2 if node.attrs.get("transA", 0) else -1)
    counts = Counts(mac=outputs * inner)
    if node.attrs.get("alpha", 1.0) != 1.0:
        counts += Counts(mul=outputs)
    if node.has_input(2):
        counts += Counts(add=outputs)
        if node.attrs.get("beta", 1.0) != 1.0:
            counts += Counts(mul=node.input(2).numel)
    return counts


def matmul(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; Y carries the broadcast batch.

    https://onnx.ai/onnx/operators/onnx__MatMul.html
    """
    return Counts(mac=node.output().numel * extent(node, node.input(0), -1))


def det(node: Node) -> Counts:
    """at most, for each M × M matrix, (M − 1) M (2M − 1) / 6 mac + M (M − 1) / 2 div (elimination), M (M + 1) / 2 × (1
    bit + 1 cmp) (the largest pivot of each column), M mul + M bit (the product of the pivots, a sign for each swap).

    Gaussian elimination with partial pivoting; which rows are swapped depends on the data.

    https://onnx.ai/onnx/operators/onnx__Det.html
    """
    x = node.input(0)
    size = extent(node, x, -1)
    pivots = size * (size + 1) // 2
    once = Counts(
        mac=(size - 1) * size * (2 * size - 1) // 6, div=size * (size - 1) // 2, bit=pivots + size, cmp=pivots, mul=size
    )
    return once * product(x.dims[:-2])


def _by_parts(rule: Rule) -> Complex:
    """A convolution of complex numbers as PyTorch computes it: three of real ones, of the real parts, of the imaginary
    parts and of their sums, from which both parts of the result are made (``aten/src/ATen/native/Convolution.cpp``).
    """

    def of_parts(node: Node) -> Counts:
        outputs, plain = node.output().numel, rule(node)
        biases = plain.add * 2 + (node.input(2).numel if plain.add else 0)
        return Counts(mac=3 * plain.mac, add=node.input(0).numel + node.input(1).numel + 3 * outputs + biases)

    def gradients(node: Node, wrt: frozenset[int]) -> Counts:
        outputs, factors = node.output().numel, wrt & {0, 1}
        joined = 2 * sum(node.input(place).numel for place in factors)
        biases = 2 * outputs + node.input(2).numel if 2 in wrt else 0
        return Counts(mac=3 * rule(node).mac * len(factors), add=2 * outputs + joined + biases)

    return Complex(of_parts, gradients)


OPERATORS: dict[str, Operator] = {
    "Conv": by(
        conv,
        complex=_by_parts(conv),
        inputs=inputs(FACTOR, factor("conv", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv", gradient.first_two),
        shape="windows:conv",
    ),
    "ConvTranspose": by(
        conv_transpose,
        complex=_by_parts(conv_transpose),
        inputs=inputs(FACTOR, factor("conv transpose", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv_transpose", gradient.first_two),
        shape="windows:conv_transpose",
    ),
    "DeformConv": by(
        deform_conv,
        inputs=inputs(FACTOR, factor("conv")),
        gradient=gradient.by("linear:deform_conv", gradient.inputs_at(0, 1, 2, 4)),
        shape="windows:conv",
    ),
    "CausalConvWithState": by(
        causal_conv_with_state,
        inputs=inputs(FACTOR, FACTOR),
        gradient=gradient.by("linear:causal_conv", gradient.factors),
        shape="algebra:causal_conv",
    ),
    "Col2Im": each_input(
        Counts(add=1),
        note="each element of a block is added to the image; positions in the padding are not subtracted",
        gradient=gradient.nothing("each element of a block takes its element of G"),
        shape="windows:col2im",
    ),
    "Gemm": by(
        gemm,
        inputs=inputs(factor("left", "transA"), factor("right", "transB", role="weight"), WEIGHT),
        gradient=gradient.by("linear:gemm", gradient.factors),
        shape="algebra:gemm",
    ),
    "MatMul": by(
        matmul,
        inputs=inputs(factor("left", role="weight"), factor("right", role="weight")),
        gradient=gradient.by("linear:matmul", gradient.factors),
        shape="algebra:matmul",
    ),
    "Einsum": by(
        einsum,
        inputs=inputs(repeated=(factor("equation"),)),
        gradient=gradient.by("linear:einsum", "linear:einsum_keeps"),
        shape="algebra:einsum",
    ),
    "Det": by(det, "bound", shape="algebra:determinant"),
}


# Recurrent layers: every time step, every direction, the gates' products and their pointwise work.
#
# The two products of a gate are joined by one add, and the two bias vectors are added one after the other, as the
# operators' equations write them; in formats that store their sum (OpenVINO), that is added. All T steps count:
# sequence_lens is data.

#: What one application of an activation costs, by its name in lower case (the specification's list).
ACTIVATIONS: dict[str, Counts] = {
    **dict.fromkeys(("relu", "thresholdedrelu"), Counts(cmp=1)),
    "tanh": Counts(tanh=1),
    "sigmoid": SIGMOID,
    "affine": Counts(mul=1, add=1),
    "leakyrelu": Counts(cmp=1, mul=1),
    "scaledtanh": Counts(mul=2, tanh=1),
    "hardsigmoid": Counts(mul=1, add=1, cmp=2),
    "elu": Counts(cmp=1, exp=1, add=1, mul=1),
    "softsign": Counts(bit=1, add=1, div=1),
    "softplus": Counts(exp=1, add=1, log=1),
}


def lstm(node: Node) -> Counts:
    """T × B × directions × H times: 4 (I + H) mac, 4 add (join), 8 add when B is given, 3 (mul + add) when P is
    given, 3 f + g + h, cell and output 3 mul + 1 add; clip: 2 cmp before each activation. input_forget: the forget
    gate is 1 add in place of a gate.

    f, g, h are the activations (Sigmoid, Tanh, Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__LSTM.html
    """
    coupled = bool(node.attrs.get("input_forget", 0))
    gates = 3 if coupled else 4
    once = Counts(add=gates, mul=3) + Counts(add=2 if coupled else 1)
    if node.has_input(3):
        once += Counts(add=_biases(node, gates))
    if node.has_input(7):
        once += Counts(mul=1, add=1) * (gates - 1)
    counts = Counts()
    for f, g, h in activation_costs(node, ("Sigmoid", "Tanh", "Tanh"), ACTIVATIONS):
        counts += _every_step(node, gates, once + f * (gates - 1) + g + h + _clip(node) * (gates + 1))
    return counts


def gru(node: Node) -> Counts:
    """T × B × directions × H times: 3 (I + H) mac, 3 add (join), 6 add when B is given, 2 f + g, reset and blend 3
    mul + 2 add; clip: 2 cmp before each activation. linear_before_reset moves the reset's mul and changes no number.

    f, g are the activations (Sigmoid, Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__GRU.html
    """
    once = Counts(add=3 + 2, mul=3)
    if node.has_input(3):
        once += Counts(add=_biases(node, 3))
    counts = Counts()
    for f, g in activation_costs(node, ("Sigmoid", "Tanh"), ACTIVATIONS):
        counts += _every_step(node, 3, once + f * 2 + g + _clip(node) * 3)
    return counts


def rnn(node: Node) -> Counts:
    """T × B × directions × H times: (I + H) mac, 1 add (join), 2 add when B is given, f; clip: 2 cmp before f.

    f is the activation (Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__RNN.html
    """
    once = Counts(add=1 + _biases(node, 1) if node.has_input(3) else 1)
    counts = Counts()
    for (f,) in activation_costs(node, ("Tanh",), ACTIVATIONS):
        counts += _every_step(node, 1, once + f + _clip(node))
    return counts


def _biases(node: Node, gates: int) -> int:
    """Biases added for each hidden unit: two for each gate, or as many as B holds of them where they are summed."""
    b, r = node.input(3), node.input(2)
    width, hidden = b.shape[-1] if b.shape else None, r.shape[-1] if r.shape else None
    if type(width) is int and type(hidden) is int and hidden and width in (gates * hidden, (gates + 1) * hidden):
        return width // hidden
    return 2 * gates


def _every_step(node: Node, gates: int, once: Counts) -> Counts:
    """One direction: the gates' products and ``once`` for each step, sample and hidden unit.

    X is (T, B, I) or, with layout=1, (B, T, I): the product of its first two extents is the same.
    """
    x, recurrence = node.input(0), node.input(2)
    hidden = extent(node, recurrence, -1)
    units = extent(node, x, 0) * extent(node, x, 1) * hidden
    return (once + Counts(mac=gates * (extent(node, x, -1) + hidden))) * units


def _clip(node: Node) -> Counts:
    """Counts of bounding the input of one activation."""
    return Counts(cmp=2) if "clip" in node.attrs else Counts()


def activation_costs(node: Node, default: Sequence[str], costs: Mapping[str, Counts]) -> list[list[Counts]]:
    """Counts for one element of each activation (f, g, h in order), a list for each direction of a recurrent operator.

    Args:
        node: the operator, whose ``activations`` name them; with none, each direction has ``default``.
        default: the operator's activations by default.
        costs: lower-case name -> counts of the activation, or of its derivative.

    Raises:
        ModelError: an activation is not in ``costs``, or a direction names too many or too few.
    """
    names: Sequence[str] = node.attrs.get("activations") or default
    per = len(default)
    directions = []
    for direction in range(2 if node.attrs.get("direction", "forward") == "bidirectional" else 1):
        own = names[direction * per : (direction + 1) * per] or names[:per]
        try:
            directions.append([costs[name.lower()] for name in own])
        except KeyError:
            raise ModelError(f"{node.op} {node.name!r}: unknown activation in {', '.join(own)}") from None
        if len(own) != per:
            raise ModelError(f"{node.op} {node.name!r}: {per} activations per direction expected, got {', '.join(own)}")
    return directions


RECURRENT: dict[str, Operator] = {
    "LSTM": by(
        lstm,
        inputs=inputs(
            FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE, STATE
        ),
        gradient=gradient.by("recurrent:lstm", "recurrent:lstm_keeps"),
        shape="algebra:recurrent",
    ),
    "GRU": by(
        gru,
        inputs=inputs(FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE),
        gradient=gradient.by("recurrent:gru", "recurrent:gru_keeps"),
        shape="algebra:recurrent",
    ),
    "RNN": by(
        rnn,
        inputs=inputs(FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE),
        gradient=gradient.by("recurrent:rnn", "recurrent:rnn_keeps"),
        shape="algebra:recurrent",
    ),
}


# Spectra: fast Fourier transforms, window functions, and filters on the mel scale.


def dft(node: Node) -> Counts:
    """at most 5 N log₂ N operations (2 N log₂ N mul + 3 N log₂ N add) for each complex line of N = dft_length numbers,
    N a power of two, and half of that where one side is real; other factors p of N take (p − 1)² mul + (p − 1)(p + 3)
    add and p − 1 complex products for each N / p, large ones a convolution. numel(Y) div when inverse. N is X's extent
    along the axis unless dft_length is given; then Y's, or when onesided the larger cost of 2 × (Y's − 1) and one more.

    X without an axis of components is real, as onnxruntime has it. The factors exp(−2πjkn/N) follow from the shapes
    alone: constants. Where the axis is an input and no extent shows it, the longest axis is taken.

    https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    x, y = node.input(0), node.output()
    axis = _axis(node)
    inverse, onesided = bool(node.attrs.get("inverse", 0)), bool(node.attrs.get("onesided", 0))
    real = _components(x, len(y.dims)) == 1 or (onesided and inverse)
    if onesided and not inverse and node.has_input(1):
        once = half_spectrum(node, extent(node, y, axis))
    else:
        once = fourier(node, extent(node, x if onesided and not inverse else y, axis), real)
    components = extent(node, y, -1)
    number = lines(node, y, axis) // components if components else 0
    return once * number + Counts(div=y.numel if inverse else 0)


def _components(x: Tensor, rank: int) -> int:
    """1 for real numbers, 2 for complex ones; real numbers may come without an axis of components."""
    return 2 if x.dims and len(x.dims) >= rank and x.dims[-1] == 2 else 1


def _axis(node: Node) -> int:
    """The axis of the transform: an attribute before opset 20, since then an input whose value is not at hand.

    Raises:
        ShapeError: the shapes do not tell.
    """
    if "axis" in node.attrs or 0 < node.version < 20:
        return int(node.attrs.get("axis", 1))
    if not node.has_input(2):
        return -2
    before, after = node.input(0).dims, node.output().dims
    if len(after) - len(before) not in (0, 1) or len(after) < 2:
        raise ShapeError(f"DFT {node.name!r}: {before} and {after} do not fit each other")
    signals = range(len(after) - 1)
    changed = [axis for axis in signals if before[axis] != after[axis]]
    if len(changed) == 1:
        return changed[0]
    if len(signals) > 1 and not all(isinstance(after[axis], int) for axis in signals):
        raise ShapeError(f"DFT {node.name!r} needs numbers for {after}, because its axis is an input: --dim NAME=VALUE")
    return max(signals, key=lambda axis: after[axis] if len(signals) > 1 else 0)


def stft(node: Node) -> Counts:
    """at most the transform of N numbers for each frame, as for DFT: 5 N log₂ N operations for a power of two, half of
    that for a real signal; window: frames × N × components mul. N is the window's length, without one the signal's, or
    where frame_length is given that of Y's bins, when onesided the more expensive of 2 × (bins − 1) and one more.

    signal is (batch, length, 1 or 2), or (batch, length) of real numbers; Y is (batch, frames, bins, 2).

    https://onnx.ai/onnx/operators/onnx__STFT.html
    """
    signal, y = node.input(0), node.output()
    components = _components(signal, 3)
    frames, bins = product(y.dims[:-2]), extent(node, y, -2)
    if node.has_input(2):
        length = node.input(2).numel
        return (fourier(node, length, components == 1) + Counts(mul=length * components)) * frames
    if not node.has_input(3):
        return fourier(node, extent(node, signal, 1), components == 1) * frames
    if node.attrs.get("onesided", 1):
        return half_spectrum(node, bins) * frames
    return fourier(node, bins, components == 1) * frames


def window(node: Node) -> Counts:
    """size × (4 mul + 2 add + 2 trig) + 2 mul + 2 add + 1 div: a₀ − a₁ cos φ + a₂ cos 2φ at size angles φ.

    All three windows share this body; a₂ is zero for two of them. A window whose size is a constant is folded.

    https://onnx.ai/onnx/operators/onnx__HannWindow.html
    """
    return Counts(mul=4, add=2, trig=2) * node.output().numel + Counts(mul=2, add=2, div=1)


def mel_weight_matrix(node: Node) -> Counts:
    """at most (2 bins + bands) × (1 add + 1 div) for the slopes of the triangles, and bands × (2 add + 2 cmp); the
    bands + 2 edges take (3 mul + 2 add + 2 div + 1 pow + 1 cmp) each, and the scale 2 log + 2 mul + 4 add + 3 div.

    Y is (bins, bands). A triangle reaches from one edge to the next but one, so together they cover the bins twice at
    most; how far they reach the frequencies decide.
    A matrix whose five inputs are constants is folded.

    https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
    """
    y = node.output()
    bins, bands = extent(node, y, 0), extent(node, y, 1)
    slopes = Counts(add=1, div=1) * (2 * bins + bands) + Counts(add=2, cmp=2) * bands
    edges = Counts(mul=3, add=2, div=2, pow=1, cmp=1) * (bands + 2)
    return slopes + edges + Counts(log=2, mul=2, add=4, div=3)


SPECTRAL: dict[str, Operator] = {
    "DFT": by(dft, "bound", shape="making:spectrum"),
    "STFT": by(stft, "bound", shape="making:short_time"),
    **dict.fromkeys(
        ("HannWindow", "HammingWindow", "BlackmanWindow"),
        by(window, shape="making:window", dtype=shape.dtype_of("output_datatype")),
    ),
    "MelWeightMatrix": by(mel_weight_matrix, "bound", shape="making:mel", dtype=shape.dtype_of("output_datatype")),
}
