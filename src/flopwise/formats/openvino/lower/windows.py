"""Convolutions, poolings and what else lays windows over images."""

from __future__ import annotations

from flopwise.formats.openvino.lower.lowered import Application, Lowered, Rule, joined
from flopwise.operators import shape

#: How padding is called in the house.
_PADDING = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}

#: How rounding is called there: as ONNX rounds up, and so that windows may start behind the image.
_ROUNDING = {"ceil": 2, "ceil_torch": 1}


def _windows(application: Application, *kernel: str) -> dict[str, object]:
    """The attributes that say how windows lie."""
    attrs: dict[str, object] = {"auto_pad": _PADDING.get(application.text("auto_pad"), "NOTSET")}
    before, after = application.ints("pads_begin"), application.ints("pads_end")
    if before or after:
        attrs["pads"] = (*before, *after)
    for name, said in (("strides", "strides"), ("dilations", "dilations"), *(("kernel_shape", one) for one in kernel)):
        if numbers := application.ints(said):
            attrs[name] = numbers
    return attrs


def _groups(application: Application) -> int:
    shape_ = application.shape(1)
    return shape_[0] or 1 if shape_ else 1


def convolution(application: Application) -> Lowered:
    """Convolution: the weights are (outputs, channels, kernel)."""
    return Lowered("Conv", (0, 1), {**_windows(application), "group": 1})


def grouped(application: Application) -> Lowered:
    """GroupConvolution: the weights are (groups, outputs, channels of a group, kernel)."""
    attrs = {**_windows(application), "group": _groups(application)}
    return Lowered("Conv", (0, 1), attrs, shape.by("openvino:grouped_conv"), views={1: joined((0, 1))})


def _transposed(application: Application) -> dict[str, object]:
    attrs = _windows(application)
    rank = max(len(application.shape(0)) - 2, 0)
    attrs.setdefault("strides", (1,) * rank)
    attrs.setdefault("dilations", (1,) * rank)
    if more := application.ints("output_padding"):
        attrs["output_padding"] = more
    return attrs


def backprop(application: Application) -> Lowered:
    """ConvolutionBackpropData: the weights are (inputs, outputs, kernel)."""
    attrs = {**_transposed(application), "group": 1}
    return Lowered("ConvTranspose", None, attrs, shape.by("openvino:transposed_conv"), shows=2)


def grouped_backprop(application: Application) -> Lowered:
    """GroupConvolutionBackpropData: the weights are (groups, inputs of a group, outputs of a group, kernel)."""
    attrs = {**_transposed(application), "group": _groups(application)}
    rule = shape.by("openvino:transposed_conv")
    return Lowered("ConvTranspose", None, attrs, rule, views={1: joined((0, 1))}, shows=2)


def binary(application: Application) -> Lowered:
    """BinaryConvolution: weights of one bit, whose shape is that of a convolution's."""
    from flopwise.operators.tables import row

    return Lowered("openvino::BinaryConvolution", (0, 1), {**_windows(application), "group": 1}, row("Conv").shape)


def deformable(application: Application) -> Lowered:
    """DeformableConvolution: the image, offsets, weights and a mask."""
    attrs = {
        **_windows(application),
        "group": application.number("group", 1),
        "offset_group": application.number("deformable_group", 1),
    }
    return Lowered("DeformConv", (0, 2, 1, -1, 3) if application.inputs > 3 else (0, 2, 1), attrs)


def _pooling(application: Application) -> dict[str, object]:
    rank = max(len(application.shape(0)) - 2, 0)
    attrs = {**_windows(application, "kernel"), "ceil_mode": _ROUNDING.get(application.text("rounding_type"), 0)}
    attrs.setdefault("strides", (1,) * rank)
    attrs.setdefault("pads", (0,) * (2 * rank))
    return attrs


def max_pool(application: Application) -> Lowered:
    """MaxPool, with the places of the largest from operator set 8 on."""
    return Lowered("MaxPool", (0,), _pooling(application), shape.by("openvino:pool"))


def average_pool(application: Application) -> Lowered:
    """AvgPool, with padding among what is averaged or without."""
    attrs = {**_pooling(application), "count_include_pad": int(not application.flag("exclude-pad"))}
    return Lowered("AveragePool", (0,), attrs, shape.by("openvino:pool"))


def adaptive(op: str) -> Rule:
    """The rule for a pooling to a size; axes are those behind the channels."""

    def rule(application: Application) -> Lowered:
        rank = max(len(application.shape(0)) - 2, 1)
        return Lowered(f"openvino::{op}", None, {"axes": rank})

    return rule


def patches(application: Application) -> Lowered:
    """ExtractImagePatches."""
    attrs = {
        "kernel_shape": application.ints("sizes"),
        "strides": application.ints("strides"),
        "dilations": application.ints("rates"),
        "auto_pad": _PADDING.get(application.text("auto_pad"), "VALID"),
    }
    return Lowered("openvino::ExtractImagePatches", (0,), attrs)


def columns(application: Application) -> Lowered:
    """Col2Im: what windows hold is added up to an image."""
    return Lowered("Col2Im", None, _windows(application))
