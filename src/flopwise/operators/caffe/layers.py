"""Operators of Caffe that ONNX does not have, under the name ``caffe::Type``.

Rules for losses are in caffe_loss, those for detection in caffe_detection. Caffe's documentation of each layer is at
https://caffe.berkeleyvision.org/tutorial/layers.html; the definitions are those of BVLC Caffe, src/caffe/layers.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.caffe import detection, losses
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.operator import Operator, by, each, nothing


def power(node: Node) -> Counts:
    """numel(Y) × (1 mul for scale ≠ 1, 1 add for shift ≠ 0, 1 pow for power ≠ 1): (shift + scale × X) ^ power. scale
    = 0 or power = 0: nothing, Y is a constant.

    https://caffe.berkeleyvision.org/tutorial/layers/power.html
    """
    scale, shift, exponent = (node.attrs.get(name, usual) for name, usual in (("scale", 1), ("shift", 0), ("power", 1)))
    if scale == 0 or exponent == 0:
        return Counts()
    return Counts(mul=int(scale != 1), add=int(shift != 0), pow=int(exponent != 1)) * node.output().numel


def exp(node: Node) -> Counts:
    """numel(Y) × (1 mul for scale ≠ 1, 1 add for shift ≠ 0, 1 exp, or 1 pow for a base other than e): base ^ (shift +
    scale × X).

    https://caffe.berkeleyvision.org/tutorial/layers/exp.html
    """
    natural = node.attrs.get("base", -1) == -1
    return (_line(node) + Counts(exp=int(natural), pow=int(not natural))) * node.output().numel


def log(node: Node) -> Counts:
    """numel(Y) × (1 mul for scale ≠ 1, 1 add for shift ≠ 0, 1 log, and 1 div for a base other than e): log(shift +
    scale × X) / log(base).

    https://caffe.berkeleyvision.org/tutorial/layers/log.html
    """
    return (_line(node) + Counts(log=1, div=int(node.attrs.get("base", -1) != -1))) * node.output().numel


def _line(node: Node) -> Counts:
    """shift + scale × x."""
    return Counts(mul=int(node.attrs.get("scale", 1) != 1), add=int(node.attrs.get("shift", 0) != 0))


def scale(node: Node) -> Counts:
    """numel(Y) × 1 mul, and 1 add with bias_term.

    https://caffe.berkeleyvision.org/tutorial/layers/scale.html
    """
    return Counts(mul=1, add=node.attrs.get("bias_term", 0)) * node.output().numel


def eltwise(node: Node) -> Counts:
    """numel(Y) × (k − 1) mul for the product of k inputs, (k − 1) cmp for their maximum; for their sum (k − 1) add,
    and 1 mul for each coefficient other than 1 and −1; 1 bit when the first one is −1.

    A coefficient of −1 turns an addition into a subtraction; only the first has nothing to be subtracted from.

    https://caffe.berkeleyvision.org/tutorial/layers/eltwise.html
    """
    steps = len(node.known_inputs) - 1
    operation = node.attrs.get("operation", "SUM")
    if operation == "PROD":
        once = Counts(mul=steps)
    elif operation == "MAX":
        once = Counts(cmp=steps)
    else:
        coefficients = node.attrs.get("coeff") or [1]
        scaled = sum(c not in (1, -1) for c in coefficients)
        once = Counts(add=steps, mul=scaled, bit=int(coefficients[0] == -1))
    return once * node.output().numel


def embed(node: Node) -> Counts:
    """nothing without a bias: copies the row that each index picks; with one numel(Y) add.

    https://caffe.berkeleyvision.org/tutorial/layers/embed.html
    """
    return Counts(add=node.attrs.get("bias_term", 0)) * node.output().numel


def reduction(node: Node) -> Counts:
    """numel(X) × (1 add, and 1 bit for ASUM, 1 mul for SUMSQ) + numel(Y) × (1 mul for the coefficient, and 1 div for
    MEAN).

    https://caffe.berkeleyvision.org/tutorial/layers/reduction.html
    """
    operation = required(node, "operation")
    step = Counts(add=1, bit=int(operation == "ASUM"), mul=int(operation == "SUMSQ"))
    close = Counts(mul=1, div=int(operation == "MEAN"))
    return step * node.input(0).numel + close * node.output().numel


def stochastic_pooling(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) × (2 add + 1 mul) + numel(Y) div: each element weighted by itself, as in the test
    phase.

    https://caffe.berkeleyvision.org/tutorial/layers/pooling.html
    """
    outputs = node.output().numel
    return Counts(add=2, mul=1) * (outputs * product(required(node, "kernel_shape"))) + Counts(div=outputs)


def pyramid_pooling(node: Node) -> Counts:
    """N × C × Σ bins × kernel over the levels of the pyramid: cmp for MAX, add for AVE and then 1 div for each output.

    https://caffe.berkeleyvision.org/tutorial/layers/spp.html
    """
    x = node.input(0)
    maps = extent(node, x, 0) * extent(node, x, 1)
    levels = zip(required(node, "kernels"), required(node, "bins"), strict=True)
    cells = maps * sum(product(kernel) * bins for kernel, bins in levels)
    method = node.attrs.get("pool", "MAX")
    if method == "MAX":
        return Counts(cmp=cells)
    outputs = node.output().numel
    if method == "AVE":
        return Counts(add=cells, div=outputs)
    weighted: Counts = Counts(add=2, mul=1) * cells
    return weighted + Counts(div=outputs)


