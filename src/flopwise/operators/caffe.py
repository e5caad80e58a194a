"""Caffe's own operators: layers, losses, detection."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.gradient import Gradient, Wrt
from flopwise.operators.inputs import DATA, LABEL, inputs
from flopwise.operators.operator import Operator, by, each, nothing

# Operators of Caffe's detection forks. How many boxes overlap, and how large a region is, the image decides.

#: Overlap of two boxes whose areas are known, and its comparison with the threshold.
_PAIR = Counts(cmp=7, add=4, mul=1, div=1)
_AREA = Counts(add=2, mul=1)
#: One prior box with its four locations and variances: centre and size, shift, exponentials, corners.
_DECODE = Counts(add=10, mul=8, div=4, exp=2)
#: One anchor moved to its position, shifted and scaled, clipped to the image and held against the smallest size.
_PROPOSE = Counts(add=20, mul=8, exp=2, cmp=10)


def _suppress(candidates: int) -> Counts:
    """Every pair of the candidates: none suppresses another."""
    return _PAIR * (candidates * (candidates - 1) // 2)


def detection_output(node: Node) -> Counts:
    """at most N × [boxes × (10 add + 8 mul + 4 div + 2 exp) (decoding), boxes × (2 add + 1 mul) (areas), and for each
    class priors × (1 + bits(K)) cmp (threshold, sorting) and K (K − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div)
    (overlap)], and for the best of all classes K × classes × bits(K × classes) cmp.

    K is the number of candidates for each class, boxes the number of priors, or priors × classes without
    share_location; bits is the number of binary digits.

    https://github.com/weiliu89/caffe/tree/ssd
    """
    boxes, priors, classes, candidates = (required(node, n) for n in ("boxes", "priors", "classes", "candidates"))
    per_class = Counts(cmp=priors * (1 + candidates.bit_length())) + _suppress(candidates)
    last = Counts(cmp=candidates * classes * (candidates * classes).bit_length())
    once: Counts = _DECODE * boxes + _AREA * boxes + per_class * classes + last
    return once * extent(node, node.input(0), 0)


def proposal(node: Node) -> Counts:
    """at most N × [anchors × (20 add + 8 mul + 2 exp + 10 cmp) (decoding, clipping), anchors × bits(K) cmp (sorting),
    K × (4 add + 1 mul) (areas) and K (K − 1) / 2 pairs × (7 cmp + 6 add + 1 mul + 1 div) (overlap)].

    K is pre_nms_topn; bits is the number of binary digits.

    https://github.com/rbgirshick/py-faster-rcnn
    """
    anchors, candidates = required(node, "anchors"), required(node, "candidates")
    inclusive = Counts(add=candidates * (candidates - 1))
    once: Counts = (
        _PROPOSE * anchors + Counts(cmp=anchors * candidates.bit_length()) + _suppress(candidates) + inclusive
    )
    once += Counts(add=4, mul=1) * candidates
    return once * extent(node, node.input(0), 0)


def roi_pooling(node: Node) -> Counts:
    """at most R × C × (H + 2 pooled_h) × (W + 2 pooled_w) cmp: a region covers the whole map at most, and neighbouring
    bins share at most their edges.

    Where a bin lies is addressing.

    https://github.com/rbgirshick/caffe-fast-rcnn
    """
    return Counts(cmp=product(node.output().dims[:2]) * _covered(node))


def psroi_pooling(node: Node) -> Counts:
    """at most R × output_dim × (H + 2 group_size) × (W + 2 group_size) add + numel(Y) div.

    https://github.com/daijifeng001/caffe-rfcn
    """
    y = node.output()
    return Counts(add=product(y.dims[:2]) * _covered(node), div=y.numel)


def _covered(node: Node) -> int:
    """Elements of one map that all bins of one region cover together, at most."""
    x, y = node.input(0), node.output()
    rows = extent(node, x, 2) + 2 * extent(node, y, 2)
    return rows * (extent(node, x, 3) + 2 * extent(node, y, 3))


DETECTION: dict[str, Operator] = {
    "caffe::PriorBox": nothing("writes boxes that follow from the shapes of its inputs alone"),
    "caffe::DetectionOutput": by(detection_output, "bound"),
    "caffe::Proposal": by(proposal, "bound"),
    "caffe::ROIPooling": by(roi_pooling, "bound"),
    "caffe::PSROIPooling": by(psroi_pooling, "bound"),
}


# Caffe's losses and measures in the forward pass: one number from scores and labels.
#
# Which class a label names is addressing. Both sides of a selection are computed, as everywhere. The definitions
# are those of BVLC Caffe, src/caffe/layers/*_loss_layer.cpp; losses are normalised by one division.

#: The logarithm of a probability that is kept from zero.
_LOG = Counts(cmp=1, log=1)


def _back(note: str, per: Counts, single: Counts | None = None, labels: Counts | None = None) -> Gradient:
    """The gradient of a loss: operations for each element of X, for the loss itself, and for each sample."""

    def rule(node: Node, wrt: Wrt) -> Counts:
        source = node.input(0)
        counts = per * (source.numel * len(wrt & {0, 1}))
        return counts + (single or Counts(div=1)) + (labels or Counts()) * extent(node, source, 0)

    return Gradient(rule, gradient.first_two, note)


def softmax_loss(node: Node) -> Counts:
    """numel(X) × (1 cmp + 2 add + 1 exp + 1 div) + labels × (1 cmp + 1 log + 1 add) + 1 div: softmax, and the sum of
    the logarithms of the labels' probabilities. labels = numel(X) / X.shape[axis].

    https://caffe.berkeleyvision.org/tutorial/layers/softmaxwithloss.html
    """
    return SOFTMAX * node.input(0).numel + (_LOG + Counts(add=1)) * _labels(node) + Counts(div=1)


def logistic_loss(node: Node) -> Counts:
    """N × (1 cmp + 1 log + 1 add) + 1 div: the logarithms of the labels' probabilities.

    https://caffe.berkeleyvision.org/tutorial/layers/multinomiallogisticloss.html
    """
    return (_LOG + Counts(add=1)) * extent(node, node.input(0), 0) + Counts(div=1)


def infogain_loss(node: Node) -> Counts:
    """numel(X) × (2 cmp + 3 add + 1 exp + 1 div + 1 log + 1 mul) + 1 div: softmax, and the sum of all logarithms
    weighed by the label's row of the gain matrix.

    https://caffe.berkeleyvision.org/tutorial/layers/infogainloss.html
    """
    return (SOFTMAX + _LOG + Counts(mul=1, add=1)) * node.input(0).numel + Counts(div=1)


def sigmoid_loss(node: Node) -> Counts:
    """numel(X) × (1 cmp + 4 add + 1 mul + 2 bit + 1 exp + 1 log) + 1 div: the sum of max(x, 0) − x t + log(1 +
    exp(−|x|)).

    https://caffe.berkeleyvision.org/tutorial/layers/sigmoidcrossentropyloss.html
    """
    return Counts(cmp=1, add=4, mul=1, bit=2, exp=1, log=1) * node.input(0).numel + Counts(div=1)


def euclidean_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mul) + 1 div: the sum of the squared differences, over 2N.

    https://caffe.berkeleyvision.org/tutorial/layers/euclideanloss.html
    """
    return Counts(add=2, mul=1) * node.input(0).numel + Counts(div=1)


