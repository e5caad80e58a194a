"""Layers of the forks: prior boxes, proposals, regions of interest and what is detected; what changes the resolution.

Shapes as in the SSD branch (prior_box_layer.cpp, detection_output_layer.cpp), Fast R-CNN (roi_pooling_layer.cpp),
R-FCN (psroi_pooling_layer.cpp) and PVANet (proposal_layer.cpp); Upsample as in caffe-segnet and darknet2caffe,
Unpooling as in HyeonwooNoh/caffe, Interp as in DeepLab, Reorg as in the YOLO forks. How much is found depends on the
image.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from flopwise.formats.caffe.place import Extents, Lowered, Place, Row, product, show


def _ratios(place: Place, ratios: list[float], flip: bool) -> int:
    """The number of aspect ratios: 1, those given unless known to within 1e-6, and with flip their inverses."""
    distinct = [1.0]
    for ratio in ratios:
        if not 0.0 < ratio < float("inf"):
            raise place.error(f"aspect_ratio is {ratio:g}, must be positive")
        at = bisect_left(distinct, ratio - 1e-6)
        if at < len(distinct) and abs(distinct[at] - ratio) < 1e-6:
            continue
        insort(distinct, ratio)
        if flip:
            insort(distinct, 1.0 / ratio)
    return len(distinct)


def prior_box(place: Place, op: str) -> Lowered:
    """[1, 2, H × W × P × 4], P = ratios × min_sizes + max_sizes."""
    message = place.param("prior_box_param")
    shape = place.rank(place.bottom(), 4)
    smallest, largest = message.floats("min_size"), message.floats("max_size")
    if not smallest:
        raise place.error("has no min_size")
    if largest and len(largest) != len(smallest):
        raise place.error(f"has {len(smallest)} min_size and {len(largest)} max_size")
    ratios = _ratios(place, message.floats("aspect_ratio"), message.bool("flip", True))
    priors = ratios * len(smallest) + len(largest)
    return Lowered(op, ((1, 2, shape[2] * shape[3] * priors * 4),), attrs={"priors": priors})


def detection_output(place: Place, op: str) -> Lowered:
    """[1, 1, R, 7], R at most keep_top_k per image, or all that the classes keep."""
    message = place.param("detection_output_param")
    suppression = message.merged("nms_param")
    location, _, prior, *_ = place.all_bottoms()
    classes = place.size(message, "num_classes")
    if len(prior) != 3 or prior[2] % 4:
        raise place.error(f"its prior boxes have shape {show(prior)}, must be 1x2x(4 times their number)")
    priors = prior[2] // 4
    shared = message.bool("share_location", True)
    boxes = priors * (1 if shared else classes)
    images = location[0] if location else 1
    if product(location) != images * boxes * 4:
        raise place.error(f"locations of shape {show(location)} do not fit {boxes} boxes")
    background = message.int("background_label_id", 0)
    searched = classes - (0 <= background < classes)
    candidates = min(priors, suppression.int("top_k", -1)) if suppression.int("top_k", -1) > -1 else priors
    kept_boxes, most = message.int("keep_top_k", -1), searched * candidates
    if kept_boxes > -1:
        most = min(kept_boxes, most)
    attrs = {"boxes": boxes, "priors": priors, "classes": searched, "candidates": candidates}
    return Lowered(op, ((1, 1, max(1, images * most), 7),), attrs=attrs, bound=True)


def proposal(place: Place, op: str) -> Lowered:
    """[R, 5], R at most post_nms_topn (or max_rois) per image; the second top holds the scores."""
    message = place.param("proposal_param")
    scores = place.rank(place.bottom(), 4)
    anchors = scores[1] // 2 * scores[2] * scores[3]
    before = place.at_least(0, message.int("pre_nms_topn", 6000), "pre_nms_topn")
    after = place.at_least(1, message.int("post_nms_topn", message.int("max_rois", 300)), "post_nms_topn")
    regions = scores[0] * after
    outputs = ((regions, 5), (regions, 1))[: len(place.layer.tops)]
    candidates = min(before, anchors) if before else anchors
    return Lowered(op, outputs, attrs={"anchors": anchors, "candidates": candidates}, bound=True)


def _regions(place: Place) -> tuple[Extents, int]:
    """The shape of the features, and the number of regions: five numbers each."""
    features, regions = place.rank(place.bottom(0), 4), place.bottom(1)
    if not regions or product(regions[1:]) != 5:
        raise place.error(f"its regions have shape {show(regions)}, must be five numbers each")
    return features, regions[0]


def roi_pooling(place: Place, op: str) -> Lowered:
    """[R, C, pooled_h, pooled_w]."""
    message = place.param("roi_pooling_param")
    features, regions = _regions(place)
    return Lowered(op, ((regions, features[1], place.size(message, "pooled_h"), place.size(message, "pooled_w")),))


def psroi_pooling(place: Place, op: str) -> Lowered:
    """[R, output_dim, group_size, group_size]; the features have output_dim × group_size² channels."""
    message = place.param("psroi_pooling_param")
    features, regions = _regions(place)
    outputs, group = place.size(message, "output_dim"), place.size(message, "group_size")
    if features[1] != outputs * group**2:
        raise place.error(f"has {features[1]} channels, must be {outputs} for each of {group}x{group} parts")
    return Lowered(op, ((regions, outputs, group, group),))


def upsample(place: Place, op: str) -> Lowered:
    """upsample_h × upsample_w, or scale times as large less pad_out; without a mask `scale`, or `stride`, alone."""
    message = place.param("upsample_param")
    *batch, height, width = place.rank(place.bottom(), 4)
    if message.has("upsample_h") or message.has("upsample_w"):
        out = place.size(message, "upsample_h"), place.size(message, "upsample_w")
    else:
        field = "stride" if message.has("stride") or message.has("stride_h") else "scale"
        factors = place.square(message, field, field, 1, 2 if len(place.bottoms) > 1 else 1)
        cropped = [int(message.bool(f"pad_out_{side}", False)) for side in "hw"]
        out = height * factors[0] - cropped[0], width * factors[1] - cropped[1]
    for extent in out:
        place.at_least(1, extent, "extent of the top")
    attrs = {"mode": "nearest"} if op == "Resize" else {}
    return Lowered(op, ((*batch, *out),), attrs=attrs)


def unpooling(place: Place, op: str) -> Lowered:
    """unpool_size, or unpool_h × unpool_w; without them the larger of (i − 1) stride + kernel and i stride + 1."""
    message = place.param("unpooling_param")
    *batch, height, width = place.rank(place.bottom(), 4)
    method = place.choice(message, "unpool", ("MAX", "AVE", "TILE"))
    kernel = place.square(message, "kernel_size", "kernel", 1, None)
    stride = place.square(message, "stride", "stride", 1, 1)
    pad = place.square(message, "pad", "pad", 0, 0)
    if message.has("unpool_size") or message.has("unpool_h") or message.has("unpool_w"):
        out = place.square(message, "unpool_size", "unpool", 1, None)
    else:
        rows, columns = (
            max((i - 1) * s + k - 2 * p, i * s - p + 1)
            for i, s, k, p in zip((height, width), stride, kernel, pad, strict=True)
        )
        out = place.at_least(1, rows, "height"), place.at_least(1, columns, "width")
    attrs = {"kernel_shape": list(kernel), "strides": list(stride), "unpool": method}
    return Lowered(op, ((*batch, *out),), attrs=attrs)


def _unpooling_op(place: Place) -> str:
    method = place.choice(place.param("unpooling_param"), "unpool", ("MAX", "AVE", "TILE"))
    return "MaxUnpool" if method == "MAX" and len(place.bottoms) > 1 else "caffe::Unpooling"


def reorg(place: Place, op: str) -> Lowered:
    """Squares of stride × stride positions become channels, or, with `reverse`, the other way round."""
    message = place.param("reorg_param")
    batch, channels, height, width = place.rank(place.bottom(), 4)
    stride = place.size(message, "stride")
    if message.bool("reverse", False):
        if channels % stride**2:
            raise place.error(f"cannot spread {channels} channels over squares of {stride}x{stride}")
        return Lowered(op, ((batch, channels // stride**2, height * stride, width * stride),))
    if height % stride or width % stride:
        raise place.error(f"cannot cut {height}x{width} into squares of {stride}x{stride}")
    return Lowered(op, ((batch, channels * stride**2, height // stride, width // stride),))


def interp(place: Place, op: str) -> Lowered:
    """Shrunk, zoomed, or to height × width; a second bottom without parameters gives the size."""
    message = place.param("interp_param")
    *batch, height, width = place.rank(place.bottom(), 4)
    begin, end = message.int("pad_beg", 0), message.int("pad_end", 0)
    size = [place.at_least(1, extent + begin + end, "padded extent") for extent in (height, width)]
    shrunk, zoomed = message.has("shrink_factor"), message.has("zoom_factor")
    if shrunk:
        factor = place.size(message, "shrink_factor")
        size = [(extent - 1) // factor + 1 for extent in size]
    if zoomed:
        factor = place.size(message, "zoom_factor")
        size = [extent + (extent - 1) * (factor - 1) for extent in size]
    if message.has("height") or message.has("width"):
        if shrunk or zoomed:
            raise place.error("has a factor and a height or width: one form only")
        size = [place.size(message, "height"), place.size(message, "width")]
    elif not (shrunk or zoomed):
        if len(place.bottoms) < 2:
            raise place.error("has neither a factor nor height and width")
        size = list(place.rank(place.bottom(1), 4)[2:])
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return Lowered(op, ((*batch, *size),), attrs=attrs)


LAYERS: dict[str, Row] = {
    "PriorBox": Row("caffe::PriorBox", prior_box, (1, 2)),
    "DetectionOutput": Row("caffe::DetectionOutput", detection_output, (3, None)),
    "Proposal": Row("caffe::Proposal", proposal, (3, 3), (1, 2)),
    "ROIPooling": Row("caffe::ROIPooling", roi_pooling, (2, 2)),
    "PSROIPooling": Row("caffe::PSROIPooling", psroi_pooling, (2, 2)),
    # With a mask it undoes a max-pooling, without it repeats the nearest element.
    "Upsample": Row(lambda place: "MaxUnpool" if len(place.bottoms) > 1 else "Resize", upsample, bottoms=(1, 2)),
    "Unpooling": Row(_unpooling_op, unpooling, bottoms=(1, 2)),
    "Interp": Row("Resize", interp, bottoms=(1, 2)),
    "Reorg": Row("caffe::Reorg", reorg),
}