def unpooling(node: Node) -> Counts:
    """nothing for MAX: copies elements to other places; TILE: numel(X) × prod(kernel_shape) add; AVE: the same × (1
    add + 1 div).

    https://github.com/HyeonwooNoh/caffe
    """
    method = node.attrs.get("unpool", "MAX")
    if method == "MAX":
        return Counts()
    once = Counts(add=1, div=int(method == "AVE"))
    return once * (node.input(0).numel * product(required(node, "kernel_shape")))


def lrn_within_channel(node: Node) -> Counts:
    """numel(X) × (1 mul + size² add + 1 mul + 1 add + 1 pow + 1 div): squares, their sum over a square of that size,
    scale and 1, power, division. Positions beyond the edge are padding and not subtracted.

    https://caffe.berkeleyvision.org/tutorial/layers/lrn.html
    """
    size = required(node, "size")
    return Counts(mul=2, add=size * size + 1, pow=1, div=1) * node.input(0).numel


def batch_norm(node: Node) -> Counts:
    """numel(X) × (1 add + 1 div) + C × (2 mul + 1 add + 1 sqrt) + 1 div with stored statistics: mean and variance over
    their factor, (X − mean) / sqrt(variance + epsilon). Without use_global_stats numel(X) × (3 add + 1 mul + 1 div) +
    C × (2 div + 3 add + 3 mul + 1 sqrt) + 1 mul + 1 add: statistics of the batch, and the running ones. scale_bias:
    numel(X) × (1 mul + 1 add) more.

    https://caffe.berkeleyvision.org/tutorial/layers/batchnorm.html
    """
    x = node.input(0)
    channels = extent(node, x, 1) if len(x.dims) > 1 else 1
    if node.attrs.get("use_global_stats", 1):
        counts = Counts(add=1, div=1) * x.numel + Counts(mul=2, add=1, sqrt=1) * channels + Counts(div=1)
    else:
        counts = Counts(add=3, mul=1, div=1) * x.numel + Counts(div=2, add=3, mul=3, sqrt=1) * channels
        counts += Counts(mul=1, add=1)
    if node.attrs.get("scale_bias", 0):
        counts += Counts(mul=1, add=1) * x.numel
    return counts


def bn(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add): scale and shift. learning: numel(X) × (3 add + 1 mul + 1 div) + C × (2 div + 2 add +
    1 mul + 1 sqrt) more, the statistics of the batch.

    https://github.com/alexgkendall/caffe-segnet
    """
    x = node.input(0)
    counts = Counts(mul=1, add=1) * x.numel
    if node.attrs.get("learning", 0):
        counts += Counts(add=3, mul=1, div=1) * x.numel
        counts += Counts(div=2, add=2, mul=1, sqrt=1) * extent(node, x, 1)
    return counts


def mean_variance(node: Node) -> Counts:
    """numel(X) × 2 add + means div; normalize_variance: numel(X) × (1 mul + 1 add + 1 div) + means × (1 div + 1 sqrt
    + 1 add) more. means = N × C, across_channels: N.

    https://caffe.berkeleyvision.org/tutorial/layers/mvn.html
    """
    x = node.input(0)
    means = product(x.dims[: 1 if node.attrs.get("across_channels", 0) else 2])
    counts = Counts(add=2) * x.numel + Counts(div=1) * means
    if node.attrs.get("normalize_variance", 1):
        counts += Counts(mul=1, add=1, div=1) * x.numel + Counts(div=1, sqrt=1, add=1) * means
    return counts


def normalize(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add + 1 div) + norms × (1 add + 1 sqrt): squares, sums, epsilon, root, division, scale.
    norms = N, without across_spatial N × positions.

    https://github.com/weiliu89/caffe/tree/ssd
    """
    x = node.input(0)
    batch = extent(node, x, 0)
    norms = batch if node.attrs.get("across_spatial", 1) else batch * product(x.dims[2:])
    return Counts(mul=2, add=1, div=1) * x.numel + Counts(add=1, sqrt=1) * norms


def lstm(node: Node) -> Counts:
    """T × N × H times: 4 (D + H) mac, 8 add (bias, join), 1 mul (the last state by cont), and the unit, 3 sigmoid + 2
    tanh + 4 mul + 1 add. A static input: N × 4H × Ds mac, and T × N × 4H add.

    X is (T, N, D...), the static input (N, Ds...).

    https://caffe.berkeleyvision.org/tutorial/layers/lstm.html
    """
    once = Counts(add=8, mul=1) + _lstm_unit()
    return _unrolled(node, 4, 1, once)


