"""Layers of the forks that change the resolution, and what undoes a pooling.

Upsample as in caffe-segnet and darknet2caffe, Unpooling as in HyeonwooNoh/caffe, Interp as in DeepLab, Reorg as in the
YOLO forks.
"""

from __future__ import annotations

from flopwise.readers.caffe.layers.place import Lowered, Place, Row


def _upsample_op(place: Place) -> str:
    """With a mask it undoes a max-pooling, without it repeats the nearest element."""
    return "MaxUnpool" if len(place.bottoms) > 1 else "Resize"


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
    "Upsample": Row(_upsample_op, upsample, bottoms=(1, 2)),
    "Unpooling": Row(_unpooling_op, unpooling, bottoms=(1, 2)),
    "Interp": Row("Resize", interp, bottoms=(1, 2)),
    "Reorg": Row("caffe::Reorg", reorg),
}
