"""Convolutions, matrix products and poolings."""

from __future__ import annotations

from typing import Any

from flopwise.formats.tflite.lower.lowered import LAST_AXIS_FIRST, OUTPUTS_FIRST, Application, Rule
from flopwise.graph import Layout
from flopwise.operators import shape
from flopwise.operators.size import UnresolvedError
from flopwise.readers.subgraphs.lowered import CHANNELS_FIRST, CHANNELS_FIRST_3D, Lowered

#: What padding is called in the house: all that is missing at the end, or none.
_PADDING = ("SAME_UPPER", "VALID")


def _windows(application: Application, kernel: tuple[int, ...]) -> dict[str, object]:
    options = application.options
    axes = ("d", "h", "w") if "stride_d" in options else ("h", "w")
    return {
        "kernel_shape": list(kernel),
        "strides": [options[f"stride_{axis}"] for axis in axes],
        **({"dilations": [options[f"dilation_{axis}"] for axis in axes]} if "dilation_w" in options else {}),
        "auto_pad": _PADDING[options["padding"] & 1],
    }


def _with_bias(application: Application) -> tuple[int, ...]:
    return (0, 1, 2) if len(application.inputs) > 2 else (0, 1)


def convolution(application: Application) -> Lowered:
    """CONV_2D: the weights are (outputs, height, width, channels of a group)."""
    x, w = application.shape(0), application.shape(1)
    group = x[3] // w[3] if len(x) == len(w) == 4 and w[3] else 1
    attrs = {**_windows(application, w[1:3]), "group": max(group, 1)}
    return Lowered("Conv", _with_bias(application), attrs, Layout((CHANNELS_FIRST, OUTPUTS_FIRST), (CHANNELS_FIRST,)))


def depthwise(application: Application) -> Lowered:
    """DEPTHWISE_CONV_2D: the weights are (1, height, width, outputs), each channel is a group."""
    x, w = application.shape(0), application.shape(1)
    attrs = {**_windows(application, w[1:3]), "group": x[3] if len(x) == 4 else 1}
    return Lowered("Conv", _with_bias(application), attrs, Layout((CHANNELS_FIRST, LAST_AXIS_FIRST), (CHANNELS_FIRST,)))


def transposed(application: Application) -> Lowered:
    """TRANSPOSE_CONV: the shape of the result, weights (outputs, height, width, inputs), the image, a bias."""
    w = application.shape(1)
    places = (2, 1, 3) if len(application.inputs) > 3 else (2, 1)
    attrs = {**_windows(application, w[1:3]), "group": 1}
    layout = Layout((CHANNELS_FIRST, LAST_AXIS_FIRST), (CHANNELS_FIRST,))
    rule = shape.by("tflite:filled")
    return Lowered("ConvTranspose", places, attrs, layout, shape=rule, as_in_file=True)


def biased_transposed(application: Application) -> Lowered:
    """MediaPipe's Convolution2DTransposeBias: the image, weights (outputs, height, width, inputs), a bias."""
    attrs = {"kernel_shape": list(application.shape(1)[1:3]), "group": 1}
    return Lowered(
        "ConvTranspose",
        attrs=attrs,
        layout=Layout((CHANNELS_FIRST, LAST_AXIS_FIRST), (CHANNELS_FIRST,)),
        shape=_unknown,
        as_in_file=True,
    )


def _unknown(call: object) -> Any:
    """Strides and padding are in bytes that only the library reads."""
    raise UnresolvedError


def convolution_3d(application: Application) -> Lowered:
    """CONV_3D: the weights are (depth, height, width, channels, outputs)."""
    attrs = {**_windows(application, application.shape(1)[:3]), "group": 1}
    layout = Layout((CHANNELS_FIRST_3D, (4, 3, 0, 1, 2)), (CHANNELS_FIRST_3D,))
    return Lowered("Conv", _with_bias(application), attrs, layout)


def transposed_3d(application: Application) -> Lowered:
    """CONV_3D_TRANSPOSE: the result's shape, weights (depth, height, width, outputs, inputs), the image, a bias."""
    places = (2, 1, 3) if len(application.inputs) > 3 else (2, 1)
    rule = shape.by("tflite:filled")
    attrs = {**_windows(application, application.shape(1)[:3]), "group": 1}
    layout = Layout((CHANNELS_FIRST_3D, (4, 3, 0, 1, 2)), (CHANNELS_FIRST_3D,))
    return Lowered("ConvTranspose", places, attrs, layout, shape=rule, as_in_file=True)


def fully_connected(application: Application) -> Lowered:
    """FULLY_CONNECTED: the weights are (outputs, inputs)."""
    attrs = {"transB": 1, "keep_num_dims": int(application.options["keep_num_dims"])}
    return Lowered("Gemm", _with_bias(application), attrs, shape=shape.by("tflite:fully_connected"))


def matrix_product(application: Application) -> Lowered:
    """BATCH_MATMUL: each factor may be transposed."""
    orders = []
    for place, option in enumerate(("adj_x", "adj_y")):
        rank = len(application.shape(place))
        turned = (*range(rank - 2), rank - 1, rank - 2) if application.options[option] and rank > 1 else None
        orders.append(turned)
    return Lowered("MatMul", layout=Layout(tuple(orders)) if any(orders) else None)


def pooling(op: str, **attrs: object) -> Rule:
    """The rule for a pooling of images."""

    def rule(application: Application) -> Lowered:
        kernel = application.options["height"], application.options["width"]
        return Lowered(
            op, None, {**_windows(application, kernel), **attrs}, Layout((CHANNELS_FIRST,), (CHANNELS_FIRST,))
        )

    return rule