def rnn(node: Node) -> Counts:
    """T × N × H times: (D + 2H) mac, 3 add (two biases, join), 1 mul (the last state by cont), 2 tanh. A static input:
    N × H × Ds mac, and T × N × H add.

    https://caffe.berkeleyvision.org/tutorial/layers/rnn.html
    """
    return _unrolled(node, 1, 2, Counts(add=3, mul=1, tanh=2))


def lstm_unit(node: Node) -> Counts:
    """numel(C) × (3 sigmoid + 2 tanh + 4 mul + 1 add): the gates, cont × forget × C + enter × new, out × tanh.

    https://caffe.berkeleyvision.org/tutorial/layers/lstm.html
    """
    return _lstm_unit() * node.input(0).numel


def _lstm_unit() -> Counts:
    return SIGMOID * 3 + Counts(tanh=2, mul=4, add=1)


def _unrolled(node: Node, gates: int, squares: int, once: Counts) -> Counts:
    """The products of all steps, with ``squares`` matrices of H × H for each gate, and ``once`` for each unit."""
    x = node.input(0)
    hidden: int = required(node, "hidden_size")
    streams = extent(node, x, 1)
    steps = extent(node, x, 0) * streams
    counts = (once + Counts(mac=gates * (product(x.dims[2:]) + squares * hidden))) * (steps * hidden)
    if node.attrs.get("static_input", 0):
        counts += Counts(mac=node.input(2).numel * gates * hidden, add=gates * steps * hidden)
    return counts


_READS = "brings data into the net"
_COPIES = "copies elements to other places"

OPERATORS: dict[str, Operator] = {
    # Without bottoms or tops.
    **{
        f"caffe::{name}": nothing(_READS)
        for name in (
            *("Input", "Data", "ImageData", "WindowData", "HDF5Data"),
            *("MemoryData", "DummyData", "AnnotatedData"),
        )
    },
    "caffe::Silence": nothing("takes a blob so that it is not printed", gradient=gradient.GOES_BACK),
    "caffe::HDF5Output": nothing("writes blobs to a file", gradient=gradient.GOES_BACK),
    # Moving and selecting.
    "caffe::Crop": nothing("copies the elements within the bounds of another blob", gradient=gradient.GOES_BACK),
    "caffe::Filter": nothing("copies the samples that a selector picks", gradient=gradient.GOES_BACK),
    "caffe::Im2col": nothing(
        "copies each window into a column", gradient=gradient.each("a cell is in several columns", gradient.none, add=1)
    ),
    **dict.fromkeys(("caffe::Reorg", "caffe::ShuffleChannel"), nothing(_COPIES, gradient=gradient.GOES_BACK)),
    # Element by element.
    "caffe::Power": by(power, gradient=gradient.by("caffe:power", gradient.both)),
    "caffe::Exp": by(exp, gradient=gradient.by("caffe:exponential", gradient.y)),
    "caffe::Log": by(log, gradient=gradient.by("caffe:logarithm", gradient.x)),
    "caffe::Threshold": each("1 above the threshold, else 0", cmp=1, gradient=gradient.GOES_BACK),
    "caffe::Scale": by(scale, gradient=gradient.by("caffe:scale", gradient.factors)),
    "caffe::Bias": each(add=1, gradient=gradient.by("pointwise:shared", gradient.none)),
    "caffe::Eltwise": by(eltwise, gradient=gradient.by("caffe:eltwise", "caffe:eltwise_keeps")),
    "caffe::Axpy": each("scale × x + y", mul=1, add=1, gradient=gradient.by("caffe:axpy", gradient.factors)),
    "caffe::Embed": by(embed, gradient=gradient.by("caffe:embed", gradient.x)),
    # Windows and sums.
    "caffe::Reduction": by(reduction, gradient=gradient.by("caffe:reduction", gradient.x)),
    "caffe::StochasticPooling": by(stochastic_pooling),
    "caffe::SPP": by(pyramid_pooling, gradient=gradient.by("caffe:pyramid", gradient.both)),
    "caffe::Unpooling": by(
        unpooling,
        gradient=gradient.reduced(
            "cells of a window are added up, AVE: and divided", gradient.none, Counts(), Counts(add=1)
        ),
    ),
    # Normalisation.
    "caffe::LRNWithinChannel": by(lrn_within_channel, gradient=gradient.by("caffe:lrn_within", gradient.both)),
    "caffe::BatchNorm": by(batch_norm, gradient=gradient.by("caffe:batch_norm", gradient.y)),
    "caffe::BN": by(bn),
    "caffe::MVN": by(mean_variance, gradient=gradient.by("caffe:mean_variance", gradient.y)),
    "caffe::Normalize": by(normalize, gradient=gradient.by("caffe:normalize", gradient.both)),
    # Recurrent layers.
    "caffe::LSTM": by(lstm, gradient=gradient.by("caffe:lstm", gradient.both)),
    "caffe::RNN": by(rnn, gradient=gradient.by("caffe:rnn", gradient.both)),
    "caffe::LSTMUnit": by(
        lstm_unit, gradient=gradient.each("the gates' derivatives, for each cell", gradient.both, mul=17, add=7)
    ),
    **losses.OPERATORS,
    **detection.OPERATORS,
}
