"""Operators of OpenVINO's operator sets 1 to 16 that ONNX has no equal of; detection.py has those on boxes.

Each is documented at https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.aten.reduction import adaptive_avg_pool, adaptive_max_pool
from flopwise.operators.aten.signals import alignments
from flopwise.operators.counts import SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.fourier import fourier, lines
from flopwise.operators.inputs import DATA, FACTOR, SETTING, STATE, WEIGHT, factor, inputs
from flopwise.operators.onnx.movement import bits
from flopwise.operators.onnx.reduction import log_softmax
from flopwise.operators.operator import Effect, Operator, by, each, each_input, nothing, unknown


def binary_convolution(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) × 2 bit: one exclusive or and one count of ones for each pair of bits.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/convolution/binary-convolution-1.html
    """
    return Counts(bit=2) * (node.output().numel * product(node.input(1).dims[1:]))


def transforms(node: Node) -> Counts:
    """at most a fast transform of complex numbers for each line along each axis in turn; of or to real numbers (RDFT,
    IRDFT) half of it along the last axis, and along the others only of the frequencies that are kept.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/signals/dft-7.html
    """
    axes: list[int] = required(node, "axes")
    kind, y = node.attrs.get("real", ""), node.output()
    spectrum = node.input(0) if kind == "result" else y
    rank = len(spectrum.dims) - 1
    counts = Counts()
    for position, axis in enumerate(axes):
        place = axis % rank if rank else 0
        real = bool(kind) and position == len(axes) - 1
        length = extent(node, node.input(0) if real and kind == "input" else y, place)
        counts += fourier(node, length, real) * (lines(node, spectrum, place) // 2)
    return counts


def short_transforms(node: Node) -> Counts:
    """at most for each frame N mul (window) and a fast transform of N real numbers, N the length of a frame.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/signals/stft-15.html
    """
    length, y = int(required(node, "length")), node.output()
    axis = -2 if node.attrs.get("transpose_frames") else -3
    frames = product(y.dims[:-3]) * extent(node, y, axis)
    return (fourier(node, length, real=True) + Counts(mul=length)) * frames


def inverse_short_transforms(node: Node) -> Counts:
    """at most for each frame a fast transform to N real numbers, N × (2 mul + 2 add) (window, its square, both added to
    what overlaps), and numel(Y) div.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/signals/istft-16.html
    """
    length, x = int(required(node, "length")), node.input(0)
    frames = product(x.dims[:-3]) * extent(node, x, -2)
    once = fourier(node, length, real=True) + Counts(mul=2, add=2) * length
    return once * frames + Counts(div=node.output().numel)


def ctc_loss(node: Node) -> Counts:
    """at most as LogSoftmax of the logits, N × (T − 1) × (2S + 1) × (2 cmp + 8 add + 3 exp + 1 log): the sum over three
    predecessors for each state of each step after the first, and N × (1 cmp + 5 add + 2 exp + 1 log + 1 bit) for the
    last two. Logits are (N, T, C), labels (N, S).

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/ctc-loss-4.html
    """
    samples, steps = (extent(node, node.input(0), axis) for axis in (0, 1))
    return log_softmax(node) + alignments(samples, steps, extent(node, node.input(2), 1))


def normalized(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add) (squares, their sums) + numel(X) × 1 div, and for each of numel(X) / n sums 1 add + 1
    sqrt, n elements along the axes.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/normalize-l2-1.html
    """
    x = node.input(0)
    count = product([extent(node, x, axis) for axis in required(node, "axes")])
    return Counts(mul=1, add=1, div=1) * x.numel + Counts(add=1, sqrt=1) * (x.numel // count if count else 0)


def centered(node: Node) -> Counts:
    """numel(X) × 2 add (sums, and the mean subtracted) + numel(X) / n × 1 div, n elements along the axes.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/mvn-6.html
    """
    x = node.input(0)
    count = product([extent(node, x, axis) for axis in required(node, "axes")])
    return Counts(add=2) * x.numel + Counts(div=x.numel // count if count else 0)


def bucketize(node: Node) -> Counts:
    """numel(Y) × bits(n) cmp, n boundaries in a row: binary search; bits is the number of binary digits.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/bucketize-3.html
    """
    boundaries = node.input(node.attrs.get("boundaries", 1))
    return Counts(cmp=bits(extent(node, boundaries, -1))) * node.output().numel


def embedding_sum(node: Node) -> Counts:
    """at most n × D add, n indices and D elements in a row of the table; weights of the indices: n × D mac instead;
    reduction mean: 1 div for each element of Y.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/embedding-bag-offsets-15.html
    """
    number = node.input(1).numel * product(node.input(0).dims[1:])
    counts = Counts(mac=number) if node.attrs.get("weighted") else Counts(add=number)
    return counts + Counts(div=node.output().numel if node.attrs.get("reduction") == "mean" else 0)


def decode(node: Node) -> Counts:
    """numel(X) cmp (the best class of each step), and for each step 2 cmp: is it the last one's, is it blank.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/ctc-greedy-decoder-seq-len-6.html
    """
    x = node.input(0)
    return Counts(cmp=x.numel + 2 * product(x.dims[:-1]))


def yolo(node: Node) -> Counts:
    """for each element of X a sigmoid; do_softmax: for each box a sigmoid of 3 numbers, and of its classes numel × (1
    cmp + 2 add + 1 exp + 1 div) (softmax).

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/region-yolo-1.html
    """
    x, classes = node.input(0), int(required(node, "classes"))
    if not node.attrs.get("do_softmax"):
        return SIGMOID * x.numel
    boxes: int = x.numel // (classes + node.attrs.get("coords", 4) + 1)
    once: Counts = SIGMOID * 3 + SOFTMAX * classes
    return once * boxes


_ORDER = "copies elements to other places"
_PICK = "copies the elements that indices or bounds pick"
_FILL = "writes values that are known beforehand"
_STATE = "hands a variable on, which keeps its elements between calls"
_FLAT: frozenset[Effect] = frozenset({"no gradient"})
_UPDATES: frozenset[Effect] = frozenset({"updates"})


def colours(node: Node) -> Counts:
    """for each pixel 5 mul + 7 add + 6 cmp: three numbers shifted, five products, four sums, three results held between
    0 and 255.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/image/nv12-to-rgb-8.html
    """
    return Counts(mul=5, add=7, cmp=6) * product(node.output().dims[:-1])


def _alike(reason: str) -> Operator:
    return nothing(reason, gradient=gradient.GOES_BACK, carries="moved", shape=shape.alike)


_BAG = inputs(WEIGHT, SETTING, SETTING, SETTING, DATA)

_ROWS: dict[str, Operator] = {
    # Arithmetic.
    "SquaredDifference": each("(a − b)²", add=1, mul=1, in_place=True),
    "NotEqual": each(cmp=1, in_place=True, dtype="bool", effects=_FLAT),
    "IsFinite": each(cmp=2, in_place=True, dtype="bool", effects=_FLAT),
    "FakeQuantize": each(
        "held between the bounds, moved and scaled to levels, rounded, and scaled and moved back",
        cmp=3,
        add=2,
        mul=2,
        div=2,
        inputs=inputs(DATA, SETTING, SETTING, SETTING, SETTING),
        gradient=gradient.each("G where X is between the bounds", gradient.x, mul=1),
        in_place=True,
    ),
    "FakeConvert": each(
        "scaled and shifted, held and rounded in 8 bits, and shifted and scaled back",
        cmp=3,
        add=2,
        mul=1,
        div=1,
        inputs=inputs(DATA, SETTING, SETTING),
        in_place=True,
        shape=shape.alike,
    ),
    "ConvertPromoteTypes": nothing("converts both inputs to one type", shape=shape.by("openvino:promoted")),
    "ReduceLogicalAnd": each_input(Counts(bit=1), shape=shape.by("making:reduced"), dtype="bool"),
    "ReduceLogicalOr": each_input(Counts(bit=1), shape=shape.by("making:reduced"), dtype="bool"),
    "NormalizeL2": by(normalized, inputs=inputs(DATA, SETTING), shape=shape.alike),
    "GRN": by(normalized, shape=shape.alike),
    "MVN": by(centered, inputs=inputs(DATA, SETTING), shape=shape.alike),
    "Bucketize": by(bucketize, effects=_FLAT, shape=shape.alike),
    "SearchSorted": by(bucketize, effects=_FLAT, shape=shape.by("picking:like_second")),
    "BinaryConvolution": by(binary_convolution, inputs=inputs(FACTOR, factor("conv", role="weight"))),
    "AdaptiveAvgPool": by(adaptive_avg_pool, inputs=inputs(DATA, SETTING), shape=shape.by("openvino:adaptive")),
    "AdaptiveMaxPool": by(adaptive_max_pool, inputs=inputs(DATA, SETTING), shape=shape.by("openvino:adaptive")),
    "EmbeddingBagOffsetsSum": by(embedding_sum, "bound", inputs=_BAG, shape=shape.by("openvino:bags")),
    "EmbeddingBagOffsets": by(embedding_sum, "bound", inputs=_BAG, shape=shape.by("openvino:bags")),
    "EmbeddingBagPackedSum": by(
        embedding_sum, "bound", inputs=inputs(WEIGHT, SETTING, DATA), shape=shape.by("openvino:bags")
    ),
    "EmbeddingBagPacked": by(
        embedding_sum, "bound", inputs=inputs(WEIGHT, SETTING, DATA), shape=shape.by("openvino:bags")
    ),
    "EmbeddingSegmentsSum": by(
        embedding_sum,
        "bound",
        inputs=inputs(WEIGHT, SETTING, SETTING, SETTING, SETTING, DATA),
        shape=shape.by("openvino:segments"),
    ),
    "SegmentMax": each_input(
        Counts(cmp=1), note="each element goes to its segment", shape=shape.by("openvino:segments_of_ids")
    ),
    "CTCGreedyDecoder": by(decode, effects=_FLAT, shape=shape.by("openvino:decoded")),
    "CTCGreedyDecoderSeqLen": by(decode, effects=_FLAT, shape=shape.by("openvino:decoded_lengths")),
    "CTCLoss": by(ctc_loss, "bound", shape=shape.by("openvino:samples")),
    "RegionYolo": by(yolo, shape=shape.by("openvino:yolo")),
    **dict.fromkeys(
        ("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB"), by(colours, shape=shape.by("openvino:picture"))
    ),
    # Spectra.
    "DFT": by(transforms, "bound", inputs=inputs(DATA, SETTING, SETTING), shape=shape.by("openvino:spectrum")),
    "IDFT": by(transforms, "bound", inputs=inputs(DATA, SETTING, SETTING), shape=shape.by("openvino:spectrum")),
    "RDFT": by(transforms, "bound", inputs=inputs(DATA, SETTING, SETTING), shape=shape.by("openvino:half_spectrum")),
    "IRDFT": by(transforms, "bound", inputs=inputs(DATA, SETTING, SETTING), shape=shape.by("openvino:real_signal")),
    "STFT": by(
        short_transforms,
        "bound",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        shape=shape.by("openvino:short_spectrum"),
    ),
    "ISTFT": by(inverse_short_transforms, "bound", inputs=inputs(DATA, SETTING, SETTING, SETTING, SETTING)),
    # The same elements in another order, or some of them.
    "Reverse": _alike(_ORDER),
    "Roll": _alike(_ORDER),
    "ShuffleChannels": _alike(_ORDER),
    "GatherTree": nothing(_PICK, effects=_FLAT, shape=shape.alike),
    "BatchToSpace": nothing(
        _ORDER,
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        shape=shape.by("openvino:batch_to_space"),
    ),
    "SpaceToBatch": nothing(
        _ORDER,
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.GOES_BACK,
        carries="some",
        shape=shape.by("openvino:space_to_batch"),
    ),
    "ExtractImagePatches": nothing(_PICK, gradient=gradient.GOES_BACK, shape=shape.by("openvino:patches")),
    "ReorgYolo": nothing(_ORDER, gradient=gradient.GOES_BACK, carries="moved", shape=shape.by("openvino:reorganised")),
    "ScatterUpdate": nothing("overwrites the slices that indices pick", effects=_UPDATES, shape=shape.alike),
    "SliceScatter": nothing("overwrites a part of its first input", effects=_UPDATES, shape=shape.alike),
    "SparseFillEmptyRows": nothing("adds a value to each row that has none"),
    # Values that are known beforehand, texts and variables.
    "Eye": nothing(_FILL, effects=_FLAT, shape=shape.by("openvino:eye")),
    "ReadValue": nothing(_STATE, inputs=inputs(STATE), view=views.always, shape=shape.by("openvino:state")),
    "Assign": nothing(_STATE, view=views.always, shape=shape.alike),
    "StringTensorPack": nothing("joins bytes to texts", shape=shape.alike),
    "StringTensorUnpack": nothing("takes texts apart into bytes", shape=shape.by("openvino:unpacked_strings")),
    # What nobody can count.
    "PagedAttentionExtension": unknown(
        "attends to a cache in pages; how many tokens are in them is in its data, not in the file"
    ),
}

OPERATORS: dict[str, Operator] = {f"openvino::{name}": row for name, row in _ROWS.items()}
