"""Convolutions, matrix products, attention, recurrent layers and cells, and the layers of quantized tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flopwise.formats.torch.lower.node import Lowered, Lowering, Opt, all_tensors, named, repeated, tensors
from flopwise.graph import Shape, Tensor
from flopwise.operators.masks import KERNEL, PAIRS


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Opt = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Lowered:
    rank = len(weight.dims) - 2
    pads = repeated(padding, rank) * 2 if not isinstance(padding, str) else []
    attrs = {
        "kernel_shape": list(weight.dims[2:]),
        "strides": repeated(stride, rank),
        "dilations": repeated(dilation, rank),
        "group": groups,
        **({"pads": pads} if pads else {"auto_pad": "SAME_UPPER" if padding == "same" else "VALID"}),
    }
    return Lowered("Conv", (_batched(input, rank), weight, bias), attrs)


def _transposed(
    input: Tensor,
    weight: Tensor,
    bias: Opt = None,
    stride: object = 1,
    padding: object = 0,
    output_padding: object = 0,
    groups: int = 1,
    dilation: object = 1,
) -> Lowered:
    rank = len(weight.dims) - 2
    attrs = {
        "kernel_shape": list(weight.dims[2:]),
        "strides": repeated(stride, rank),
        "pads": repeated(padding, rank) * 2,
        "output_padding": repeated(output_padding, rank),
        "dilations": repeated(dilation, rank),
        "group": groups,
    }
    return Lowered("ConvTranspose", (_batched(input, rank), weight, bias), attrs)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Opt,
    stride: object,
    padding: object,
    dilation: object,
    transposed: bool,
    output_padding: object,
    groups: int,
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = False,
    allow_tf32: bool = False,
) -> Lowered:
    if transposed:
        return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolution(input, weight, bias, stride, padding, dilation, groups)


def _batched(input: Tensor, rank: int) -> Tensor:
    """The input with a batch of one where it has none."""
    return replace(input, shape=(1, *input.dims)) if len(input.dims) == rank + 1 else input


def _added(op: str, left: Tensor, right: Tensor, addend: Tensor, beta: float, alpha: float, **attrs: int) -> Lowered:
    """A product that is added to a tensor, unless that is multiplied with 0."""
    factors = {"alpha": float(alpha), "beta": float(beta)}
    return Lowered(op, (left, right, addend if beta != 0 else None), {**factors, **attrs})


def inner(input: Tensor, other: Tensor) -> Lowered:
    if not input.dims or not other.dims:
        return Lowered("Mul", (input, other))
    return Lowered("Gemm", (input, other), {"transB": 1})


def einsum(equation: str, *operands: object, path: Sequence[int] | None = None) -> Lowered:
    attrs: dict[str, object] = {"equation": _spelled(equation)}
    return Lowered("Einsum", tensors(*operands), attrs | {"path": list(path)} if path else attrs)


def _spelled(equation: str) -> str:
    """The equation with an arrow, as ONNX and PyTorch both complete it: labels that appear once, in their order."""
    text = equation.replace(" ", "")
    if "->" in text:
        return text
    letters = text.replace(",", "").replace(".", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return f"{text}->{'...' if '...' in text else ''}{once}"


def scaled_mm(input: Tensor, mat2: Tensor, *settings: object, **options: object) -> Lowered:
    bias = options.get("bias")
    return Lowered("Gemm", (input, mat2, bias if isinstance(bias, Tensor) else None))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Opt = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    pairs: int | None = None,
    kernel: str | None = None,
    ragged: Mapping[str, object] | None = None,
) -> Lowered:
    """``pairs``: what the mask leaves, where its elements are known; ``kernel``: what computes it, for training;
    ``ragged``: the lengths of sequences that lie in a row.
    """
    if ragged is not None:
        return Lowered(RAGGED, (query, key, value), ragged)
    shaped = [replace(t, shape=_heads(t.dims)) for t in (query, key, value)]
    attrs: dict[str, object] = {"is_causal": int(is_causal), **({} if pairs is None else {PAIRS: pairs})}
    if kernel is not None:
        attrs[KERNEL] = kernel
    return Lowered("Attention", (*shaped, attn_mask), attrs)


#: The operator of attention among sequences of many lengths.
RAGGED = "aten::ragged_attention"


def varlen(*args: object, ragged: Mapping[str, object], **options: object) -> Lowered:
    """Sequences in a row, with their borders among the arguments; a tensor for the result may stand before them."""
    given = [a for a in (*args, *(options.get(name) for name in ("query", "key", "value"))) if isinstance(a, Tensor)]
    return Lowered(RAGGED, tuple(given[:3]), ragged)


def _heads(dims: Shape) -> Shape:
    """(..., heads, length, width) with everything before the heads as one batch."""
    if len(dims) == 4:
        return dims
    if len(dims) < 4:
        return (*([1] * (4 - len(dims))), *dims)
    return (math.prod(dims[:-3]), *dims[-3:])


def flash(query: Tensor, key: Tensor, value: Tensor, *settings: object, **options: Any) -> Lowered:
    """One of the kernels behind attention."""
    mask = next((a for a in settings if isinstance(a, Tensor)), options.get("attn_mask"))
    causal = bool(options.get("is_causal", any(a is True for a in settings)))
    mask = mask if isinstance(mask, Tensor) else None
    return attention(
        query, key, value, mask, is_causal=causal, pairs=options.get("pairs"), kernel=options.get("kernel")
    )


def _forward(kernel: str) -> Lowering:
    """The kernel itself, of (batch, length, heads, width); with the borders of sequences its pairs are not known.

    The efficient one takes what is added to the scores, and a type of its mask, of which 1 and 2 are causal.
    """

    def lowered(query: Tensor, key: Tensor, value: Tensor, *settings: Any, **options: Any) -> Lowered:
        bias, settings = (settings[0], settings[1:]) if kernel == "efficient" else (None, settings)
        if settings[0] is not None or settings[1] is not None:
            return Lowered(f"aten::_{kernel}_attention_forward", tensors(query, key, value))
        flag = options.get("is_causal", options.get("custom_mask_type", 0))
        causal = settings[5] if len(settings) > 5 else flag
        query, key, value = map(_heads_first, (query, key, value))
        return attention(query, key, value, bias, is_causal=bool(causal), kernel=kernel)

    return lowered


def _heads_first(tensor: Tensor) -> Tensor:
    batch, length, heads, width = tensor.dims
    return replace(tensor, shape=(batch, heads, length, width))


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Opt = None, bias: Opt = None, *sizes: object
) -> Lowered:
    """Seven sizes (stride, padding and dilation of two axes, weight groups), then the groups of offsets, and a flag."""
    groups = sizes[7] if len(sizes) > 7 else 1
    modulated = bool(sizes[8]) if len(sizes) > 8 else mask is not None
    return Lowered("DeformConv", (input, weight, offset, bias, mask if modulated else None), {"offset_group": groups})


def _layer(op: str, dynamic: bool, relu: bool = False) -> Lowering:
    """A quantized layer: its weight was packed, and is handed over by name.

    A ReLU on integers is one of the bounds of their range.
    """
    attrs = {"dynamic": int(dynamic), "relu": int(dynamic and relu)}

    def lowered(input: Tensor, *packed: object, weight: Tensor, bias: Opt = None, **options: object) -> Lowered:
        return Lowered(f"quantized::{op}", (input, weight, bias), dict(attrs))

    return lowered


def _cortex(op: str, depthwise: bool = False) -> Lowering:
    """A layer of ExecuTorch's for Cortex-M; a depthwise kernel is 1 × height × width × channels."""

    def lowered(input: Tensor, weight: Tensor, bias: Opt = None, *settings: object) -> Lowered:
        if depthwise and weight.shape is not None and len(weight.shape) == 4:
            one, height, width, channels = weight.shape
            weight = replace(weight, shape=(channels, one, height, width))
        return Lowered(f"cortex_m::{op}", (input, weight, bias))

    return lowered