def hinge_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 cmp) + N bit + 1 div: the sum of max(0, 1 + x), x negated for the label; norm L2: 1 mul
    for each element more.

    https://caffe.berkeleyvision.org/tutorial/layers/hingeloss.html
    """
    x = node.input(0)
    squared = int(node.attrs.get("norm", "L1") == "L2")
    return Counts(add=2, cmp=1, mul=squared) * x.numel + Counts(bit=extent(node, x, 0), div=1)


def contrastive_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mul) + N × (1 sqrt + 2 add + 1 cmp + 1 mul) + 1 div: squared distances of pairs d², or
    max(margin − d, 0)² where they differ, summed, over 2N; legacy_version: max(margin − d², 0), so no sqrt and mul.

    https://caffe.berkeleyvision.org/tutorial/layers/contrastiveloss.html
    """
    x = node.input(0)
    root = int(not node.attrs.get("legacy_version", 0))
    pair = Counts(sqrt=root, add=2, cmp=1, mul=root)
    return Counts(add=2, mul=1) * x.numel + pair * extent(node, x, 0) + Counts(div=1)


def smooth_l1_loss(node: Node) -> Counts:
    """numel(X) × (1 bit + 1 cmp + 2 mul + 3 add) + 1 div: d = x − t, the sum of σ² d² / 2 or |d| − 1 / (2σ²); 1 mul
    more for each of the inside and outside weights.

    https://github.com/rbgirshick/caffe-fast-rcnn
    """
    weights = max(0, len(node.known_inputs) - 2)
    return Counts(bit=1, cmp=1, mul=2 + weights, add=3) * node.input(0).numel + Counts(div=1)


