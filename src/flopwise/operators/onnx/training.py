"""Losses and optimisers, operators of other domains, and those of early versions."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import gradient, shape
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import DATA, SCALE, SETTING, ZERO_POINT, inputs, scale, zero_point
from flopwise.operators.operator import PICKS, Operator, by, each, nothing, unknown

# Losses, as the function bodies in the ONNX schema define them.


def negative_log_likelihood_loss(node: Node) -> Counts:
    """M × 1 bit, M = numel(target): the sign of each picked element; weight or ignore_index: M × 1 mul; ignore_index
    also M × (1 cmp + 1 add). reduction = sum: M add; mean: M add + 1 div, and M add more (the sum of the weights) with
    weight or ignore_index.

    Picking an element by its class is a selection. The add that ignore_index brings is the body's way to a zero of the
    target's type.

    https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
    """
    samples = node.input(1).numel
    ignores = "ignore_index" in node.attrs
    weighted = node.has_input(2) or ignores
    once = Counts(bit=1, mul=int(weighted), cmp=int(ignores), add=int(ignores))
    reduction = node.attrs.get("reduction", "mean")
    if reduction == "none":
        return once * samples
    if reduction == "sum":
        return (once + Counts(add=1)) * samples
    return (once + Counts(add=2 if weighted else 1)) * samples + Counts(div=1)


def softmax_cross_entropy_loss(node: Node) -> Counts:
    """numel(scores) × (1 cmp + 3 add + 1 exp) + M log, M = numel(labels): log-softmax; then the
    NegativeLogLikelihoodLoss of M labels.

    https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
    """
    log_softmax = Counts(cmp=1, add=3, exp=1) * node.input(0).numel + Counts(log=node.input(1).numel)
    return log_softmax + negative_log_likelihood_loss(node)


LOSSES: dict[str, Operator] = {
    "NegativeLogLikelihoodLoss": by(
        negative_log_likelihood_loss,
        gradient=gradient.by("reduction:negative_log_likelihood", gradient.inputs_at(1, 2)),
        shape="making:loss",
    ),
    "SoftmaxCrossEntropyLoss": by(
        softmax_cross_entropy_loss,
        gradient=gradient.by("reduction:softmax_cross_entropy", "reduction:probabilities"),
        shape="making:loss",
    ),
}


# Optimizers of ``ai.onnx.preview.training``: one step for all tensors, as the pseudo code of the specification has
# it.
#
# The coefficients that are attributes always count, zero or not; differences of attributes (1 − alpha) are
# constants.


def adagrad(node: Node) -> Counts:
    """n × (3 mul + 4 add + 1 sqrt + 1 div) + 1 mul + 1 add + 1 div, n the elements of all optimized tensors: G' =
    norm_coefficient × X + G, H' = H + G'², X' = X − r G' / (√H' + epsilon), r = R / (1 + T × decay_factor).

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
    """
    return Counts(mul=3, add=4, sqrt=1, div=1) * _optimized(node, 3) + Counts(mul=1, add=1, div=1)


def adam(node: Node) -> Counts:
    """n × (8 mul + 5 add + 1 sqrt + 1 div) + 2 pow + 2 add + 1 sqrt + 1 mul + 1 div + 1 cmp, n the elements of all
    optimized tensors: G' = norm_coefficient × X + G, V' = alpha V + (1 − alpha) G', H' = beta H + (1 − beta) G'²,
    X' = (1 − norm_coefficient_post) × (X − r V' / (√H' + epsilon)), r = R √(1 − betaᵀ) / (1 − alphaᵀ) or R, by T > 0.

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html
    """
    rate = Counts(pow=2, add=2, sqrt=1, mul=1, div=1, cmp=1)
    return Counts(mul=8, add=5, sqrt=1, div=1) * _optimized(node, 4) + rate


def momentum(node: Node) -> Counts:
    """n × (4 mul + 3 add) + 1 cmp, n the elements of all optimized tensors: G' = norm_coefficient × X + G, V' = alpha
    V + b G', X' = X − R V', b = beta or 1, by T > 0; mode = nesterov: n × (5 mul + 4 add) + 1 cmp, X' = X − R (G' +
    alpha V').

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
    """
    nesterov = node.attrs.get("mode", "standard") == "nesterov"
    once = Counts(mul=5, add=4) if nesterov else Counts(mul=4, add=3)
    return once * _optimized(node, 3) + Counts(cmp=1)


def _optimized(node: Node, each: int) -> int:
    """Elements of the optimized tensors: R and T, then ``each`` tensors for every one of them, they themselves first.

    Raises:
        ShapeError: the number of inputs does not fit.
    """
    tensors, left_over = divmod(len(node.inputs) - 2, each)
    if tensors < 1 or left_over:
        raise ShapeError(f"{node.op} {node.name!r} takes R, T and {each} tensors for each optimized one")
    return sum(node.input(2 + i).numel for i in range(tensors))


OPTIMIZERS: dict[str, Operator] = {
    "ai.onnx.preview.training::Adagrad": by(adagrad, shape="products:updated", dtype=2),
    "ai.onnx.preview.training::Adam": by(adam, shape="products:updated", dtype=2),
    "ai.onnx.preview.training::Momentum": by(momentum, shape="products:updated", dtype=2),
    "ai.onnx.preview.training::Gradient": unknown(
        "runs the backward pass of the part of the model between the tensors that it names", types="products:gradients"
    ),
}


# Operators of other domains that tools write into ONNX models: brevitas, QONNX, FINN and onnxruntime-extensions.
#
# The definitions: https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops and
# https://github.com/microsoft/onnxruntime-extensions/blob/main/docs/custom_ops.md


def multi_threshold(node: Node) -> Counts:
    """numel(Y) × T × (1 cmp + 1 add): how many of T thresholds each element reaches; numel(Y) mul for out_scale ≠ 1 and
    numel(Y) add for out_bias ≠ 0.

    https://github.com/fastmachinelearning/qonnx (custom_op/general/multithreshold.py)
    """
    thresholds = extent(node, node.input(1), -1)
    scaled, biased = node.attrs.get("out_scale", 1.0) != 1.0, node.attrs.get("out_bias", 0.0) != 0.0
    return Counts(cmp=thresholds, add=thresholds + int(biased), mul=int(scaled)) * node.output().numel


_QUANT = each(
    "round(x / scale + zero point) between two bounds, and back",
    div=1,
    add=2,
    cmp=3,
    mul=1,
    inputs=inputs(DATA, scale(0), zero_point(0), SETTING),
    shape=shape.alike,
)
_BIPOLAR = each("scale or −scale, by the sign of x", cmp=1, mul=1, inputs=inputs(DATA, scale(0)), shape=shape.alike)
_TRUNC = each(
    "quantized, divided by a power of two, rounded between two bounds, and back",
    div=2,
    add=2,
    cmp=4,
    mul=1,
    inputs=inputs(DATA, scale(0), zero_point(0), SETTING, SCALE, ZERO_POINT, SETTING),
    shape=shape.alike,
)
_THRESHOLDS = by(multi_threshold, shape=shape.alike)

#: Domains of brevitas, QONNX and, before it, FINN.
_DOMAINS = ("onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general")

_TOKENIZERS = (
    *("BasicTokenizer", "BertTokenizer", "BertTokenizerDecoder", "BlingFireSentenceBreaker", "BpeDecoder"),
    *(
        "CLIPTokenizer",
        "GPT2Tokenizer",
        "HfBertTokenizer",
        "HfJsonTokenizer",
        "RobertaTokenizer",
        "SentencepieceDecoder",
    ),
    *("SentencepieceTokenizer", "SpmTokenizer", "TrieDetokenizer", "TrieTokenizer", "WordpieceTokenizer"),
)
_STRINGS = (
    *("StringConcat", "StringECMARegexReplace", "StringECMARegexSplitWithOffsets", "StringEqual", "StringHash"),
    *("StringHashFast", "StringJoin", "StringLength", "StringLower", "StringMapping", "StringRegexReplace"),
    *("StringRegexSplitWithOffsets", "StringSlice", "StringSplit", "StringStrip", "StringToHashBucket"),
    *("StringToHashBucketFast", "StringToVector", "StringUpper", "VectorToString"),
)

DOMAINS: dict[str, Operator] = {
    **{f"{domain}::Quant": _QUANT for domain in _DOMAINS},
    **{f"{domain}::BipolarQuant": _BIPOLAR for domain in _DOMAINS},
    **{f"{domain}::Trunc": _TRUNC for domain in _DOMAINS},
    **{f"{domain}::MultiThreshold": _THRESHOLDS for domain in _DOMAINS[1:]},
    "qonnx.custom_op.general::IntQuant": _QUANT,
    **{
        f"ai.onnx.contrib::{name}": nothing("works on the characters of strings, not on numbers")
        for name in (*_TOKENIZERS, *_STRINGS)
    },
}


# Experimental operators that early versions of ONNX had and that later ones dropped (up to onnx 1.4).
#
# The definitions: https://github.com/onnx/onnx/blob/v1.2.1/onnx/defs/experiments/defs.cc

_FILL = "writes values that are known beforehand"
_PICK = "copies the elements that its bounds pick"


def fully_connected(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac + numel(Y) add: a matrix product and a bias.

    W is (outputs, inputs). onnx 1.0 had it.
    """
    outputs = node.output().numel
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def image_scaler(node: Node) -> Counts:
    """numel(Y) × 1 mul, and 1 add when bias is given: scale and a bias for each channel."""
    return Counts(mul=1, add=int("bias" in node.attrs)) * node.output().numel


EARLY: dict[str, Operator] = {
    "Affine": each("αx + β", mul=1, add=1, shape=shape.alike),
    "Scale": each("scale × x", mul=1, shape=shape.alike),
    "ScaledTanh": each("α tanh(βx)", mul=2, tanh=1, shape=shape.alike, in_place=True),
    "ParametricSoftplus": each("α log(exp(βx) + 1)", mul=2, exp=1, add=1, log=1, shape=shape.alike, in_place=True),
    "ImageScaler": by(image_scaler, shape=shape.alike),
    "FC": by(fully_connected, types="products:fully_connected"),
    "GRUUnit": each(
        "h × z + tanh(c) × (1 − z), z = sigmoid(update); the reset gate is applied before",
        SIGMOID,
        add=2,
        tanh=1,
        mul=2,
        shape=shape.alike,
    ),
    "ConstantFill": nothing(_FILL, types="products:constant_filled"),
    "GivenTensorFill": nothing(_FILL, types="products:filled"),
    "Crop": nothing(_PICK, types="products:cropped", effects=PICKS),
    "DynamicSlice": nothing(_PICK, types="products:sliced", effects=PICKS),
    "LoopIndexTensor": nothing(_PICK, effects=PICKS),
    "ATen": unknown("stands for any operator of PyTorch's ATen library, and ONNX never specified them"),
}