def _several(op: str) -> Lowering:
    """An operator of one or more tensors; the scale and the zero point of the result follow."""

    def lowered(input: object, *others: object, **options: object) -> Lowered:
        return Lowered(f"quantized::{op}", tensors(input, *others))

    return lowered


def _layers(op: str) -> Lowering:
    """A stack of recurrent layers, from a padded batch or a packed one (data, batch_sizes).

    It stays one operator, because that is what the program called.
    """

    def lowered(input: Tensor, second: object, third: Any, fourth: Any, *settings: object, **options: Any) -> Lowered:
        packed = not isinstance(third, (list, tuple)) or isinstance(fourth, (list, tuple))
        state, weights = (third, fourth) if packed else (second, third)
        has_biases, layers, dropout, train, both = settings[:5] if packed else (fourth, *settings[:4])
        attrs = {
            "layers": layers,
            "directions": 2 if both else 1,
            "biases": int(bool(has_biases)),
            "packed": int(packed),
            "dropout": int(bool(train and dropout)),
            "batch_first": int(not packed and len(settings) > 4 and bool(settings[4])),
        }
        return Lowered(op, (input, *tensors(*weights), *tensors(state)), attrs)

    return lowered


def _cell(op: str) -> Lowering:
    def lowered(input: Tensor, hx: object, w_ih: Tensor, w_hh: Tensor, b_ih: Opt = None, b_hh: Opt = None) -> Lowered:
        return Lowered(op, (input, w_ih, w_hh, b_ih, b_hh, *tensors(hx)))

    return lowered


