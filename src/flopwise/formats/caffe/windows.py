"""Caffe's layers that slide a window: convolutions, inner products, pooling."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from flopwise.formats.caffe.place import Extents, Lowered, Place, Row, Weight, product, show
from flopwise.operators.size import smaller

if TYPE_CHECKING:
    from flopwise.formats.caffe.message import Message


# Caffe layers that contract with stored weights: convolutions, inner products, embeddings; and Im2col.
#
# Shapes as in BVLC Caffe, src/caffe/layers/base_conv_layer.cpp, conv_layer.cpp, deconv_layer.cpp, im2col_layer.cpp,
# inner_product_layer.cpp and embed_layer.cpp.


class Window(NamedTuple):
    """The geometry of a convolution, one value per spatial axis."""

    kernel: Extents
    stride: Extents
    pad: Extents
    dilation: Extents

    @property
    def reach(self) -> Extents:
        """Elements from the first to the last that one application spans."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def attrs(self) -> dict[str, list[int]]:
        """The same as attributes of an ONNX convolution."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.stride),
            "pads": [*self.pad, *self.pad],
            "dilations": list(self.dilation),
        }


def _per_axis(place: Place, message: Message, name: str, stem: str, rank: int, least: int, default: int) -> Extents:
    """A repeated field, one value for all spatial axes or one for each; or its form with _h and _w."""
    values = message.ints(name)
    if message.has(f"{stem}_h") or message.has(f"{stem}_w"):
        if values:
            raise place.error(f"has {name} and {stem}_h or {stem}_w: one form only")
        if rank != 2:
            raise place.error(f"has {stem}_h or {stem}_w, but {rank} spatial dimensions")
        values = [message.int(f"{stem}_h", 0), message.int(f"{stem}_w", 0)]
    elif not values:
        values = [default]
    if len(values) == 1:
        values = values * rank
    if len(values) != rank:
        raise place.error(f"has {len(values)} values of {name} for {rank} spatial dimensions")
    return tuple(place.at_least(least, value, name) for value in values)


def _window(place: Place, message: Message, rank: int) -> Window:
    """The geometry over ``rank`` spatial axes."""
    kernel = _per_axis(place, message, "kernel_size", "kernel", rank, 1, 0)
    return Window(
        kernel,
        _per_axis(place, message, "stride", "stride", rank, 1, 1),
        _per_axis(place, message, "pad", "pad", rank, 0, 0),
        _per_axis(place, message, "dilation", "dilation", rank, 1, 1),
    )


def _positions(place: Place, spatial: Extents, window: Window) -> Extents:
    """Positions of the window along each axis; a window one stride too long still has one, as C++ divides."""
    extents = []
    for i, reach, stride, pad in zip(spatial, window.reach, window.stride, window.pad, strict=True):
        room = i + 2 * pad - reach
        steps = room // stride if room >= 0 else -(-room // stride)
        if steps < 0:
            raise place.error(f"the window of {reach} elements does not fit into {i} with a padding of {pad}")
        extents.append(steps + 1)
    return tuple(extents)


def _swept(place: Place, spatial: Extents, window: Window) -> Extents:
    """Extents that a transposed convolution fills."""
    extents = []
    for i, reach, stride, pad in zip(spatial, window.reach, window.stride, window.pad, strict=True):
        filled = stride * (i - 1) + reach - 2 * pad
        if filled < 1:
            raise place.error(f"nothing is left of {i} positions after cropping {pad} on both sides")
        extents.append(filled)
    return tuple(extents)


def _split(place: Place, shape: Extents, message: Message) -> tuple[Extents, int, Extents]:
    """Batch extents, channels and spatial extents of a bottom."""
    axis = place.axis(message.int("axis", 1), len(shape))
    return shape[:axis], shape[axis], shape[axis + 1 :]


def convolution(place: Place, op: str, *, transposed: bool = False, depthwise: bool = False) -> tuple[Lowered, ...]:
    """One operator per bottom, all with the same weights: [num_output, C/group, *kernel], of a transposed one [C,
    num_output/group, *kernel], and, unless bias_term is false, [num_output].

    A depthwise one has one group per channel, whatever `group` says.
    """
    message = place.param("convolution_param")
    number = len(place.bottoms)
    if number != len(place.layer.tops):
        raise place.error(f"has {number} bottoms and {len(place.layer.tops)} tops: one top for each bottom")
    batch, channels, spatial = _split(place, place.alike(), message)
    filters = place.size(message, "num_output")
    group = channels if depthwise else place.at_least(1, message.int("group", 1), "group")
    place.at_least(1, channels, "number of channels")
    if channels % group or filters % group:
        raise place.error(f"{group} groups do not divide {channels} channels and {filters} outputs evenly")
    window = _window(place, message, len(spatial))
    if transposed:
        weight = channels, filters // group, *window.kernel
        out = _swept(place, spatial, window)
    else:
        weight = filters, channels // group, *window.kernel
        out = _positions(place, spatial, window)
    weights: tuple[Weight, ...] = (("weight", weight, "weight"),)
    if message.bool("bias_term", True):
        weights = *weights, ("bias", (filters,), "weight")
    flattened = None if len(batch) == 1 else ((product(batch), channels, *spatial),)
    attrs = {**window.attrs, "group": group}
    outputs = ((*batch, filters, *out),)
    if number == 1:
        return (Lowered(op, outputs, weights, attrs, flattened),)
    return tuple(Lowered(op, outputs, weights, attrs, flattened, reads=(i,), writes=(i,)) for i in range(number))


def im2col(place: Place, op: str) -> Lowered:
    """Every window of a convolution as one column."""
    message = place.param("convolution_param")
    batch, channels, spatial = _split(place, place.bottom(), message)
    window = _window(place, message, len(spatial))
    columns = channels * product(window.kernel)
    return Lowered(op, ((*batch, columns, *_positions(place, spatial, window)),), attrs=window.attrs)


def inner_product(place: Place, op: str) -> Lowered:
    """[num_output, K], or [K, num_output] with `transpose`, and, unless bias_term is false, [num_output]."""
    message = place.param("inner_product_param")
    shape = place.bottom()
    outputs = place.size(message, "num_output")
    axis = place.axis(message.int("axis", 1), len(shape))
    rows, inner = product(shape[:axis]), product(shape[axis:])
    transposed = message.bool("transpose", False)
    weights: tuple[Weight, ...] = (("weight", (inner, outputs) if transposed else (outputs, inner), "weight"),)
    if message.bool("bias_term", True):
        weights = *weights, ("bias", (outputs,), "weight")
    attrs = {} if transposed else {"transB": 1}
    return Lowered(op, ((*shape[:axis], outputs),), weights, attrs, ((rows, inner),))


def embed(place: Place, op: str) -> Lowered:
    """[input_dim, num_output] and, unless bias_term is false, [num_output]."""
    message = place.param("embed_param")
    outputs = place.size(message, "num_output")
    bias = message.bool("bias_term", True)
    weights: tuple[Weight, ...] = (("weight", (place.size(message, "input_dim"), outputs), "weight"),)
    if bias:
        weights = *weights, ("bias", (outputs,), "weight")
    return Lowered(op, ((*place.bottom(), outputs),), weights, {"bias_term": int(bias)})


_MANY = (1, None)


# Caffe's pooling: rounding up, then clipping; and spatial pyramids of it.
#
# Shapes as in BVLC Caffe, src/caffe/layers/pooling_layer.cpp and spp_layer.cpp.

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
    "Convolution": Row("Conv", convolution, _MANY, _MANY, stores=True),
    "ConvolutionDepthwise": Row("Conv", partial(convolution, depthwise=True), _MANY, _MANY, stores=True),
    "DepthwiseConvolution": Row("Conv", partial(convolution, depthwise=True), _MANY, _MANY, stores=True),
    "Deconvolution": Row("ConvTranspose", partial(convolution, transposed=True), _MANY, _MANY, stores=True),
    "Im2col": Row("caffe::Im2col", im2col),
    "InnerProduct": Row("Gemm", inner_product, stores=True),
    "Embed": Row("caffe::Embed", embed, stores=True),
    "Pooling": Row(_op, pooling, tops=(1, 2)),
    "SPP": Row("caffe::SPP", pyramid),
}
