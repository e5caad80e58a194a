"""Spectra: fast Fourier transforms, window functions, and filters on the mel scale."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.fourier import fourier, half_spectrum, lines
from flopwise.operators.operator import Operator, by


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


OPERATORS: dict[str, Operator] = {
    "DFT": by(dft, "bound", shape="making:spectrum"),
    "STFT": by(stft, "bound", shape="making:short_time"),
    **dict.fromkeys(
        ("HannWindow", "HammingWindow", "BlackmanWindow"),
        by(window, shape="making:window", dtype=shape.dtype_of("output_datatype")),
    ),
    "MelWeightMatrix": by(mel_weight_matrix, "bound", shape="making:mel", dtype=shape.dtype_of("output_datatype")),
}