LINEAR: dict[str, Lowering] = {
    "linear": lambda input, weight, bias=None: Lowered("Gemm", (input, weight, bias), {"transB": 1}),
    "conv1d": _convolution,
    "conv_transpose1d": _transposed,
    "convolution": convolution,
    "conv_tbc": lambda input, weight, bias, pad=0: Lowered("aten::conv_tbc", (input, weight, bias)),
    "_flash_attention_forward": _forward("flash"),
    "_efficient_attention_forward": _forward("efficient"),
    # Vectors on the left are rows; ONNX's MatMul has the same rule.
    "matmul": lambda input, other: Lowered("MatMul", (input, other)),
    "__rmatmul__": lambda input, other: Lowered("MatMul", (other, input)),
    "mm": lambda input, mat2, out_dtype=None: Lowered("MatMul", (input, mat2)),
    "mv": lambda input, vec: Lowered("MatMul", (input, vec)),
    "dot": lambda input, tensor: Lowered("MatMul", (input, tensor)),
    "linalg_vecdot": lambda x, y, *, dim=-1: Lowered("aten::linalg_vecdot", (x, y)),
    "inner": inner,
    "outer": lambda input, vec2: Lowered("Mul", (input, vec2)),
    "kron": lambda input, other: Lowered("Mul", (input, other)),
    "chain_matmul": lambda *matrices: Lowered("aten::chain_matmul", tensors(*matrices)),
    "addmm": lambda input, mat1, mat2, *, beta=1, alpha=1, out_dtype=None: _added(
        "Gemm", mat1, mat2, input, beta, alpha
    ),
    "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1, out_dtype=None: _added(
        "Gemm", batch1, batch2, input, beta, alpha
    ),
    "_addmm_activation": lambda input, mat1, mat2, *, beta=1, alpha=1, use_gelu=False: _added(
        "aten::_addmm_activation", mat1, mat2, input, beta, alpha, gelu=int(use_gelu)
    ),
    "addmv": lambda input, mat, vec, *, beta=1, alpha=1: _added("Gemm", mat, vec, input, beta, alpha),
    "addr": lambda input, vec1, vec2, *, beta=1, alpha=1: _added("aten::addr", vec1, vec2, input, beta, alpha),
    "addbmm": lambda input, batch1, batch2, *, beta=1, alpha=1: _added(
        "aten::addbmm", batch1, batch2, input, beta, alpha
    ),
    "tensordot": lambda input, other, dims_self=2, dims_other=None: Lowered(
        "aten::tensordot", (input, other), {"dims": list(dims_self)}
    ),
    "einsum": einsum,
    "bilinear": lambda input1, input2, weight, bias=None: Lowered("aten::bilinear", (input1, input2, weight, bias)),
    "_grouped_mm": lambda input, mat2, offs=None, bias=None, out_dtype=None: Lowered(
        "aten::_grouped_mm", (input, mat2, offs, bias)
    ),
    "_scaled_mm": scaled_mm,
    "_weight_int8pack_mm": lambda input, mat2, *scales, **options: Lowered(
        "aten::_weight_only_mm", (input, mat2, *tensors(*scales))
    ),
    "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention": flash,
    "torch_attn._varlen_attn": varlen,
    "torch_attn._varlen_attn_out": lambda out, *args, **options: varlen(*args, **options),
    "flex_attention": lambda query, key, value, *, pairs=None: Lowered(
        "aten::flex_attention", (query, key, value), {} if pairs is None else {PAIRS: pairs}
    ),
    "torchvision.deform_conv2d": deform_conv2d,
    "_sparse_mm": lambda input, mat2, *settings, nnz=None: Lowered(
        "aten::_sparse_mm", (input, mat2), {} if nnz is None else {"nnz": nnz}
    ),
    "cdist": lambda x1, x2, p=2.0, compute_mode=None: Lowered("aten::cdist", (x1, x2), {"p": float(p)}),
    "pdist": lambda input, p=2.0: Lowered("aten::pdist", (input,), {"p": float(p)}),
    "cortex_m.quantized_linear": _cortex("linear"),
    "cortex_m.quantized_conv2d": _cortex("conv"),
    "cortex_m.quantized_depthwise_conv2d": _cortex("conv", depthwise=True),
    "cortex_m.quantized_avg_pool2d": lambda input, kernel, *settings: Lowered(
        "cortex_m::avg_pool", (input,), {"kernel_shape": [*kernel]}
    ),
}
LINEAR |= named(
    """
    conv1d: conv2d conv3d   conv_transpose1d: conv_transpose2d conv_transpose3d   convolution: _convolution
    matmul: linalg_matmul vdot   mm: bmm _int_mm   outer: ger   chain_matmul: linalg_multi_dot   addmm: sspaddmm
    _grouped_mm: grouped_mm   _scaled_mm: _scaled_mm_v2   _sparse_mm: smm   cdist: _cdist_forward
    pdist: _pdist_forward   _weight_int8pack_mm: _weight_int4pack_mm _weight_int4pack_mm_for_cpu
    _scaled_dot_product_flash_attention: _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math
    """,
    LINEAR.__getitem__,
)
LINEAR |= {f"quantized.{op}{relu}": _several(op) for op in ("add", "mul", "cat") for relu in ("", "_relu")}
LINEAR |= {f"quantized.{op}": _several(op) for op in ("hardswish", "leaky_relu")}
for _relu in ("", "_relu"):
    LINEAR[f"quantized.linear{_relu}"] = _layer("linear", False)
    LINEAR[f"quantized.linear{_relu}_dynamic"] = _layer("linear", True, bool(_relu))
    LINEAR[f"quantized.linear{_relu}_dynamic_fp16"] = _layer("linear_fp16", True, bool(_relu))
    for _rank in (1, 2, 3):
        LINEAR[f"quantized.conv{_rank}d{_relu}"] = _layer("conv", False)
        LINEAR[f"quantized.conv{_rank}d{_relu}_dynamic"] = _layer("conv", True, bool(_relu))
