"""Caffe's pooling: rounding up, then clipping; and spatial pyramids of it.

Shapes as in BVLC Caffe, src/caffe/layers/pooling_layer.cpp and spp_layer.cpp.
"""

from __future__ import annotations

from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, product, show
from flopwise.operators.size import smaller

_METHODS = ("MAX", "AVE", "STOCHASTIC")
_OPS = {"MAX": "MaxPool", "AVE": "AveragePool", "STOCHASTIC": "caffe::StochasticPooling"}
_GLOBAL = {"MAX": "GlobalMaxPool", "AVE": "GlobalAveragePool"}


def pooled(extent: int, kernel: int, stride: int, pad: int, *, up: bool, clip: bool) -> int:
    """Windows along one axis: rounded up or down; with ``clip`` the last one must start inside the input.

    >>> pooled(55, 3, 2, 0, up=True, clip=False), pooled(6, 3, 2, 1, up=True, clip=True)
    (27, 4)
    """
    room = extent + 2 * pad - kernel
    windows = (-(-room // stride) if up else room // stride) + 1
    return smaller(windows, (extent + pad - 1) // stride + 1) if clip else windows


def _op(place: Place) -> str:
    """Max, average or stochastic pooling, over windows or over everything."""
    message = place.param("pooling_param")
    method = place.choice(message, "pool", _METHODS)
    if message.bool("global_pooling", False):
        return _GLOBAL.get(method, _OPS[method])
    return _OPS[method]


def pooling(place: Place, op: str) -> Lowered:
    """Windows rounded up unless round_mode is FLOOR or ceil_mode false; the second top, the mask, is as large."""
    message = place.param("pooling_param")
    shape = place.rank(place.bottom(), 4)
    *batch, height, width = shape
    if message.bool("global_pooling", False):
        kernel, stride, pad = (height, width), (1, 1), (0, 0)
    else:
        kernel = place.square(message, "kernel_size", "kernel", 1, None)
        stride = place.square(message, "stride", "stride", 1, 1)
        pad = place.square(message, "pad", "pad", 0, 0)
    up = place.choice(message, "round_mode", ("CEIL", "FLOOR")) == "CEIL" and message.bool("ceil_mode", True)
    out = _windows(place, (height, width), kernel, stride, pad, up)
    attrs: dict[str, int | list[int]] = {
        "kernel_shape": list(kernel),
        "strides": list(stride),
        "pads": [*pad, *pad],
    }
    if up:
        attrs["ceil_mode"] = 1
    if op == "AveragePool":
        attrs["count_include_pad"] = 1
    if op.startswith("Global"):
        attrs = {}
    return Lowered(op, ((*batch, *out),) * len(place.layer.tops), attrs=attrs)


def _windows(
    place: Place, spatial: tuple[int, int], kernel: Extents, stride: Extents, pad: Extents, up: bool
) -> Extents:
    """Windows along both axes."""
    for k, p in zip(kernel, pad, strict=True):
        if p >= max(k, 1) and p:
            raise place.error(f"a padding of {p} is not smaller than the kernel of {k}")
    clip = any(pad)
    out = [pooled(*axis, up=up, clip=clip) for axis in zip(spatial, kernel, stride, pad, strict=True)]
    if any(windows < 1 for windows in out):
        raise place.error(f"the kernel {show(kernel)} does not fit into {show(spatial)} with a padding of {show(pad)}")
    return tuple(out)


def pyramid(place: Place, op: str) -> Lowered:
    """Level l pools into 2^l bins per side, k = ceil(i / bins), padded as far as the last bin reaches."""
    message = place.param("spp_param")
    shape = place.rank(place.bottom(), 4)
    batch, channels, *spatial = shape
    for extent in spatial:
        place.at_least(1, extent, "height or width")
    levels = place.size(message, "pyramid_height")
    method = place.choice(message, "pool", _METHODS)
    attrs: dict[str, object] = {"pool": method}
    if levels == 1:
        return Lowered(op, ((batch, channels, 1, 1),), attrs={**attrs, "kernels": [spatial], "bins": [1]})
    kernels, bins = [], []
    for level in range(levels):
        side = 2**level
        kernel = [-(-extent // side) for extent in spatial]
        pad = [(k * side - extent + 1) // 2 for k, extent in zip(kernel, spatial, strict=True)]
        out = _windows(place, (spatial[0], spatial[1]), tuple(kernel), tuple(kernel), tuple(pad), True)
        kernels.append(kernel)
        bins.append(product(out))
    return Lowered(op, ((batch, channels * sum(bins)),), attrs={**attrs, "kernels": kernels, "bins": bins})


LAYERS: dict[str, Row] = {
    "Pooling": Row(_op, pooling, tops=(1, 2)),
    "SPP": Row("caffe::SPP", pyramid),
}
