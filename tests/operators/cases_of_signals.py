"""Small applications of the operators on signals and images, of losses, and of attention with a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.operators.arrays import Input, given, positive, real
from tests.operators.case import Case, case

#: A kernel of three places in each of two directions, moved by up to two elements.
_OFFSETS = np.random.default_rng(3)


def _offsets(*shape: int) -> Input:
    return Input(_OFFSETS.uniform(-1.4, 1.4, shape))


def convolution_cases() -> Iterator[Case]:
    yield case("DeformConv", real(1, 1, 4, 4), real(1, 1, 2, 2), _offsets(1, 8, 3, 3), version=19)
    yield case(
        "DeformConv", real(2, 4, 5, 4), real(4, 2, 3, 2), _offsets(2, 24, 3, 3), real(4), positive(2, 12, 3, 3),
        version=19, group=2, offset_group=2, pads=[1, 0, 1, 0], strides=[2, 1],
    )  # fmt: skip
    yield case(
        "DeformConv", real(1, 2, 6, 6), real(3, 2, 2, 2), _offsets(1, 8, 4, 4), real(3), version=19, dilations=[2, 2]
    )
    x, w, past = real(2, 3, 5), real(3, 1, 4), real(2, 3, 3)
    yield case("CausalConvWithState", x, w, version=27, outputs=2)
    yield case("CausalConvWithState", x, w, real(3), past, version=27, outputs=2, activation="silu")
    yield case("CausalConvWithState", x, w, None, past, version=27, outputs=2, activation="swish")
    yield case("Col2Im", real(1, 8, 6), given([3, 4]), given([2, 2]))
    yield case("Col2Im", real(2, 12, 12), given([5, 5]), given([2, 3]), pads=[1, 0, 1, 1], strides=[2, 1])
    yield case("Col2Im", real(1, 4, 9), given([5, 5]), given([2, 2]), dilations=[2, 2])
    for corners in (0, 1):
        yield case("AffineGrid", real(2, 2, 3), given([2, 3, 4, 5]), align_corners=corners)
        yield case("AffineGrid", real(2, 3, 4), given([2, 1, 2, 3, 4]), align_corners=corners)


def attention_cases() -> Iterator[Case]:
    q, k, v, past = real(2, 3, 8), real(2, 3, 4), real(2, 3, 6), real(2, 2, 2, 3)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}

    def linear(*inputs: Input | None, rule: str, **attrs: Any) -> Case:
        return case("LinearAttention", *inputs, version=27, outputs=2, update_rule=rule, **heads, **attrs)

    yield linear(q, k, v, rule="linear")
    yield linear(q, k, v, past, rule="linear", scale=0.3)
    yield linear(q, k, v, past, real(2, 3, 4), rule="gated")
    yield linear(q, k, v, None, real(2, 3, 2), rule="gated")
    yield linear(q, k, v, past, None, positive(2, 3, 2), rule="delta")
    yield linear(q, k, v, past, real(2, 3, 4), positive(2, 3, 1), rule="gated_delta")
    flex = "ai.onnx.preview::FlexAttention"
    yield case(flex, real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 6))
    yield case(flex, real(1, 4, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4), scale=0.7)


def _labels(classes: int, *shape: int) -> Input:
    return Input(np.random.default_rng(4).integers(0, classes, shape))


def loss_cases() -> Iterator[Case]:
    for op, outputs in (("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2)):
        for reduction in ("none", "sum", "mean"):
            for weight in (None, positive(3)):
                yield case(op, real(4, 3), _labels(3, 4), weight, outputs=outputs, reduction=reduction)
            yield case(op, real(2, 3, 2, 2), _labels(3, 2, 2, 2), outputs=outputs, reduction=reduction)
            yield case(op, real(5, 3), _labels(3, 5), positive(3), outputs=outputs, reduction=reduction, ignore_index=1)
            yield case(op, real(2, 3, 3), _labels(3, 2, 3), outputs=outputs, reduction=reduction, ignore_index=0)


def pointwise_cases() -> Iterator[Case]:
    yield case("SwiGLU", real(3, 4), real(3, 4), version=28)
    yield case("SwiGLU", real(3, 4), real(3, 4), version=28, alpha=1.7)
    yield case("CumProd", real(2, 3, 4), given(1), version=26)
    yield case("CumProd", real(2, 3), given(-1), version=26, exclusive=1, reverse=1)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            yield case(op, Input(np.array(7)), periodic=periodic)


def early_mean_variance_cases() -> Iterator[Case]:
    """Before opset 9 the sample is never averaged over."""
    op, x = "MeanVarianceNormalization", real(2, 3, 4, 5)
    for across in (0, 1):
        axes = (1, 2, 3) if across else (2, 3)
        for variance in (0, 1):

            def expected(x: Any, axes: tuple[int, ...] = axes, variance: int = variance) -> list[Any]:
                centred = x - x.mean(axes, keepdims=True)
                return [centred / (x.std(axes, keepdims=True) + 1e-9) if variance else centred]

            attrs = {"across_channels": across, "normalize_variance": variance}
            yield Case(op, (x,), attrs, 1, expected=expected, told={"version": 1})


def _early(op: str, inputs: tuple[Input, ...], expected: Any, **attrs: Any) -> Case:
    """An operator that no version of onnx at hand knows any more."""
    return Case(op, inputs, attrs, 1, expected=lambda *arrays: [expected(*arrays)])


def early_cases() -> Iterator[Case]:
    x = real(2, 3, 2, 2)
    yield _early("Affine", (x,), lambda x: 2.0 * x - 1.0, alpha=2.0, beta=-1.0)
    yield _early("Scale", (x,), lambda x: 3.0 * x, scale=3.0)
    yield _early("ScaledTanh", (x,), lambda x: 0.5 * np.tanh(2.0 * x), alpha=0.5, beta=2.0)
    yield _early("ParametricSoftplus", (x,), lambda x: 0.5 * np.log1p(np.exp(2.0 * x)), alpha=0.5, beta=2.0)
    yield _early("ImageScaler", (x,), lambda x: 2.0 * x, scale=2.0)
    bias = np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    yield _early("ImageScaler", (x,), lambda x: 2.0 * x + bias, scale=2.0, bias=[1.0, 2.0, 3.0])
    yield _early("FC", (real(2, 3), real(4, 3)), lambda x, w: x @ w.T)
    yield _early("FC", (real(2, 3), real(4, 3), real(4)), lambda x, w, b: x @ w.T + b)

    def unit(hidden: Any, gates: Any) -> Any:
        update = 1 / (1 + np.exp(-gates[:, 4:8]))
        return update * hidden + (1 - update) * np.tanh(gates[:, 8:])

    yield _early("GRUUnit", (real(3, 4), real(3, 12)), unit)


FAMILIES = (
    convolution_cases,
    attention_cases,
    loss_cases,
    pointwise_cases,
    early_mean_variance_cases,
    early_cases,
)


def transform_cases() -> Iterator[Case]:
    yield from (
        case("Det", real(4, 4)),
        case("Det", real(2, 3, 5, 5)),
        case("Det", real(3, 1, 1)),
        case("DFT", real(2, 6, 1)),
        case("DFT", real(2, 5, 2)),
        case("DFT", real(2, 5, 2), inverse=1),
        case("DFT", real(2, 7, 1), onesided=1),
        case("DFT", real(2, 4, 2), onesided=1, inverse=1),
        case("DFT", real(2, 4, 2), given(7), onesided=1, inverse=1),
        case("DFT", real(2, 6, 1), given(9)),
        case("DFT", real(2, 6, 1), given(4), onesided=1),
        case("DFT", real(2, 6, 1), given(5), onesided=1),
        case("DFT", real(3, 4, 2, 2), None, given(1)),
        case("DFT", real(3, 4, 5, 1), None, given(0), onesided=1),
        Case("DFT", (real(2, 6, 3, 1),), {"axis": 2}, 17, told={"version": 17}),
        Case("DFT", (real(2, 6, 3, 1),), {}, 17, told={"version": 17}),
        Case("DFT", (real(2, 6, 2, 2), given(4)), {"inverse": 1}, 17, told={"version": 17}),
        case("STFT", real(2, 16, 1), given(4), positive(8)),
        case("STFT", real(2, 16, 1), given(4), None, given(8)),
        case("STFT", real(1, 10, 1), given(5), None, given(5)),
        case("STFT", real(1, 12, 2), given(3), positive(6), given(6), onesided=0),
        case("STFT", real(1, 12, 2), given(3), None, given(6), onesided=0),
        case("MelWeightMatrix", *(Input(np.array(v)) for v in (8, 64, 16000, 100.0, 7000.0))),
        case("MelWeightMatrix", *(Input(np.array(v)) for v in (20, 128, 8192, 0.0, 4096.0))),
    )


def region_cases() -> Iterator[Case]:
    """Regions of interest: corners, and the image of each."""
    regions = Input(np.array([[0.0, 0.0, 9.0, 7.0], [2.0, 1.0, 6.5, 4.0], [3.0, 3.0, 4.0, 9.0]]))
    images = given([0, 1, 0])
    size = {"output_height": 2, "output_width": 3}
    for ratio in (0, 2):
        for kind in ("half_pixel", "output_half_pixel"):
            yield case(
                "RoiAlign", real(2, 2, 8, 10), regions, images, version=16, sampling_ratio=ratio,
                coordinate_transformation_mode=kind, **size,
            )  # fmt: skip
    yield case("RoiAlign", real(2, 2, 8, 10), regions, images, version=16, mode="max", sampling_ratio=2, **size)
    yield case("RoiAlign", real(2, 3, 4, 5), regions, images, version=16, spatial_scale=0.5, **size)
    boxes = Input(np.array([[0, 0, 0, 9, 7], [1, 2, 1, 6, 4], [0, 3, 3, 4, 9]], np.float64))
    for scale in (1.0, 0.4):
        yield Case(
            "MaxRoiPool", (real(2, 2, 8, 10), boxes), {"pooled_shape": [2, 3], "spatial_scale": scale},
            expected="onnxruntime",
        )  # fmt: skip


BOUNDED = (transform_cases, region_cases)