LINEAR |= named(
    """
    aten::quantize: cortex_m.quantize_per_tensor   aten::dequantize: cortex_m.dequantize_per_tensor
    Pad: cortex_m.pad   Transpose: cortex_m.transpose   Min: cortex_m.minimum   Max: cortex_m.maximum
    """,
    all_tensors,
)
LINEAR |= {name: _layers(f"aten::{name}") for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
LINEAR |= {name: _cell(f"aten::{name}") for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")}

# Normalisations, softmax, pooling and resampling.


def batch_norm(
    input: Tensor,
    weight: Opt = None,
    bias: Opt = None,
    running_mean: Opt = None,
    running_var: Opt = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Lowered:
    attrs = {"training_mode": int(training)}
    return Lowered("BatchNormalization", (input, weight, bias, running_mean, running_var), attrs)


def instance_norm(
    input: Tensor,
    weight: Opt,
    bias: Opt,
    running_mean: Opt,
    running_var: Opt,
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
    weight: Opt = None,
    bias: Opt = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Lowered:
    return Lowered("LayerNormalization", (input, weight, bias), {"axis": -len(normalized_shape)})


def _softmax(op: str) -> Lowering:
    def lowered(
        input: Tensor, dim: int | None = None, dtype: object = None, *settings: object, **options: object
    ) -> Lowered:
        masked: dict[str, object] = {n: options[n] for n in ("is_causal", "left_window_size") if n in options}
        return Lowered(op, (input,), {"axis": -1 if dim is None else dim, **masked})

    return lowered


def _pool(op: str, rank: int) -> Lowering:
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


def _fractional(rank: int) -> Lowering:
    return lambda input, kernel_size, *settings, **options: Lowered(
        "MaxPool", (input,), {"kernel_shape": repeated(kernel_size, rank)}
    )


def _adaptive(kind: str, rank: int) -> Lowering:
    def lowered(input: Tensor, output_size: int | Sequence[int | None]) -> Lowered:
        sizes = [output_size] if isinstance(output_size, int) else list(output_size)
        if all(size == 1 for size in sizes) and len(sizes) == len(input.dims[-len(sizes) :]):
            return Lowered("GlobalAveragePool" if kind == "avg" else "GlobalMaxPool", (input,))
        return Lowered(f"aten::adaptive_{kind}_pool", (input,), {"axes": rank})

    return lowered


def _upsample(mode: str, antialias: int = 0) -> Lowering:
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


NORMALIZATION: dict[str, Lowering] = {
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": (
        lambda input, weight, bias, running_mean, running_var, *settings, **options: batch_norm(
            input, weight, bias, running_mean, running_var
        )
    ),
    "_batch_norm_with_update": lambda input, weight, bias, running_mean, running_var, momentum, eps: batch_norm(
        input, weight, bias, running_mean, running_var, True
    ),
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "group_norm": lambda input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=False: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": num_groups}
    ),
    "native_group_norm": lambda input, weight, bias, samples, channels, places, group, eps: Lowered(
        "GroupNormalization", (input, weight, bias), {"num_groups": group}
    ),
    "rms_norm": lambda input, normalized_shape, weight=None, eps=None: Lowered(
        "RMSNormalization", (input, weight), {"axis": -len(normalized_shape)}
    ),
    **named("Softmax: softmax _softmax special_softmax _safe_softmax", _softmax),
    **named("LogSoftmax: log_softmax _log_softmax special_log_softmax", _softmax),
    "_weight_norm": lambda v, g, dim=0: Lowered("aten::_weight_norm", (v, g)),
    "renorm": lambda input, p, dim, maxnorm: Lowered("aten::renorm", (input,), {"p": float(p), "dim": dim}),
    "fractional_max_pool2d": _fractional(2),
    "fractional_max_pool3d": _fractional(3),
    "mkldnn_max_pool2d": _pool("MaxPool", 2),
    "quantized_max_pool2d": _pool("MaxPool", 2),
    **named("nearest: upsample_nearest1d upsample_nearest2d upsample_nearest3d", _upsample),
    **named("nearest: _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d", _upsample),
    **named("linear: upsample_linear1d upsample_bilinear2d upsample_trilinear3d cubic: upsample_bicubic2d", _upsample),
    "_upsample_bilinear2d_aa": _upsample("linear", 1),
    "_upsample_bicubic2d_aa": _upsample("cubic", 1),
    "grid_sampler": grid_sampler,
    "affine_grid_generator": lambda theta, size, align_corners=False: Lowered("AffineGrid", (theta,)),
    "torchvision.roi_align": roi_align,
    "torchvision.roi_pool": lambda input, rois, *sizes: Lowered("MaxRoiPool", (input, rois)),
    "torchvision.nms": lambda dets, scores, iou_threshold: Lowered("NonMaxSuppression", (dets, scores)),
}
NORMALIZATION |= named(
    """
    batch_norm: native_batch_norm cudnn_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training: _batch_norm_no_update   layer_norm: native_layer_norm
    rms_norm: _fused_rms_norm   _weight_norm: _weight_norm_interface   grid_sampler: grid_sampler_2d grid_sampler_3d
    """,
    NORMALIZATION.__getitem__,
)
for _rank in (1, 2, 3):
    NORMALIZATION[f"max_pool{_rank}d"] = NORMALIZATION[f"max_pool{_rank}d_with_indices"] = _pool("MaxPool", _rank)
    NORMALIZATION[f"avg_pool{_rank}d"] = _pool("AveragePool", _rank)
    for _kind in ("avg", "max"):
        _adapted = _adaptive(_kind, _rank)
        NORMALIZATION[f"adaptive_{_kind}_pool{_rank}d"] = NORMALIZATION[f"_adaptive_{_kind}_pool{_rank}d"] = _adapted

# Losses; `reduction` may be a number (0 none, 1 mean, 2 sum) or a word.


def _reduction(reduction: Any, flags: Mapping[str, object]) -> object:
    """The reduction as a word; two flags that it replaced still win over it."""
    averaged, reduced = flags.get("size_average"), flags.get("reduce")
    if averaged is None and reduced is None:
        return {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
    return "none" if reduced is False else "sum" if averaged is False else "mean"


def _reduced(
    op: str, inputs: tuple[Opt, ...], reduction: object, flags: Mapping[str, object], **attrs: object
) -> Lowered:
    """A loss with its reduction among its attributes."""
    return Lowered(op, inputs, {"reduction": _reduction(reduction, flags), **attrs})


def _loss(op: str) -> Lowering:
    """A loss of input and target whose other settings change no count."""

    def lowered(input: Tensor, target: Tensor, reduction: object = 1, *settings: object, **flags: object) -> Lowered:
        return _reduced(op, (input, target), reduction, flags)

    return lowered


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Opt = None,
    reduction: object = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    **flags: object,
) -> Lowered:
    labels = target.dtype in ("int64", "int32", "uint8")
    if labels and not label_smoothing:
        # The loss skips labels that say so, which an attribute of ONNX's operator tells.
        return _reduced("SoftmaxCrossEntropyLoss", (input, target, weight), reduction, flags)
    own = {"smoothed": int(bool(label_smoothing)), "labels": int(labels)}
    return _reduced("aten::cross_entropy_dense", (input, target, weight), reduction, flags, **own)


def triplet_margin(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: object = 1,
    **flags: object,
) -> Lowered:
    inputs = (anchor, positive, negative)
    return _reduced("aten::triplet_margin_loss", inputs, reduction, flags, p=float(p), swap=int(swap))


def ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: object = None,
    target_lengths: object = None,
    blank: int = 0,
    reduction: object = 1,
    zero_infinity: bool = False,
    **flags: object,
) -> Lowered:
    return _reduced("aten::ctc_loss", (log_probs, targets), reduction, flags)


LOSSES: dict[str, Lowering] = {
    **named("aten: mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss multilabel_margin_loss", _loss),
    "binary_cross_entropy": lambda input, target, weight=None, reduction=1, **flags: _reduced(
        "aten::binary_cross_entropy", (input, target, weight), reduction, flags
    ),
    "binary_cross_entropy_with_logits": lambda input, target, weight=None, pos_weight=None, reduction=1, **flags: (
        _reduced("aten::binary_cross_entropy_with_logits", (input, target, weight, pos_weight), reduction, flags)
    ),
    "kl_div": lambda input, target, reduction=1, *, log_target=False, **flags: _reduced(
        "aten::kl_div", (input, target), reduction, flags, log_target=int(log_target)
    ),
    "poisson_nll_loss": lambda input, target, log_input=True, full=False, eps=1e-8, reduction=1, **flags: _reduced(
        "aten::poisson_nll_loss", (input, target), reduction, flags, log_input=int(log_input), full=int(full)
    ),
    "hinge_embedding_loss": lambda input, target, margin=1.0, reduction=1, **flags: _reduced(
        "aten::hinge_embedding_loss", (input, target), reduction, flags
    ),
    "margin_ranking_loss": lambda input1, input2, target, margin=0.0, reduction=1, **flags: _reduced(
        "aten::margin_ranking_loss", (input1, input2, target), reduction, flags
    ),
    "multi_margin_loss": lambda input, target, p=1, margin=1.0, weight=None, reduction=1, **flags: _reduced(
        "aten::multi_margin_loss", (input, target, weight), reduction, flags, p=int(p)
    ),
    "cosine_embedding_loss": lambda input1, input2, target, margin=0.0, reduction=1, **flags: _reduced(
        "aten::cosine_embedding_loss", (input1, input2, target), reduction, flags
    ),
    "triplet_margin_loss": triplet_margin,
    "cross_entropy_loss": cross_entropy,
    "nll_loss": lambda input, target, weight=None, reduction=1, ignore_index=-100, **flags: _reduced(
        "NegativeLogLikelihoodLoss", (input, target, weight), reduction, flags
    ),
    "ctc_loss": ctc,
    "_ctc_loss": lambda log_probs, targets, *settings, **options: ctc(log_probs, targets, reduction="none"),
}
LOSSES |= named("nll_loss: nll_loss_nd nll_loss2d", LOSSES.__getitem__)
