"""Normalisations, softmax, pooling and resampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, repeated


def batch_norm(
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Lowered:
    attrs = {"training_mode": int(training)}
    return Lowered("BatchNormalization", (input, weight, bias, running_mean, running_var), attrs)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Lowered:
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var)
    return Lowered("InstanceNormalization", (input, weight, bias))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Lowered:
    return Lowered("LayerNormalization", (input, weight, bias), {"axis": -len(normalized_shape)})


def _softmax(op: str) -> Callable[..., Lowered]:
    def lowered(
        input: Tensor, dim: int | None = None, dtype: object = None, *settings: object, **options: object
    ) -> Lowered:
        masked: dict[str, object] = {n: options[n] for n in ("is_causal", "left_window_size") if n in options}
        return Lowered(op, (input,), {"axis": -1 if dim is None else dim, **masked})

    return lowered


def _pool(op: str, rank: int) -> Callable[..., Lowered]:
    def lowered(
        input: Tensor,
        kernel_size: object,
        stride: object = None,
        padding: object = 0,
        *settings: object,
        **options: object,
    ) -> Lowered:
        kernel = repeated(kernel_size, rank)
        strides = repeated(stride, rank) if stride not in (None, [], ()) else kernel
        attrs = {"kernel_shape": kernel, "strides": strides, "pads": repeated(padding, rank) * 2}
        return Lowered(op, (input,), attrs)

    return lowered


def _fractional(rank: int) -> Callable[..., Lowered]:
    return lambda input, kernel_size, *settings, **options: Lowered(
        "MaxPool", (input,), {"kernel_shape": repeated(kernel_size, rank)}
    )


def _adaptive(kind: str, rank: int) -> Callable[..., Lowered]:
    def lowered(input: Tensor, output_size: int | Sequence[int | None]) -> Lowered:
        sizes = [output_size] if isinstance(output_size, int) else list(output_size)
        if all(size == 1 for size in sizes) and len(sizes) == len(input.dims[-len(sizes) :]):
            return Lowered("GlobalAveragePool" if kind == "avg" else "GlobalMaxPool", (input,))
        return Lowered(f"aten::adaptive_{kind}_pool", (input,), {"axes": rank})

    return lowered


def _upsample(mode: str, antialias: int = 0) -> Callable[..., Lowered]:
    def lowered(input: Tensor, output_size: object = None, *settings: object, **options: object) -> Lowered:
        return Lowered("Resize", (input,), {"mode": mode, **({"antialias": 1} if antialias else {})})

    return lowered


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int = 0, padding_mode: int = 0, align_corners: bool = False
) -> Lowered:
    mode = {0: "linear", 1: "nearest", 2: "cubic"}[interpolation_mode]
    padding = {0: "zeros", 1: "border", 2: "reflection"}[padding_mode]
    return Lowered(
        "GridSample", (input, grid), {"mode": mode, "padding_mode": padding, "align_corners": int(align_corners)}
    )


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Lowered:
    # The operator of ONNX takes the place of an image beside each box; a box here begins with it.
    attrs = {"sampling_ratio": max(0, sampling_ratio), "output_height": pooled_height, "output_width": pooled_width}
    return Lowered("RoiAlign", (input, rois, rois), attrs)


_MODES = {
    "upsample_nearest1d": "nearest", "upsample_nearest2d": "nearest", "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest", "_upsample_nearest_exact2d": "nearest",
    "_upsample_nearest_exact3d": "nearest", "upsample_linear1d": "linear", "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear", "upsample_bicubic2d": "cubic",
}  # fmt: skip

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **dict.fromkeys(("batch_norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), batch_norm),
    **{
        name: lambda input, weight, bias, running_mean, running_var, *settings, **options: batch_norm(
            input, weight, bias, running_mean, running_var
        )
        for name in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
    },
    "_batch_norm_with_update": lambda input, weight, bias, running_mean, running_var, momentum, eps: batch_norm(
        input, weight, bias, running_mean, running_var, True
    ),
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": layer_norm,
    "group_norm": lambda input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=False: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": num_groups}
    ),
    "native_group_norm": lambda input, weight, bias, samples, channels, places, group, eps: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": group}
    ),
    **{
        name: lambda input, normalized_shape, weight=None, eps=None: Lowered(
            "RMSNormalization", (input, weight), {"axis": -len(normalized_shape)}
        )
        for name in ("rms_norm", "_fused_rms_norm")
    },
    **{name: _softmax("Softmax") for name in ("softmax", "_softmax", "special_softmax", "_safe_softmax")},
    **{name: _softmax("LogSoftmax") for name in ("log_softmax", "_log_softmax", "special_log_softmax")},
    **{
        name: lambda v, g, dim=0: Lowered("aten::_weight_norm", (v, g))
        for name in ("_weight_norm", "_weight_norm_interface")
    },
    "renorm": lambda input, p, dim, maxnorm: Lowered("aten::renorm", (input,), {"p": float(p), "dim": dim}),
    **{f"max_pool{r}d{indices}": _pool("MaxPool", r) for indices in ("", "_with_indices") for r in (1, 2, 3)},
    **{name: _pool("MaxPool", 2) for name in ("mkldnn_max_pool2d", "quantized_max_pool2d")},
    **{f"avg_pool{r}d": _pool("AveragePool", r) for r in (1, 2, 3)},
    **{
        f"{space}adaptive_{kind}_pool{r}d": _adaptive(kind, r)
        for space in ("", "_")
        for kind in ("avg", "max")
        for r in (1, 2, 3)
    },
    **{f"fractional_max_pool{r}d": _fractional(r) for r in (2, 3)},
    **{name: _upsample(mode) for name, mode in _MODES.items()},
    "_upsample_bilinear2d_aa": _upsample("linear", 1),
    "_upsample_bicubic2d_aa": _upsample("cubic", 1),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), grid_sampler),
    "affine_grid_generator": lambda theta, size, align_corners=False: Lowered("AffineGrid", (theta,)),
    "torchvision.roi_align": roi_align,
    "torchvision.roi_pool": lambda input, rois, *sizes: Lowered("MaxRoiPool", (input, rois)),
    "torchvision.nms": lambda dets, scores, iou_threshold: Lowered("NonMaxSuppression", (dets, scores)),
}
