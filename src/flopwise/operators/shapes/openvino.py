"""Shapes of OpenVINO's operators that take their settings in a way of their own."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.operators.shape import Call, Types
from flopwise.operators.shapes.picking import suppression
from flopwise.operators.shapes.windows import windows
from flopwise.operators.size import (
    OPEN,
    Dims,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    broadcast,
    product,
    require,
    smaller,
    written,
)


def as_stated(call: Call) -> Types:
    """Not worked out: a setting is not known, and the shape is the one that the file states."""
    raise UnresolvedError


def grouped_conv(call: Call) -> Types:
    """N × G M × windows, W being G × M × C/G × kernel."""
    x, w = call.shape(0), call.shape(1)
    return [(x[0], w[0] * w[1], *windows(call, x[2:], w[3:]))]


def transposed_conv(call: Call) -> Types:
    """N × M × the extent that a convolution makes X from, or the one that the third input names.

    W is C × M × kernel, of groups G × C/G × M/G × kernel.
    """
    x, w = call.shape(0), call.shape(1)
    rank = len(x) - 2
    grouped = len(w) == rank + 3
    channels, kernel = (w[0] * w[2], w[3:]) if grouped else (w[1], w[2:])
    if call.has(2):
        return [(x[0], channels, *_open(call.settings_or_open("", 2) or ()))]
    pads = [0] * 2 * rank if call.attr("auto_pad") == "VALID" else call.attr("pads") or [0] * 2 * rank
    strides, dilations = call.attr("strides"), call.attr("dilations")
    more = call.attr("output_padding") or [0] * rank
    if not rank == len(kernel) == len(strides) == len(dilations) == len(more) == len(pads) / 2:
        raise MisfitError(f"windows of {written(kernel)} are laid over {rank} axes")
    sides = zip(x[2:], kernel, strides, dilations, more, pads[:rank], pads[rank:], strict=True)
    extents = [s * (n - 1) + d * (k - 1) + 1 + extra - a - b for n, k, s, d, extra, a, b in sides]
    return [(x[0], channels, *extents)]


def pool(call: Call) -> Types:
    """N × C × windows, twice; rounding up counts windows that start behind the image too, unless it is "ceil_torch"."""
    x, kernel = call.shape(0), call.attr("kernel_shape")
    if call.attr("ceil_mode") != 2 or call.attr("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return [(*x[:2], *windows(call, x[2:], kernel))] * 2
    rank = len(kernel)
    pads = call.attr("pads") if call.attr("auto_pad") == "NOTSET" else [0] * 2 * rank
    dilations = call.attr("dilations") or [1] * rank
    if not len(x) - 2 == rank == len(dilations) == len(pads) / 2 == len(call.attr("strides")):
        raise MisfitError(f"windows of {written(kernel)} are laid over {len(x) - 2} axes")
    sides = zip(x[2:], kernel, call.attr("strides"), dilations, pads[:rank], pads[rank:], strict=True)
    extents = [-(-(n + a + b - d * (k - 1) - 1) // s) + 1 for n, k, s, d, a, b in sides]
    for extent in extents:
        require(extent - 1, ">=")
    return [(*x[:2], *extents)] * 2


def adaptive(call: Call) -> Types:
    """N × C × the extents that input 1 names, twice."""
    return [(*call.shape(0)[:2], *_open(call.settings_or_open("", 1) or ()))] * 2


def matmul(call: Call) -> Types:
    """The product, each factor transposed or not."""
    factors = [call.tensor("float32", _turned(call, place, side)) for place, side in enumerate("ab")]
    return [call.ask("MatMul", factors, only=())]


def _turned(call: Call, place: int, side: str) -> Dims:
    shape = call.shape(place)
    if call.attr(f"transpose_{side}") and len(shape) > 1:
        return (*shape[:-2], shape[-1], shape[-2])
    return shape


def attention(call: Call) -> Types:
    """The queries with the width of the values; leading axes are broadcast."""
    query, key, value = (call.shape(place) for place in range(3))
    return [(*broadcast(query[:-2], key[:-2], value[:-2]), query[-2], value[-1])]


def sequence(call: Call) -> Types:
    """B × directions × T × H, and for each state B × directions × H."""
    x, r = call.shape(0), call.shape(2)
    state = (x[0], r[0], r[-1])
    return [(x[0], r[0], x[1], r[-1]), state, state]


def cell(call: Call) -> Types:
    """B × H for each state."""
    return [(call.shape(0)[0], call.shape(2)[-1])] * 2


def gather_nd(call: Call) -> Types:
    """GatherND of operator set 5: the axes of the batch become one."""
    indices, batch = call.shape(1), call.attr("batch_dims", 0)
    (picked,) = [call.ask("GatherND", [call.type(0), call.type(1)])]
    if picked is None or batch < 2 or len(indices) < batch:
        return [picked]
    return [(product(picked[:batch]), *picked[batch:])]


def padded(call: Call) -> Types:
    """Each extent with what is before and after it, the second and third input; negative numbers cut."""
    x = call.shape(0)
    before, after = (call.settings_or_open("", place) or () for place in (1, 2))
    if not len(x) == len(before) == len(after):
        raise MisfitError(f"{len(before)} and {len(after)} paddings for {len(x)} axes")
    sides = zip(x, before, after, strict=True)
    return [tuple([OPEN if a is None or b is None else n + a + b for n, a, b in sides])]


def named(call: Call) -> Types:
    """The shape in the second input."""
    return [_open(call.settings_or_open("", 1) or ())]


def made(call: Call) -> Types:
    """The shape in the first input."""
    return [_open(call.settings_or_open("", 0) or ())]


def _open(extents: Sequence[int | None]) -> Dims:
    return tuple([OPEN if n is None else n for n in extents])


def tiled(call: Call) -> Types:
    """Each extent so many times; axes in front are added where there are more numbers than axes."""
    x, repeats = call.shape(0), list(call.settings_or_open("", 1) or ())
    rank = max(len(x), len(repeats))
    x = (*[1] * (rank - len(x)), *x)
    repeats = [*[1] * (rank - len(repeats)), *repeats]
    return [tuple([OPEN if times is None else n * times for n, times in zip(x, repeats, strict=True)])]


def depth_to_space(call: Call) -> Types:
    """Blocks of channels become blocks of places, along all axes behind the channels."""
    x, block = call.shape(0), call.positive("blocksize")
    return [(x[0], x[1] // block ** (len(x) - 2), *[n * block for n in x[2:]])]


def space_to_depth(call: Call) -> Types:
    """Blocks of places become blocks of channels, along all axes behind the channels."""
    x, block = call.shape(0), call.positive("blocksize")
    return [(x[0], x[1] * block ** (len(x) - 2), *[n // block for n in x[2:]])]


def space_to_batch(call: Call) -> Types:
    """Blocks of the padded image go to the batch; all inputs have a number for each axis."""
    x, (block, before, after) = call.shape(0), (call.wholes(place) for place in (1, 2, 3))
    extents = [(n + a + b) // size for n, size, a, b in zip(x, block, before, after, strict=True)]
    return [(x[0] * product(block), *extents[1:])]


def batch_to_space(call: Call) -> Types:
    """Members of the batch become blocks of the image, which is cropped."""
    x, (block, before, after) = call.shape(0), (call.wholes(place) for place in (1, 2, 3))
    extents = [n * size - a - b for n, size, a, b in zip(x, block, before, after, strict=True)]
    return [(x[0] // product(block), *extents[1:])]


def patches(call: Call) -> Types:
    """The elements of each window as channels of its place."""
    x, kernel = call.ranked(0, 4), call.attr("kernel_shape")
    return [(x[0], x[1] * product(kernel), *windows(call, x[2:], kernel))]


def eye(call: Call) -> Types:
    """Rows × columns, behind the axes that the fourth input names."""
    batch = call.settings_or_open("", 3) if call.has(3) else ()
    return [(*_open(batch or ()), *(_one(call, place) for place in (0, 1)))]


def _one(call: Call, place: int) -> int:
    number = call.number(place)
    return OPEN if number is None else number


def drawn(call: Call) -> Types:
    """As many numbers as the second input says, for each row."""
    return [(*call.shape(0)[:-1], _one(call, 1))]


def suppressed(call: Call) -> Types:
    """At most so many boxes for each class and image, their scores, and how many there are."""
    boxes = suppression(call)[0]
    return [boxes, boxes, (1,)]


def several_classes(call: Call) -> Types:
    """At most so many boxes for each image, where they come from, and how many there are in each image."""
    boxes, scores = call.ranked(0, 3), call.ranked(1, 3, 2)
    if len(scores) == 2:
        raise UnresolvedError
    batch, classes, number = boxes[0], scores[1], boxes[1]
    each, all_of = call.attr("nms_top_k", -1), call.attr("keep_top_k", -1)
    kept = (smaller(number, each) if each >= 0 else number) * classes
    kept = smaller(kept, all_of) if all_of >= 0 else kept
    return [(Most(batch * kept), 6), (Most(batch * kept), 1), (batch,)]


def spectrum(call: Call) -> Types:
    """As the first input, at the lengths of the third along the axes of the second."""
    shape = list(call.shape(0))
    for axis, length in _lengths(call, len(shape) - 1):
        shape[axis] = length
    return [tuple(shape)]


def half_spectrum(call: Call) -> Types:
    """Along the last axis half of the frequencies and one more; real and imaginary parts in an axis of their own."""
    shape, axes = list(call.shape(0)), call.wholes(1)
    for axis, length in _lengths(call, len(shape)):
        shape[axis] = length
    last = axis_of(axes[-1], len(shape))
    shape[last] = shape[last] // 2 + 1
    return [(*shape, 2)]


def real_signal(call: Call) -> Types:
    """Without the axis of real and imaginary parts; along the last axis twice the frequencies less two."""
    shape, axes = list(call.shape(0))[:-1], call.wholes(1)
    last = axis_of(axes[-1], len(shape))
    shape[last] = 2 * (shape[last] - 1)
    for axis, length in _lengths(call, len(shape)):
        shape[axis] = length
    return [tuple(shape)]


def _lengths(call: Call, rank: int) -> list[tuple[int, int]]:
    """The axes whose lengths the third input names, with these; -1 leaves one as it is."""
    if not call.has(2):
        return []
    pairs = zip(call.wholes(1), call.wholes(2), strict=True)
    return [(axis_of(axis, rank), length) for axis, length in pairs if length != -1]


def short_spectrum(call: Call) -> Types:
    """Frequencies and frames, or frames and frequencies, of windows of the signal; two parts each."""
    signal, size, step = call.shape(0), _one(call, 2), _one(call, 3)
    bins, frames = size // 2 + 1, (signal[-1] - size) // step + 1
    return [(*signal[:-1], *((bins, frames) if call.attr("transpose_frames") else (frames, bins)), 2)]


def regions(call: Call) -> Types:
    """A box of features for each region."""
    return [(call.shape(1)[0], call.attr("channels") or call.shape(0)[1], *call.attr("pooled_shape"))]


def priors(call: Call) -> Types:
    """Four corners and four variances of each prior box: (2, 4 × places × boxes)."""
    places = call.wholes(0)
    return [(2, 4 * product(places) * call.positive("boxes"))]


def detections(call: Call) -> Types:
    """At most as many rows of seven numbers as are kept."""
    return [(1, 1, _rows(call), 7)]


def _rows(call: Call) -> int:
    images: int = call.shape(0)[0]
    keep: int = call.attr("keep_top_k", -1)
    if keep > 0:
        return images * keep
    priors_, top = call.positive("priors"), call.attribute("top_k", -1)
    return images * (priors_ if top < 0 else min(top, priors_)) * call.positive("classes")


def proposals(call: Call) -> Types:
    """Five numbers, and a score, for each proposal that is kept."""
    rows = call.shape(0)[0] * call.positive("kept")
    return [(rows, 5), (rows,)]


def proposals_of_image(call: Call) -> Types:
    """Four numbers and a score for each proposal that is kept of one image."""
    return [(call.positive("kept"), 4), (call.positive("kept"),)]


def best_regions(call: Call) -> Types:
    """The best regions, four numbers each."""
    return [(call.positive("kept"), 4)]


def found(call: Call) -> Types:
    """Boxes, classes and scores of what is kept."""
    kept = call.positive("kept")
    return [(kept, 4), (kept,), (kept,)]


def features_of_regions(call: Call) -> Types:
    """The features of each region, and the regions in the order of these."""
    regions_, size = call.shape(0), call.positive("output_size")
    return [(regions_[0], call.shape(1)[1], size, size), regions_]


def reorganised(call: Call) -> Types:
    """Blocks of places as channels."""
    x, stride = call.ranked(0, 4), call.positive("stride")
    return [(x[0], x[1] * stride**2, x[2] // stride, x[3] // stride)]


def yolo(call: Call) -> Types:
    """The map, or with softmax its axes from one to another as one."""
    x = call.ranked(0, 4)
    if not call.attr("do_softmax"):
        boxes = len(call.attr("mask") or ())
        return [(x[0], (call.attr("classes") + call.attr("coords") + 1) * boxes, *x[2:])]
    start, end = axis_of(call.attr("axis"), 4), axis_of(call.attr("end_axis"), 4)
    return [(*x[:start], product(x[start : end + 1]), *x[end + 1 :])]


def samples(call: Call) -> Types:
    """A number for each sample."""
    return [call.shape(0)[:1]]


def decoded(call: Call) -> Types:
    """At most one class for each step, in axes of one behind samples and steps (CTCGreedyDecoder)."""
    steps, samples = call.shape(0)[:2]
    return [(samples, steps, 1, 1)]


def decoded_lengths(call: Call) -> Types:
    """At most one class for each step, and how many there are (CTCGreedyDecoderSeqLen)."""
    samples, steps = call.shape(0)[:2]
    return [(samples, steps), (samples,)]


def bags(call: Call) -> Types:
    """A row of the table for each bag: as many as the second input has rows (packed) or elements (offsets)."""
    return [(call.shape(call.attr("bags", 1))[0], *call.shape(0)[1:])]


def segments(call: Call) -> Types:
    """A row of the table for each of as many segments as the fourth input says."""
    return [(_one(call, 3), *call.shape(0)[1:])]


def segments_of_ids(call: Call) -> Types:
    """A row for each of as many segments as the third input says, or as the identifiers need."""
    count: int = OPEN
    if call.has(2):
        count = _one(call, 2)
    else:
        ids = call.wholes(1)
        count = max(ids) + 1 if ids else 0
    return [(count, *call.shape(0)[1:])]


def promoted(call: Call) -> Types:
    """Both inputs as they are."""
    return [call.shape(0), call.shape(1)]


def picture(call: Call) -> Types:
    """N × H × W × 3 from a picture of one plane with 3/2 H rows, or from the plane of the brightness."""
    x = call.ranked(0, 4)
    return [(x[0], x[1] if call.inputs > 1 else x[1] * 2 // 3, x[2], 3)]


def unpacked_strings(call: Call) -> Types:
    """Where each text begins and ends; the bytes are as many as the data say."""
    return [call.shape(0), call.shape(0), None]


def state(call: Call) -> Types:
    """As the value that it begins with, or of the shape that the file states."""
    stated = call.attr("shape")
    return [tuple(stated)] if stated is not None else [call.shape(0)]
