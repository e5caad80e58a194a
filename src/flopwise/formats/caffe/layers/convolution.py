"""Caffe layers that contract with stored weights: convolutions, inner products, embeddings; and Im2col.

Shapes as in BVLC Caffe, src/caffe/layers/base_conv_layer.cpp, conv_layer.cpp, deconv_layer.cpp, im2col_layer.cpp,
inner_product_layer.cpp and embed_layer.cpp.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, Weight, product

if TYPE_CHECKING:
    from flopwise.formats.caffe.message import Message


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

LAYERS: dict[str, Row] = {
    "Convolution": Row("Conv", convolution, _MANY, _MANY, stores=True),
    "ConvolutionDepthwise": Row("Conv", partial(convolution, depthwise=True), _MANY, _MANY, stores=True),
    "DepthwiseConvolution": Row("Conv", partial(convolution, depthwise=True), _MANY, _MANY, stores=True),
    "Deconvolution": Row("ConvTranspose", partial(convolution, transposed=True), _MANY, _MANY, stores=True),
    "Im2col": Row("caffe::Im2col", im2col),
    "InnerProduct": Row("Gemm", inner_product, stores=True),
    "Embed": Row("caffe::Embed", embed, stores=True),
}