def accuracy(node: Node) -> Counts:
    """at most numel(X) × 1 cmp + labels × 1 add + 1 div: each score against the label's, and the hits; with one number
    per class 1 add for each label and 1 div for each class more. labels = numel(X) / X.shape[axis].

    Comparing stops as soon as top_k scores are higher.

    https://caffe.berkeleyvision.org/tutorial/layers/accuracy.html
    """
    x = node.input(0)
    counts = Counts(cmp=x.numel, add=_labels(node), div=1)
    if len(node.known_outputs) > 1:
        counts += Counts(add=_labels(node), div=node.output(1).numel)
    return counts


def _labels(node: Node) -> int:
    """Labels: the product of all extents of X except the one of the classes."""
    x, axis = node.input(0), node.attrs.get("axis", 1)
    extent(node, x, axis)
    return product(dim for i, dim in enumerate(x.dims) if i != axis % len(x.dims))


LOSSES: dict[str, Operator] = {
    "caffe::SoftmaxWithLoss": by(
        softmax_loss,
        inputs=inputs(DATA, LABEL),
        gradient=_back("(p − 1 for the label) × G / N", Counts(mul=1), labels=Counts(add=1)),
    ),
    "caffe::MultinomialLogisticLoss": by(logistic_loss, inputs=inputs(DATA, LABEL)),
    "caffe::InfogainLoss": by(infogain_loss),
    "caffe::SigmoidCrossEntropyLoss": by(
        sigmoid_loss, gradient=_back("(sigmoid(x) − t) × G / N", SIGMOID + Counts(add=1, mul=1))
    ),
    "caffe::EuclideanLoss": by(euclidean_loss, gradient=_back("± G / N × (a − b), the difference kept", Counts(mul=1))),
    "caffe::HingeLoss": by(
        hinge_loss, gradient=_back("G / N × sign, negated for the label", Counts(cmp=1, mul=1), labels=Counts(bit=1))
    ),
    "caffe::ContrastiveLoss": by(contrastive_loss),
    "caffe::SmoothL1Loss": by(
        smooth_l1_loss, gradient=_back("σ² d or its sign, by the difference d, × G / N", Counts(cmp=2, mul=2))
    ),
    "caffe::Accuracy": by(accuracy, "bound", effects=frozenset({"no gradient"})),
}


# Operators of Caffe that ONNX does not have, under the name ``caffe::Type``.
#
# Rules for losses are in caffe_loss, those for detection in caffe_detection. Caffe's documentation of each layer is
# at https://caffe.berkeleyvision.org/tutorial/layers.html; the definitions are those of BVLC Caffe,
# src/caffe/layers.


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
    **LOSSES,
    **DETECTION,
}
